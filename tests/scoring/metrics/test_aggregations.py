"""Promises of aggregations: each is what it says, over replicates, clusters, weights and stored components."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_tables import responses, sample, samples
from support.registered import keep

from gage_eval.base.errors import InputError
from gage_eval.extend import registry
from gage_eval.scoring.metrics import BoundMetric, Score, bind, metric
from gage_eval.scoring.metrics.aggregate import MOST_SLICES
from gage_eval.scoring.metrics.aggregations.base import find_aggregation
from gage_eval.stats import clustered_stderr, pass_at_k, pass_hat_k, t_interval

NO_STATUSES: dict[str, int] = {}


def counted(prediction: str) -> Score:
    """Followed and given instructions, as ``2/3``."""
    followed, given_ = (int(part) for part in prediction.split("/"))
    return Score({"inst": followed / given_, "all": float(followed == given_)}, components={"inst": [followed, given_]})


def nats(prediction: str) -> Score:
    """A log-likelihood and a length, as ``-2.5/3``."""
    likelihood, length = prediction.split("/")
    return Score(1.0, components={"ppl": [float(likelihood), float(length)]})


def odd(prediction: str) -> Score:
    """Components as the answer has them."""
    return Score(1.0, components={"odd": [1.0] * len(prediction)} if prediction.islower() else {"odd": prediction})


@pytest.fixture(scope="module", autouse=True)
def _metrics_of_this_module() -> Iterator[None]:
    """Known while this module runs only, not from its import on: other tests list what is registered."""
    with pytest.MonkeyPatch.context() as patch:
        keep(patch, registry.metrics)
        metric("test_counted", value="inst", aggregate={"inst": "ratio"})(counted)
        metric("test_nats", value="ppl", aggregate="perplexity")(nats)
        metric("test_odd", value="odd", aggregate="ratio")(odd)
        yield


def aggregated(
    bound: BoundMetric, answers: Sequence[str | Sequence[str]], fields: Sequence[dict[str, Any]] = (), parts: int = 1
) -> list[dict[str, Any]]:
    """Metrics rows of answers (or replicates of answers) whose label is "1"."""
    rows = [sample(row, "1", **(fields[row] if fields else {})) for row in range(len(answers))]
    requested = [
        {"row_index": row, "replicate": replicate, "answer": text}
        for row, texts in enumerate(answers)
        for replicate, text in enumerate([texts] if isinstance(texts, str) else texts)
    ]
    wanted, answered = samples(rows), responses(requested)
    table = bound.grouping.label(
        bound.score_table({"samples": wanted, "responses": answered}), {"samples": wanted, "responses": answered}
    )
    edges = np.linspace(0, table.num_rows, parts + 1).astype(int)
    tables = [table.slice(start, stop - start) for start, stop in pairwise(edges)]
    return bound.aggregate(tables, NO_STATUSES)


def values(rows: list[dict[str, Any]]) -> dict[str, float | None]:
    """Value by key and aggregation."""
    return {f"{row['value_key']} {row['aggregation']}": row["value"] for row in rows}


def test_several_aggregations_are_several_rows() -> None:
    names = ["mean", "median", "p90", "min", "max", "std", "identity"]
    numbers = values(aggregated(bind("text_length", aggregation=names), ["x" * n for n in (1, 2, 3, 4, 10)]))
    assert numbers == {
        "length mean": 4.0,
        "length median": 3.0,
        "length p90": pytest.approx(7.6),
        "length min": 1.0,
        "length max": 10.0,
        "length std": pytest.approx(np.std([1, 2, 3, 4, 10], ddof=1)),
        "length identity": None,
    }


def test_identity_is_the_value_of_the_only_sample() -> None:
    assert values(aggregated(bind("text_length", aggregation="identity"), ["abc"])) == {"length identity": 3.0}


def test_nothing_scored_is_null_in_every_aggregation() -> None:
    names = ("median", "p99", "min", "max", "std", "identity", "pass@2", "best", "mode", "majority", "weighted_mean")
    for name in names:
        (row,) = aggregated(bind("exact_match", aggregation=name), [])
        assert (row["value"], row["stderr"], row["ci_low"], row["n"], row["rows"]) == (None, None, None, 0, 0), name
    for name in ("test_counted", "test_nats"):
        assert aggregated(bind(name), [])[0]["value"] is None


def test_pass_at_k_reads_the_replicates_of_a_sample_together() -> None:
    answers = [["1", "1", "0", "0"], ["0", "0", "0", "1"], ["0"] * 4]
    numbers = values(aggregated(bind("exact_match", aggregation=["pass@2", "pass^2", "at_least@2", "best"]), answers))
    assert numbers == {
        "score pass@2": pytest.approx(sum(pass_at_k(4, c, 2) or 0 for c in (2, 1, 0)) / 3),
        "score pass^2": pytest.approx(sum(pass_hat_k(4, c, 2) or 0 for c in (2, 1, 0)) / 3),
        "score at_least@2": pytest.approx(1 / 3),
        "score best": pytest.approx(2 / 3),
    }


def test_samples_with_fewer_replicates_than_k_are_left_out_and_that_is_seen() -> None:
    (row,) = aggregated(bind("exact_match", aggregation="pass@3"), [["1", "0", "0"], ["1"]])
    assert (row["value"], row["n"], row["rows"]) == (1.0, 1, 4)
    (row,) = aggregated(bind("exact_match", aggregation="pass@5"), [["1", "0", "0"], ["1"]])
    assert (row["value"], row["n"]) == (None, 0)


def test_votes_over_replicates() -> None:
    numbers = values(
        aggregated(bind("exact_match", aggregation=["mode", "majority"]), [["1", "0", "1"], ["0", "1"], ["0", "0"]])
    )
    # The tie has no majority and is left out of it; its mode is the first.
    assert numbers == {"score mode": pytest.approx(1 / 3), "score majority": 0.5}


def test_counts_are_one_number_a_value() -> None:
    numbers = values(aggregated(bind("exact_match", aggregation="counts"), ["1", "1", "0"]))
    assert numbers == {"score=0 counts": 1.0, "score=1 counts": 2.0}
    bound = bind("numeric_match", aggregation="extracted_counts")
    assert values(aggregated(bound, ["so 1", "1", "7", "none"])) == {
        "score= extracted_counts": 1.0,
        "score=1 extracted_counts": 2.0,
        "score=7 extracted_counts": 1.0,
    }


def test_too_many_categories_are_refused() -> None:
    bound = bind("text_length", aggregation="counts")
    with pytest.raises(InputError, match="1,001 different values"):
        aggregated(bound, ["x" * n for n in range(1001)])


def test_weights_weigh_and_make_the_weighted_mean_the_default() -> None:
    bound = bind("exact_match", weight_field="metadata.w")
    (row,) = aggregated(bound, ["1", "0", "0"], [{"metadata": {"w": w}} for w in (3, 1, 2.0)])
    assert (row["aggregation"], row["value"], row["interval"]) == ("weighted_mean", 0.5, "t")


def test_one_sample_with_weight_has_no_interval_whatever_the_others() -> None:
    bound = bind("exact_match", weight_field="metadata.w")
    (row,) = aggregated(bound, ["1", "0", "0"], [{"metadata": {"w": w}} for w in (3, 0, 0)])
    assert (row["value"], row["stderr"], row["interval"], row["n"]) == (1.0, None, None, 3)


@pytest.mark.parametrize(("weight", "shown"), [(None, "no"), (-1, "-1"), ("2", "'2'"), (True, "True")])
def test_a_weight_that_is_none_is_an_error_that_names_the_sample(weight: Any, shown: str) -> None:
    bound = bind("exact_match", metric_id="right", weight_field="metadata.w")
    with pytest.raises(InputError, match=rf"metric right: sample 's1' has {shown} as metadata.w, its weight_field"):
        aggregated(bound, ["1", "0"], [{"metadata": {"w": 1}}, {"metadata": {"w": weight}}])


def test_clusters_widen_the_error_and_set_the_degrees_of_freedom() -> None:
    lengths, passages = [103, 102, 106, 101], ["x", "x", "y", "z"]
    answers = ["a" * length for length in lengths]
    fields = [{"metadata": {"passage": passage}} for passage in passages]
    (row,) = aggregated(bind("text_length", cluster_field="metadata.passage"), answers, fields, parts=2)
    stderr = clustered_stderr(lengths, passages)
    interval = t_interval(103.0, stderr, 2)
    assert interval is not None
    assert row["stderr"] == pytest.approx(stderr)
    assert (row["ci_low"], row["ci_high"]) == (pytest.approx(interval.low), pytest.approx(interval.high))
    assert row["n"] == 4


def test_a_missing_cluster_id_is_an_error_that_names_the_sample() -> None:
    bound = bind("exact_match", cluster_field="metadata.passage")
    with pytest.raises(InputError, match=r"sample 's1' has no metadata.passage, its cluster_field"):
        aggregated(bound, ["1", "0"], [{"metadata": {"passage": "x"}}, {}])


def test_one_cluster_has_no_error_and_no_interval() -> None:
    bound = bind("exact_match", cluster_field="metadata.passage")
    (row,) = aggregated(bound, ["1", "0"], [{"metadata": {"passage": 4}}] * 2)
    assert (row["value"], row["stderr"], row["ci_low"], row["interval"]) == (0.5, None, None, None)


def test_sums_over_the_corpus_are_no_mean_of_rows() -> None:
    by_key = {row["value_key"]: row for row in aggregated(bind("test_counted"), ["2/2", "0/3", "1/5"], parts=3)}
    assert (by_key["inst"]["value"], by_key["inst"]["aggregation"]) == (pytest.approx(0.3), "ratio")
    assert by_key["inst"]["stderr"] > 0
    # A key of its own that the metric declares no aggregation for is a mean.
    assert (by_key["all"]["value"], by_key["all"]["aggregation"]) == (pytest.approx(1 / 3), "mean")


def test_a_renamed_value_keeps_its_components() -> None:
    (row,) = aggregated(bind("test_nats", value_key="perplexity"), ["-2/4", "-6/4"])
    assert (row["value_key"], row["value"]) == ("perplexity", pytest.approx(np.exp(1)))
    assert row["ci_low"] < row["value"] < row["ci_high"]


def test_components_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"components.odd has 2 numbers in one row, but 1 in another"):
        aggregated(bind("test_odd"), ["a", "ab"], parts=2)
    with pytest.raises(InputError, match=r"components.odd is 'X', not a list of numbers"):
        aggregated(bind("test_odd"), ["X"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"aggregation": "medain"}, r"no aggregation 'medain'.*Did you mean 'median'"),
        ({"aggregation": "pass@0"}, "no aggregation 'pass@0'"),
        ({"aggregation": "pass@{k}"}, "no aggregation 'pass@{k}'"),
        ({"aggregation": "p100"}, "aggregation p100: q must be at most 99"),
        ({"aggregation": []}, "is an empty list"),
        ({"aggregation": ["mean", "mean"]}, "'mean' is given twice"),
        ({"aggregation": "median", "cluster_field": "id"}, "median does not read a cluster_field"),
        ({"aggregation": "mean", "weight_field": "metadata.w"}, "mean does not read a weight_field"),
        ({"cluster_field": "model_output.answer"}, "is not a field of the sample"),
        ({"cluster_field": "sample"}, "is not a field of the sample"),
        ({"slices": ["model_output.anwser"]}, "model_output has no 'anwser'"),
        ({"slices": ["label", "sample.label"]}, "the slice 'label' is given twice"),
        ({"slices": ["a..b"]}, "empty part"),
    ],
)
def test_what_cannot_be_aggregated_is_refused_before_anything_runs(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bind("exact_match", **settings)


def test_every_aggregation_says_what_it_is() -> None:
    for plugin in registry.aggregations:
        assert plugin.summary.endswith("."), plugin.name
        assert plugin.version >= 1


TOPICS = ["algebra", "algebra", "geometry", None]


def test_slices_stand_behind_the_number_over_all_rows_with_their_own_counts() -> None:
    fields = [{"data_tag": {"topic": topic} if topic else {}} for topic in TOPICS]
    rows = aggregated(bind("exact_match", slices=["data_tag.topic"]), ["1", "0", "1", "1"], fields, parts=2)
    assert [(row["slice_field"], row["slice_value"], row["value"], row["n"]) for row in rows] == [
        (None, None, 0.75, 4),
        ("data_tag.topic", "algebra", 0.5, 2),
        ("data_tag.topic", "geometry", 1.0, 1),
        ("data_tag.topic", None, 1.0, 1),
    ]
    assert rows[1]["ci_low"] < 0.5 < rows[1]["ci_high"]
    assert rows[2]["stderr"] is None


def test_a_list_and_a_mapping_put_a_row_into_each_of_their_slices() -> None:
    fields: list[dict[str, Any]] = [
        {"metadata": {"tags": ["a", "b", "a"]}, "data_tag": {"topic": "x"}},
        {"metadata": {"tags": []}},
    ]
    rows = aggregated(bind("exact_match", slices=["metadata.tags", "data_tag"]), ["1", "0"], fields)
    by_slice = {(row["slice_field"], row["slice_value"]): row["value"] for row in rows[1:]}
    assert by_slice == {
        ("metadata.tags", "a"): 1.0,
        ("metadata.tags", "b"): 1.0,
        ("metadata.tags", None): 0.0,
        ("data_tag", "topic=x"): 1.0,
        ("data_tag", None): 0.0,
    }


def test_a_data_tag_of_any_json_type_makes_slices_by_its_text() -> None:
    fields: list[dict[str, Any]] = [
        {"data_tag": {"topics": ["a", 2], "hard": True, "level": 1.5}},
        {"data_tag": {"topics": [2], "hard": False, "level": 1.5}},
    ]
    slices = ["data_tag.topics", "data_tag.hard", "data_tag.level"]
    rows = aggregated(bind("exact_match", slices=slices), ["1", "0"], fields)
    assert {(row["slice_field"], row["slice_value"]): row["value"] for row in rows[1:]} == {
        ("data_tag.topics", "a"): 1.0,
        ("data_tag.topics", "2"): 0.5,
        ("data_tag.hard", "true"): 1.0,
        ("data_tag.hard", "false"): 0.0,
        ("data_tag.level", "1.5"): 0.5,
    }


def test_slices_by_the_answer_count_the_responses_of_the_slice() -> None:
    bound = bind("exact_match", slices=["model_output.finish_reason"], on_missing_field="ignore")
    wanted = samples([sample(row, "1") for row in range(3)])
    answered = responses(
        [
            {"answer": "1", "finish_reason": "stop"},
            {"answer": "0", "finish_reason": "length", "status": "truncated"},
            {"status": "error"},
        ]
    )
    table = bound.grouping.label(
        bound.score_table({"samples": wanted, "responses": answered}), {"samples": wanted, "responses": answered}
    )
    rows = {row["slice_value"]: row for row in bound.aggregate([table], {"truncated": 1, "error": 1})[1:]}
    assert {key: (row["n"], row["truncated"], row["error"], row["unscored"]) for key, row in rows.items()} == {
        "stop": (1, 0, 0, 0),
        "length": (1, 1, 0, 0),
        None: (0, 0, 1, 1),
    }


def test_a_slice_for_every_row_is_refused() -> None:
    bound = bind("exact_match", slices=["id"])
    with pytest.raises(InputError, match=r"the slice field 'id' has more than 1,000 values"):
        aggregated(bound, ["1"] * (MOST_SLICES + 1))


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["a", "b", "c"])), min_size=1, max_size=40), st.integers(1, 5)
)
def test_slices_by_one_field_add_up_to_the_whole(rows: list[tuple[int, str]], parts: int) -> None:
    bound = bind("text_length", slices=["metadata.kind"], cluster_field="metadata.kind")
    fields = [{"metadata": {"kind": kind}} for _, kind in rows]
    whole, *slices = aggregated(bound, ["x" * length for length, _ in rows], fields, parts)
    assert sum(row["n"] for row in slices) == whole["n"] == len(rows)
    assert sum(row["n"] * row["value"] for row in slices) / whole["n"] == pytest.approx(whole["value"], abs=1e-12)


def test_filters_are_sliced_each_for_itself() -> None:
    bound = bind("exact_match", filters=["last_number", "first_number"], slices=["metadata.kind"])
    fields = [{"metadata": {"kind": kind}} for kind in ("a", "b")]
    rows = aggregated(bound, ["1 or 2", "2 or 1"], fields)
    by_slice = {(row["filter"], row["slice_value"]): row["value"] for row in rows if row["slice_field"]}
    assert by_slice == {
        ("last_number", "a"): 0.0,
        ("last_number", "b"): 1.0,
        ("first_number", "a"): 1.0,
        ("first_number", "b"): 0.0,
    }


def test_grouping_is_no_part_of_the_scores_identity() -> None:
    plain, grouped = bind("exact_match"), bind("exact_match", cluster_field="id", slices=["metadata.kind"])
    assert plain.identity()["scores"] == grouped.identity()["scores"]
    assert plain.identity()["aggregation"] != grouped.identity()["aggregation"]
    assert grouped.grouping.sample_columns == {"id", "metadata"}


def test_rows_fit_the_metrics_table() -> None:
    from gage_eval.base.tables import METRICS

    rows = aggregated(bind("exact_match", slices=["metadata.kind"]), ["1"], [{"metadata": {"kind": 1}}])
    table = pa.Table.from_pylist([{**row, "scores": "a"} for row in rows], schema=METRICS.arrow)
    assert table.column("slice_value").to_pylist() == [None, "1"]
    assert set(rows[0]) | {"scores"} == set(METRICS.arrow.names)


def test_a_built_in_name_is_found_without_a_look_at_what_else_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """That look takes a tenth of a short run."""

    def refuse(**_: Any) -> None:
        raise AssertionError("the installed packages were searched")

    monkeypatch.delattr(registry.aggregations, "_entry_points")
    monkeypatch.setattr("gage_eval.extend.registry.metadata.entry_points", refuse)
    for name in ("mean", "ratio", "weighted_mean"):
        assert find_aggregation(name).name == name
