"""The statistics are the official ones, row by row; where a convention of ours differs, the row is listed."""

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vector_differences import HUMANEVAL, INSPECT_METRICS, LM_EVAL_MEDIANS
from vectors import vector_rows

from gage_eval.stats import (
    at_least_k,
    bits_per_byte,
    bootstrap_stderr,
    clustered_stderr,
    clustered_wilson_interval,
    f1,
    macro_mean,
    macro_stderr,
    majority_value,
    matthews_correlation,
    mean_stderr,
    modal_value,
    pass_at_k,
    pass_hat_k,
    perplexity,
    pooled_mean,
    pooled_stderr,
    quantile,
    t_interval,
    weighted_perplexity,
    wilson_interval,
)

Case = tuple[str, Any, Any]
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}


def _rows(shared: Path, name: str, *groups: str) -> Iterator[dict[str, Any]]:
    return (row for row in vector_rows(shared, name) if row["group"] in groups)


def _score(value: Any) -> float:
    """A score as Inspect reads it."""
    return _LETTERS[value] if isinstance(value, str) else float(value)


def _number(value: Any) -> float | None:
    """An official number; None for its NaN."""
    return None if value == "NaN" else _score(value)


def _near(ours: float | None, official: float | None) -> bool:
    """Within the tolerance of the READMEs; a null equals only a null."""
    if ours is None or official is None:
        return ours is official
    return ours == pytest.approx(official, rel=1e-9, abs=1e-9)


def _differing(cases: Iterator[Case]) -> tuple[int, set[str]]:
    """(cases, ids of the rows with one of which we say that it is not known).

    A number of ours is always the official one.
    """
    seen, differing = 0, set()
    for row, ours, official in cases:
        seen += 1
        if not _near(ours, official):
            assert ours is None, row
            differing.add(row)
    return seen, differing


def _intervals(row: str, ours: Any, official: dict[str, Any]) -> Iterator[Case]:
    if "error" in official:
        yield row, ours, None
        return
    for bound, end in enumerate(("lower", "upper")):
        yield row, None if ours is None else ours[bound], _number(official[end])


def test_means_errors_and_intervals_are_inspects(shared: Path) -> None:
    def cases() -> Iterator[Case]:
        for row in _rows(shared, "inspect_ai_metrics", "metrics", "metrics_edge", "metrics_clustered"):
            values, official = [_score(value) for value in row["values"]], row["expected"]
            mean, stderr = mean_stderr(values)
            assert mean is not None
            yield row["id"], mean, official["accuracy"]
            yield row["id"], mean, official["mean"]
            spread = None if stderr is None else stderr * len(values) ** 0.5
            yield row["id"], spread, official["std"]
            yield row["id"], None if spread is None else spread**2, official["var"]
            yield row["id"], stderr, official["stderr"]
            for confidence in (95, 90):
                ours = t_interval(mean, stderr, len(values) - 1, confidence=confidence / 100)
                yield from _intervals(row["id"], ours, official[f"ci_t_{confidence}"])
            yield from _intervals(row["id"], wilson_interval(sum(values), len(values)), official["ci_wilson_95"])
            if "clusters" in row:
                count = len(set(row["clusters"]))
                of_clusters = clustered_stderr(values, row["clusters"])
                yield row["id"], of_clusters, official["clustered_stderr"]
                yield from _intervals(
                    row["id"], t_interval(mean, of_clusters, count - 1), official["clustered_ci_t_95"]
                )
                wilson = clustered_wilson_interval(mean, of_clusters, len(values), count)
                yield from _intervals(row["id"], wilson, official["clustered_ci_wilson_95"])

    seen, differing = _differing(cases())
    assert seen > 68 * 10
    assert differing == set(INSPECT_METRICS)


def _reduced(raw: list[Any], threshold: float = 1.0) -> dict[str, float | None]:
    """By reducer; votes are over the raw values, where I and N differ."""
    values = [_score(value) for value in raw]
    most, first = majority_value(raw), modal_value(raw)
    n, right = len(values), sum(value >= threshold for value in values)
    reduced = {f"{name}_{k}": rule(n, right, k) for k in (1, 2, 3, 5) for name, rule in _RULES.items()}
    return reduced | {
        "mean": mean_stderr(values).mean,
        "median": quantile(np.array(values), 0.5),
        "mode": _number(first),
        "majority": None if most is None else _number(most),
        "max": max(values),
    }


_RULES = {"pass_at": pass_at_k, "pass_k": pass_hat_k, "at_least": at_least_k}


def test_replicates_are_reduced_as_inspect_reduces_epochs(shared: Path) -> None:
    def cases() -> Iterator[Case]:
        for row in _rows(shared, "inspect_ai_metrics", "reducers"):
            full, half = _reduced(row["values"]), _reduced(row["values"], 0.5)
            for name, official in row["expected"].items():
                ours = half[name.removesuffix("_value_0.5")] if name.endswith("_value_0.5") else full[name]
                yield row["id"], ours, _number(official)

    seen, differing = _differing(cases())
    assert (seen, differing) == (50 * 19, set())


def test_several_values_are_reduced_key_by_key(shared: Path) -> None:
    def cases() -> Iterator[Case]:
        for row in _rows(shared, "inspect_ai_metrics", "reducers_dict"):
            for name, official in row["expected"].items():
                for key in official:
                    values = [float(value[key]) for value in row["values"]]
                    yield f"{row['id']}.{name}", _reduced(values)[name], official[key]

    seen, differing = _differing(cases())
    assert seen > 100
    assert differing == set()


def test_pass_at_k_is_humanevals(shared: Path) -> None:
    seen = 0
    for row in _rows(shared, "humaneval_pass_at_k", "single", "corpus"):
        counts = [(row["n"], row["c"])] if row["group"] == "single" else list(zip(row["n"], row["c"], strict=True))
        official = [row["expected"]] if row["group"] == "single" else row["expected"]
        ours = [pass_at_k(n, c, row["k"]) for n, c in counts]
        assert all(_near(a, b) for a, b in zip(ours, official, strict=True)), row["id"]
        if row["group"] == "corpus":
            assert _near(mean_stderr([value for value in ours if value is not None]).mean, row["expected_mean"])
        seen += 1
    assert seen == 118


def test_k_above_n_is_not_known(shared: Path) -> None:
    unknown = {
        row["id"]
        for row in _rows(shared, "humaneval_pass_at_k", "edge:k_above_n")
        if pass_at_k(row["n"], row["c"], row["k"]) is None
    }
    assert unknown == set(HUMANEVAL)
    assert len(unknown) == 7


def test_groups_of_tasks_are_pooled_as_in_the_harness(shared: Path) -> None:
    seen = 0
    for row in _rows(shared, "lm_eval_stats", "subtasks"):
        official, sizes, means, stderrs = row["expected"], row["sizes"], row["metrics"], row["stderrs"]
        assert _near(pooled_mean(sizes, means), official["weighted"]), row["id"]
        assert _near(macro_mean(means), official["unweighted"]), row["id"]
        assert _near(pooled_stderr(sizes, stderrs), official["pooled_stderr"]), row["id"]
        assert _near(macro_stderr(stderrs), official["unweighted_stderr"]), row["id"]
        seen += 1
    assert seen == 20


def test_perplexities_are_the_harness_ones(shared: Path) -> None:
    seen = 0
    for row in _rows(shared, "lm_eval_stats", "perplexity"):
        lls, sizes = zip(*row["weighted_items"], strict=True)
        assert _near(perplexity(row["loglikelihoods"]), row["expected"]["perplexity"]), row["id"]
        assert _near(weighted_perplexity(lls, sizes), row["expected"]["weighted_perplexity"]), row["id"]
        assert _near(bits_per_byte(lls, sizes), row["expected"]["bits_per_byte"]), row["id"]
        seen += 1
    assert seen == 20


def test_f1_and_matthews_correlation_are_the_harness_ones(shared: Path) -> None:
    seen = 0
    for row in _rows(shared, "lm_eval_stats", "f1_mcc"):
        assert _near(f1(row["gold_pred"]), row["expected"]["f1"]), row["id"]
        assert _near(matthews_correlation(row["gold_pred"]), row["expected"]["matthews_corrcoef"]), row["id"]
        seen += 1
    assert seen == 10


def test_bootstrap_errors_are_the_harness_ones_bit_for_bit(shared: Path) -> None:
    def upper_median(values: Any) -> float:
        return float(sorted(values)[len(values) // 2])

    def raw_perplexity(values: Any) -> float:
        value = perplexity(values)
        assert value is not None
        return value

    seen = 0
    for row in _rows(shared, "lm_eval_stats", "bootstrap"):
        losses = [-value for value in row["values"]]
        for name, statistic, values in (
            ("median", upper_median, row["values"]),
            ("mean", statistics.fmean, row["values"]),
            ("perplexity", raw_perplexity, losses),
        ):
            ours = bootstrap_stderr(statistic, values, iterations=row["iters"])
            assert _near(ours, row["expected"][f"{name}_bootstrap_stderr"]), (row["id"], name)
        seen += 1
    assert seen == 12


def test_standard_deviations_and_medians_are_the_harness_ones(shared: Path) -> None:
    differing, seen = set(), 0
    for row in _rows(shared, "lm_eval_stats", "mean_stderr"):
        values, official = row["values"], row["expected"]
        _, stderr = mean_stderr(values)
        if stderr is None:
            assert official["mean_stderr"] is None, row["id"]
        else:
            assert stderr * len(values) ** 0.5 == pytest.approx(official["sample_stddev"], abs=1e-9), row["id"]
            assert stderr * (len(values) - 1) ** 0.5 == pytest.approx(official["pop_stddev"], abs=1e-9), row["id"]
        if not _near(quantile(np.array(values), 0.5), official["median_upper"]):
            differing.add(row["id"])
        seen += 1
    assert seen == 44
    assert differing == set(LM_EVAL_MEDIANS)
