"""The short forms of a metric mean the long one, and no text in a config is evaluated."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.config.models import MetricConfig
from gage_eval.config.sugar import metric_form, parse_call, rename_aliases


@pytest.mark.parametrize(
    ("short", "metric_id", "implementation", "params"),
    [
        ("exact_match", "exact_match", "exact_match", {}),
        (r"regex_match(pattern='\d+')", "regex_match", "regex_match", {"pattern": r"\d+"}),
        ("m(a=1, b=-2.5, c=[1, 'x'], d={'k': None}, e=True)", "m", "m",
         {"a": 1, "b": -2.5, "c": [1, "x"], "d": {"k": None}, "e": True}),
        ("m(a=(1, 2))", "m", "m", {"a": [1, 2]}),
        ("m()", "m", "m", {}),
        ("pkg.mod:Exact(k=1)", "Exact", "pkg.mod:Exact", {"k": 1}),
        ("pkg.mod.Exact", "Exact", "pkg.mod.Exact", {}),
        ({"numeric_match": {"tolerance": 0.1}}, "numeric_match", "numeric_match", {"tolerance": 0.1}),
        ({"exact_match": None}, "exact_match", "exact_match", {}),
        ({"metric_id": "exact_match"}, "exact_match", "exact_match", {}),
        ({"implementation": "pkg.mod:Exact"}, "Exact", "pkg.mod:Exact", {}),
        ({"metric_id": "a", "implementation": "b", "params": {"c": 1}}, "a", "b", {"c": 1}),
    ],
)  # fmt: skip
def test_forms_of_a_metric(short: object, metric_id: str, implementation: str, params: dict[str, object]) -> None:
    spec = MetricConfig.model_validate(short)
    assert (spec.metric_id, spec.implementation, spec.params) == (metric_id, implementation, params)


@pytest.mark.parametrize(
    "text",
    [
        "m(",
        "m(a)",
        "m(1)",
        "m(**{'a': 1})",
        "m(a=b)",
        "m(a=__import__('os').system('true'))",
        "m(a=1)(b=2)",
        "m(a=1) + m(b=2)",
        "m(a=b'x')",
        "m(a={1, 2})",
        "m(a={1: 2})",
        "m(a=1j)",
        "m(a=1e999)",
        "m(a='\\ud800')",
        "m(a=f'{1}')",
        "m(a=" + "(" * 300 + ")" * 300 + ")",
        "m(a=" + "-" * 4000 + "1)",
        "m(a='" + "x" * 5000 + "')",
        "m(a=" + "9" * 4096 + ")",
    ],
)
def test_only_literal_keyword_arguments_are_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"cannot read .* write values as in Python"):
        parse_call(text)


@given(st.text(max_size=40) | st.text(alphabet="m(a=1,'[]{}:\"-b)", max_size=30).map(lambda tail: "m(" + tail))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_call(text)
    except ValueError as error:
        message = str(error)
    else:
        return
    assert message.startswith("cannot read")


def test_a_spelling_without_a_value_counts_as_absent() -> None:
    assert rename_aliases({"new": None, "old": 1}, {"old": "new"}) == {"new": 1}
    assert rename_aliases({"new": 1, "old": None}, {"old": "new"}) == {"new": 1}
    with pytest.raises(ValueError, match="'new' and 'old' are the same setting; keep 'new'"):
        rename_aliases({"new": 1, "old": 1}, {"old": "new"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gsm8k pass@2", {"implementation": "gsm8k", "aggregation": "pass@2"}),
        ("gsm8k,strict-match exact_match pass^4", {"filters": ["strict-match"], "aggregation": "pass^4"}),
        ("numeric_match(tolerance=0.1) median", {"params": {"tolerance": 0.1}, "aggregation": "median"}),
        ("squad f1", {"implementation": "squad"}),
        ("my metrics.py:right", {"implementation": "my metrics.py:right"}),
        ("regex_match(pattern='a (b|c) d')", {"params": {"pattern": "a (b|c) d"}}),
    ],
)
def test_a_metric_may_be_written_as_the_table_prints_it(text: str, expected: dict[str, Any]) -> None:
    full = metric_form(text, ())
    assert {key: full[key] for key in expected} == expected
    assert ("aggregation" in full) == ("aggregation" in expected)


@pytest.mark.parametrize("text", ["gsm8k pas@2", "squad pas@2"])
def test_a_wrong_aggregation_shows_the_right_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"no aggregation 'pas@2'.* Did you mean 'pass@2'\?"):
        metric_form(text, ())
