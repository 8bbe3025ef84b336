"""Promises of the text metrics beyond the official vectors: hostile answers, corpora without text, identities."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_tables import answers, responses, sample, samples, score

from gage_eval.base import patterns
from gage_eval.base.errors import InputError
from gage_eval.extend.registry import Plugin, metrics
from gage_eval.scoring.metrics import bind, metric
from gage_eval.scoring.metrics.base import define
from gage_eval.scoring.metrics.math_rules import hendrycks_equal, prm800k_equal
from gage_eval.scoring.metrics.math_values import equal_values

TEXT_METRICS = (
    "bleu", "chrf", "choice_set", "contains", "exact_match", "gsm8k", "json_valid", "list", "match",
    "math_equivalence", "number", "rouge", "squad", "ter", "token_f1",
)  # fmt: skip
MEGABYTE = 1_000_000


def row_of(name: str, answer: str | None, *references: str, **params: Any) -> dict[str, Any]:
    """The score row of one answer."""
    table = bind(name, params).score_table(
        {
            "samples": samples([sample(0, references[0], metadata={"answers": list(references)})]),
            "responses": answers([answer]),
        }
    )
    (row,) = table.to_pylist()
    return {**row, "values": dict(row["values"])}


@pytest.mark.parametrize("name", TEXT_METRICS)
@pytest.mark.parametrize(
    "answer",
    [
        "",
        " \n",
        "\x00",
        "a" * MEGABYTE,
        "a " * (MEGABYTE // 2),
        "1" * MEGABYTE,
        "{" * MEGABYTE,
        "a.b." * 250_000,
        "\\frac" * 100_000,
        "\\sqrt" * 390,
    ],
    ids=["empty", "blank", "nul", "one word", "words", "digits", "brackets", "dots", "latex", "roots"],
)
def test_no_answer_breaks_a_text_metric_or_holds_it_up(name: str, answer: str) -> None:
    row = row_of(name, answer, "A" if name == "choice_set" else "a 1 b")
    assert row["status"] in ("scored", "unparsed"), row["explanation"]


@pytest.mark.parametrize("name", sorted(set(TEXT_METRICS) - {"squad"}))
def test_a_missing_answer_is_unscored(name: str) -> None:
    assert row_of(name, None, "1")["status"] == "unscored"


def test_a_question_without_a_prediction_counts_as_zero_in_squad_alone() -> None:
    row = row_of("squad", None, "x")
    assert (row["status"], row["values"]) == ("unparsed", {"em": 0.0, "f1": 0.0})
    bound = bind("squad")
    failed = bound.score_table(
        {"samples": samples([sample(0)]), "responses": responses([{"answer": None, "status": "error"}])}
    )
    assert failed.column("status").to_pylist() == ["unscored"]


def test_a_pattern_that_would_never_end_leaves_its_row_unscored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "TIME_LIMIT_S", 0.05)
    slow, hostile = r"(\w+\s?)*$", "a " * 5000 + "!"
    for bound in (
        bind("regex_match", {"pattern": slow}),
        bind("exact_match", {"regexes_to_ignore": [slow]}),
        bind("exact_match", filters=[{"regex": {"pattern": slow, "take": "last"}}]),
        bind("pattern", {"pattern": slow}),
        bind("json_schema", {"schema": {"pattern": slow}}),
    ):
        answer = f'"{hostile}"' if bound.implementation == "json_schema" else hostile
        table = bound.score_table({"samples": samples([sample(0, "a")]), "responses": answers([answer])})
        (row,) = table.to_pylist()
        assert row["status"] == "unscored"
        assert "took more than 0.05 s" in row["explanation"]


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_a_corpus_score_is_of_sums_and_not_a_mean_of_sentences(name: str) -> None:
    pairs = [("the cat sat on the mat", "the cat sat on a mat"), ("a", "a b c d e f g h"), ("no", "yes it is")]
    bound = bind(name)
    table = bound.score_table(
        {
            "samples": samples([sample(i, right) for i, (_, right) in enumerate(pairs)]),
            "responses": answers([a for a, _ in pairs]),
        }
    )
    (number,) = bound.aggregate([table], {"ok": 3})
    sentences = [dict(values)[name] for values in table.column("values").to_pylist()]
    assert number["value"] != pytest.approx(sum(sentences) / 3)
    parts = bound.aggregate([table.slice(0, 1), table.slice(1)], {"ok": 3})
    assert parts == [number]
    (mean,) = bind(name, aggregation="mean").aggregate([table], {"ok": 3})
    assert mean["value"] == pytest.approx(sum(sentences) / 3)


def test_ter_counts_edits_over_words() -> None:
    assert row_of("ter", "a b c d", "a b c d")["values"] == {"ter": 0.0}
    assert row_of("ter", "c d a b", "a b c d")["values"] == {"ter": 25.0}
    assert row_of("ter", "a x c d", "a b c d")["values"] == {"ter": 25.0}


def test_ter_of_long_texts_does_without_shifts_and_says_so() -> None:
    words = random.Random(0).choices("abcdefghij", k=300)
    row = row_of("ter", " ".join(words[150:] + words[:150]), " ".join(words))
    assert row["explanation"] == "too long to search for shifts: counted as edits of single words"
    assert 0 < row["values"]["ter"] <= 100


def test_ter_counts_the_words_it_makes_itself_to_tell_long_texts() -> None:
    row = row_of("ter", "a.b." * 100, "b.a." * 100, normalized=True)
    assert row["explanation"] == "too long to search for shifts: counted as edits of single words"


@pytest.mark.parametrize("answer", ["a b " * 5000, "a.b." * 5000])
def test_rouge_of_texts_too_long_for_its_table_is_unscored(answer: str) -> None:
    row = row_of("rouge", answer, "b a " * 5000)
    assert row["status"] == "unscored"
    assert "more than" in row["explanation"]


@pytest.mark.parametrize("head", ["2^-", "2^\\sqrt", "pi^-"])
def test_a_tower_of_powers_is_refused_before_it_is_computed(head: str) -> None:
    tower = "9^9"
    for _ in range(9):
        tower = f"({tower})^9"
    assert not prm800k_equal(f"{head}({tower})", "1")
    assert equal_values("2^-9", "1/512")


def test_the_best_of_several_references_counts() -> None:
    for name, key in (("rouge", "rouge1"), ("squad", "em"), ("token_f1", "exact"), ("match", "score")):
        assert row_of(name, "new york", "boston", "New York")["values"][key] == 1.0
    assert row_of("bleu", "the cat sat on the mat", "x", "the cat sat on the mat")["values"]["bleu"] == pytest.approx(
        100
    )


def test_the_installed_version_of_a_scorer_library_is_part_of_the_metric() -> None:
    from importlib.metadata import version

    scores = bind("bleu").identity()["scores"]
    assert isinstance(scores, dict)
    assert scores["metric"] == {"name": "bleu", "version": 2, "libraries": {"sacrebleu": version("sacrebleu")}}


def test_a_missing_scorer_library_is_named_before_work_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    known = metrics.get("bleu")
    monkeypatch.setitem(
        metrics._plugins, "bleu", Plugin("metrics", "bleu", known.obj, 1, "", info={"libraries": ("no-such-library",)})
    )
    remedy = r"metric bleu needs no-such-library, which is not installed: .*pip install .*\[metrics\]"
    with pytest.raises(InputError, match=remedy):
        bind("bleu")


def test_value_keys_may_hold_a_parameter() -> None:
    def priced(prediction: str, *, name: str = "price") -> dict[str, float]:
        return {f"{name}_length": float(len(prediction))}

    plugin = Plugin("metrics", "priced", priced, 1, "", info={"values": ("{name}_length",)})
    assert define(plugin).values == ("{name}_length",)
    assert bind("number", {"name": "price"}).value_keys == ("price_within_tol", "price_exact", "price_abs_error")
    assert callable(metric)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("2sqrt(3)", "sqrt(12)", True),
        ("(x+1)^2", "x^2+2x+1", True),
        ("x/2y", "xy/2", True),
        ("sqrt(x^2)", "x", False),
        ("sqrt", "x", False),
        ("-2^2", "-4", True),
        ("2^-1", "1/2", True),
        ("3!", "6", True),
        ("ln(2)+ln(3)", "ln(6)", True),
        ("pi", "3.14159", False),
        ("1/0", "1/0", False),
        ("2^100", "2^100", False),
        ("a+b+c", "c+b+a", False),
        ("(" * 400 + "1" + ")" * 400, "1", False),
        ("2(", "2", False),
        ("10:30", "10.5", False),
    ],
)
def test_values_are_compared_only_where_they_can_be_computed(left: str, right: str, same: bool) -> None:
    assert equal_values(left, right) is same


@pytest.mark.parametrize("text", ["__import__('os').system('x')", "().__class__", "9^9^9", "((9^9)^9)^9" * 30, "0/0"])
def test_a_mathematical_answer_is_never_run_as_code(text: str) -> None:
    assert not prm800k_equal(text, "1")
    assert not hendrycks_equal(text, "1")


@given(st.text(alphabet=r"\{}frac123xy+-*/^()=. $sqrtexb", max_size=40), st.text(alphabet="12x+-/", max_size=8))
def test_any_latex_is_read_and_equals_itself(text: str, other: str) -> None:
    for equal in (hendrycks_equal, prm800k_equal):
        assert equal(text, text)
        assert equal(text, other) in (True, False)


def values(name: str, pairs: Sequence[tuple[str, str]], **params: Any) -> list[tuple[str, dict[str, float]]]:
    return score(bind(name, params), list(pairs))


def test_choice_set_wants_all_right_options_and_no_other() -> None:
    pairs = [
        ("A, C", "AC"),
        ('["C", "A"]', "AC"),
        ("(A) and (C)", "A,C"),
        ("A", "AC"),
        ("A, B, C", "AC"),
        ("Both", "AC"),
    ]
    rows = values("choice_set", pairs)
    assert [status for status, _ in rows] == ["scored"] * 5 + ["unparsed"]
    assert [row["acc"] for _, row in rows] == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]


def test_match_compares_five_digits_only_when_asked() -> None:
    assert values("match", [("180001", "180000")]) == [("scored", {"score": 0.0})]
    assert values("match", [("180001", "180000")], numbers="five_digits") == [("scored", {"score": 1.0})]


@pytest.mark.parametrize(
    ("location", "answer", "reference", "right"),
    [
        ("exact", "(42)", "42", False),
        ("exact", "42!", "42", False),
        ("exact", "10 000", "10000", True),
        ("exact", "四十二", "42", True),
        ("exact", "三千零四十二点五", "3042.5", True),
        ("exact", "１２", "12", True),
        ("exact", "−7", "-7", True),
        ("exact", "2½", "2.5", True),
        ("exact", "-2²", "4", True),
        ("exact", "42 apples", "42", False),
        ("exact", r"\$42", "42", True),
        ("exact", "42", "(42)", True),
        ("end", "It is (42).", "42", True),
        ("end", r"It costs \$20", "20", True),
        ("end", "It is 十二", "12", True),
        ("end", "about 10 000", "10000", False),
        ("end", ">=42", "42", False),
        ("begin", "[7] of 9", "7", True),
        ("any", "between ٣ and 5", "3", True),
        ("end", "60%", "60", False),
        ("end", "Infinity", "inf", False),
    ],
)
def test_numbers_in_match_are_read_as_inspect_reads_them(
    location: str, answer: str, reference: str, right: bool
) -> None:
    scored = values("match", [(answer, reference)], numbers="five_digits", location=location)
    assert scored == [("scored", {"score": float(right)})]
