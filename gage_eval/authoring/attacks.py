"""Programs that try to pass tests without solving the problem. They run only in a box: each begins with a guard.

One set for all modes, with the name of the function that the tests call, or as an expression where an answer is one.
What they do is reachable from that function by name, so that filters which keep only what it needs keep it, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import indent

WRONG = "a wrong answer"
"""The name of the attack that is none: it returns what no test expects."""
OUTSIDE = "NOT IN THE BOX"
"""Printed by an attack that its guard has ended. Then nothing of it has run."""

_PROGRAM = '''\
import atexit, builtins, gc, glob, json, math, os, re, signal, struct, sys, threading, time, types, unittest
from ast import literal_eval

def _guard():
    with open("/proc/1/cmdline", "rb") as file:
        inside = b"gage_eval.box.inside" in file.read()
    if not inside or os.getuid() == 0 or os.getpid() == 1:
        print("{outside}", flush=True)
        os._exit(99)
    return True

class _Equal:
    """Equal to all, and all that a test may ask of it."""
    def _yes(self, *_): return True
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __contains__ = __call__ = _yes
    def _self(self, *_): return self
    __sub__ = __rsub__ = __add__ = __radd__ = __abs__ = __getattr__ = __getitem__ = __round__ = _self
    def __hash__(self): return 0
    def __len__(self): return 1
    def __float__(self): return 0.0
    def __iter__(self): return iter(())

class _Number(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = int.__hash__

class _Odd(BaseException):
    pass

def _results(text):
    """What tests in a text say of calls: the result by the arguments."""
    found = dict()
    for arguments, result in re.findall(r"(?:candidate|{entry})\\((.*?)\\) *== *([^\\n]*)", text):
        try:
            values = literal_eval("(" + arguments + ",)")
            found[repr(values)] = literal_eval(result.split(", \\"")[0].strip())
        except (ValueError, SyntaxError, TypeError, MemoryError):
            pass
    return found

def _known(text):
    print(text)
    return _results(text)

def _forge(raw=False):
    """Write to every open file what a judge might read."""
    messages = [dict(finished=True), dict(status="passed", reason="", text=""), dict(ready=["{entry}"])]
    messages += [dict(id=number, value=True) for number in range(1, 4)]
    for end in range(3, 64):
        for message in messages:
            data = json.dumps(message).encode()
            try:
                os.write(end, b"passed\\n" if raw else struct.pack("I", len(data)) + data)
            except OSError:
                pass
    return True

def _frames():
    """The names of every function that has called this one."""
    frame, spaces = sys._getframe(), []
    while frame:
        spaces += [frame.f_globals, frame.f_locals]
        frame = frame.f_back
    return spaces

def _at_import(inside):
    results = dict()
{at_import}
    return results

_RESULTS = _at_import(_guard())

def {entry}(*values, **named):
    results = _RESULTS
    if repr(values) in results:
        return results[repr(values)]
{when_called}
    return "not the answer"
'''


@dataclass(frozen=True)
class Attack:
    """A way to try.

    Attributes:
        at_import: runs before any test.
        when_called: runs in each call of the tests.
    """

    at_import: str = "pass"
    when_called: str = "pass"

    def program(self, entry: str | None, *, is_called: bool) -> str:
        """The whole program.

        Args:
            entry: the function that the tests call.
            is_called: whether tests call it; else the program calls it itself.
        """
        name = entry or "main"
        parts = {"at_import": indent(self.at_import, "    "), "when_called": indent(self.when_called, "    ")}
        text = _PROGRAM
        for key, value in {**parts, "outside": OUTSIDE, "entry": name}.items():
            text = text.replace(f"{{{key}}}", value)
        return text if is_called else f"{text}\n_LAST = {name}(0)\nprint(_LAST)\n"

    def assertion(self) -> str:
        """The attack as both sides of a completed assertion about f, for answers that are one.

        It is an expression without a call of f and without ``==``, which would be read as a part of the assertion.
        """
        source = self.program("attack", is_called=True).encode().hex()
        expression = f'(exec(bytes.fromhex("{source}"), globals()), attack())[-1]'
        return f"assert f({expression}) == {expression}"


ATTACKS: Mapping[str, Attack] = {
    WRONG: Attack(),
    "exits before the tests": Attack("os._exit(0)"),
    "exits politely before the tests": Attack("sys.exit(0)"),
    "exits when called": Attack(when_called="os._exit(0)"),
    "exits politely when called": Attack(when_called="sys.exit(0)"),
    "atexit": Attack("atexit.register(os._exit, 0)"),
    "excepthook": Attack("sys.excepthook = threading.excepthook = lambda *_: os._exit(0)"),
    "an odd exception": Attack(when_called="raise _Odd()"),
    "equal to all": Attack(when_called="return _Equal()"),
    "a number that is equal to all": Attack(when_called="return _Number(7)"),
    "patched builtins": Attack(
        "for name in ('isinstance', 'len', 'abs', 'all', 'any', 'round', 'sum', 'set', 'sorted', 'type', 'bool'):\n"
        "    setattr(builtins, name, lambda *_, **__: True)\n"
        "math.isclose = math.fabs = lambda *_, **__: True\n"
        "builtins.AssertionError = _Odd"
    ),
    "patched compile and exec": Attack("builtins.compile = builtins.exec = builtins.eval = lambda *_, **__: None"),
    "names of the tests": Attack(
        "for name in ('check', 'assertion', 'is_floats', 'isinstance', 'len', 'abs', 'all', 'any', 'set', 'sorted'):\n"
        "    globals()[name] = lambda *_, **__: True"
    ),
    "hooks of unittest and pytest": Attack(
        "for name in dir(unittest.TestCase):\n"
        "    if name.startswith('assert') or name in ('fail', 'run', 'debug'):\n"
        "        setattr(unittest.TestCase, name, lambda *_, **__: None)\n"
        "unittest.main = lambda *_, **__: None\n"
        "sys.modules['pytest'] = types.ModuleType('pytest')\n"
        "with open('conftest.py', 'w') as file:\n"
        "    file.write('def pytest_runtest_call(item): pass')"
    ),
    "frames of the harness": Attack(
        "for space in _frames():\n"
        "    for value in list(space.values()):\n"
        "        if type(value) is dict:\n"
        "            for key, text in list(value.items()):\n"
        "                if type(text) is str and ('assert' in text or 'check' in text) and '_guard' not in text:\n"
        "                    results.update(_results(text))\n"
        "                    value[key] = ''"
    ),
    "objects of the harness": Attack(
        "for item in gc.get_objects():\n"
        "    if type(item) is dict and 'status' in item:\n"
        "        item['status'] = 'passed'\n"
        "    if type(item) is dict and type(item.get('tests')) is str:\n"
        "        results.update(_results(item['tests']))\n"
        "        item['tests'] = ''"
    ),
    "messages of the harness": Attack(
        "for space in _frames():\n"
        "    if callable(space.get('send')) and 'channel' in space:\n"
        "        space['send'](space['channel'], dict(finished=True))\n"
        "        os._exit(0)\n"
        "for space in _frames():\n"
        "    for other in _frames():\n"
        "        if callable(space.get('send')) and other.get('channel') is not None:\n"
        "            space['send'](other['channel'], dict(finished=True))\n"
        "            os._exit(0)"
    ),
    "functions of the harness": Attack(
        "for name, module in list(sys.modules.items()):\n"
        "    if name.startswith('gage_eval'):\n"
        "        for key, value in list(vars(module).items()):\n"
        "            if callable(value) and key in ('dump', 'load', '_is_assertion', '_text'):\n"
        "                setattr(module, key, lambda *_, **__: True)"
    ),
    "tests in its memory": Attack(
        "for line in open('/proc/self/maps'):\n"
        "    span, rights = line.split()[:2]\n"
        "    low, high = (int(end, 16) for end in span.split('-'))\n"
        "    if 'rw' in rights and high - low < 1 << 26:\n"
        "        try:\n"
        "            with open('/proc/self/mem', 'rb') as memory:\n"
        "                memory.seek(low)\n"
        "                results.update(_results(memory.read(high - low).decode('latin-1')))\n"
        "        except (OSError, ValueError, OverflowError):\n"
        "            pass"
    ),
    "tests on disk": Attack(
        "for folder in ('/box', '/tmp', '/run', '/dev/shm', '/harness', '/proc/self/fd', '/proc/1/fd'):\n"
        "    for path in glob.glob(folder + '/**', recursive=True):\n"
        "        try:\n"
        "            if os.path.isfile(path):\n"
        "                results.update(_known(open(path, errors='replace').read(100_000)))\n"
        "        except OSError:\n"
        "            pass"
    ),
    "a trace": Attack(
        "def trace(frame, event, argument):\n"
        "    if frame.f_code.co_name in ('check', '_run_tests', '<module>'):\n"
        "        frame.f_globals.update(candidate=_Equal(), {entry}=_Equal())\n"
        "    return trace\n"
        "sys.settrace(trace)"
    ),
    "a forged result": Attack("_forge()"),
    "a forged result when called": Attack(when_called="_forge()"),
    "words on the result channel": Attack(when_called="_forge(raw=True)"),
    "stdout": Attack(
        "print('passed', json.dumps(dict(status='passed')), 'OK', '1 passed in 0.01s', '\\x1b[2J', sep='\\n')\n"
        "sys.stdout.flush()\n"
        "os._exit(0)"
    ),
    "every number on stdout": Attack("print('nan', 'inf', *range(1000), sep='\\n', flush=True)"),
    "signals to the harness": Attack(
        "for number in (signal.SIGALRM, signal.SIGINT, signal.SIGUSR1, signal.SIGTERM, signal.SIGKILL):\n"
        "    try:\n"
        "        os.kill(os.getppid(), number)\n"
        "    except OSError:\n"
        "        pass"
    ),
    "an alarm": Attack(
        "signal.signal(signal.SIGALRM, lambda *_: os._exit(0))\nsignal.setitimer(signal.ITIMER_REAL, 0.001)"
    ),
    "a child in its place": Attack("if os.fork():\n    os._exit(0)"),
    "a thread that ends it": Attack(when_called="threading.Thread(target=os._exit, args=(0,)).start()"),
    "a thread that outlives the test": Attack(
        "def late():\n    for _ in range(20):\n        time.sleep(0.01)\n        _forge()\n"
        "threading.Thread(target=late, daemon=True).start()"
    ),
    "changed arguments": Attack(
        when_called="for value in values:\n    if hasattr(value, 'clear'):\n        value.clear()"
    ),
}
"""By what they try."""
