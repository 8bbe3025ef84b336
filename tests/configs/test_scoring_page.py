"""The configs of the page on scoring run and give the numbers that stand beside them."""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

import gage_eval
from gage_eval.runs import RunOptions, run_inline

PAGE = (Path(__file__).parents[2] / "docs" / "scoring.md").read_text(encoding="utf-8")
ROWS: list[dict[str, Any]] = [
    {"id": "a", "question": "Why?", "answer": "So.", "metadata": {"preferred": "A"}},
    {"id": "b", "question": "How?", "answer": "So.", "metadata": {"preferred": "B"}},
]


def block(language: str, start: str) -> str:
    """The one block of the page that begins so."""
    (example,) = (
        text
        for text in re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
        if text.startswith(start)
    )
    return str(example)


def numbers(folder: Path, config: dict[str, Any], rows: list[dict[str, Any]] = ROWS) -> dict[str, float | None]:
    (folder / "questions.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    file = folder / "config.json"
    file.write_bytes(orjson.dumps(config))
    summary = run_inline(RunOptions(config=str(file), store=str(folder / "store"))).summary
    return {metric.metric_id: metric.value for metric in summary.metrics}


def test_a_judges_rating_is_a_score(tmp_path: Path) -> None:
    text = block("yaml", "datasets:")
    assert "8.000" in text
    assert numbers(tmp_path, yaml.safe_load(text)) == {"judge_rating": 8.0, "good": 1.0}


def test_a_judges_verdict_is_an_answer(tmp_path: Path) -> None:
    config = yaml.safe_load(block("yaml", "datasets:")) | yaml.safe_load(
        block("yaml", "metrics:\n  - metric_id: agreement")
    )
    config["backends"][1]["config"] = {"answer": "The first says more: [[A]]"}
    assert numbers(tmp_path, config) == {"agreement": 0.5, "same_by_filter": 0.5}


def test_a_sample_changes_its_judges_prompt(tmp_path: Path) -> None:
    config = yaml.safe_load(block("yaml", "datasets:"))
    config["backends"][1]["config"] = {"mode": "echo"}
    config["prompts"][0]["template"] = "[[{{ prompt_params.scale }}]]"
    other = {"prompt_id": "harsh", "template": "[[1]]"}
    own = [
        {"eval_config": {"judge": {"prompt_params": {"scale": 6}}}},
        {"eval_config": {"judge": {"prompt_id": "harsh"}}},
    ]
    rows = [
        {**row, **rule, "messages": [{"role": "user", "content": "?"}], "label": "So."}
        for row, rule in zip(ROWS, own, strict=True)
    ]
    for row in rows:
        del row["question"], row["answer"]
    config["prompts"].append(other)
    assert numbers(tmp_path, config, rows) == {"judge_rating": 3.5, "good": 0.0}


def test_the_pages_sample_is_scored_under_its_own_tolerance(tmp_path: Path) -> None:
    row = orjson.loads(block("json", '{"id": "s1"'))
    config = {
        "datasets": [{"dataset_id": "far", "params": {"path": "questions.jsonl"}}],
        "backends": [{"backend_id": "model", "type": "dummy", "config": {"answer": "4.4"}}],
        "metrics": ["numeric_match"],
    }
    assert numbers(tmp_path, config, [row, {**row, "id": "s2", "eval_config": {"metrics": {}}}]) == {
        "numeric_match": 0.5
    }


def test_the_pages_call_gives_what_it_says() -> None:
    names: dict[str, Any] = {"gage_eval": gage_eval}
    exec(block("python", "import gage_eval"), names)
    result = names["result"]
    assert (result.values, result.status, result.metadata["extracted"]) == ({"score": 1.0}, "scored", "4.4")


def test_the_pages_own_metrics_are_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(block("python", "from gage_eval.plugins import Score"))
    config = {
        "datasets": [{"dataset_id": "words", "params": {"path": "questions.jsonl"}}],
        "backends": [{"backend_id": "model", "type": "dummy", "config": {"answer": "Source"}}],
        **yaml.safe_load(block("yaml", "metrics:\n  - {metric_id: starts")),
    }
    assert numbers(tmp_path, config) == {"starts": 1.0, "lengths": 3.0}


def judging(parser: Any, answer: str, *metrics: Any) -> dict[str, Any]:
    """The page's judge with another parser of its verdicts, and what it answers."""
    config = yaml.safe_load(block("yaml", "datasets:"))
    config["backends"][1]["config"] = {"answer": answer}
    config["role_adapters"][1]["verdict_parser"] = parser
    return {**config, "metrics": list(metrics)}


_GOOD = {"metric_id": "good", "implementation": "judge_threshold", "params": {"threshold": 0.7}}


def test_the_pages_filters_read_a_verdict(tmp_path: Path) -> None:
    adapters = yaml.safe_load(block("yaml", "role_adapters:"))["role_adapters"]
    agreement = {
        "metric_id": "agreement",
        "implementation": "exact_match",
        "params": {"prediction_field": "judge_output.answer", "label_field": "metadata.preferred"},
    }
    config = judging(None, '<think>So</think>{"verdict": "A", "rating": 0.8}', _GOOD, agreement)
    assert numbers(tmp_path, {**config, "role_adapters": adapters}) == {"good": 1.0, "agreement": 0.5}


def test_the_pages_own_parser_reads_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(block("python", "import re"))
    passed = {
        "metric_id": "passed",
        "implementation": "judge_threshold",
        "params": {"judge_field": "judge_output.passed"},
    }
    config = judging("mine.py:grades", "Fair.\nGrade: 8", _GOOD, passed)
    assert numbers(tmp_path, config) == {"good": 1.0, "passed": 1.0}
    config["role_adapters"][1]["verdict_parser"] = {"mine.py:grades": {"best": 20}}
    assert numbers(tmp_path, config) == {"good": 0.0, "passed": 1.0}
