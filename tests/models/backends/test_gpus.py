"""GPUs of a machine: the engines of each run take free ones and hold them. The GPUs here are only names."""

import asyncio
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import InputError
from gage_eval.models.backends import gpus as module
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.build import build_backend
from gage_eval.models.backends.engines import Engines
from gage_eval.models.backends.gpus import GPUs, NeededGPUs, devices
from tests.support.engines import starts, write_fake_vllm
from tests.support.waiting import PATIENCE_S

NAMES = ["0", "1", "GPU-5a/b", "3"]
HOLDER = """
import asyncio, sys
from pathlib import Path
from gage_eval.models.backends.gpus import GPUs, NeededGPUs
held = asyncio.run(GPUs(Path(sys.argv[1])).hold(NeededGPUs(sys.argv[2].split(","), int(sys.argv[3]))))
print(",".join(held), flush=True)
sys.stdin.read()
"""


class Holder:
    """A process that holds some GPUs."""

    def __init__(self, folder: Path, count: int) -> None:
        command = [sys.executable, "-c", HOLDER, str(folder), ",".join(NAMES), str(count)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @property
    def held(self) -> list[str]:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip().split(",")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of this test: its folder of locks, and a stand-in for vLLM."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module, "_LOOK_EVERY_S", 0.02)
    write_fake_vllm(tmp_path)
    return tmp_path


def vllm(machine: Path, engines: Engines, gpus: str, **config: Any) -> Any:
    """A backend that starts its engine in this process."""
    settings = {"model_path": "checkpoint", "python": "./python", **config}
    env = {"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": gpus}
    return build_backend("vllm", settings, BackendContext(machine, env=env, engines=engines))


async def test_two_runs_on_a_machine_have_different_gpus(tmp_path: Path) -> None:
    first = Holder(tmp_path, 2)
    assert first.held == ["0", "1"]
    assert await GPUs(tmp_path).hold(NeededGPUs(NAMES, 2)) == ["GPU-5a/b", "3"]
    first.kill()


async def test_a_run_waits_for_the_gpus_of_a_killed_one_and_says_so(tmp_path: Path) -> None:
    first = Holder(tmp_path, 3)
    assert len(first.held) == 3
    said: list[str] = []

    def told(text: str) -> None:
        said.append(text)
        first.kill()

    assert await GPUs(tmp_path, told).hold(NeededGPUs(NAMES, 2)) == ["0", "1"]
    assert said == ["2 of this machine's 4 GPUs are needed and too few are free; waiting for them."]


async def test_a_run_that_waits_for_gpus_can_be_cancelled(tmp_path: Path) -> None:
    owner, other, waits = GPUs(tmp_path), GPUs(tmp_path, lambda text: waits.set()), asyncio.Event()
    held = await owner.hold(NeededGPUs(NAMES, 4))
    waiting = asyncio.create_task(other.hold(NeededGPUs(NAMES, 1)))
    await waits.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    owner.release(held)
    assert await other.hold(NeededGPUs(NAMES, 4)) == NAMES


async def test_a_machine_with_too_few_gpus_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"needs 5 GPUs and this machine has 4\. Lower gpus"):
        await GPUs(tmp_path).hold(NeededGPUs(NAMES, 5))


async def test_engines_of_one_run_share_a_gpu_only_where_none_is_free(tmp_path: Path) -> None:
    """A model and its judge: on two GPUs each has its own, on one they share it until both have stopped."""
    run, other = GPUs(tmp_path), GPUs(tmp_path)
    model, judge = [await run.hold(NeededGPUs(["0", "1"], 1)) for _ in range(2)]
    third = await run.hold(NeededGPUs(["0", "1"], 1))
    assert (model, judge, third) == (["0"], ["1"], ["0"])
    run.release(model)
    assert other._take(["0"], 1) == []
    run.release(third)
    assert await other.hold(NeededGPUs(["0", "1"], 1)) == ["0"]


async def test_local_engines_of_two_runs_have_different_gpus_and_a_third_waits(machine: Path) -> None:
    first, second, third = (vllm(machine, Engines(), "4,5") for _ in range(3))
    await first.open(None)
    await second.open(None)
    waiting = asyncio.create_task(third.open(None))
    await asyncio.sleep(0.1)
    assert [start.gpus for start in starts(machine)] == ["4", "5"]
    await second.close()
    await waiting
    assert [start.gpus for start in starts(machine)] == ["4", "5", "5"]
    await asyncio.gather(first.close(), third.close())


async def test_an_engine_that_does_not_start_gives_its_gpu_back(machine: Path) -> None:
    write_fake_vllm(machine, "exit 3")
    with pytest.raises(Exception, match="ended with status 3"):
        await vllm(machine, Engines(), "4").open(None)
    write_fake_vllm(machine)
    backend = vllm(machine, Engines(), "4")
    await asyncio.wait_for(backend.open(None), PATIENCE_S)
    await backend.close()


async def test_gpus_that_the_engines_own_variables_name_are_those_it_takes(machine: Path) -> None:
    backend = vllm(machine, Engines(), "4,5,6", env={"CUDA_VISIBLE_DEVICES": "6"})
    await backend.open(None)
    assert [start.gpus for start in starts(machine)] == ["6"]
    await backend.close()


@pytest.mark.parametrize(
    ("config", "names", "count"),
    [
        ({}, ["0", "1", "2"], 1),
        ({"device": "cpu"}, [], 0),
        ({"device": "cuda:1"}, ["1"], 1),
        ({"device": "cuda:7"}, [], 0),
        ({"device_map": "auto"}, ["0", "1", "2"], 3),
    ],
)
def test_transformers_takes_the_gpus_that_its_config_means(
    config: dict[str, Any], names: list[str], count: int, machine: Path
) -> None:
    context = BackendContext(machine, env={"CUDA_VISIBLE_DEVICES": "0,1,2"})
    backend: Any = build_backend("transformers", {"model_path": "checkpoint", **config}, context)
    assert (list(backend._needed().names), backend.gpus) == (names, count)


def test_a_machine_whose_gpus_are_hidden_has_none() -> None:
    assert devices({"CUDA_VISIBLE_DEVICES": "-1"}) == devices({"CUDA_VISIBLE_DEVICES": ""}) == []
    assert devices({"CUDA_VISIBLE_DEVICES": "2, 0,-1,3"}) == ["2", "0"]


def test_starts_at_one_moment_take_different_gpus(tmp_path: Path) -> None:
    def hold(number: int) -> list[str]:
        return GPUs(tmp_path)._take(NAMES, 1)

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(hold, range(4))) == sorted([name] for name in NAMES)
