"""Calls of the Linux kernel that Python has no function for: namespaces, mounts, capabilities, seccomp."""

import ctypes
import errno
import os
import signal
import struct

_LIBC = ctypes.CDLL(None, use_errno=True)
# Calls through it keep the interpreter's lock, as a fork must.
_LOCKED = ctypes.PyDLL(None, use_errno=True)
_X86 = os.uname().machine == "x86_64"

NAMESPACES = {
    "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000, "pid": 0x20000000,
    "network": 0x40000000, "time": 0x80,
}  # fmt: skip
NOSUID, NODEV, NOEXEC, REMOUNT, BIND = 2, 4, 8, 32, 4096

# Numbers of (x86_64, aarch64). Their permissions do not end at the namespaces, or what they hold counts in no limit.
_DENIED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434), "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "quotactl": (179, 60),
    "fanotify_init": (300, 262), "kexec_load": (246, 104), "init_module": (175, 105), "finit_module": (313, 273),
    "reboot": (169, 142), "swapon": (167, 224), "acct": (163, 89), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    "personality": (135, 92), "vmsplice": (278, 75), "move_pages": (279, 239), "mbind": (237, 235),
}  # fmt: skip
_FIRST_UNKNOWN = 463
"""The first call that is newer than the list above."""
_CLONE, _CLONE3, _SOCKET = (56, 435, 41) if _X86 else (220, 435, 198)
_FAMILIES = (1, 2, 10)
"""Unix, IPv4, IPv6. A network namespace does not close vsock."""


def _seccomp_filter() -> bytes:
    """The program that the kernel runs before each system call (struct sock_filter, one per instruction)."""
    load, equal, at_least, any_bit, leave = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, kill = 0x7FFF0000, 0x80000000
    program: list[bytes] = []

    def add(code: int, value: int, if_true: int = 0, if_false: int = 0) -> None:
        program.append(struct.pack("HBBI", code, if_true, if_false, value))

    def fail(number: int) -> None:
        add(leave, 0x00050000 | number)

    add(load, 4)
    add(equal, 0xC000003E if _X86 else 0xC00000B7, 1, 0)
    add(leave, kill)
    add(load, 0)
    add(at_least, _FIRST_UNKNOWN, 0, 1)
    fail(errno.ENOSYS)
    # Its flags lie in memory that a filter cannot read. The C library then uses clone.
    add(equal, _CLONE3, 0, 1)
    fail(errno.ENOSYS)
    for numbers in _DENIED.values():
        add(equal, numbers[0 if _X86 else 1], 0, 1)
        fail(errno.EPERM)
    add(equal, _CLONE, 0, 4)
    add(load, 16)
    add(any_bit, sum(NAMESPACES.values()), 0, 1)
    fail(errno.EPERM)
    add(leave, allow)
    add(equal, _SOCKET, 0, 3 + len(_FAMILIES))
    add(load, 16)
    for place, family in enumerate(_FAMILIES):
        add(equal, family, len(_FAMILIES) - place, 0)
    fail(errno.EAFNOSUPPORT)
    add(leave, allow)
    add(leave, allow)
    return b"".join(program)


_FILTER = _seccomp_filter()


def _check(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def give_up_privileges() -> None:
    """No capability from now on and none to come, and no system call of the list above."""
    for capability in range(64):
        _LIBC.prctl(24, capability, 0, 0, 0)
    _check(_LIBC.syscall(126 if _X86 else 91, struct.pack("II", 0x20080522, 0), bytes(24)), "capset")
    _check(_LIBC.prctl(38, 1, 0, 0, 0), "no_new_privs")
    code = ctypes.create_string_buffer(_FILTER, len(_FILTER))
    header = struct.pack("HxxxxxxQ", len(_FILTER) // 8, ctypes.addressof(code))
    _check(_LIBC.prctl(22, 2, header, 0, 0), "seccomp")


def hide_memory() -> None:
    """Close this process's memory and environment to other processes of its user."""
    _LIBC.prctl(4, 0, 0, 0, 0)


def end_with_parent() -> None:
    """End this process when the one that forked it ends."""
    _LIBC.prctl(1, signal.SIGKILL, 0, 0, 0)


def fork_into(flags: int) -> int:
    """``os.fork`` into new namespaces. Only for a process with one thread."""
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = _LOCKED.syscall(_CLONE, flags | signal.SIGCHLD, 0, 0, 0, 0)
    number = ctypes.get_errno()
    if pid:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    if pid < 0:
        raise OSError(number, f"clone: {os.strerror(number)}")
    return pid


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """mount(2)."""
    arguments = (source.encode(), target.encode(), kind.encode(), flags, options.encode())
    _check(_LIBC.mount(*arguments), f"mount {target}")
