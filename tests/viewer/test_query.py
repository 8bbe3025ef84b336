"""Promises of the search line's conditions."""

import pytest

from gage_eval.base.errors import InputError
from gage_eval.viewer.index import About
from gage_eval.viewer.query import MOST_TERMS, condition_of

ABOUT = About((), (), answers=1, has_texts=True, seconds=0.0)


def test_all_texts_of_a_search_line_are_one_question_to_the_database() -> None:
    words = [f"w{i}" for i in range(MOST_TERMS // 2)]
    condition = condition_of(" ".join([*words, *words, "asked:x", 'answer:"Y z"']), ABOUT, None)
    assert condition.sql.count("SELECT") == 1
    assert condition.values == (*words, "x", "x", "y z", "y z")
    assert condition_of(" ".join(f"-{word}" for word in words), ABOUT, None).sql.count("SELECT") == 1


def test_a_line_of_too_many_terms_is_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match=f"at most {MOST_TERMS} terms"):
        condition_of(" ".join(f"w{i}" for i in range(MOST_TERMS + 1)), ABOUT, None)
