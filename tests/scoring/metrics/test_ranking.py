"""ranking says where the first right candidate stands, and its keys say what they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vectors import references, score_one

from gage_eval.base.canonical import canonical_text
from gage_eval.base.errors import InputError
from gage_eval.scoring.metrics import bind

TARGETS = {"references": references("c", "d")}


@pytest.mark.parametrize(
    ("answer", "rank"),
    [
        ('["a", "b", "c", "d"]', 3),
        ('["c"]', 1),
        ('["a"]', None),
        ("a\nb\n\nc", 3),
        ("1. a\n2. d", 2),
        ("- c", 1),
        ("c", 1),
        ("[not json", None),
    ],
)
def test_the_first_right_candidate_counts(answer: str, rank: int | None) -> None:
    values = score_one("ranking", TARGETS, {"answer": answer}, {"k": 2})["values"]
    assert values == {"mrr": 0.0 if rank is None else 1 / rank, "hit@2": float(rank is not None and rank <= 2)}


def test_objects_stand_for_the_field_that_is_named() -> None:
    answer = {"answer": '[{"id": "a"}, {"id": "c"}]'}
    assert score_one("ranking", TARGETS, answer)["values"] == {"mrr": 0.0, "hit@3": 0.0}
    assert score_one("ranking", TARGETS, answer, {"candidate_field": "id"})["values"] == {"mrr": 0.5, "hit@3": 1.0}


@pytest.mark.parametrize("answer", ["", "   ", "[]"])
def test_no_candidates_are_unparsed_and_count_as_nothing_found(answer: str) -> None:
    scored = score_one("ranking", TARGETS, {"answer": answer})
    assert (scored["status"], scored["values"]) == ("unparsed", {"mrr": 0.0, "hit@3": 0.0})


def test_no_targets_are_unscored() -> None:
    assert score_one("ranking", {"references": []}, {"answer": "a"})["status"] == "unscored"


def test_k_is_one_at_least() -> None:
    with pytest.raises(InputError, match="parameter 'k' is 0"):
        bind("ranking", {"k": 0})


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8), st.integers(1, 8))
def test_hit_and_rank_agree(candidates: list[str], k: int) -> None:
    values = score_one("ranking", TARGETS, {"answer": canonical_text(candidates)}, {"k": k})["values"]
    assert (values[f"hit@{k}"] == 1.0) == (values["mrr"] >= 1 / k)
