"""Programs on a work pool: the results of a run here, whatever happens to the boxes on the way."""

from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from gage_eval.box.executors import probe
from gage_eval.models.backends import box_service
from gage_eval.runs import RunOptions, run_inline
from tests.support.serving import LocalPool, run_on_pool

_MISSING = probe()[0].problem
in_a_box = pytest.mark.skipif(_MISSING is not None, reason=f"programs cannot be contained here: {_MISSING}")

CONFIG = r"""
datasets: [{dataset_id: mine, params: {path: data.jsonl}}]
backends: [{backend_id: recorded, type: replay, config: {path: answers.jsonl, answer_field: output}}]
metrics: [execution_passed]
tasks:
  - task_id: code
    dataset_id: mine
    execution: {mode: calls, entry: metadata.entry, tests: metadata.tests, limits: {cpu_s: 1.0}, EXTRA}
"""
TOKEN = "right"
Config = Callable[..., RunOptions]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[LocalPool]:
    pool = LocalPool(tmp_path)
    yield pool
    pool.close()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Writes a config of this many programs, each with a file that its sample brings. Every third one is wrong."""

    def written(extra: str = "work_pool: boxes", rows: int = 12, code: str = "", store: str = "store") -> RunOptions:
        tests = ["assert f(1) == int(open('one.txt').read()) + 1"]
        metadata = {"tests": tests, "entry": "f", "execution": {"files": {"one.txt": "one.txt"}}}
        data = [{"id": f"s{row}", "question": "Write f.", "metadata": metadata} for row in range(rows)]
        said = [
            {"id": f"s{row}", "output": f"{code}\ndef f(a):\n    return a + {1 if row % 3 else 2} + 0 * {row}\n"}
            for row in range(rows)
        ]
        (tmp_path / "one.txt").write_text("1")
        for name, records in (("data", data), ("answers", said)):
            (tmp_path / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
        (tmp_path / "code.yaml").write_text(CONFIG.replace("EXTRA", extra))
        return RunOptions(config=str(tmp_path / "code.yaml"), store=str(tmp_path / store))

    return written


def box_pids(pool: LocalPool) -> list[int]:
    """The processes of boxes, children of the servers' guards."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if box_service.__name__.encode() in command and b"-P" in command[:2]:
            pids.append(int(process.name))
    return pids


@in_a_box
def test_a_run_on_a_pool_has_the_results_of_a_run_here_and_a_hit_starts_no_box(config: Config, pool: LocalPool) -> None:
    there, _ = run_on_pool(config("work_pool: boxes, replicas: 2"), pool)
    assert len(pool.servers) == 2
    here = run_inline(config("slots: 2", store="here"))
    assert there.task("code").artifact("executions").id == here.results["code", "auto_eval"].outputs["executions"]
    run_on_pool(config("work_pool: boxes, slots: 3"), pool)
    assert len(pool.servers) == 2
