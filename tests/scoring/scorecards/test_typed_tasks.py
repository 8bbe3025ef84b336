"""Tasks with an answer type, run: old configs as before, presets, overrides, parsed answers, cards and exports."""

import json
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
import yaml

import gage_eval
from gage_eval.base.errors import ConfigError
from gage_eval.config.load import parse_config
from gage_eval.pipeline.plan import make_plan
from gage_eval.runs import RunOptions, RunOutcome, run_inline
from gage_eval.scoring.scorecards import CanonicalAnswer
from tests.support.workspace import config, write_config

ENUM = [{"field": "sentiment", "type": "enum", "values": ["positive", "negative", "neutral"]}]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(here: Path, labels: list[str]) -> None:
    records = [{"id": f"s{i}", "question": "?", "answer": label} for i, label in enumerate(labels)]
    (here / "rows.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))


def run(here: Path, answer: str, *, metrics: list[Any] | None = None, export: list[str] | None = None,
        **task: Any) -> RunOutcome:  # fmt: skip
    backends = [{"backend_id": "model", "type": "dummy", "config": {"answer": answer}}]
    tasks = [{"task_id": "t", "dataset_id": "sums", **task}]
    write_config(here, backends=backends, tasks=tasks, metrics=metrics or [], export=export or [])
    return run_inline(RunOptions(config="mine.yaml", store="store", run_id=None))


def numbers(outcome: RunOutcome) -> dict[str, float | None]:
    return {f"{metric.metric_id}.{metric.value_key}": metric.value for metric in outcome.summary.tasks[0].metrics}


def test_without_an_answer_type_nothing_changes(here: Path) -> None:
    rows(here, ["4", "5"])
    metrics = ["exact_match", {"metric_id": "acc", "implementation": "numeric_match", "params": {"tolerance": 1}}]
    plain = run(here, "4", metrics=metrics)
    (task,) = plain.summary.tasks
    assert task.score_card is None
    assert numbers(plain) == {"exact_match.score": 0.5, "acc.score": 1.0}
    document = make_plan(parse_config(yaml.safe_dump(config(metrics=metrics)))).tasks[0].auto_eval.material()
    assert not {"normalization", "parse_schema"} & {key for task in document for key in task["identity"]["scores"]}


@pytest.mark.parametrize("answer_type", ["choice", "number", "list", "text", "reasoning"])
def test_every_answer_type_runs_with_the_shipped_preset(answer_type: str, here: Path) -> None:
    rows(here, ["4", "4"])
    card = run(here, "4", answer_type=answer_type).summary.tasks[0].score_card
    assert card is not None
    assert (card.answer_type, card.primary_score, card.passed, card.error_tags) == (answer_type, 1.0, True, [])
    assert card.primary_metric in card.sub_scores


def test_metrics_of_the_task_win_and_extend_adds_them(here: Path) -> None:
    rows(here, ["4"])
    assert numbers(run(here, "4", answer_type="choice", metrics=["contains"])) == {"contains.score": 1.0}
    own = {"answer_type": "choice", "metric_overrides": ["contains"]}
    assert list(numbers(run(here, "4", **own))) == ["contains.score"]
    assert list(numbers(run(here, "4", **own, metrics_mode="extend"))) == ["choice_acc.score", "contains.score"]


def test_an_unknown_answer_type_is_a_warning_and_the_tasks_metrics_count(here: Path) -> None:
    rows(here, ["4"])
    document = config(tasks=[{"task_id": "t", "dataset_id": "sums", "answer_type": "nubmer"}])
    loaded = parse_config(yaml.safe_dump(document))
    assert any("no preset for answer_type 'nubmer'" in warning for warning in loaded.warnings)
    (task,) = loaded.tasks
    assert [metric.metric_id for metric in task.metrics] == ["exact_match"]
    card = run(here, "4", answer_type="nubmer", metrics=["exact_match"]).summary.tasks[0].score_card
    assert card is not None
    assert (card.primary_metric, card.primary_score, card.passed) == ("exact_match", 1.0, False)


def test_the_mixed_format_reads_its_fields(here: Path) -> None:
    """The third form of the task file: explicit metrics with pred_field beside a parse_schema."""
    rows(here, ["positive", "negative"])
    metrics = [
        {"type": "exact_match", "name": "sentiment_acc", "pred_field": "sentiment"},
        {"type": "field_completeness", "fields": ["sentiment"]},
    ]
    task = {"answer_type": "choice", "parse_schema": ENUM, "metrics": metrics}
    outcome = run(here, 'Sure: {"sentiment": "Positive"}', **task)
    assert numbers(outcome) == {"sentiment_acc.score": 0.5, "field_completeness.completeness": 1.0}
    card = outcome.summary.tasks[0].score_card
    assert card is not None
    assert (card.primary_metric, card.primary_score, card.passed) == ("sentiment_acc", 0.5, True)


def test_a_preset_compares_the_parsed_field(here: Path) -> None:
    rows(here, ["positive", "negative"])
    assert numbers(run(here, "sentiment: Positive!", answer_type="choice", parse_schema=ENUM)) == {
        "choice_acc.score": 0.5
    }


def test_an_answer_without_the_field_is_wrong_and_counted(here: Path) -> None:
    rows(here, ["positive", "negative"])
    outcome = run(here, "I cannot tell.", answer_type="choice", parse_schema=ENUM)
    (metric,) = outcome.summary.tasks[0].metrics
    assert (metric.value, metric.n, metric.unparsed, metric.unscored) == (0.0, 2, 2, 0)
    card = outcome.summary.tasks[0].score_card
    assert card is not None
    assert (card.passed, card.error_tags) == (False, ["unparsed"])


def test_normalisation_is_applied_to_both_sides(here: Path) -> None:
    rows(here, ["5  Kilograms", "5 kg"])
    profile = {
        "normalization": {"unit_aliases": {"kg": ["kilogram", "kilograms"]}},
        "scorers": {"text": {"primary_metric": "exact_match", "metrics": [{"type": "exact_match"}]}},
    }
    (here / "profile.yaml").write_text(yaml.safe_dump(profile))
    outcome = run(here, " 5 KILOGRAM ", answer_type="text", scoring_profile="profile.yaml")
    assert numbers(outcome) == {"exact_match.score": 1.0}
    strict = run(here, " 5 KILOGRAM ", answer_type="text", scoring_profile="profile.yaml",
                 metrics=["exact_match(case_sensitive=True)"])  # fmt: skip
    assert numbers(strict) == {"exact_match.score": 0.0}, "a metric's own word on case counts"


def test_another_profile_of_that_name_is_scored_again(here: Path) -> None:
    rows(here, ["4"])
    passes = []
    for threshold, kind in ((0.5, "exact_match"), (2.0, "exact_match"), (2.0, "contains")):
        preset = {"primary_metric": kind, "pass_threshold": threshold, "metrics": [{"type": kind}]}
        (here / "p.yaml").write_text(yaml.safe_dump({"scorers": {"text": preset}}))
        outcome = run(here, "4", answer_type="text", scoring_profile="p.yaml")
        card = outcome.summary.tasks[0].score_card
        assert card is not None
        computed = [stage for (_, stage), result in outcome.results.items() if not result.cached]
        passes.append((card.passed, computed[-2:] if len(passes) else None))
    assert passes == [(True, None), (False, ["report"]), (False, ["auto_eval", "report"])]


def test_cards_and_canonical_answers_are_exported_by_sample(here: Path) -> None:
    rows(here, ["4", "5"])
    kinds = ["parquet", "jsonl", "canonical_answers"]
    outcome = run(here, "about 4", answer_type="number", export=kinds)
    folder = Path(outcome.folder.location(""))
    lines = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    cards = [line["score_card"] for line in lines]
    assert [(card["primary_score"], card["passed"]) for card in cards] == [(1, True), (0, False)]
    assert cards[0]["sub_scores"] == {"value_abs_error": 0, "value_exact": 1, "value_within_tol": 1}
    column = pq.read_table(folder / "samples.parquet")["score_card"].to_pylist()
    assert [json.loads(text) for text in column] == cards
    answers = [
        CanonicalAnswer.model_validate_json(line)
        for line in (folder / "canonical_answers.jsonl").read_text().splitlines()
    ]
    assert [answer.sample_id for answer in answers] == ["s0", "s1"]
    assert answers[0].prediction == {"text": "about 4", "extracted": "4", "replicate": 0}
    assert answers[1].ground_truth["label"] == "5"
    assert (answers[0].meta.pass_threshold, answers[0].meta.scorer_version) == (0.5, None)
    run_ = gage_eval.open_run(outcome.run_id, store="store")
    assert json.loads(run_.samples()["score_card"][0].as_py()) == cards[0]


def test_samples_without_an_answer_type_have_no_card(here: Path) -> None:
    rows(here, ["4"])
    outcome = run(here, "4", metrics=["exact_match"], export=["jsonl"])
    assert "score_card" not in json.loads(Path(outcome.folder.location("samples.jsonl")).read_text())


def test_canonical_answers_are_refused_in_a_config_without_an_answer_type(here: Path) -> None:
    rows(here, ["4"])
    with pytest.raises(ConfigError, match=r"export\[1\]: no task has an answer type, .* Set answer_type in a task"):
        run(here, "4", metrics=["exact_match"], export=["jsonl", "canonical_answers"])


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"scoring_profile": "default"}, "add it, or remove the profile"),
        ({"answer_type": "choice", "scoring_profile": "defalt"}, "Did you mean 'default'?"),
        ({"parse_schema": [{"field": "a.b", "type": "text"}]}, "parse_schema[0].field"),
        ({"parse_schema": [{"field": "a", "type": "enum"}]}, "needs 'values'"),
        ({"parse_schema": [{"field": "a", "type": "list", "values": ["x"]}]}, "those of an enum"),
        ({"parse_schema": [{"field": "a", "type": "text"}, {"field": "A", "type": "text"}]}, "there twice"),
        ({"metrics": ["exact_match(pred_field='model_output.parsed.x')"]}, "needs a parse_schema"),
        (
            {"parse_schema": ENUM, "metrics": ["exact_match(pred_field='model_output.parsed.sentimnt')"]},
            "Did you mean 'sentiment'?",
        ),
    ],
)
def test_mistakes_are_refused_before_anything_runs(task: dict[str, Any], said: str) -> None:
    document = config(tasks=[{"task_id": "t", "dataset_id": "sums", **task}])
    with pytest.raises(ConfigError) as refusal:
        parse_config(yaml.safe_dump(document))
    assert said in str(refusal.value)


def test_a_shared_metric_reads_only_what_its_task_parses(here: Path) -> None:
    rows(here, ["4"])
    metric = "exact_match(pred_field='model_output.parsed.sentiment')"
    tasks = [
        {"task_id": "a", "dataset_id": "sums", "parse_schema": ENUM},
        {"task_id": "b", "dataset_id": "sums"},
    ]
    with pytest.raises(ConfigError, match=r"tasks\[1\]: metric 'exact_match': .* needs a parse_schema"):
        parse_config(yaml.safe_dump(config(tasks=tasks, metrics=[metric])))
