"""The box contains every attack that we know of, and serves the next program. Attacks run nowhere else."""

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gage_eval.box.executors import ExecutorSettings, open_executor
from gage_eval.box.types import BoxSpec, Execution, Executor, Program
from tests.box.attacks import ATTACKS, FORGED, FORGED_TESTS, GUARD, LIMITS, TAMPERING, Attack, aimed, judged
from tests.support.boxes import NEEDS_BOX
from tests.support.podman import unpack_image

pytestmark = NEEDS_BOX

SLOTS = 3
CANARY = f"gage-box-canary-{os.getpid()}"


def program(code: str) -> Program:
    return Program("stdio", code, stdin=("",))


@dataclass(frozen=True)
class Outcome:
    """What came of an attack, and of a program that ran in the same slot after it."""

    attack: Attack
    executions: list[Execution]
    next: Execution


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, object]]:
    """What the attacks aim at: services on loopback, sockets, a file of others, our environment."""
    folder = tmp_path_factory.mktemp("targets")
    folder.chmod(0o755)
    (folder / "secret").write_text("secret")
    abstract = f"gage-box-{os.getpid()}"
    tcp = socket.create_server(("127.0.0.1", 0))
    port = tcp.getsockname()[1]
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", port))
    sockets = [tcp, udp]
    for address in (str(folder / "socket"), f"\0{abstract}"):
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(address)
        unix.listen()
        sockets.append(unix)
    (folder / "socket").chmod(0o777)

    def answer() -> None:
        try:
            while True:
                udp.sendto(b"answer", udp.recvfrom(100)[1])
        except OSError:
            return

    threading.Thread(target=answer, daemon=True).start()
    os.environ["GAGE_BOX_CANARY"] = CANARY
    yield {"port": port, "folder": str(folder), "abstract": abstract, "canary": CANARY}
    del os.environ["GAGE_BOX_CANARY"]
    udp.sendto(b"", ("127.0.0.1", port))
    for item in sockets:
        item.close()


async def contained() -> Executor:
    """A box of one slot. Attacks do not start where it is not the real one."""
    executor = open_executor(ExecutorSettings("bubblewrap", slots=1))
    assert executor.containment == "namespaces"
    guarded = await judged(executor, program(GUARD + "print('guarded')"))
    assert guarded.outputs == ("guarded\n",), guarded
    return executor


async def attacked(attacks: list[Attack]) -> list[Outcome]:
    outcomes = []
    waiting = list(attacks)

    async def work() -> None:
        executor = await contained()
        try:
            while waiting:
                attack = waiting.pop(0)
                executions = [
                    await judged(executor, program(attack.program), limits=attack.limits) for _ in range(attack.times)
                ]
                after = await judged(executor, program("print(6 * 7)"))
                outcomes.append(Outcome(attack, executions, after))
        finally:
            await executor.close()

    await asyncio.gather(*(work() for _ in range(SLOTS)))
    return outcomes


@pytest.fixture(scope="module")
def outcomes(targets: dict[str, object]) -> dict[str, Outcome]:
    """All attacks, really run."""
    attacks = [aimed(attack, **targets) for attack in ATTACKS]
    return {outcome.attack.name: outcome for outcome in asyncio.run(attacked(attacks))}


@pytest.mark.parametrize("name", [attack.name for attack in ATTACKS])
def test_an_attack_is_contained_and_the_slot_serves_the_next_program(
    name: str, outcomes: dict[str, Outcome], targets: dict[str, object]
) -> None:
    outcome = outcomes[name]
    assert [line for execution in outcome.executions for line in outcome.attack.escapes(execution)] == []
    assert outcome.next.outputs == ("42\n",), outcome.next


def test_nothing_of_the_attacks_is_left_on_the_machine(outcomes: dict[str, Outcome]) -> None:
    assert outcomes
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)]
    assert not [command for command in commands if command.startswith(CANARY.encode())]
    assert not [path for folder in ("/", "/usr", "/etc", "/dev") for path in Path(folder).glob("gage_box_canary")]


@pytest.fixture(scope="module")
def forged() -> dict[tuple[str, str], Execution]:
    """Each forged answer, in the two modes that have tests."""

    async def run() -> dict[tuple[str, str], Execution]:
        executor = await contained()
        results = {}
        for mode in ("calls", "script"):
            for name, code in {"right": "def inc(x): return x + 1", **FORGED, **TAMPERING}.items():
                task = Program(mode, GUARD + code, entry="inc", tests=FORGED_TESTS)
                results[mode, name] = await judged(executor, task)
        await executor.close()
        return results

    return asyncio.run(run())


def test_no_forged_answer_passes_in_calls(forged: dict[tuple[str, str], Execution]) -> None:
    passed = [name for (mode, name), result in forged.items() if mode == "calls" and result.status == "passed"]
    assert passed == ["right"]
    assert not [name for (mode, name), result in forged.items() if result.status == "box_error"]


def test_some_forged_answers_pass_in_script_which_is_why_its_scores_are_marked(
    forged: dict[tuple[str, str], Execution],
) -> None:
    passed = {name for (mode, name), result in forged.items() if mode == "script" and result.status == "passed"}
    assert "right" in passed
    assert len(passed) > 1
    assert "os._exit at import" not in passed


@pytest.mark.parametrize("name", TAMPERING)
def test_what_writes_to_the_channel_has_tampered(name: str, forged: dict[tuple[str, str], Execution]) -> None:
    assert forged["calls", name].status == "tampered"


def test_only_what_the_harness_can_prove_is_called_tampered(forged: dict[tuple[str, str], Execution]) -> None:
    tampered = {name for (mode, name), result in forged.items() if mode == "calls" and result.status == "tampered"}
    assert tampered == set(TAMPERING)


# Those that look for what the image's box shows of this machine, or what its maker left open.
IN_AN_IMAGE = {
    "TCP and DNS on loopback", "unix and abstract sockets", "vsock, netlink, packets", "writing outside",
    "files of others and our environment", "leftovers for the next test", "ptrace and memory of others", "clock",
    "kill of all it can reach", "setuid and user namespaces", "/proc and /sys", "links in the work folder",
}  # fmt: skip


def test_the_box_of_an_unpacked_image_contains_them_too(targets: dict[str, object], tmp_path: Path) -> None:
    unpack_image(tmp_path, ["sh"], python=True)
    settings = ExecutorSettings("bubblewrap", slots=1, roots={"mine": tmp_path})
    attacks = [aimed(attack, **targets) for attack in ATTACKS if attack.name in IN_AN_IMAGE]

    async def run() -> dict[str, set[str]]:
        executor = open_executor(settings)
        try:
            spec = BoxSpec("mine")
            guarded = await judged(executor, program(GUARD + "print('guarded')"), spec)
            assert guarded.outputs == ("guarded\n",), guarded
            return {
                attack.name: set(attack.escapes(await judged(executor, program(attack.program), spec, attack.limits)))
                for attack in attacks
                for _ in range(attack.times)
            }
        finally:
            await executor.close()

    # It has a folder of this name of its own.
    escapes = {name: lines - {"ESCAPED: /root"} for name, lines in asyncio.run(run()).items()}
    assert {name: lines for name, lines in escapes.items() if lines} == {}


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "a//b", ".", ""])
async def test_a_file_outside_of_the_work_folder_is_refused(path: str) -> None:
    executor = open_executor(ExecutorSettings("bubblewrap", slots=1))
    try:
        result = await executor.execute(program("print(1)"), LIMITS, BoxSpec(files={path: b"x"}))
    finally:
        await executor.close()
    assert (result.status, result.reason) == ("box_error", "files")
