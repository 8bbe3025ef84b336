"""Commands beside the others of a box: they outlive each command, within the same walls and limits."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

import pytest

from gage_eval.box import engine_api, slot
from gage_eval.box.executors import ExecutorSettings, open_executor
from gage_eval.box.types import Beside, Box, BoxError, BoxSpec, Limits
from tests.support.boxes import NEEDS_BOX
from tests.support.podman import import_image, missing, service
from tests.support.waiting import PATIENCE_S, wait_for

T = TypeVar("T")
LIMITS = Limits(cpu_s=20.0, wall_s=300.0, memory_mb=128, processes=16)
# Says each line back, with how many it has heard.
ECHO = ["python3", "-u", "-c", "import sys\nfor n, line in enumerate(sys.stdin): print(n, line.strip(), flush=True)"]
BUBBLEWRAP = pytest.param("bubblewrap", marks=NEEDS_BOX)
PODMAN = pytest.param("podman", marks=pytest.mark.skipif(missing() is not None, reason=missing() or ""))


@pytest.fixture(scope="module")
def engine() -> Iterator[None]:
    """Podman's service with an image that has Python, and one that has not."""
    with service() as (folder, podman), pytest.MonkeyPatch.context() as patch:
        import_image(folder, "with-python", ["sh", "cat", "sleep"], python=True)
        import_image(folder, "debian:12", ["sh", "cat", "mkdir"])
        patch.setattr(engine_api, "_PROBE_S", PATIENCE_S)
        patch.setattr(slot, "_GRACE_S", PATIENCE_S)
        patch.setenv("CONTAINER_HOST", f"unix://{podman.address}")
        yield
        wait_for(lambda: podman.call("GET", "/containers/json?all=true") == [], "the containers are removed")


@pytest.fixture
def settings(request: pytest.FixtureRequest) -> tuple[ExecutorSettings, str | None]:
    """Settings of an executor, and the image of its boxes."""
    kind: str = request.param
    if kind == "podman":
        request.getfixturevalue("engine")
        return ExecutorSettings("podman", slots=1), "with-python"
    if kind == "unsafe":
        return ExecutorSettings(slots=1, allow_unsafe=True), None
    return ExecutorSettings("bubblewrap", slots=1), None


EVERYWHERE = pytest.mark.parametrize("settings", [BUBBLEWRAP, PODMAN, "unsafe"], indirect=True)
CONTAINED = pytest.mark.parametrize("settings", [BUBBLEWRAP, PODMAN], indirect=True)


def in_box(
    settings: tuple[ExecutorSettings, str | None],
    script: Callable[[Box], Awaitable[T]],
    *starts: Sequence[str],
    limits: Limits = LIMITS,
) -> T:
    """What a script gets that acts in one box."""

    async def run() -> T:
        executor = open_executor(settings[0])
        try:
            box = await executor.open(BoxSpec(settings[1], {"in.txt": b"a file"}, starts=starts), limits)
            try:
                return await script(box)
            finally:
                await box.close()
        finally:
            await executor.close()

    return asyncio.run(run())


async def talk(box: Box, text: bytes, number: int = 0) -> bytes:
    """What a command answers to a line."""
    loop, answer = asyncio.get_running_loop(), b""
    await loop.sock_sendall(box.started[number], text + b"\n")
    while not answer.endswith(b"\n"):
        piece = await asyncio.wait_for(loop.sock_recv(box.started[number], 1 << 16), PATIENCE_S)
        if not piece:
            return answer
        answer += piece
    return answer


async def ended(box: Box, number: int = 0) -> Beside:
    """How a command ended, when it has."""
    with suppress(ConnectionResetError):
        while await asyncio.wait_for(asyncio.get_running_loop().sock_recv(box.started[number], 1 << 16), PATIENCE_S):
            pass
    async with asyncio.timeout(PATIENCE_S):
        # Its socket closes shortly before it has ended.
        while (state := await box.state(number)).exit is None:
            pass
    return state


@EVERYWHERE
def test_it_goes_on_while_commands_come_and_end_and_each_has_its_own_streams(
    settings: tuple[ExecutorSettings, str | None],
) -> None:
    async def script(box: Box) -> list[bytes]:
        said = [await talk(box, b"one"), await talk(box, b"other", 1)]
        ran = await box.run(["sh", "-c", "cat in.txt; sleep 100 & sleep 0.1"])
        left = await box.run(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]) if settings[1] is None else None
        assert left is None or settings[0].allow_unsafe or b"sleep 100" not in left.stdout
        return [*said, ran.stdout, await talk(box, b"two"), await talk(box, b"more", 1)]

    assert in_box(settings, script, ECHO, ECHO) == [b"0 one\n", b"0 other\n", b"a file", b"1 two\n", b"1 more\n"]


@EVERYWHERE
def test_how_it_ended_is_known_and_the_box_goes_on(settings: tuple[ExecutorSettings, str | None]) -> None:
    async def script(box: Box) -> tuple[Beside, Beside, bytes]:
        states = await ended(box), await ended(box, 1)
        return *states, (await box.run(["sh", "-c", "echo on"])).stdout

    failed = ["python3", "-c", "import sys; sys.exit('x' * 9000 + ' the last word')"]
    first, second, after = in_box(settings, script, failed, ["no-such-program"])
    assert first.exit == 1
    assert len(first.stderr) == 4096
    assert first.stderr.endswith("the last word\n")
    assert (second.exit, "no-such-program" in second.stderr) == (127, True)
    assert after == b"on\n"


GREEDY = "import time; held = [bytearray(b'x' * (1 << 20)) for _ in range(80)]; time.sleep(600)"
FORKS = f"import os, time\nos.fork()\n{GREEDY}"
LEAVES = f"import os, time\nos.fork() or os.setsid()\n{GREEDY}"
BUSY = "import os\nfor _ in range(3): os.fork()\nwhile True: pass"


@NEEDS_BOX
@pytest.mark.parametrize(("code", "reason"), [(FORKS, "memory"), (LEAVES, "memory"), (BUSY, "cpu")])
@pytest.mark.parametrize("settings", ["bubblewrap"], indirect=True)
def test_its_processes_together_keep_to_the_limits_of_one_command(
    settings: tuple[ExecutorSettings, str | None], code: str, reason: str
) -> None:
    async def script(box: Box) -> tuple[Beside, bytes]:
        state = await ended(box)
        return state, (await box.run(["sh", "-c", "cat /proc/[0-9]*/cmdline | wc -c; sleep 0.2"])).stdout

    limits = Limits(cpu_s=2.0, wall_s=300.0, memory_mb=128, processes=16)
    state, rest = in_box(settings, script, ["python3", "-c", code], limits=limits)
    assert (state.exit, state.reason) == (-9, reason)
    assert int(rest) < 400, "nothing is left but the shell and the harness"


@NEEDS_BOX
@pytest.mark.parametrize("settings", ["bubblewrap"], indirect=True)
def test_what_it_uses_is_not_the_commands(settings: tuple[ExecutorSettings, str | None]) -> None:
    held = "held = [bytearray(b'x' * (1 << 20)) for _ in range({})]; "

    async def script(box: Box) -> tuple[bytes, str, float]:
        said = await talk(box, b"")
        ran = await box.run(["python3", "-c", held.format(70) + "import time; time.sleep(0.2)"])
        return said, ran.reason, ran.peak_mb

    said, reason, peak_mb = in_box(
        settings, script, ["python3", "-c", held.format(80) + "print('held', flush=True); input(); input()"]
    )
    assert (said, reason) == (b"held\n", "")
    assert peak_mb < 100


@CONTAINED
def test_it_has_no_network_no_way_out_and_ends_with_the_box(settings: tuple[ExecutorSettings, str | None]) -> None:
    canary = f"gage-beside-canary-{os.getpid()}"
    code = f"""
import os, socket, sys
for attempt in (
    lambda: socket.create_connection(("1.1.1.1", 53), 2),
    lambda: socket.socket(16, 3, 0),
    lambda: os.kill(1, 9) or os.kill(1, 0),
    lambda: open("/proc/1/mem", "rb"),
    lambda: open("/etc/shadow"),
    lambda: socket.socket(1).connect("/run/outside"),
):
    try:
        attempt()
        print("ok", end=" ")
    except OSError as error:
        print(type(error).__name__, end=" ")
print(os.environ.get("GAGE_CANARY"), flush=True)
canary = "{canary}"
while True: sys.stdin.read() or __import__("time").sleep(600)
"""

    async def script(box: Box) -> bytes:
        return await talk(box, b"")

    os.environ["GAGE_CANARY"] = canary
    try:
        said = in_box(settings, script, ["python3", "-c", code]).decode().split()
    finally:
        del os.environ["GAGE_CANARY"]
    # The first process of a namespace takes no signal from inside.
    assert said[2] == "ok"
    assert "ok" not in said[:2] + said[3:], said
    assert said[-1] == "None"
    assert not running(canary)


def running(canary: str) -> list[bytes]:
    """The commands of this machine that name a canary, without those of this process."""
    answers = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                command = file.read()
        except OSError:
            continue
        if canary.encode() in command:
            answers.append(command)
    return answers


@NEEDS_BOX
@pytest.mark.parametrize("settings", ["bubblewrap"], indirect=True)
def test_a_command_that_forks_without_end_is_ended_whole(settings: tuple[ExecutorSettings, str | None]) -> None:
    bomb = "import os\nwhile True:\n    try: os.fork() or os.setsid()\n    except OSError: pass"

    async def script(box: Box) -> tuple[str, int]:
        ran = await box.run(["python3", "-c", bomb], limits=Limits(cpu_s=1.0, wall_s=60.0, memory_mb=512, processes=16))
        left = await box.run(["sh", "-c", "ls -d /proc/[0-9]* | wc -l"])
        return ran.reason, int(left.stdout)

    reason, left = in_box(settings, script, ECHO)
    assert reason == "cpu"
    assert left <= 6, "the harness, the command beside it, and this pipe"


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
@pytest.mark.usefixtures("engine")
def test_an_image_without_python_is_refused_with_what_it_needs() -> None:
    async def script(box: Box) -> None: ...

    with pytest.raises(BoxError, match="no python3"):
        in_box((ExecutorSettings("podman", slots=1), "debian:12"), script, ["cat"])
