"""Promises of binding and scoring: statuses, missing fields, joins, filters, identities."""

import logging
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_tables import OPTIONS, answers, judgments, responses, sample, samples, score, telemetry
from support.registered import keep

from gage_eval.base.errors import InputError
from gage_eval.base.tables import METRICS, SAMPLES, SCORES
from gage_eval.extend import registry
from gage_eval.extend.registry import Plugin
from gage_eval.scoring.metrics import Score, bind, metric, text_filter
from gage_eval.scoring.metrics.base import define
from gage_eval.scoring.metrics.parse_schema import ParseField, ParseSchema


def test_every_response_has_one_row_in_the_scores_schema() -> None:
    table = bind("exact_match").score_table(
        {"samples": samples([sample(0, "a"), sample(1, "b")]), "responses": answers(["A ", "c"])}
    )
    assert table.schema == SCORES.arrow
    assert table.column("row_index").to_pylist() == [0, 1]
    assert table.column("sample_id").to_pylist() == ["s0", "s1"]
    assert table.column("filter").to_pylist() == [None, None]
    assert [dict(values) for values in table.column("values").to_pylist()] == [{"score": 1.0}, {"score": 0.0}]


def test_a_part_without_rows_scores_to_no_rows() -> None:
    table = bind("exact_match").score_table({"samples": SAMPLES.empty(), "responses": responses([])})
    assert table.num_rows == 0
    assert table.schema == SCORES.arrow


def test_responses_find_their_sample_by_row_index() -> None:
    rows = [
        {"row_index": 2, "answer": "c"},
        {"row_index": 0, "answer": "a"},
        {"row_index": 2, "answer": "x", "replicate": 1},
    ]
    table = bind("exact_match").score_table(
        {"samples": samples([sample(i, text) for i, text in enumerate("abc")]), "responses": responses(rows)}
    )
    assert table.column("row_index").to_pylist() == [2, 0, 2]
    assert table.column("replicate").to_pylist() == [0, 0, 1]
    assert [dict(v)["score"] for v in table.column("values").to_pylist()] == [1.0, 1.0, 0.0]


def test_only_the_columns_a_metric_names_are_needed() -> None:
    bound = bind("multi_choice_accuracy")
    table = samples([sample(0, "B", options=OPTIONS)])
    narrow = table.select(["row_index", *sorted(bound.sample_columns)])
    assert bound.score_table({"samples": narrow, "responses": answers(["B"])}).equals(
        bound.score_table({"samples": table, "responses": answers(["B"])})
    )


@pytest.mark.parametrize(("status", "ended"), [("error", "failed"), ("skipped", "was skipped")])
def test_a_response_that_never_came_is_unscored_and_out_of_n(status: str, ended: str) -> None:
    bound = bind("exact_match")
    table = bound.score_table(
        {
            "samples": samples([sample(0, "a"), sample(1, "a")]),
            "responses": responses([{"answer": "a"}, {"answer": None, "status": status, "error_kind": "http_400"}]),
        }
    )
    row = table.to_pylist()[1]
    assert (row["status"], row["values"]) == ("unscored", [])
    assert (row["reason"], row["explanation"]) == ("unanswered", f"the request {ended} (http_400)")
    (number,) = bound.aggregate([table], {"ok": 1, status: 1})
    assert (number["value"], number["n"], number["unscored"], number[status]) == (1.0, 1, 1, 1)


@pytest.mark.parametrize("status", ["truncated", "refused"])
def test_truncated_and_refused_answers_are_scored_as_they_stand(status: str) -> None:
    bound = bind("exact_match")
    table = bound.score_table(
        {"samples": samples([sample(0, "a")]), "responses": responses([{"answer": "a", "status": status}])}
    )
    assert table.column("status").to_pylist() == ["scored"]
    (number,) = bound.aggregate([table], {status: 1})
    assert (number["value"], number["n"], number[status]) == (1.0, 1, 1)


def test_an_unparsed_answer_counts_as_zero_and_is_in_n() -> None:
    bound = bind("numeric_match")
    table = bound.score_table(
        {"samples": samples([sample(0, "5"), sample(1, "5")]), "responses": answers(["5", "no idea"])}
    )
    assert table.column("status").to_pylist() == ["scored", "unparsed"]
    (number,) = bound.aggregate([table], {"ok": 2})
    assert (number["value"], number["n"], number["unparsed"], number["unscored"]) == (0.5, 2, 1, 0)


def test_a_missing_answer_is_unscored_and_no_match_of_empty_text() -> None:
    assert score(bind("exact_match"), [(None, ""), (None, "a"), ("", "")]) == [
        ("unscored", {}),
        ("unscored", {}),
        ("scored", {"score": 1.0}),
    ]


def test_missing_fields_warn_once_a_metric(caplog: pytest.LogCaptureFixture) -> None:
    bound = bind("exact_match", metric_id="mine")
    with caplog.at_level(logging.WARNING):
        score(bound, [("a", None), ("a", None)])
        score(bound, [("a", None)])
    assert [record.getMessage() for record in caplog.records] == [
        "metric mine: sample 's0' has no sample.label; rows without it are unscored"
    ]


def test_ignore_says_nothing_and_still_scores_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert score(bind("exact_match", on_missing_field="ignore"), [("a", None)]) == [("unscored", {})]
    assert not caplog.records


def test_error_names_sample_and_path() -> None:
    bound = bind("exact_match", {"label_field": "sample.metadata.gold"}, on_missing_field="error")
    table = samples([sample(0, metadata={"gold": "a"}), sample(1)])
    with pytest.raises(InputError, match=r"sample 's1' has no sample\.metadata\.gold"):
        bound.score_table({"samples": table, "responses": answers(["a", "a"])})


def test_default_is_the_value_of_a_missing_field() -> None:
    assert score(bind("exact_match", {"default": 0}), [("a", None)]) == [("scored", {"score": 0.0})]


def test_a_default_is_no_answer_for_infrastructure_errors() -> None:
    bound = bind("exact_match", {"default": 0})
    table = bound.score_table({"samples": samples([sample(0, "a")]), "responses": responses([{"status": "error"}])})
    assert table.column("status").to_pylist() == ["unscored"]


def test_fields_can_be_read_from_anywhere() -> None:
    table = samples([sample(0, "a", metadata={"gold": ["x", "Rome"]})])
    bound = bind("exact_match", {"label_field": "metadata.gold.1", "pred_field": "judge_output.answer"})
    assert bound.inputs == {"samples", "responses", "judgments"}
    assert bound.sample_columns == {"metadata"}
    scored = bound.score_table(
        {"samples": table, "responses": answers(["?"]), "judgments": judgments([{"answer": "rome"}])}
    )
    assert scored.column("status").to_pylist() == ["scored"]
    assert dict(scored.column("values")[0].as_py()) == {"score": 1.0}


def test_judgments_are_joined_by_row_and_replicate() -> None:
    bound = bind("exact_match", {"prediction_field": "judge_output.parsed.verdict"})
    answered = responses([{"row_index": 0, "replicate": 0}, {"row_index": 0, "replicate": 1}, {"row_index": 1}])
    judged = judgments(
        [
            {"row_index": 1, "parsed": '{"verdict":"b"}'},
            {"row_index": 0, "replicate": 1, "parsed": '{"verdict":"a"}'},
        ]
    )
    table = bound.score_table(
        {"samples": samples([sample(0, "a"), sample(1, "b")]), "responses": answered, "judgments": judged}
    )
    assert table.column("status").to_pylist() == ["unscored", "scored", "scored"]
    assert [dict(v) for v in table.column("values").to_pylist()] == [{}, {"score": 1.0}, {"score": 1.0}]


def test_a_key_of_the_judges_own_is_looked_up_in_what_was_parsed() -> None:
    bound = bind("exact_match", {"prediction_field": "judge_output.verdict"})
    table = bound.score_table(
        {
            "samples": samples([sample(0, "a")]),
            "responses": answers(["?"]),
            "judgments": judgments([{"parsed": '{"verdict":"a"}'}]),
        }
    )
    assert dict(table.column("values")[0].as_py()) == {"score": 1.0}


def test_latency_is_read_from_telemetry_and_only_there() -> None:
    bound = bind("latency")
    assert bound.inputs == {"responses", "response_telemetry"}
    assert bind("exact_match").inputs == {"samples", "responses"}
    table = bound.score_table(
        {
            "samples": samples([sample(0), sample(1)]),
            "responses": answers(["a", "b"]),
            "response_telemetry": telemetry([12.5, None]),
        }
    )
    assert [dict(v) for v in table.column("values").to_pylist()] == [{"latency_ms": 12.5}, {}]
    assert table.column("status").to_pylist() == ["scored", "unscored"]
    without = bound.score_table({"samples": samples([sample(0)]), "responses": answers(["a"])})
    assert without.column("status").to_pylist() == ["unscored"]


def test_an_unknown_parameter_names_what_there_is_and_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        bind("numeric_match", {"tolerence": 1})
    text = str(caught.value)
    assert text.startswith("numeric_match has no parameter 'tolerence'. It takes: tolerance (0.0), ")
    assert text.endswith("Did you mean 'tolerance'?")


@pytest.mark.parametrize(
    ("implementation", "params", "words"),
    [
        ("exact_match", {"case_sensitive": "perhaps"}, "case_sensitive"),
        ("numeric_match", {"tolerance": -1}, "greater than or equal to 0"),
        ("numeric_match", {"tolerance": float("nan")}, "finite"),
        ("numeric_match", {"mode": "almost"}, "'eq', 'ge' or 'le'"),
        ("regex_match", {}, "needs the parameter 'pattern'"),
        ("regex_match", {"pattern": "("}, "regular expression"),
        ("exact_match", {"label_field": 3}, "path, written as text"),
        ("exact_match", {"label_field": "a..b"}, "empty part"),
        ("exact_match", {"prediction_field": "model_output.anwser"}, "Did you mean 'answer'"),
        ("exact_match", {"prediction_field": "a", "pred_field": "b"}, "Keep one"),
        ("exact_match", {"default": "0"}, "must be a finite number"),
        ("exact_mtach", {}, "Did you mean 'exact_match'"),
    ],
)
def test_what_cannot_work_is_refused_before_work_starts(
    implementation: str, params: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        bind(implementation, params)


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        (["strip_thnking"], "Did you mean 'strip_thinking'"),
        ([{"regex": {}}], "needs the parameter 'pattern'"),
        ([{"regex": {"pattern": "x", "grup": 1}}], "Did you mean 'group'"),
        ([{"regex": "x"}], "not a mapping"),
        ([{"a": {}, "b": {}}], "neither a name nor"),
        ([{"name": "x", "steps": "regex"}], "is not"),
        ([{"name": "x", "steps": [], "also": 1}], "is not"),
        (["last_number", "last_number"], "two filters are named 'last_number'"),
        ([3], "neither a name nor"),
    ],
)
def test_filters_that_cannot_work_are_refused(filters: list[Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        bind("exact_match", filters=filters)


def test_a_metric_that_reads_no_text_takes_no_filter() -> None:
    with pytest.raises(InputError, match="takes no filters"):
        bind("latency", filters=["last_number"])


def test_each_filter_is_a_result_of_its_own() -> None:
    strict = {"name": "strict-match", "steps": [{"regex": {"pattern": r"#### (\-?[0-9\.\,]+)"}}, "take_first"]}
    bound = bind("exact_match", filters=[strict, "last_number"])
    table = bound.score_table(
        {"samples": samples([sample(0, "18"), sample(1, "18")]), "responses": answers(["so #### 18", "It is 18"])}
    )
    rows = table.select(["row_index", "filter", "status", "extracted"]).to_pylist()
    assert [(r["row_index"], r["filter"], r["status"], r["extracted"]) for r in rows] == [
        (0, "strict-match", "scored", "18"),
        (0, "last_number", "scored", "18"),
        (1, "strict-match", "unparsed", None),
        (1, "last_number", "scored", "18"),
    ]
    numbers = {row["filter"]: row for row in bound.aggregate([table], {"ok": 2})}
    assert (numbers["strict-match"]["value"], numbers["strict-match"]["unparsed"]) == (0.5, 1)
    assert (numbers["last_number"]["value"], numbers["last_number"]["unparsed"]) == (1.0, 0)


def test_a_pipeline_without_steps_is_the_answer_as_it_is() -> None:
    bound = bind("exact_match", filters=[{"name": "none", "steps": []}, "last_number"])
    table = bound.score_table({"samples": samples([sample(0, "is 5")]), "responses": answers(["is 5"])})
    assert [dict(v)["score"] for v in table.column("values").to_pylist()] == [1.0, 0.0]


def _plugin(function: Any, **info: Any) -> Plugin[Any]:
    return Plugin("metrics", function.__name__, function, 1, "", info=info)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registrations of a test end with it."""
    keep(monkeypatch, registry.metrics, registry.filters)


@pytest.mark.usefixtures("registered")
def test_a_metric_that_breaks_on_a_row_leaves_that_row_unscored(caplog: pytest.LogCaptureFixture) -> None:
    @metric("fragile")
    def fragile(prediction: str) -> float:
        return 1 / len(prediction)

    bound = bind("fragile")
    table = bound.score_table({"samples": samples([sample(0), sample(1)]), "responses": answers(["", "ab"])})
    rows = table.to_pylist()
    assert [row["status"] for row in rows] == ["unscored", "scored"]
    assert rows[0]["reason"] == "metric_failed"
    assert rows[0]["explanation"].startswith(
        "test_metric_bind.py:test_a_metric_that_breaks_on_a_row_leaves_that_row_unscored.<locals>.fragile() raised "
        "ZeroDivisionError: division by zero (test_metric_bind.py, line "
    )
    (number,) = bound.aggregate([table], {"ok": 2})
    assert (number["value"], number["n"], number["unscored"]) == (0.5, 1, 1)
    assert "fragile() raised ZeroDivisionError" in caplog.text


@pytest.mark.usefixtures("registered")
def test_an_input_error_of_a_metric_ends_the_run() -> None:
    @metric("strict_one")
    def strict_one(prediction: str) -> float:
        raise InputError("no such thing")

    with pytest.raises(InputError, match="no such thing"):
        score(bind("strict_one"), [("a", "a")])


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("result", [float("nan"), float("inf"), 1e306, {"score": -1e306}, None, "1", [1]])
def test_what_is_no_number_is_unscored_and_never_zero(result: Any) -> None:
    @metric("odd")
    def odd(prediction: str) -> Any:
        return result

    assert score(bind("odd"), [("a", "a")]) == [("unscored", {})]


@pytest.mark.usefixtures("registered")
def test_a_metric_may_give_several_numbers_and_components() -> None:
    @metric("several", value=("precision", "recall"))
    def several(prediction: str, reference: str) -> Score:
        if not prediction:
            return Score.unparsed("empty")
        return Score({"precision": 0.5, "recall": 1.0}, components={"tp": 1}, explanation="why")

    bound = bind("several")
    table = bound.score_table({"samples": samples([sample(0), sample(1)]), "responses": answers(["a", ""])})
    rows = table.to_pylist()
    assert dict(rows[0]["values"]) == {"precision": 0.5, "recall": 1.0}
    assert (rows[0]["components"], rows[0]["explanation"]) == ('{"tp":1}', "why")
    assert dict(rows[1]["values"]) == {"precision": 0.0, "recall": 0.0}
    numbers = {row["value_key"]: row["value"] for row in bound.aggregate([table], {"ok": 2})}
    assert numbers == {"precision": 0.25, "recall": 0.5}
    with pytest.raises(InputError, match="cannot rename several"):
        bind("several", value_key="f1")


@pytest.mark.usefixtures("registered")
def test_fields_arrive_in_the_form_their_annotation_asks_for() -> None:
    seen: list[Any] = []

    @metric("seeing", fields={"raw": "sample.metadata.n", "text": "sample.metadata.n", "maybe": "sample.metadata.none"})
    def seeing(answers: list[str], raw: int, text: str, maybe: str | None = None) -> bool:
        seen.append((answers, raw, text, maybe))
        return True

    table = samples([sample(0, "gold", metadata={"n": 3})])
    bind("seeing").score_table({"samples": table, "responses": answers(["x"])})
    bind("seeing", {"answers_field": "sample.label"}).score_table({"samples": table, "responses": answers(["x"])})
    assert seen == [(["gold"], 3, "3", None)] * 2


@pytest.mark.usefixtures("registered")
def test_a_filter_is_a_function_of_a_text() -> None:
    @text_filter("shout", version=2)
    def shout(text: str, *, mark: str = "!") -> str | None:
        return text.upper() + mark if text else None

    bound = bind("exact_match", {"case_sensitive": True}, filters=[{"shout": {"mark": "?"}}])
    assert score(bound, [("a", "A?"), ("", "A?")]) == [("scored", {"score": 1.0}), ("unparsed", {"score": 0.0})]
    (pipeline,) = bound.identity()["scores"]["filters"]
    assert pipeline == {
        "name": "shout",
        "steps": [
            {
                "filter": {"name": "shout", "version": 2, "origin": pipeline["steps"][0]["filter"]["origin"]},
                "params": {"mark": "?"},
            }
        ],
    }


@pytest.mark.usefixtures("registered")
def test_an_aggregation_that_would_leave_out_what_a_filter_did_not_find_is_refused() -> None:
    def shares(prediction: str) -> Score:
        return Score(float(len(prediction)), components={"shares": [len(prediction), 2]})

    metric("shares_by_mean", value="shares")(shares)
    metric("shares_by_ratio", value="shares", aggregate="ratio")(shares)
    filters = [{"regex": {"pattern": "x+"}}]
    schema = ParseSchema((ParseField("name", "string", ()),))
    cases: list[dict[str, Any]] = [
        {"filters": filters},
        {"params": {"prediction_field": "name"}, "parse_schema": schema},
    ]
    for nothing_found in cases:
        with pytest.raises(InputError, match=r'shares_by_mean: aggregation .ratio.* with aggregate="ratio"'):
            bind("shares_by_mean", aggregation=["mean", "ratio"], **nothing_found)
        bind("shares_by_mean", aggregation="mean", **nothing_found)
        bind("shares_by_ratio", **nothing_found)
    bind("shares_by_mean", aggregation="ratio")


def test_a_plain_function_is_a_metric_by_its_path(tmp_path: Any) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def twice(prediction: str, *, by: int = 2) -> int:\n    return by * len(prediction)\n")
    bound = bind(f"{file}:twice", {"by": 3}, value_key="length")
    assert score(bound, [("ab", "x")]) == [("scored", {"length": 6.0})]
    origin = bound.identity()["scores"]["metric"]["origin"]
    file.write_text(file.read_text().replace("by *", "1 + by *"))
    assert bind(f"{file}:twice").identity()["scores"]["metric"]["origin"] != origin


def test_functions_that_cannot_be_bound_are_refused_with_the_remedy() -> None:
    def starred(prediction: str, **params: Any) -> float:
        return 0.0

    def lost(candidate: str) -> float:
        return 0.0

    with pytest.raises(InputError, match=r"takes \*params"):
        define(_plugin(starred))
    with pytest.raises(InputError, match="reads 'candidate' from nowhere"):
        define(_plugin(lost))
    with pytest.raises(InputError, match="not a function"):
        bind("math:pi")


def test_a_default_given_and_a_default_left_out_are_the_same_metric() -> None:
    assert bind("exact_match").identity() == bind("exact_match", {"case_sensitive": False}).identity()
    assert bind("exact_match").identity() == bind("exact_match", on_missing_field="ignore").identity()
    assert bind("exact_match").identity() == bind("exact_match", {"label_field": "label"}).identity()
    assert bind("exact_match", metric_id="other").identity() == bind("exact_match").identity()


@pytest.mark.parametrize(
    "other",
    [
        {"params": {"case_sensitive": True}},
        {"params": {"label_field": "sample.metadata.gold"}},
        {"params": {"default": 0}},
        {"filters": ["last_number"]},
        {"value_key": "em"},
        {"on_missing_field": "error"},
    ],
)
def test_whatever_changes_score_rows_changes_their_identity(other: dict[str, Any]) -> None:
    assert bind("exact_match", **other).identity()["scores"] != bind("exact_match").identity()["scores"]


def test_aggregation_is_no_part_of_the_scores_identity() -> None:
    identity = bind("exact_match").identity()
    assert "mean" in str(identity["aggregation"])
    assert "mean" not in str(identity["scores"])
    with pytest.raises(InputError, match=r"no aggregation 'maen'.*Did you mean 'mean'"):
        bind("exact_match", aggregation="maen")


def test_identities_are_canonical_json() -> None:
    from gage_eval.base.canonical import canonical_text

    needed = {"regex_match": {"pattern": "a"}, "pattern": {"pattern": "a"}, "field_completeness": {"fields": ["a"]}}
    needed["recorded_score"] = {"score": "acc"}
    needed["lm_eval"] = {"sources": "0", "task": "arc_easy", "value": "acc", "kind": "right"}
    for name in registry.metrics.names():
        assert canonical_text(bind(name, needed.get(name)).identity())


def test_metric_rows_fit_the_metrics_table() -> None:
    bound = bind("exact_match", metric_id="em")
    table = bound.score_table({"samples": samples([sample(0, "a")]), "responses": answers(["a"])})
    rows = [{**row, "scores": "id"} for row in bound.aggregate([table], {"ok": 1})]
    assert pa.Table.from_pylist(rows, schema=METRICS.arrow).to_pylist() == rows


TOTAL = [
    bind(name, on_missing_field="ignore")
    for name in ("exact_match", "contains", "numeric_match", "multi_choice_accuracy", "text_length")
]
ANSWER = st.text(max_size=20) | st.sampled_from(["A", "(B)", "5", "<think>", "</think> 5", "nan", "1e999999999", "½"])


@given(
    st.lists(st.tuples(ANSWER, ANSWER, st.sampled_from(["ok", "truncated", "refused", "error", "skipped"])), max_size=5)
)
def test_any_text_is_scored_unparsed_or_unscored_and_counts_add_up(rows: list[tuple[str, str, str]]) -> None:
    table = samples([sample(i, label, options=OPTIONS) for i, (_, label, _) in enumerate(rows)])
    answered = responses([{"answer": text, "status": status} for text, _, status in rows])
    for bound in TOTAL:
        scored = bound.score_table({"samples": table, "responses": answered})
        statuses = scored.column("status").to_pylist()
        assert len(statuses) == len(rows)
        assert set(statuses) <= {"scored", "unparsed", "unscored"}
        assert all(
            bool(values) == (status != "unscored")
            for values, status in zip(scored.column("values").to_pylist(), statuses, strict=True)
        )
        (number,) = bound.aggregate([scored], {})
        assert number["n"] + number["unscored"] == len(rows)
