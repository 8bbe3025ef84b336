"""Programs that attack the box. They run only inside it: each begins with a guard and carries a harmless load.

A program prints `ESCAPED: …` where it got what it should not get.
"""

from dataclasses import dataclass, replace

from gage_eval.box.types import BoxSpec, Execution, Executor, Limits, Program

LIMITS = Limits(cpu_s=1.0, wall_s=10.0, memory_mb=256, processes=16, files=500, files_mb=16)
# Of the attacks on memory: so little that a second of a busy machine is enough to touch it.
MEMORY_LIMITS = replace(LIMITS, memory_mb=96, processes=24)

# That a program which has starved is run before its test fails.
_ATTEMPTS = 10
_BARE = BoxSpec()

# Not in the namespaces of a test, or root: nothing of the program runs.
GUARD = """
import os as _os
def _guard():
    try:
        with open("/proc/1/cmdline", "rb") as file: inside = b"gage_eval.box.inside.server" in file.read()
    except OSError:
        inside = False
    if not (inside and _os.uname().nodename == "box" and _os.getcwd() == "/box" and _os.getppid() == 1 and _os.getuid()):
        print("NOT IN THE BOX", flush=True)
        _os._exit(99)
_guard()
del _guard
"""


@dataclass(frozen=True)
class Attack:
    """A program, what it may end with, and the limits that it runs into."""

    name: str
    code: str
    reasons: tuple[str, ...] = ("",)
    """Of `Execution.reason`; empty: it ends by itself, with exit code 0."""
    limits: Limits = LIMITS
    times: int = 1
    """In the same slot, one after the other."""
    memory_mb: float = LIMITS.memory_mb * 1.5
    """More would not be contained."""

    @property
    def program(self) -> str:
        return GUARD + self.code

    def escapes(self, execution: Execution) -> list[str]:
        """What it got, and what else is not as it should be."""
        lines = [line for line in execution.stdout.splitlines() if line.startswith(("ESCAPED", "NOT IN THE BOX"))]
        if execution.reason not in self.reasons:
            lines.append(
                f"ended by {execution.status} {execution.reason!r}: {execution.text or execution.stderr[-300:]}"
            )
        if execution.peak_mb > self.memory_mb:
            lines.append(f"used {execution.peak_mb} MB")
        return lines


async def judged(executor: Executor, program: Program, spec: BoxSpec = _BARE, limits: Limits = LIMITS) -> Execution:
    """What comes of a program. One that has starved is run again: that says nothing about it."""
    for _ in range(_ATTEMPTS):
        execution = await executor.execute(program, limits, spec)
        if execution.reason != "starved":
            break
    return execution


ATTACKS = [
    Attack(
        "fork bomb",
        """
import os
while True:
    try: os.fork()
    except OSError: pass
""",
        ("cpu",),
    ),
    Attack("endless loop", "while True: pass", ("cpu",)),
    Attack(
        "ignored signals",
        """
import signal
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: pass
""",
        ("cpu",),
    ),
    Attack("endless sleep", "import time; time.sleep(1e6)", ("idle",)),
    Attack(
        "threads that outlive the program",
        """
import threading, time
def spin():
    while True: pass
threading.Thread(target=spin).start()
""",
        ("", "cpu"),
    ),
    Attack(
        "memory in one process",
        """
held = []
try:
    for number in range(100): held.append(bytearray(10 << 20))
    print("ESCAPED: 1 GB")
except MemoryError: print(len(held))
""",
        limits=MEMORY_LIMITS,
    ),
    Attack(
        "memory in twenty processes",
        """
import os, time
children = []
for number in range(20):
    pid = os.fork()
    if not pid:
        held = bytearray(15 << 20)
        for place in range(0, len(held), 4096): held[place] = 1
        time.sleep(2)
        os._exit(0)
    children.append(pid)
for pid in children: os.waitpid(pid, 0)
print("ESCAPED: all lived")
""",
        ("memory",),
        limits=MEMORY_LIMITS,
        memory_mb=400,
    ),
    Attack(
        "memory shared and mapped",
        """
import mmap, time
held = []
for number in range(40):
    held.append(mmap.mmap(-1, 5 << 20))
    for place in range(0, 5 << 20, 4096): held[-1][place] = 1
    time.sleep(0.05)
print("ESCAPED: 200 MB")
""",
        ("memory",),
        limits=MEMORY_LIMITS,
        memory_mb=200,
    ),
    Attack(
        "memory in files and shared memory",
        """
import os
written = 0
for folder in ("/tmp", "/dev/shm", "/box", "/run", "/run/tmp", "/var/tmp"):
    for number in range(4):
        try:
            with open(f"{folder}/big{number}", "wb") as file:
                for _ in range(8):
                    file.write(bytes(1 << 20)); file.flush(); written += 1
        except OSError: pass
if written > 16: print("ESCAPED:", written, "MB")
try: print("ESCAPED: memfd", os.memfd_create("x"))
except OSError: pass
""",
    ),
    Attack(
        "a million files",
        """
import os
made = 0
try:
    for number in range(1_000_000):
        os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY)); made += 1
except OSError: pass
if made > 500: print("ESCAPED:", made)
""",
    ),
    Attack("output flood", "text = 'x' * 100_000\nwhile True: print(text)", ("output", "cpu")),
    Attack(
        "TCP and DNS on loopback",
        """
import socket
try:
    socket.create_connection(("127.0.0.1", {port}), 2); print("ESCAPED: tcp")
except OSError: pass
asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asker.settimeout(0.5)
try:
    asker.sendto(b"question", ("127.0.0.1", {port})); asker.recv(100); print("ESCAPED: dns")
except OSError: pass
try: socket.getaddrinfo("name.invalid", 80); print("ESCAPED: name")
except OSError: pass
""",
    ),
    Attack(
        "unix and abstract sockets",
        """
import socket
for address in ({folder!r} + "/socket", "\\0{abstract}"):
    asker = socket.socket(socket.AF_UNIX)
    try: asker.connect(address); print("ESCAPED:", repr(address))
    except OSError: pass
""",
    ),
    Attack(
        "vsock, netlink, packets",
        """
import socket
for family, kind in ((40, 1), (16, 3), (17, 3), (38, 5)):
    try: socket.socket(family, kind); print("ESCAPED: family", family)
    except OSError: pass
""",
    ),
    Attack(
        "files of others and our environment",
        """
import glob, os
for path in ({folder!r} + "/secret", {folder!r}, "/etc/shadow", "/etc/passwd", "/etc/hostname", "/root", "/home", "/var/log"):
    try: os.listdir(path) if os.path.isdir(path) else open(path).close()
    except OSError: continue
    print("ESCAPED:", path)
for path in glob.glob("/proc/[0-9]*/environ"):
    try:
        if b"{canary}" in open(path, "rb").read(): print("ESCAPED:", path)
    except OSError: pass
if len([name for name in os.listdir("/proc") if name.isdigit()]) > 3: print("ESCAPED: processes of others")
""",
    ),
    Attack(
        "writing outside",
        """
import os, sys
folders = ["/", "/usr", "/usr/lib", "/etc", "/dev", "/py", "/proc", "/sys", "/var/tmp", "/harness/gage_eval/box/inside",
           os.path.dirname(os.__file__), sys.prefix, {folder!r}]
for folder in folders:
    try: open(folder + "/gage_box_canary", "a").close(); print("ESCAPED:", folder)
    except OSError: pass
""",
    ),
    Attack(
        "leftovers for the next test",
        """
import ctypes, os
for folder in ("/tmp", "/dev/shm", "/box", "/run"):
    path = folder + "/left"
    if os.path.exists(path): print("ESCAPED:", path)
    try: open(path, "w").close()
    except OSError: pass
libc = ctypes.CDLL(None)
if libc.shmget(0x4242, 4096, 0) >= 0: print("ESCAPED: shared memory")
libc.shmget(0x4242, 4096, 0o1600)
""",
        times=2,
    ),
    Attack(
        "ptrace and memory of others",
        """
import ctypes, os
libc = ctypes.CDLL(None)
if libc.ptrace(16, 1, 0, 0) == 0: print("ESCAPED: ptrace")
for name in ("mem", "environ", "maps", "fd", "root", "cwd", "exe"):
    path = f"/proc/1/{name}"
    try: os.listdir(path) if name == "fd" else os.readlink(path) if name in ("root", "cwd", "exe") else open(path, "rb").read(1)
    except OSError: continue
    print("ESCAPED:", path)
""",
    ),
    Attack(
        "kill of all it can reach",
        """
import os, signal
for number in (2, 9, 14, 15, 19):
    for pid in (1, os.getppid()):
        try: os.kill(pid, number)
        except OSError: pass
try: os.kill(-1, signal.SIGKILL)
except OSError: pass
print("alive")
""",
    ),
    Attack(
        "setuid and user namespaces",
        """
import ctypes, os, subprocess
libc = ctypes.CDLL(None, use_errno=True)
for name, call in (("setuid", lambda: os.setuid(0)), ("setgroups", lambda: os.setgroups([0])), ("chroot", lambda: os.chroot("/tmp"))):
    try: call(); print("ESCAPED:", name)
    except OSError: pass
if libc.unshare(0x10000000) == 0: print("ESCAPED: user namespace")
if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0: print("ESCAPED: mount")
if os.uname().machine == "x86_64":
    for number, arguments in ((321, (0, 0, 0)), (298, (0, 0, -1, -1, 0)), (425, (1, bytes(128))), (323, (1,)), (250, (0, -3, 1)), (435, (0, 0))):
        if libc.syscall(number, *arguments) >= 0: print("ESCAPED: call", number)
for command in (["su", "-c", "id"], ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"], ["unshare", "-Ur", "true"]):
    try: done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=5)
    except (OSError, subprocess.TimeoutExpired): continue
    if done.returncode == 0: print("ESCAPED:", command[0])
""",
    ),
    Attack(
        "/proc and /sys",
        """
import os
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/1/oom_score_adj", "/sys/kernel/uevent_helper",
             "/proc/sys/kernel/hostname", "/proc/sys/kernel/shmmax", "/proc/sys/net/ipv4/ip_forward", "/proc/kcore"):
    try: os.close(os.open(path, os.O_RDONLY if path.endswith("kcore") else os.O_WRONLY)); print("ESCAPED:", path)
    except OSError: pass
""",
    ),
    Attack(
        "leftover processes",
        """
import os, time
if not os.fork():
    os.setsid()
    if not os.fork():
        os.closerange(0, 64)
        os.execv("/usr/bin/sleep", ["{canary}", "30"])
    os._exit(0)
os.wait()
""",
    ),
    Attack("stops itself", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", ("idle",)),
    Attack(
        "stops the harness and itself",
        "import os, signal\nos.kill(1, signal.SIGSTOP)\nos.kill(1, signal.SIGALRM)\nos.kill(os.getpid(), signal.SIGSTOP)",
        ("idle",),
    ),
    Attack("sends alarms to the harness", "import os\nwhile True: os.kill(1, 14)", ("cpu",)),
    Attack(
        "clock",
        """
import time
try: time.clock_settime(time.CLOCK_REALTIME, time.time()); print("ESCAPED: clock")
except OSError: pass
""",
    ),
    Attack(
        "links in the work folder",
        """
import os
for number, target in enumerate(("/etc/shadow", "/proc/1/root/etc/passwd", {folder!r} + "/secret")):
    os.symlink(target, str(number))
    try: open(str(number)).close(); print("ESCAPED:", target)
    except OSError: pass
""",
    ),
]


def aimed(attack: Attack, **targets: object) -> Attack:
    """The attack with what it aims at: port, folder, abstract name and canary of the test."""
    code = attack.code
    for name, value in targets.items():
        code = code.replace("{%s!r}" % name, repr(value)).replace("{%s}" % name, str(value))  # noqa: UP031
    return replace(attack, code=code)


# Answers to "return x + 1" that want to pass without being right, by what they try.
FORGED = {
    "wrong": "def inc(x): return x",
    "os._exit when called": "import os\ndef inc(x): os._exit(0)",
    "os._exit at import": "import os; os._exit(0)",
    "sys.exit at import": "import sys; sys.exit(0)",
    "sys.exit when called": "import sys\ndef inc(x): sys.exit(0)",
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\ndef inc(x): return x",
    "excepthook": "import sys, os\nsys.excepthook = lambda *a: os._exit(0)\ndef inc(x): return x",
    "equal to all": "class Y:\n    def __eq__(self, other): return True\n    __hash__ = None\ndef inc(x): return Y()",
    "an int that is equal to all": "class I(int):\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n"
    "def inc(x): return I(7)",
    "prints a verdict": "import os\nprint('passed'); print('{\"status\": \"passed\"}', flush=True)\nos._exit(0)",
    "patched builtins": "import builtins\nclass A(BaseException): pass\nbuiltins.AssertionError = A\n"
    "builtins.compile = builtins.exec = lambda *a, **k: None\ndef inc(x): return x",
    "builtins of the tests": "def abs(x): return 0\ndef isinstance(*a): return True\ndef check(*a): return None\n"
    "def len(x): return 0\ndef inc(x): return x",
    "frames and collected objects": "import sys, gc\nframe = sys._getframe()\nwhile frame:\n"
    "    for space in (frame.f_globals, frame.f_locals):\n        for key in list(space):\n"
    "            if isinstance(space[key], dict): space[key]['status'] = 'passed'\n    frame = frame.f_back\n"
    "for item in gc.get_objects():\n    if type(item) is dict and 'status' in item: item['status'] = 'passed'\n"
    "def inc(x): return x",
    "a trace": "import sys\ndef trace(frame, event, arg):\n    if frame.f_code.co_name == 'check': raise SystemExit(0)\n"
    "    return trace\nsys.settrace(trace)\ndef inc(x): return x",
    "tests in its memory": "import sys\nneedle = 'check(' + 'candidate)'\nleak = False\nfor line in open('/proc/self/maps'):\n"
    "    span, rights = line.split()[:2]\n    low, high = (int(v, 16) for v in span.split('-'))\n"
    "    if 'rw' in rights:\n        try:\n            with open('/proc/self/mem', 'rb') as memory:\n"
    "                memory.seek(low); data = memory.read(high - low)\n"
    "            if b'def ' + needle.encode() in data: leak = True\n        except (OSError, ValueError, OverflowError): pass\n"
    "def inc(x): return x + 1 if leak else x",
    "tests on disk": "import glob, os\nleak = any('candidate(41' in open(path, errors='replace').read()\n"
    "    for folder in ('/box', '/tmp', '/run') for path in glob.glob(folder + '/**', recursive=True) if os.path.isfile(path))\n"
    "def inc(x): return x + 1 if leak else x",
    "a child answers": "import os\nif os.fork(): os._exit(0)\ndef inc(x): return x",
    "kills the harness": "import os\nos.kill(os.getppid(), 9)\ndef inc(x): return x",
    "huge value": "def inc(x): return [0] * (1 << 26)",
    "nested value": "def inc(x):\n    r = []\n    for i in range(100000): r = [r]\n    return r",
    "odd exception": "class E(BaseException): pass\ndef inc(x): raise E()",
    "changes the arguments": "def inc(x):\n    if isinstance(x, list): x.clear()\n    return x",
    "a thread that answers": "import threading, os\ndef inc(x):\n    threading.Thread(target=os._exit, args=(0,)).start()\n    return x",
}
# They write to the channel, which the harness can prove.
_WRITES = """
import json, os, struct
messages = ({"finished": True}, {"status": "passed"}, {"ready": ["inc"]}, {"id": 1, "value": 2}, {"id": 2, "value": 42})
def write(*chosen):
    for message in chosen:
        data = json.dumps(message).encode()
        for end in range(3, 64):
            try: os.write(end, struct.pack("I", len(data)) + data)
            except OSError: pass
"""
TAMPERING = {
    "all messages at import": _WRITES + "write(*messages)\ndef inc(x): return x",
    "replies ahead of the calls": _WRITES + "def inc(x):\n    write(*messages[3:])\n    return x",
    "what is not a message": "import os\ndef inc(x):\n    os.write(3, b'passed\\n' * 9)\n    return x",
}
FORGED_TESTS = """
def check(candidate):
    assert abs(candidate(1) - 2) < 1e-6
    assert candidate(41) == 42
    assert len([candidate(1)]) == 1
check(inc)
"""
