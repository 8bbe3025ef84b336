"""Containers of an engine keep the same promises as bubblewrap, on Podman's real API."""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from gage_eval.box import engine_api, slot
from gage_eval.box.executors import ExecutorSettings, open_executor
from gage_eval.box.types import BoxError, BoxSpec, BoxUnavailable, Execution, Executor, Limits, Program
from tests.box.attacks import ATTACKS, GUARD, LIMITS, Attack, aimed, judged
from tests.support.listening import talked
from tests.support.podman import import_image, missing, service
from tests.support.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

T = TypeVar("T")
PYTHON, SHELL = BoxSpec("with-python"), BoxSpec("debian:12")
CANARY = f"gage-container-canary-{os.getpid()}"
# The container's first process is the harness, and the work folder is in its file system in memory.
CONTAINER_GUARD = GUARD.replace("inside.server", "inside.container").replace('"/box"', '"/tmp/box"')
AIMED_AT = {
    "fork bomb", "memory in twenty processes", "memory in files and shared memory", "a million files", "output flood",
    "TCP and DNS on loopback", "unix and abstract sockets", "vsock, netlink, packets", "writing outside",
    "files of others and our environment", "ptrace and memory of others", "kill of all it can reach",
    "setuid and user namespaces", "/proc and /sys", "leftover processes", "clock", "links in the work folder",
}  # fmt: skip
# A container has files of these names of its own. Their number is not bounded, but watched.
ITS_OWN = {"ESCAPED: /etc/passwd", "ESCAPED: /etc/hostname", "ESCAPED: /root", "ended by crashed 'files': "}


@pytest.fixture(scope="module")
def podman() -> Iterator[Path]:
    """The folder of a service with two images: one has Python, the other a shell."""
    with service() as (folder, engine), pytest.MonkeyPatch.context() as patch:
        import_image(folder, "with-python", ["sh", "cat", "sleep"], python=True, workdir="app")
        import_image(folder, "debian:12", ["sh", "cat", "sleep", "mkdir", "chmod"], workdir="app")
        # On a busy machine an engine needs long for an answer, and for a container, which the wall time covers, too.
        patch.setattr(engine_api, "_PROBE_S", PATIENCE_S)
        patch.setattr(slot, "_GRACE_S", PATIENCE_S)
        patch.setenv("CONTAINER_HOST", f"unix://{engine.address}")
        patch.setenv("DOCKER_HOST", f"unix://{folder}/no.sock")
        yield folder
        # Podman may still be removing the last one.
        wait_for(lambda: engine.call("GET", "/containers/json?all=true") == [], "the containers are removed")


def work(run: Callable[[Executor], Coroutine[Any, Any, T]]) -> T:
    async def with_executor() -> T:
        executor = open_executor(ExecutorSettings("podman", slots=2))
        try:
            return await run(executor)
        finally:
            await executor.close()

    return asyncio.run(with_executor())


def executed(*requests: tuple[Program, BoxSpec], limits: Limits = LIMITS) -> list[Execution]:
    async def all_of(executor: Executor) -> list[Execution]:
        return list(await asyncio.gather(*(executor.execute(program, limits, spec) for program, spec in requests)))

    return work(all_of)


def script(text: str, *stdin: str) -> Program:
    return Program("stdio", text, stdin=stdin or ("",), command=("sh", "main.sh"), file="main.sh")


@pytest.mark.usefixtures("podman")
def test_programs_are_tested_in_their_image_in_each_mode() -> None:
    calls = {"entry": "inc", "tests": "assert inc(1) == 2"}
    ended = executed(
        (Program("calls", "def inc(x): return x + 1", **calls), PYTHON),
        (Program("calls", "def inc(x): return x", **calls), PYTHON),
        (Program("script", "x = 2", tests="assert x == 2"), PYTHON),
        (Program("stdio", "import sys; print(sys.prefix, input())", stdin=("a", "b")), PYTHON),
        (script('read line; echo "$line"', "a", "b"), SHELL),
        (script('read line; echo "$line"; exit 3', "a"), PYTHON),
    )
    assert [item.status for item in ended] == ["passed", "failed", "passed", "passed", "passed", "crashed"]
    assert ended[3].outputs == ("/py a\n", "/py b\n")
    assert ended[4].outputs == ("a\n", "b\n")


@pytest.mark.usefixtures("podman")
def test_what_cannot_be_run_says_what_is_missing() -> None:
    python = Program("stdio", "print(1)", stdin=("",))
    ended = executed(
        (python, BoxSpec("not-here")),
        (python, BoxSpec("../containers/json?x\n")),
        (python, BoxSpec()),
        (python, SHELL),
        (script("echo 1"), BoxSpec("debian:12", setup="echo broken >&2; exit 4")),
        (python, BoxSpec("with-python", files={"../x": b""})),
        (script("echo 1"), BoxSpec("debian:12", files={"../x": b""})),
    )
    assert {item.status for item in ended} == {"box_error"}
    said = ["podman pull not-here", "podman", "execution.image", "has no python3", "exit 4: broken", "'../x'", "'../x'"]
    assert [text for text, item in zip(said, ended, strict=True) if text not in item.text] == []


@pytest.mark.usefixtures("podman")
@pytest.mark.parametrize("spec", [PYTHON, SHELL], ids=["with Python", "without"])
def test_a_box_keeps_files_between_commands_and_has_the_surroundings_of_its_spec(spec: BoxSpec) -> None:
    surroundings = BoxSpec(spec.image, {"in/a": b"one"}, "cat in/a > b", {"GREETING": "hello"})

    async def commands(executor: Executor) -> tuple[bytes, bytes, bytes]:
        box = await executor.open(surroundings, LIMITS)
        await box.put("c/d", b"\xff two")
        ran = await box.run(["sh", "-c", 'cat b c/d; echo "$GREETING"; cat > e; sleep 100 &'], stdin=b"three")
        taken = await box.take("e")
        for refused in ("../e", "missing"):
            with pytest.raises(BoxError):
                await box.take(refused)
        await box.run(["sh", "-c", "cat /proc/[0-9]*/cmdline > running"])
        running = await box.take("running")
        await box.close()
        return ran.stdout, taken, running

    printed, taken, running = work(commands)
    assert printed == b"one\xff twohello\n"
    assert taken == b"three"
    assert b"sleep" not in running


@pytest.mark.usefixtures("podman")
@pytest.mark.parametrize("spec", [PYTHON, SHELL], ids=["with Python", "without"])
def test_an_image_that_can_be_written_has_its_own_folders_and_keeps_nothing(spec: BoxSpec) -> None:
    async def commands(executor: Executor) -> tuple[bytes, bytes]:
        printed = []
        for path in ("tests/check", "logs/a/b"):
            box = await executor.open(BoxSpec(spec.image, {path: b"one"}, writable=True), LIMITS)
            ran = await box.run(
                ["sh", "-c", f"cat /{path}; cat /tests/check /logs/a/b; pwd; echo 2 > /new && cat /new"]
            )
            assert await box.take("new") == b"2\n"
            printed.append(ran.stdout)
            await box.close()
        return printed[0], printed[1]

    assert work(commands) == (b"oneone/app\n2\n", b"oneone/app\n2\n")
    program = Program("stdio", "print(1)", stdin=("",))
    (refused,) = executed((program, BoxSpec(spec.image, writable=True)))
    assert (refused.status, refused.reason) == ("box_error", "spec")


@pytest.mark.usefixtures("podman")
def test_one_socket_leads_out_of_a_container() -> None:
    ran = work(lambda executor: talked(executor, BoxSpec("with-python", listens=True), LIMITS))
    assert ran.stdout == b"you said hello\n\nConnectionRefusedError\n"
    with pytest.raises(BoxError, match="no python3"):
        work(lambda executor: talked(executor, BoxSpec("debian:12", listens=True), LIMITS))


@pytest.mark.usefixtures("podman")
def test_limits_end_a_program_with_and_without_python() -> None:
    busy = {"cpu": ("while :; do :; done", 0.5), "output": ("while :; do echo xxxxxxxxxxx; done", 20.0)}
    for reason, (text, cpu_s) in busy.items():
        requests = [(script(text), spec) for spec in (PYTHON, SHELL)]
        ended = executed(*requests, limits=Limits(cpu_s=cpu_s, wall_s=120.0, memory_mb=64, output_kb=1))
        assert [item.reason for item in ended] == [reason, reason]
    requests = [(script("sleep 100"), spec) for spec in (PYTHON, SHELL)]
    ended = executed(*requests, limits=Limits(cpu_s=0.2, wall_s=4.0))
    # On a busy machine the harness says that it had no processor, which is no verdict.
    assert {item.reason for item in ended} <= {"idle", "starved"}


@pytest.fixture
def targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """What the attacks aim at: a service on loopback, sockets, a file of others, our environment."""
    (tmp_path / "secret").write_text("secret")
    abstract = f"gage-container-{os.getpid()}"
    sockets = [socket.create_server(("127.0.0.1", 0))]
    for address in (str(tmp_path / "socket"), f"\0{abstract}"):
        sockets.append(socket.socket(socket.AF_UNIX))
        sockets[-1].bind(address)
        sockets[-1].listen()
    monkeypatch.setenv("GAGE_BOX_CANARY", CANARY)
    port = sockets[0].getsockname()[1]
    yield {"port": port, "folder": str(tmp_path), "abstract": abstract, "canary": CANARY}
    for item in sockets:
        item.close()


@pytest.mark.usefixtures("podman")
def test_attacks_are_contained(targets: dict[str, object]) -> None:
    attacks = [aimed(attack, **targets) for attack in ATTACKS if attack.name in AIMED_AT]
    assert len(attacks) == len(AIMED_AT)

    async def attacked(executor: Executor) -> dict[str, list[str]]:
        assert executor.containment == "container"
        guarded = Program("stdio", CONTAINER_GUARD + "print('guarded')", stdin=("",))
        assert (await judged(executor, guarded, PYTHON)).outputs == ("guarded\n",)

        async def one(attack: Attack) -> list[str]:
            program = Program("stdio", CONTAINER_GUARD + attack.code, stdin=("",))
            return attack.escapes(await judged(executor, program, PYTHON, attack.limits))

        executions = await asyncio.gather(*map(one, attacks))
        return {attack.name: lines for attack, lines in zip(attacks, executions, strict=True)}

    escapes = {name: set(lines) - ITS_OWN for name, lines in work(attacked).items()}
    assert {name: lines for name, lines in escapes.items() if lines} == {}
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)]
    assert not [command for command in commands if command.startswith(CANARY.encode())]


@pytest.mark.usefixtures("podman")
def test_a_cancelled_program_leaves_no_container() -> None:
    async def cancelled(executor: Executor) -> None:
        for delay_s in (0.0, 0.05, 1.0):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await executor.execute(script("sleep 100"), LIMITS, SHELL)

    # The fixture looks at what is left.
    work(cancelled)


def test_an_engine_that_is_not_there_is_refused_with_the_command_that_starts_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CONTAINER_HOST", f"unix://{tmp_path}/no.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    with pytest.raises(BoxUnavailable, match="systemctl start docker"):
        open_executor(ExecutorSettings("docker"))
    with pytest.raises(BoxUnavailable, match="podman system service"):
        open_executor(ExecutorSettings("podman"))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BoxUnavailable, match="apt-get install podman"):
        open_executor(ExecutorSettings("podman"))
