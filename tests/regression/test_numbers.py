"""Promises of compared numbers: each number of a table can be compared by its printed name, and is the same number."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gage_eval.base.errors import InputError
from gage_eval.extend.registry import aggregations
from gage_eval.regression.baselines import Baselines
from gage_eval.regression.compare import TaskComparisonResult, compare
from gage_eval.regression.gating import gate
from gage_eval.regression.row_scores import RowScores, aggregation_of, pair, reduced
from gage_eval.regression.trend import trend
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.outcomes import Measure
from gage_eval.runs.results.reading import RunReader
from gage_eval.scoring.metrics.aggregations.base import Aggregation, CountedRows, find_aggregation
from gage_eval.scoring.metrics.scale import DEFAULT, Scale
from gage_eval.stats.evidence import PairedRows, evidence
from gage_eval.stats.gate_rule import GateRule
from gage_eval.store import Artifact, Store

SCALES = {
    "share": Scale(low=0, high=1, binary=True),
    "undeclared": DEFAULT,
    "percent": Scale(low=0, high=100, perfect=100),
    "distance": Scale(higher_is_better=False, perfect=0),
    "rating": Scale(low=1, high=10, perfect=10),
    "length": Scale(higher_is_better=None, perfect=None),
}
OWN_METRICS = """
from gage_eval.plugins import metric

@metric("percent", value="pct", bounds=(0, 100), perfect=100)
def percent(prediction: str) -> float:
    return float(prediction)

@metric("distance", value="distance", perfect=0, higher_is_better=False)
def distance(prediction: str) -> float:
    return float(prediction)
"""


def names_of(plugin_name: str) -> str:
    return plugin_name.replace("{k}", "2").replace("{q}", "90")


TERMS = {"corpus_bleu": 10, "corpus_chrf": 18, "corpus_ece": 4, "cruxeval_pass@2": 1, "length_controlled": 3}
OWN_CODE = {"lm_eval"}


def rows_of(how: Aggregation, scale: Scale, data: st.DataObject) -> tuple[CountedRows, int]:
    """Rows of a few samples with replicates, with all that an aggregation reads; and how many samples there are."""
    values = [0.0, 1.0] if scale.binary else [0.0, 0.5, 1.0, 1.8, 10.0, 100.0]
    replicates = st.lists(st.sampled_from(values), min_size=1, max_size=4)
    samples = data.draw(st.lists(replicates, min_size=1, max_size=12))
    codes = np.repeat(np.arange(len(samples)), [len(scores) for scores in samples])
    flat = np.array([value for scores in samples for value in scores])
    weights = terms = None
    if how.takes_weights:
        drawn = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1, 3]), min_size=len(samples), max_size=len(samples)))
        weights = np.array(drawn, np.float64)[codes]
    if how.terms:
        width = TERMS.get(how.name, 2)
        numbers = st.lists(st.integers(1, 9), min_size=width, max_size=width)
        terms = np.array([data.draw(numbers) for _ in flat], np.float64)
        if how.name == "length_controlled":
            # The first one is a win.
            terms[:, 0] %= 2
    texts = {
        "categories": [data.draw(st.sampled_from(["A", "B", "C", None])) for _ in flat] if how.categories else None,
        "references": [data.draw(st.sampled_from(["A", "B", "C"])) for _ in flat] if how.pairs else None,
    }
    return CountedRows(codes, flat, None, weights, terms, scale=scale, **texts), len(samples)


@pytest.mark.parametrize("name", [names_of(plugin.name) for plugin in aggregations if plugin.name not in OWN_CODE])
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_compared_number_is_that_of_the_table(name: str, data: st.DataObject) -> None:
    how, scale = find_aggregation(name), SCALES[data.draw(st.sampled_from(sorted(SCALES)))]
    measure = Measure("m", None, "v", name, scale, aggregation=name)
    assert aggregation_of("task", measure) == how
    rows, samples = rows_of(how, scale, data)
    reduction = how if how.is_mean else find_aggregation("mean")
    per_sample = reduced(rows.values, rows.row_index, samples, reduction, scale)
    weights = None if rows.weights is None else rows.weights[np.unique(rows.row_index, return_index=True)[1]]
    ids = pa.array([f"s{n}" for n in range(samples)])
    for suffix, number in how.compute(rows).items():
        recount = None if how.is_mean else how.recount(rows, suffix)
        scores = RowScores(ids, per_sample, single=False, weights=weights, recount=recount, resamples=how.resamples)
        pairs = pair(scores, [scores]).rows
        if pairs.numbers is not None:
            pairs = replace(pairs, numbers=replace(pairs.numbers, resamples=False))
        compared = evidence(pairs)
        assert (compared.current is None) == (number.value is None)
        if number.value is not None:
            assert compared.current == pytest.approx(number.value)
            assert compared.baseline == pytest.approx(number.value)


@pytest.mark.parametrize("name", [names_of(plugin.name) for plugin in aggregations if "recount" in plugin.info])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_the_fast_way_to_count_samples_again_gives_the_aggregation_s_own_number(name: str, data: st.DataObject) -> None:
    how = find_aggregation(name)
    rows, samples = rows_of(how, DEFAULT, data)
    times = np.array(data.draw(st.lists(st.integers(0, 3), min_size=samples, max_size=samples)))
    for suffix, number in how.compute(rows.repeated(times)).items():
        value = how.recount(rows, suffix)(times)
        assert np.isnan(value) if number.value is None else value == pytest.approx(number.value)


def test_code_that_only_a_path_names_is_not_loaded_to_compare() -> None:
    measure = Measure("m", None, "v", "m worst", DEFAULT, aggregation="worst.py:lower_half")
    with pytest.raises(InputError, match="is not loaded to compare runs"):
        aggregation_of("task", measure)


@pytest.fixture
def scored(tmp_path: Path) -> Callable[..., RunReader]:
    """Makes a run of samples with recorded answers."""
    (tmp_path / "own.py").write_text(OWN_METRICS, encoding="utf-8")

    def run(run_id: str, answers: list[str], metric: dict[str, Any], **sample: Any) -> RunReader:
        lines = [orjson.dumps({"id": f"s{n}", "output": text}) for n, text in enumerate(answers)]
        (tmp_path / f"{run_id}.jsonl").write_bytes(b"\n".join(lines))
        records = [
            {"id": f"s{n}", "question": f"{n}?", "answer": "1 2", **{key: value[n] for key, value in sample.items()}}
            for n in range(len(answers))
        ]
        config = {
            "metadata": {"name": "numbers"},
            "datasets": [{"dataset_id": "d", "loader": "inline", "params": {"records": records}}],
            "backends": [
                {
                    "backend_id": "m",
                    "type": "replay",
                    "config": {"path": f"{run_id}.jsonl", "answer_field": "output"},
                }
            ],
            "metrics": [metric],
            "tasks": [{"task_id": "t", "dataset_id": "d", "replicates": 2}],
        }
        (tmp_path / f"{run_id}.yaml").write_bytes(orjson.dumps(config))
        store = str(tmp_path / "store")
        run_inline(RunOptions(config=str(tmp_path / f"{run_id}.yaml"), run_id=run_id, store=store))
        return RunReader.open(Locations.at(store), run_id)

    return run


def shown(run: RunReader, name: str) -> float | None:
    (number,) = (metric for task in run.summary.tasks for metric in task.metrics if metric.name == name)
    return number.value


def only(results: list[TaskComparisonResult]) -> TaskComparisonResult:
    (result,) = results
    return result


HALF = 20
CASES = {
    "percent pct pass@2": (
        {"metric_id": "percent", "implementation": "own.py:percent", "aggregation": ["mean", "pass@2"]},
        ["100"] * HALF + ["50"] * HALF,
        ["50"] * HALF + ["100"] * HALF,
        (0.5, 0.5, 0.0),
    ),
    "distance pass@1": (
        {"metric_id": "distance", "implementation": "own.py:distance", "aggregation": "pass@1"},
        ["0"] * 36 + ["3"] * 4,
        ["0"] * 16 + ["3"] * 24,
        (0.9, 0.4, -0.5),
    ),
    "token_f1 f1 pass@1": (
        {"metric_id": "token_f1", "aggregation": "pass@1"},
        ["1"] * 40,
        ["2"] * 40,
        (0.0, 0.0, 0.0),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_compare_gate_and_trend_show_the_number_of_the_table(scored: Callable[..., RunReader], name: str) -> None:
    metric, before, after, expected = CASES[name]
    a, b = scored("a", before, metric), scored("b", after, metric)
    result = only(compare(a, b, metric=name))
    assert result.task.measure.name == name
    assert (result.evidence.baseline, result.evidence.current) == (shown(a, name), shown(b, name))
    assert (result.evidence.baseline, result.evidence.current, result.evidence.difference) == pytest.approx(expected)
    entry = Baselines(Store.open(a.stored.folder.locations.store)).add("main", [a], promote=False)
    gated = gate(b, entry, GateRule(), metric=name)
    assert gated.metrics == {"t": [name]}
    assert gated.tasks[0].decision.evidence.current == shown(b, name)
    points = trend(b.stored.folder.locations, entry, metrics=gated.metrics)
    assert {(point.run_id, point.metric, point.value) for point in points} == {
        ("a", name, shown(a, name)),
        ("b", name, shown(b, name)),
    }


COLOURS = ("red", "green", "blue")
WORDS = ["the cat sat on the mat", "a dog ran over the hill", "rain fell all day on us", "we went home by the river"]
# Metric, answers before and after, and further fields of the samples. Each has numbers that are not means.
NO_MEANS: dict[str, tuple[dict[str, Any], list[str], list[str], dict[str, list[Any]]]] = {
    "percentiles": (
        {
            "metric_id": "percent",
            "implementation": "own.py:percent",
            "aggregation": ["median", "p90", "std", "min", "max", "counts"],
            "slices": ["metadata.half"],
        },
        [str(n % 50) for n in range(40)],
        [str((7 * n) % 50) for n in range(40)],
        {"metadata": [{"half": n < HALF} for n in range(40)]},
    ),
    "classes": (
        {
            "metric_id": "classification",
            "aggregation": ["mean", "macro_f1", "micro_f1", "mcc", "class_f1", "class_recall", "confusion"],
            "slices": ["metadata.half"],
            "cluster_field": "metadata.passage",
        },
        [COLOURS[n % 3] if n % 4 else "red" for n in range(40)],
        [COLOURS[n % 3] if n % 5 else "none of them" for n in range(40)],
        {
            "answer": [COLOURS[n % 3] for n in range(40)],
            "metadata": [{"half": n < HALF, "passage": n // 4} for n in range(40)],
        },
    ),
    "bleu": (
        {"metric_id": "bleu", "value_key": "quality"},
        [WORDS[n % 4] for n in range(40)],
        [WORDS[n % 4] if n % 3 else "the cat sat on a hill" for n in range(40)],
        {"answer": [WORDS[n % 4] for n in range(40)]},
    ),
    "instructions": (
        {"metric_id": "chrf", "aggregation": ["corpus_chrf", "median"]},
        [WORDS[n % 4] for n in range(40)],
        [WORDS[n % 4] if n % 3 else "the cat sat on a hill" for n in range(40)],
        {"answer": [WORDS[n % 4] for n in range(40)]},
    ),
}


@pytest.mark.parametrize("name", NO_MEANS)
def test_every_number_that_the_table_prints_is_compared_and_gated_by_its_name(
    scored: Callable[..., RunReader], name: str
) -> None:
    metric, before, after, fields = NO_MEANS[name]
    a, b = scored("a", before, metric, **fields), scored("b", after, metric, **fields)
    entry = Baselines(Store.open(a.stored.folder.locations.store)).add("main", [a], promote=False)
    printed = [number for task in a.summary.tasks for number in task.metrics]
    in_both = {number.name for task in b.summary.tasks for number in task.metrics}
    compared = 0
    for number in printed:
        if number.name not in in_both:
            continue
        result = only(compare(a, b, metric=number.name))
        assert result.task.measure.name == number.name
        assert result.evidence.baseline == pytest.approx(shown(a, number.name))
        assert result.evidence.current == pytest.approx(shown(b, number.name))
        assert all(change.n == HALF for change in result.task.slices)
        compared += 1
        if number.higher_is_better is not None:
            gated = gate(b, entry, GateRule(), metric=number.name)
            assert gated.tasks[0].decision.evidence.current == pytest.approx(shown(b, number.name))
            points = trend(b.stored.folder.locations, entry, metrics=gated.metrics)
            assert [point.value for point in points] == [shown(a, number.name), shown(b, number.name)]
    assert compared >= len({number.name for number in printed} & in_both) > 0


def test_stored_scores_without_counts_are_refused_in_one_sentence(
    scored: Callable[..., RunReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    metric, answers, _, fields = NO_MEANS["bleu"]
    a = scored("a", answers, metric, **fields)
    read = Artifact.read

    def without_counts(artifact: Artifact, index: int, **how: Any) -> pa.Table:
        table = read(artifact, index, **how)
        if "components" not in table.column_names:
            return table
        at = table.column_names.index("components")
        return table.set_column(at, "components", pa.nulls(table.num_rows, pa.string()))

    monkeypatch.setattr(Artifact, "read", without_counts)
    with pytest.raises(InputError, match=r"the stored scores lack the counts that bleu quality is made of.*\.$"):
        compare(a, a)


def test_a_change_within_samples_is_seen_on_every_scale(scored: Callable[..., RunReader]) -> None:
    metric, before, after, _ = CASES["percent pct pass@2"]
    result = only(compare(scored("a", before, metric), scored("b", after, metric), metric="percent pct pass@2"))
    assert (len(result.task.better), len(result.task.worse)) == (HALF, HALF)
    assert not result.task.is_unchanged


def test_weighted_means_are_compared_with_their_weights(scored: Callable[..., RunReader]) -> None:
    metric = {
        "metric_id": "exact_match",
        "aggregation": "weighted_mean",
        "weight_field": "metadata.weight",
    }
    weights = [{"weight": 1.0 if n < HALF else 3.0} for n in range(2 * HALF)]
    a = scored("a", ["1 2"] * 2 * HALF, metric, metadata=weights)
    b = scored("b", ["1 2"] * HALF + ["no"] * 10 + ["1 2"] * 10, metric, metadata=weights)
    result = only(compare(a, b))
    assert result.evidence.current == shown(b, "exact_match") == pytest.approx(50 / 80)
    assert result.evidence.difference == pytest.approx(-30 / 80)
    assert result.evidence.test == "t"


def test_the_spread_of_a_weighted_difference_is_that_of_the_weighted_mean() -> None:
    rng = np.random.default_rng(1)
    current, baseline, weights = rng.random(200), rng.random((1, 200)), rng.integers(1, 5, 200).astype(np.float64)
    numbers = evidence(PairedRows(current, baseline, weights=weights))
    moved = current - baseline[0]
    mean = np.sum(weights * moved) / weights.sum()
    expected = np.sqrt(200 / 199 * np.sum((weights * (moved - mean)) ** 2)) / weights.sum()
    assert numbers.stderr == pytest.approx(expected)
    plain = evidence(PairedRows(current, baseline))
    assert evidence(PairedRows(current, baseline, weights=np.full(200, 2.0))).stderr == pytest.approx(plain.stderr)
