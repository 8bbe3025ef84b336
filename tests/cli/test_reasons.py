"""Decisions read typed reasons: the words beside scores and judgments change nothing."""

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from gage_eval.base.statuses import REASONS
from gage_eval.store import Store
from gage_eval.store.artifacts import ArtifactWriter
from tests.cli.conftest import Gage
from tests.support.workspace import write_config

MODEL = '''
class Model:
    """Answers by the question; `ask` has none for the judge to look at."""

    def generate(self, request):
        text = request["messages"][-1]["content"]
        if "fails" in text:
            raise ValueError("no answer to that")
        if "ask" in text:
            return {"tool_calls": [{"function": {"name": "ask", "arguments": "{}"}}]}
        return "I am not sure." if "words" in text else "2"


class Judge:
    """Rates by the sample's id, which its prompt shows."""

    def generate(self, request):
        text = request["messages"][-1]["content"]
        if "broken" in text:
            raise ValueError("the judge is ill")
        if "shy" in text:
            return {"status": "refused", "answer": "I would rather not."}
        if "garbled" in text:
            return "SCORE: one"
        return "Hm." if "silent" in text else "SCORE: 1"
'''
METRIC = """
from gage_eval.plugins import Verdict


def rating(text: str) -> Verdict | None:
    return Verdict(score=float(text.removeprefix("SCORE: "))) if text.startswith("SCORE") else None


def picky(prediction: str, reference: str) -> float:
    if reference == "3":
        raise ValueError("not a three, please")
    return 1.0
"""
RECORDS: list[dict[str, Any]] = [
    {"id": "right", "label": "2"},
    {"id": "wrong", "label": "3"},
    {"id": "words", "label": "2"},
    {"id": "fails", "label": "2"},
    {"id": "ask", "label": "2"},
    {"id": "broken", "label": "2"},
    {"id": "shy", "label": "2"},
    {"id": "silent", "label": "none"},
    {"id": "garbled", "label": "2"},
    {"id": "odd", "label": "2", "eval_config": {"judge": {"prompt_id": "gone"}}},
    {"id": "typo", "label": "2", "eval_config": {"metrics": {"numeric_match": {"tolerence": 1}}}},
    {"id": "rich", "label": "2", "metadata": {"hint": "2"}},
]
SHOWN = ("fails", "odd")
CONFIG: dict[str, Any] = {
    "backends": [
        {"backend_id": "model", "type": "custom_script", "config": {"file_path": "models.py", "class_name": "Model"}},
        {"backend_id": "judge", "type": "custom_script", "config": {"file_path": "models.py", "class_name": "Judge"}},
    ],
    "prompts": [{"prompt_id": "rate", "template": "Rate {{ sample.id }}: {{ model_answer }}"}],
    "role_adapters": [
        {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"},
        {
            "adapter_id": "judge",
            "role_type": "judge_model",
            "backend_id": "judge",
            "prompt_id": "rate",
            "verdict_parser": "mine.py:rating",
        },
    ],
    "metrics": [
        "exact_match",
        "numeric_match",
        "judge_threshold",
        {"metric_id": "picky", "implementation": "mine.py:picky"},
        {"metric_id": "hinted", "implementation": "exact_match", "params": {"label_field": "metadata.hint"}},
        {
            "metric_id": "defaulted",
            "implementation": "exact_match",
            "params": {"label_field": "metadata.hint", "default": 0.5},
        },
        {"metric_id": "digits", "implementation": "exact_match", "filters": [{"regex": {"pattern": "[0-9]"}}]},
        {"metric_id": "first", "implementation": "latency", "params": {"target_field": "model_output.ttft_ms"}},
    ],
}


def task(max_unscored_share: float) -> dict[str, Any]:
    return {
        "task_id": "sums",
        "dataset_id": "sums",
        "judge_adapter_id": "judge",
        "answer_type": "numeric",
        "max_error_share": 1.0,
        "max_unscored_share": max_unscored_share,
    }


@pytest.fixture(autouse=True)
def odd_rows(workspace: Path) -> None:
    """Rows that go wrong in every way that has a reason."""
    (workspace / "models.py").write_text(MODEL)
    (workspace / "mine.py").write_text(METRIC)
    records = [{**record, "messages": [{"role": "user", "content": f"{record['id']}?"}]} for record in RECORDS]
    (workspace / "rows.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))


def explained_by_x(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on each ``explanation`` that a stage writes is ``x``, there or not."""
    write = ArtifactWriter.write

    def writing(self: ArtifactWriter, part_index: int, table: pa.Table, parquet: bytes | None = None) -> Any:
        if "explanation" in table.column_names:
            words = pa.array(["x"] * table.num_rows, pa.string())
            table = table.set_column(table.column_names.index("explanation"), "explanation", words)
        return write(self, part_index, table, parquet)

    monkeypatch.setattr(ArtifactWriter, "write", writing)


def without_words(value: Any) -> Any:
    """A JSON value without explanations, measured times and the ids of artifacts that hold explanations."""
    left_out = {"explanation", "explain", "timings", "latency_ms", "seconds"}
    if isinstance(value, dict):
        return {
            name: without_words(item) for name, item in value.items() if name not in left_out and not _is_id(name, item)
        }
    return [without_words(item) for item in value] if isinstance(value, list) else value


def _is_id(name: str, item: Any) -> bool:
    return name == "scores" and isinstance(item, str)


def tables(store: Store, outputs: dict[str, str]) -> dict[str, Any]:
    """The judgments, the metrics and the scores of each metric."""
    metrics = store.artifact(outputs["metrics"]).table().to_pylist()
    scores = {row["metric_id"]: store.artifact(row["scores"]).table().to_pylist() for row in metrics}
    return {"metrics": metrics, "judgments": store.artifact(outputs["judgments"]).table().to_pylist(), **scores}


def outcome(gage: Gage, folder: str, share: float) -> tuple[Any, set[str | None], set[str | None]]:
    """All that a run and its export came to, without words; the reasons that it gave, and its explanations."""
    write_config(Path.cwd(), **CONFIG, tasks=[task(share)])
    ran = gage("run", "mine.yaml", "--inline", "--run-id", "r", "--store", folder)
    shown = gage("show", "r", "--store", folder, "--json").json
    store = Store.open(folder, read_only=True)
    outputs: dict[str, str] = {}
    for action in (*store.actions.all("judge"), *store.actions.all("auto_eval")):
        outputs |= action.outputs
    by_name = tables(store, outputs)
    rows = [row for name, table in by_name.items() if name != "metrics" for row in table]
    samples = [gage("show", "r", "--store", folder, "--sample", name, "--json").json for name in SHOWN]
    told = without_words([ran.code, shown.get("status"), shown.get("summary"), by_name, samples])
    return told, {row["reason"] for row in rows}, {row["explanation"] for row in rows}


@pytest.mark.parametrize(("share", "code"), [(1.0, 0), (0.05, 1)])
def test_with_other_words_nothing_changes(share: float, code: int, gage: Gage, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, reasons, _ = outcome(gage, "plain", share)
    assert plain[0] == code
    # Programs are run in tests/pipeline/test_executions.py.
    assert reasons == {None, *REASONS} - {"not_run", "box_error"}, "each reason is met, so that each decision is"
    explained_by_x(monkeypatch)
    masked, _, words = outcome(gage, "masked", share)
    assert words == {"x"}
    assert orjson.dumps(masked) == orjson.dumps(plain)
