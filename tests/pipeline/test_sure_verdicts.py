"""Which verdicts leave an answer unsure, so that a second judge is asked; and what makes a pair."""

from typing import Any

import pytest

from gage_eval.base.field_paths import compile_path
from gage_eval.pipeline.pairs import Pairs
from gage_eval.pipeline.second_judge import SecondJudge


def verdict(slot: int, answer: str | None = None, **changes: Any) -> dict[str, Any]:
    plain = {"status": "ok", "reason": None, "answer": answer, "score": None, "slot": slot, "parsed": None}
    return {**plain, **changes}


@pytest.mark.parametrize(
    ("first", "second", "differ"),
    [
        ("A", "B", False),
        ("A", "A", True),
        ("A>>B", "B>A", False),
        ("[[x]]", "[[x]]", False),
        ("A>B", "A>B", True),
        ("tie", "C", False),
        ("A=B", "tie", False),
    ],
)
def test_verdicts_on_both_orders_are_compared_by_who_wins(first: str, second: str, *, differ: bool) -> None:
    verdicts = [verdict(0, first), verdict(1, second)]
    assert SecondJudge("second").is_asked(verdicts, both_orders=True) is differ


def test_odd_fields_are_no_probability_and_a_parser_that_failed_gave_no_verdict() -> None:
    second = SecondJudge("second", below=0.9)
    odd = ['{"probabilities": 3}', '{"probabilities": {"A": "x"}}', "[]", None]
    assert not any(second.is_asked([verdict(0, "A", parsed=parsed)], both_orders=False) for parsed in odd)
    failed = verdict(0, status="unparsed", reason="parser_failed")
    assert second.is_asked([failed], both_orders=False)


def test_an_empty_field_is_no_pair_and_only_an_answer_that_was_not_repeated_stands_for_all() -> None:
    field = Pairs(field=compile_path("sample.metadata.other"))
    others = [field.other({"metadata": {"other": text}}, {}, 0) for text in ("", [], ["a", " "], "b")]
    assert [other and other["answer"] for other in others] == [None, None, None, "b"]
    run, rows = Pairs(responses="r"), {0: {"answer": "x"}}
    assert run.other({}, rows, 3) == {"answer": "x"}
    assert run.other({}, {**rows, 1: {"answer": "y"}}, 3) is None
