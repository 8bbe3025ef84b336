"""What a box may be is decided before anything runs."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gage_eval.box.executors import ExecutorSettings, open_executor, probe
from gage_eval.box.programs import _end
from gage_eval.box.slot import LISTENER, received_sockets
from gage_eval.box.types import BoxRefused, BoxSpec, BoxUnavailable, Execution, Limits, Program
from gage_eval.extend.allowed_code import allow_only
from tests.support.boxes import NEEDS_BOX
from tests.support.listening import talked
from tests.support.podman import unpack_image


@pytest.fixture
def guarded() -> Iterator[None]:
    """As a process of a worker, which loads only what its operator allows."""
    allow_only([])
    yield
    allow_only(None)


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("settings", [ExecutorSettings(allow_unsafe=True), ExecutorSettings(roots={"x": Path("/")})])
def test_a_worker_takes_no_containment_from_a_config(settings: ExecutorSettings) -> None:
    with pytest.raises(BoxUnavailable, match="this worker"):
        open_executor(settings)


def test_without_bubblewrap_nothing_runs_and_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BoxUnavailable, match="apt-get install bubblewrap"):
        open_executor(ExecutorSettings())
    assert "apt-get install bubblewrap" in str(probe()[0].problem)


@NEEDS_BOX
def test_a_program_that_waited_for_a_processor_when_wall_time_ended_has_starved_and_its_slot_still_serves() -> None:
    # Many more processes than there are processors: each waits nearly all of the time.
    code = "import os\nfor _ in range({children}):\n    if os.fork() == 0:\n        break\nwhile True:\n    pass"
    children = 8 * (os.cpu_count() or 1)

    async def run() -> list[Execution]:
        executor = open_executor(ExecutorSettings("bubblewrap", slots=1))
        try:
            limits = Limits(cpu_s=600.0, wall_s=2.0, processes=children + 2)
            after = Program("calls", "def f(x): return 2 * x", "f", tests="assert f(4) == 8")
            first = await executor.execute(Program("stdio", code.format(children=children), stdin=("",)), limits)
            return [first, await executor.execute(after, Limits())]
        finally:
            await executor.close()

    ended, after = asyncio.run(run())
    assert (ended.status, ended.reason) == ("box_error", "starved")
    assert after.status == "passed"


@NEEDS_BOX
def test_programs_of_an_unpacked_image_have_its_files_and_its_python_and_nothing_of_this_machine(
    tmp_path: Path,
) -> None:
    root, bare = tmp_path / "root", tmp_path / "bare"
    unpack_image(root, ["sh"], python=True)
    (root / "etc" / "name").write_text("of the image")
    bare.mkdir()
    code = "import os, sys\nprint(open('/etc/name').read(), sys.executable, *map(os.path.exists, ('/usr', '/image')))"

    async def run() -> tuple[list[Execution], list[str | None]]:
        executor = open_executor(ExecutorSettings("bubblewrap", slots=1, roots={"mine": root, "bare": bare}))
        try:
            program = Program("stdio", code, stdin=("",))
            ended = [await executor.execute(program, Limits(), BoxSpec(image)) for image in ("mine", "bare")]
            called = Program("calls", "def f(x): return 2 * x", "f", tests="assert f(4) == 8")
            ended += [await executor.execute(called, Limits(), BoxSpec(image)) for image in (None, "mine")]
        finally:
            await executor.close()
        names = [executor.resolve("mine")[1], executor.resolve("mine")[1]]
        (root / "etc" / "name").write_text("of another image")
        return ended, [*names, executor.resolve("mine")[1]]

    (inside, without, here, there), (name, same, other) = asyncio.run(run())
    assert inside.outputs == ("of the image /py/bin/python3 False False\n",), inside
    assert (without.status, without.reason) == ("box_error", "image")
    assert "has no python3" in without.text
    assert (here.status, there.status) == ("passed", "passed")
    assert name == same != other, "an image whose files change is another image"


@NEEDS_BOX
def test_nothing_is_written_or_read_through_a_link_that_a_program_has_made() -> None:
    async def run() -> list[str]:
        executor = open_executor(ExecutorSettings("bubblewrap", slots=1))
        said = []
        try:
            box = await executor.open(
                BoxSpec(setup="ln -s /tmp folder; ln -s /tmp/secret file; echo > /tmp/secret"), Limits()
            )
            for path in ("file", "folder/secret", "folder/new/x"):
                for act in (box.put(path, b"x"), box.take(path)):
                    with pytest.raises(BoxRefused) as refused:
                        await act
                    said.append(str(refused.value))
            await box.put("plain", b"mine")
            assert await box.take("plain") == b"mine"
            left = await box.run(["ls", "/tmp"])
            assert left.stdout == b"secret\n"
            await box.close()
            linked = await executor.execute(
                Program("stdio", "print(1)", stdin=("",)), Limits(), BoxSpec(files={"a": b"", "a/b": b""})
            )
            return [*said, linked.reason]
        finally:
            await executor.close()

    *said, reason = asyncio.run(run())
    assert reason == "files"
    assert len(said) == 6


@NEEDS_BOX
def test_one_socket_leads_out_of_a_box() -> None:
    async def twice() -> list[bytes]:
        executor = open_executor(ExecutorSettings("bubblewrap", slots=1))
        try:
            spec = BoxSpec(listens=True)
            return [(await talked(executor, spec, Limits(memory_mb=256))).stdout for _ in range(2)]
        finally:
            await executor.close()

    assert asyncio.run(twice()) == [b"you said hello\n\nConnectionRefusedError\n"] * 2


def test_only_a_socket_that_listens_on_a_port_is_taken_from_a_box() -> None:
    async def handed(handle: socket.socket | int) -> socket.socket:
        ours, its = socket.socketpair()
        with ours, its:
            ours.setblocking(False)  # noqa: FBT003
            socket.send_fds(its, [b"x"], [handle if isinstance(handle, int) else handle.fileno()])
            (received,) = await received_sockets(ours, [LISTENER])
            return received

    with socket.socket() as listening, socket.socket() as idle, socket.socket(socket.AF_UNIX) as unix:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        asyncio.run(handed(listening)).close()
        for other in (idle, unix, 0):
            with pytest.raises(OSError, match="socket"):
                asyncio.run(handed(other))


@pytest.mark.parametrize(("status", "said"), [(9, "signal 9"), (3 << 8, "exit code 3")])
def test_a_harness_that_ended_says_how(status: int, said: str) -> None:
    assert said in _end({"status": status, "cpu_s": 0.0})
