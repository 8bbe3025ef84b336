"""Engines in tests: a stand-in for vLLM, runs that it answers, and the processes of engines."""

import json
import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from gage_eval.base.errors import GageError
from gage_eval.engine.host import SharedEngines
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from tests.support.waiting import PATIENCE_S, wait_for
from tests.support.workspace import write_config

# Command of a shell script that runs `fake_vllm` with the arguments of the script.
FAKE_VLLM = f'{shlex.join([sys.executable, str(Path(__file__).with_name("fake_vllm.py"))])} "$@"'


class Start(NamedTuple):
    """What one process of `fake_vllm` was started with."""

    flags: dict[str, str]
    gpus: str | None
    argv: list[str]


def write_fake_vllm(folder: Path, script: str = f"exec {FAKE_VLLM}") -> dict[str, Any]:
    """Write a checkpoint, and an interpreter whose vLLM is `fake_vllm`.

    Args:
        folder: where both go; `starts` reads there which processes were started.
        script: what the interpreter does.

    Returns:
        The settings of a vLLM backend that uses both.
    """
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir(exist_ok=True)
    (checkpoint / "config.json").write_text('{"max_position_embeddings": 512, "bos_token_id": 7}')
    python = folder / "python"
    python.write_text(f"#!/bin/sh\nexport FAKE_LOG={shlex.quote(str(folder / 'starts'))}\n{script}\n")
    python.chmod(0o755)
    return _settings(folder)


def _settings(folder: Path) -> dict[str, Any]:
    return {"model_path": str(folder / "checkpoint"), "python": str(folder / "python")}


def starts(folder: Path) -> list[Start]:
    """The processes of `fake_vllm` that were started from a folder, in their order."""
    log = folder / "starts"
    return [Start(*json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


def asked(folder: Path) -> list[tuple[int, str]]:
    """(process, text) of the requests that processes of `fake_vllm` got, in their order."""
    log = folder / "asked"
    return [(pid, text) for pid, text in map(json.loads, log.read_text().splitlines())] if log.exists() else []


def options_on_engine(
    folder: Path, name: str, *, tasks: int = 1, rows: str = "rows.jsonl", work_pool: str | None = None, **engine: Any
) -> RunOptions:
    """Options of a run on a folder's rows and `fake_vllm`; it reuses no answer of a run of another name.

    Args:
        folder: has the rows and what `write_fake_vllm` writes.
        name: of the config.
        tasks: how many; the first is called sums.
        rows: file of the rows.
        work_pool: serves the engine; None starts it in the run's own process.
        **engine: settings of the backend.
    """
    backend = {"backend_id": "engine", "type": "vllm", "config": {**_settings(folder), **engine}}
    adapter: dict[str, Any] = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "engine"}
    file = write_config(
        folder,
        f"{name}.yaml",
        metadata={"name": name},
        datasets=[{"dataset_id": "sums", "params": {"path": rows}}],
        backends=[backend],
        role_adapters=[adapter],
        tasks=[
            {"task_id": f"sums{k or ''}", "dataset_id": "sums", "sampling_params": {"seed": k}} for k in range(tasks)
        ],
    )
    return RunOptions(config=str(file), store=str(folder / "store"), freshness=name, work_pool=work_pool)


def run_on(options: RunOptions, host: SharedEngines) -> RunReader:
    """Run in this process with the engines of a host."""
    return RunReader.open(Locations.at(options.store), run_inline(options, host=host).run_id)


def engines_of(reader: RunReader | GageError) -> set[int]:
    """The processes of `fake_vllm` that gave the answers of a run."""
    assert isinstance(reader, RunReader), reader
    answers = reader.task("sums").artifact("responses").table(columns=["answer"])["answer"].to_pylist()
    return {int(answer.split()[0]) for answer in answers}


def engine_of(guard: int) -> int:
    """The engine's process behind a guard."""
    return wait_for(lambda: children(guard), "the guard starts the engine", every_s=0.01)[0]


def children(pid: int) -> list[int]:
    """Process ids of what the threads of a process started."""
    ids: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                ids += map(int, (thread / "children").read_text().split())
    return ids


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def ends(pid: int, within_s: float = PATIENCE_S) -> bool:
    """Whether a process ends."""
    deadline = time.monotonic() + within_s
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_alive(pid)
