"""What a config names is made once for a run: checking it, planning it and running it share the same objects."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import ConfigError, EndpointFailed
from gage_eval.config import bound_metric
from gage_eval.engine.runtime import Runtime
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.planned import planned
from tests.support.workspace import write_config, write_rows

PLUGIN = """
from gage_eval.plugins import BaseBackend, Response

built = []


class Counting(BaseBackend):
    type = "counting:Counting"
    capabilities = frozenset({"chat"})

    def __init__(self, config, context):
        super().__init__(config, context)
        built.append(config)

    def identity(self):
        return {"model": "counting"}

    async def call(self, request, body):
        return Response("ok", answer="2")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "counting.py").write_text(PLUGIN)
    write_rows(tmp_path)
    yield tmp_path
    sys.modules.pop("counting", None)


def test_a_run_builds_a_backend_once(here: Path) -> None:
    backends = [{"backend_id": "model", "type": "counting:Counting", "config": {}}]
    adapters = [{"adapter_id": "dut", "role_type": "dut_model", "capabilities": ["chat"]}]
    tasks = [{"task_id": name, "dataset_id": "sums"} for name in ("one", "two")]
    write_config(here, backends=backends, role_adapters=adapters, tasks=tasks)
    run_inline(RunOptions(config="mine.yaml", store="store"))
    assert len(sys.modules["counting"].built) == 1


FILE = """
with open("imports.log", "a") as log:
    log.write("x")


class Hooks:
    def parse(self, response):
        return response


def score(prediction: str) -> float:
    return 1.0


def shorten(text: str) -> str:
    return text[:3]
"""


def test_a_run_imports_a_file_once_however_often_a_config_names_it(here: Path) -> None:
    (here / "mine.py").write_text(FILE)
    metrics = ["mine.py:score", {"metric_id": "short", "implementation": "contains", "filters": ["mine.py:shorten"]}]
    adapters = [{"adapter_id": "a", "role_type": "dut_model", "backend_id": "model", "class_path": "mine.py:Hooks"}]
    tasks = [{"task_id": name, "dataset_id": "sums"} for name in ("one", "two")]
    write_config(here, role_adapters=adapters, tasks=tasks, metrics=metrics)
    run_inline(RunOptions(config="mine.yaml", store="store"))
    assert (here / "imports.log").read_text() == "x"


def test_a_run_binds_each_metric_of_a_task_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound: Counter[str] = Counter()
    bind = bound_metric.bind

    def counting(implementation: str, *args: Any, **kwargs: Any) -> Any:
        bound[implementation] += 1
        return bind(implementation, *args, **kwargs)

    monkeypatch.setattr(bound_metric, "bind", counting)
    tasks = [
        {"task_id": "both", "dataset_id": "sums"},
        {"task_id": "own", "dataset_id": "sums", "metric_overrides": ["contains"]},
    ]
    write_config(here, metrics=["exact_match", "numeric_match"], tasks=tasks)
    run_inline(RunOptions(config="mine.yaml", store="store"))
    assert bound == {"exact_match": 1, "numeric_match": 1, "contains": 1}


def test_a_metric_that_scores_no_task_is_checked_all_the_same(here: Path) -> None:
    own = {"task_id": "own", "dataset_id": "sums", "metric_overrides": ["contains"]}
    write_config(here, metrics=["regex_match(pattern='(')"], tasks=[own])
    with pytest.raises(ConfigError, match=r"metrics\[0\]"):
        planned(RunOptions(config="mine.yaml", store="store"))


def test_a_backend_that_did_not_open_is_built_anew(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config(here)
    spec = planned(RunOptions(config="mine.yaml", store="store")).plan.tasks[0].infer
    first = type(spec.model)
    opening = first.open

    async def fail(self: Any, log_folder: Path | None) -> None:
        raise EndpointFailed("not yet")

    monkeypatch.setattr(first, "open", fail)
    with Runtime() as runtime:
        with pytest.raises(EndpointFailed):
            runtime.backend(spec.backend_type, spec.backend_config, spec.context)
        monkeypatch.setattr(first, "open", opening)
        assert runtime.backend(spec.backend_type, spec.backend_config, spec.context) is not spec.model
