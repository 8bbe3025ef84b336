"""Log-likelihoods of the harness's tasks are those of its own `hf` model, with the same weights."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from real_engines import config_of

import gage_eval
from gage_eval.authoring.lm_eval import harness_suite
from gage_eval.store import Store
from tests.scoring.harness.local_tasks import write_group
from tests.vllm.record_harness import ROWS, TASKS, WINDOW

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]

RECORDED = json.loads(Path(__file__).with_name("harness_likelihoods.json").read_text(encoding="utf-8"))
# Both add up to a few dozen log probabilities in float32, in batches of different shape and on other processors.
TOLERANCE, OF_VALUE = 1e-4, 5e-6


def test_each_row_has_the_log_likelihoods_of_the_harness(tmp_path: Path) -> None:
    suite = harness_suite(str(write_group(tmp_path, TASKS, ROWS)), tmp_path / "cache")
    config = yaml.safe_load(suite.read_text(encoding="utf-8"))
    # We keep room for one more token, and count the token before a text as the model's.
    model = config_of("transformers", max_model_len=WINDOW + 2)
    config["backends"] = [{"backend_id": "model", "type": "transformers", "config": model}]
    suite.write_text(yaml.safe_dump(config), encoding="utf-8")
    run = gage_eval.run(suite, store=str(tmp_path / "store"))
    store = Store.open(str(tmp_path / "store"), read_only=True)
    record = json.loads((tmp_path / "store" / "runs" / run.run_id / "run.json").read_text(encoding="utf-8"))
    ours = {task: _rows(store, record["stages"][f"{task}/infer"]["outputs"]["responses"]) for task in TASKS}
    assert RECORDED["tasks"].keys() == ours.keys()
    for task, rows in RECORDED["tasks"].items():
        assert [len(row) for row in ours[task]] == [len(row) for row in rows], task
        for number, row in enumerate(rows):
            assert ours[task][number] == pytest.approx(row, rel=OF_VALUE, abs=TOLERANCE), f"{task}, row {number}"


def _rows(store: Store, artifact: str) -> list[list[float]]:
    table = store.artifact(artifact).table(columns=["row_index", "logprobs"]).to_pylist()
    told: list[dict[str, Any]] = [
        json.loads(row["logprobs"]) for row in sorted(table, key=lambda row: row["row_index"])
    ]
    return [[float(choice["ll"]) for choice in [*each["choices"], *each.get("unconditioned", ())]] for each in told]
