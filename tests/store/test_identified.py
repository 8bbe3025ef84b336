"""Records about models: the first one stands, and a damaged one is named."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gage_eval.base.errors import InputError
from gage_eval.store import Store
from gage_eval.store.identified import ByIdentity, Identified


class Word(Identified):
    word: str


def test_of_two_that_find_something_out_at_once_both_go_on_with_the_first(tmp_path: Path) -> None:
    words = ByIdentity(Store.open(str(tmp_path)).objects, "words", Word)
    first, second = (Word(word=word, identity={"model": "m"}, created=datetime.now(UTC)) for word in ("one", "two"))
    assert not words.any()
    assert (words.keep_first(first), words.keep_first(second)) == (first, first)
    assert words.find({"model": "other"}) is None
    words.replace(second)
    assert words.find({"model": "m"}) == second
    (file,) = (tmp_path / "words").iterdir()
    file.write_text("{}")
    with pytest.raises(InputError, match=r"words/\w+.json in the store is damaged"):
        words.find({"model": "m"})
