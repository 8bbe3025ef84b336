"""A judge's text is read by the parser that its adapter names, with the filters' rules for parameters."""

from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.canonical import digest
from gage_eval.plugins import InputError
from gage_eval.scoring.metrics.guarded import RowFailed
from gage_eval.scoring.metrics.verdicts import Verdict, read_parser


def read(parser: Any, text: str) -> tuple[str | None, float | None] | None:
    verdict = read_parser(parser).read(text)
    return None if verdict is None else (verdict.answer, verdict.score)


@pytest.mark.parametrize(
    ("filters", "text", "expected"),
    [
        ({"score": "rating"}, "I say [8].", (None, 8.0)),
        ({"score": "rating"}, "I say [[8.]].", (None, 8.0)),
        ({"score": ["strip_thinking", "last_number"]}, "<think>3</think>It is 8/10.", (None, 0.8)),
        ({"score": ["strip_thinking", "last_number"]}, "<think>8", None),
        ({"score": {"regex": {"pattern": "Grade (.*)"}}}, "Grade 60%", (None, 0.6)),
        ({"score": {"regex": {"pattern": "Grade (.*)"}}}, "Grade A", None),
        ({"score": {"regex": {"pattern": "Grade (.*)"}}}, "Grade 7 or 8", None),
        ({"score": {"regex": {"pattern": "Grade (.*)"}}}, "Grade nan", None),
        ({"score": {"regex": {"pattern": "Grade (.*)"}}}, "Grade 1e999", None),
        ({"answer": "pairwise_verdict", "score": "rating"}, "[[B]] by [[9]]", ("B", 9.0)),
        ({"answer": "pairwise_verdict", "score": "rating"}, "[[B]]", ("B", None)),
        ({"answer": "boxed"}, r"so \\boxed{yes}", ("yes", None)),
        ({"answer": "boxed"}, "so yes", None),
    ],
)
def test_filters_give_the_answer_and_the_score(filters: Any, text: str, expected: Any) -> None:
    assert read({"filters": filters}, text) == expected


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("lines", "no verdict parser 'lines'. Known: default, filters, rubric, two_ratings."),
        ("filters", "verdict parser filters needs 'answer' or 'score'."),
        ({"filters": {"score": []}}, "name at least one filter"),
        ({"filters": {"score": "ratings"}}, "no filter 'ratings'.*Did you mean 'rating'"),
        ({"filters": {"score": {"regex": {"pattern": "("}}}}, "parameter 'pattern' is '\\('"),
        ({"filters": {"score": ["majority_vote"]}}, "filter majority_vote needs all replicates"),
        ({"filters": {"scores": "rating"}}, "has no parameter 'scores'.*Did you mean 'score'"),
        ({"default": {"line": 3}}, "verdict parser default has no parameter 'line'"),
        ({"default": 3}, "its parameters are 3, not a mapping"),
        (3, "neither a name nor"),
    ],
)
def test_an_entry_that_cannot_be_a_parser_says_why(entry: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_parser(entry)


def test_a_rubric_gives_a_score_for_each_criterion_or_says_which_one_lacks() -> None:
    parser = read_parser({"rubric": {"criteria": ["clarity", "depth"]}})
    verdict = parser.read("Clarity: 2\n**Clarity:** 4/5\n- depth : 3.\nOther: 9")
    assert verdict == Verdict(score=3.5, fields={"clarity": 4.0, "depth": 3.0})
    assert parser.read("1. Clarity: 4\n2) **Depth**: 3") == verdict
    lacking = parser.read("clarity: 4\ndepth: good")
    assert lacking is not None
    assert (lacking.score, lacking.unread) == (None, "the judge gave no score for depth")
    assert parser.read("It is good.") is None
    with pytest.raises(InputError, match="criteria"):
        read_parser({"rubric": {"criteria": []}})


def test_the_identity_holds_the_filters_versions_and_parameters() -> None:
    entries: list[Any] = [
        None,
        {"filters": {"score": "rating"}},
        {"filters": {"answer": "rating"}},
        {"filters": {"score": {"regex": {"pattern": "a"}}}},
        {"filters": {"score": {"regex": {"pattern": "b"}}}},
    ]
    identities = [read_parser(entry).identity() for entry in entries]
    assert len({digest(identity) for identity in identities}) == len(entries)
    assert identities[0] == read_parser("default").identity() == read_parser({"default": None}).identity()
    assert "'version'" in str(identities[1]["params"])


OWN = """
from gage_eval.scoring.metrics import Verdict

def grades(text: str, *, best: int = 10):
    if text == "none":
        return None
    if text == "odd":
        return 7
    return Verdict(score=int(text) / best, fields={"raw": text})
"""


def test_a_file_of_ones_own_holds_a_parser(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    parser = read_parser({f"{file}:grades": {"best": 20}})
    assert parser.read("8") == Verdict(score=0.4, fields={"raw": "8"})
    assert parser.read("none") is None
    with pytest.raises(RowFailed, match=r"^mine.py:grades\(\) gave int, not a Verdict or None\.$"):
        parser.read("odd")
    before = digest(parser.identity())
    file.write_text(OWN.replace('== "none"', 'in ("none", "")'))
    assert digest(read_parser({f"{file}:grades": {"best": 20}}).identity()) != before
    with pytest.raises(InputError, match="has no parameter 'worst'"):
        read_parser({f"{file}:grades": {"worst": 1}})
