"""Promises of comparisons: samples are paired by id, and what is not comparable is refused by name."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from gage_eval.base.errors import InputError, NotComparable
from gage_eval.base.stages import Stage
from gage_eval.regression.compare import TaskComparisonResult, compare
from gage_eval.regression.run_diff import run_differences
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from tests.support.endpoint import mock_endpoint
from tests.support.workspace import JUDGED, write_config

TOPICS = ("even", "odd")


def write_questions(folder: Path, count: int, *, name: str = "rows.jsonl", **more: Any) -> None:
    rows = [
        {"id": f"s{n}", "question": f"{n} + 1 = ?", "answer": str(n + 1), "data_tag": {"topic": TOPICS[n % 2]}, **more}
        for n in range(count)
    ]
    (folder / name).write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def run(folder: Path, run_id: str, right: set[int], count: int = 40, **changes: Any) -> RunReader:
    """A run whose model answers the questions of these numbers right and all others wrong."""
    answers = [{"id": f"s{n}", "output": str(n + 1) if n in right else "no"} for n in range(count)]
    (folder / f"{run_id}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in answers))
    backend = {
        "backend_id": "model",
        "type": "replay",
        "config": {"path": f"{run_id}.jsonl", "answer_field": "output"},
    }
    metrics = [{"metric_id": "exact_match", "slices": ["data_tag.topic"]}]
    file = write_config(folder, f"{run_id}.yaml", **{"backends": [backend], "metrics": metrics, **changes})
    run_inline(RunOptions(config=str(file), run_id=run_id, store=str(folder / "store")))
    return RunReader.open(Locations.at(str(folder / "store")), run_id)


def only(results: list[TaskComparisonResult]) -> TaskComparisonResult:
    assert len(results) == 1
    return results[0]


def test_the_difference_is_that_of_pairs_and_names_what_changed(tmp_path: Path) -> None:
    write_questions(tmp_path, 40)
    a = run(tmp_path, "a", set(range(20)))
    b = run(tmp_path, "b", set(range(2, 30)))
    result = only(compare(a, b))
    assert (result.evidence.n, result.evidence.baseline, result.evidence.current) == (40, 0.5, 0.7)
    assert result.evidence.difference == pytest.approx(0.2)
    assert result.evidence.test == "mcnemar"
    assert result.evidence.low < 0.2 < result.evidence.high
    # 2 became wrong, 10 right: McNemar's exact p
    assert result.p == pytest.approx(158 / 4096)
    assert sorted(result.task.worse) == ["s0", "s1"]
    assert sorted(result.task.better, key=lambda name: int(name[1:])) == [f"s{n}" for n in range(20, 30)]
    assert {(x.name, x.n, round(x.difference, 6)) for x in result.task.slices} == {
        ("data_tag.topic = even", 20, 0.2),
        ("data_tag.topic = odd", 20, 0.2),
    }
    record = result.as_record()
    assert record["p_holm"] == result.p
    assert [x["kind"] for x in record["differences"]] == ["model"]


def test_a_run_compared_with_itself_has_no_difference_and_still_an_interval(tmp_path: Path) -> None:
    write_questions(tmp_path, 40)
    a = run(tmp_path, "a", set(range(20)))
    result = only(compare(a, a))
    assert result.evidence.difference == 0
    assert result.evidence.low < -0.05
    assert (result.task.better, result.task.worse, result.task.differences) == ([], [], [])
    assert result.notes == ("all 40 samples in both runs score the same",)
    assert result.detectable is None, "nothing is known of how scores vary"
    assert run_differences(a, a) == []


def test_samples_in_one_run_only_are_counted(tmp_path: Path) -> None:
    write_questions(tmp_path, 40)
    a = run(tmp_path, "a", set(range(20)))
    write_questions(tmp_path, 30)
    b = run(tmp_path, "b", set(range(20)))
    for result in (only(compare(a, b)), only(compare(b, a))):
        assert result.evidence.n == 30
        assert result.task.pairing.unpaired == 10
        assert result.task.pairing.samples == 40
        assert "10 of 40 samples are in one run only" in result.notes[0]


def test_samples_that_only_one_run_has_scored_are_counted(tmp_path: Path) -> None:
    write_questions(tmp_path, 40)
    a = run(tmp_path, "a", set(range(20)))
    b = run(
        tmp_path,
        "b",
        set(range(20)),
        count=38,
        tasks=[{"task_id": "sums", "dataset_id": "sums", "max_error_share": 1.0}],
    )
    result = only(compare(a, b))
    assert (result.evidence.n, result.task.pairing.unpaired) == (38, 2)


def test_a_judge_that_is_asked_again_on_another_day_is_the_same_scorer(tmp_path: Path) -> None:
    write_questions(tmp_path, 40)
    (model, judge) = JUDGED["backends"]
    judge = {**judge, "config": {"answer": "Rating: [[3]]"}}
    file = write_config(tmp_path, **{**JUDGED, "backends": [model, judge]}, metrics=["judge_rating"])
    store = str(tmp_path / "store")
    for day in ("2026-03-01", "2026-03-02"):
        run_inline(RunOptions(config=str(file), run_id=day, store=store, freshness=day))
    a, b = (RunReader.open(Locations.at(store), day) for day in ("2026-03-01", "2026-03-02"))
    assert only(compare(a, b)).evidence.difference == 0
    assert {difference.kind for _, difference in run_differences(a, b)} == {"model"}


def test_other_prompts_are_refused_by_name_and_allowed_on_request(tmp_path: Path) -> None:
    write_questions(tmp_path, 40)
    a = run(tmp_path, "a", set(range(20)))
    params = {"path": "rows.jsonl", "preprocess_kwargs": {"system_prompt": "Be brief."}}
    b = run(tmp_path, "b", set(range(20)), datasets=[{"dataset_id": "sums", "params": params}])
    with pytest.raises(InputError, match=r"task 'sums': different prompts in b and a: .*system_prompt.*Be brief\."):
        compare(a, b)
    with pytest.raises(InputError, match=r"--allow-different 'prompt' is unknown.*Did you mean 'prompts'"):
        compare(a, b, allowed=["prompt"])
    assert only(compare(a, b, allowed=["prompts"])).allowed == ("prompts",)
    write_questions(tmp_path, 40, reference_answer="other")
    c = run(tmp_path, "c", set(range(20)), datasets=[{"dataset_id": "sums", "params": params}])
    with pytest.raises(InputError, match="different data in c and a: 40 samples of the same id differ"):
        compare(a, c, allowed=["prompts"])


def test_another_scorer_is_refused_by_name(tmp_path: Path) -> None:
    write_questions(tmp_path, 40)
    a = run(tmp_path, "a", set(range(20)))
    other = [{"metric_id": "exact_match", "implementation": "contains"}]
    b = run(tmp_path, "b", set(range(20)), metrics=other)
    with pytest.raises(InputError, match=r"different scorer in b and a: .*exact_match → contains"):
        compare(a, b)


def test_a_metric_that_only_one_run_has_is_named(tmp_path: Path) -> None:
    write_questions(tmp_path, 40)
    a = run(tmp_path, "a", set(range(20)))
    b = run(tmp_path, "b", set(range(20)), metrics=["contains", "exact_match"])
    with pytest.raises(NotComparable, match="metric 'contains' of b is not in a, which has exact_match"):
        compare(a, b)
    assert only(compare(a, b, metric="exact_match")).evidence.difference == 0


@pytest.mark.parametrize("stage", ["auto_eval", "infer", "preprocess"])
def test_a_result_that_the_store_has_lost_is_no_difference_of_scorer_or_prompt(tmp_path: Path, stage: Stage) -> None:
    write_questions(tmp_path, 40)
    a, b = run(tmp_path, "a", set(range(20))), run(tmp_path, "b", set(range(10)))
    key = a.stored.stages["sums", stage].key
    (lost,) = (tmp_path / "store" / "actions" / stage).glob(f"{key}*")
    lost.unlink()
    with pytest.raises(InputError, match=f"the store has lost what stage {stage} computed"):
        compare(a, b)


def test_changed_samples_are_refused_and_more_samples_are_not(tmp_path: Path) -> None:
    write_questions(tmp_path, 40)
    a = run(tmp_path, "a", set(range(20)))
    text = (tmp_path / "rows.jsonl").read_text(encoding="utf-8").replace("7 + 1 = ?", "7 + 1 = how many?")
    (tmp_path / "rows.jsonl").write_text(text, encoding="utf-8")
    b = run(tmp_path, "b", set(range(20)))
    with pytest.raises(InputError, match=r"4 samples of the same id differ, 's7' among them"):
        compare(a, b)
    assert only(compare(a, b, allowed=["data"])).allowed == ("data",)
    assert only(compare(a, a, allowed=["data"])).allowed == ()


def test_replicates_are_averaged_first(tmp_path: Path) -> None:
    write_questions(tmp_path, 40)
    tasks = [{"task_id": "sums", "dataset_id": "sums", "replicates": 2}]
    a = run(tmp_path, "a", set(range(20)), tasks=tasks)
    b = run(tmp_path, "b", set(range(10)), tasks=tasks)
    result = only(compare(a, b))
    assert (result.evidence.n, result.evidence.test) == (40, "t")
    assert result.evidence.difference == pytest.approx(-0.25)


def test_several_tasks_share_one_level(tmp_path: Path) -> None:
    write_questions(tmp_path, 40)
    tasks = [{"task_id": name, "dataset_id": "sums"} for name in ("first", "second")]
    a = run(tmp_path, "a", set(range(20)), tasks=tasks)
    b = run(tmp_path, "b", set(range(2, 30)), tasks=tasks)
    results = compare(a, b)
    assert [result.p for result in results] == [pytest.approx(2 * 158 / 4096)] * 2
    assert len(compare(a, b, task_id="second")) == 1


def test_runs_without_a_common_task_are_refused(tmp_path: Path) -> None:
    write_questions(tmp_path, 40)
    a = run(tmp_path, "a", set())
    b = run(tmp_path, "b", set(), tasks=[{"task_id": "others", "dataset_id": "sums"}])
    with pytest.raises(InputError, match="runs a and b share no task: sums and others"):
        compare(a, b)


def test_runs_without_a_common_sample_are_not_comparable(tmp_path: Path) -> None:
    write_questions(tmp_path, 40)
    a = run(tmp_path, "a", set(range(20)))
    rows = [{"id": f"other{n}", "question": f"{n} + 1 = ?", "answer": str(n + 1)} for n in range(40)]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    answers = [{"id": f"other{n}", "output": "no"} for n in range(40)]
    (tmp_path / "others.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in answers))
    recorded = {"path": "others.jsonl", "answer_field": "output"}
    b = run(tmp_path, "b", set(), backends=[{"backend_id": "model", "type": "replay", "config": recorded}])
    for allowed in ((), ("data",)):
        with pytest.raises(InputError, match="task 'sums' is not comparable: no sample of b is in a"):
            compare(a, b, allowed=allowed)


def test_a_number_without_a_known_error_is_shown_without_a_test(tmp_path: Path) -> None:
    write_questions(tmp_path, 40)
    metrics = [{"metric_id": "exact_match", "aggregation": "max"}]
    a = run(tmp_path, "a", set(range(20)), metrics=metrics)
    b = run(tmp_path, "b", set(), metrics=metrics)
    result = only(compare(a, b))
    assert (result.evidence.difference, result.evidence.test, result.evidence.bounds) == (-1, "none", None)
    assert any("no interval and no test" in note for note in result.notes)


def test_diff_names_config_model_and_versions(tmp_path: Path) -> None:
    write_questions(tmp_path, 40)
    a = run(tmp_path, "a", set(range(20)))
    b = run(tmp_path, "b", set(range(10)), tasks=[{"task_id": "sums", "dataset_id": "sums", "replicates": 2}])
    differing = {(task_id, difference.kind, difference.path) for task_id, difference in run_differences(a, b)}
    assert {("sums", "sampling", "replicates")} <= differing
    assert any(kind == "model" for _, kind, _ in differing)
    assert not any(kind == "data" for _, kind, _ in differing)


def test_diff_names_the_environment_and_what_the_engine_calls_itself(tmp_path: Path) -> None:
    write_questions(tmp_path, 4)
    with mock_endpoint() as endpoint:
        config = {"base_url": endpoint.url, "model": "mock"}
        a = run(tmp_path, "a", set(), backends=[{"backend_id": "model", "type": "openai_http", "config": config}])
    b = run(tmp_path, "b", set(range(4)))
    record = tmp_path / "store" / "runs" / "b" / "run.json"
    numpy = b.stored.record.packages["numpy"]
    record.write_text(record.read_text(encoding="utf-8").replace(f'"{numpy}"', '"0.1"'), encoding="utf-8")
    values = {
        (difference.kind, difference.path): (difference.a, difference.b)
        for _, difference in run_differences(a, RunReader.open(a.stored.folder.locations, "b"))
    }
    assert values["environment", "packages.numpy"] == (numpy, "0.1")
    # Recorded answers have no engine that names itself.
    assert values["engine", "model_fingerprint"] == ("mock", None)
