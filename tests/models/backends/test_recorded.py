"""Recorded texts lie on disk and come back by their key, and by no other."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.models.backends import recorded
from gage_eval.models.backends.recorded import RecordedTexts, RepeatedKey

ANY_TEXT = st.text(st.characters(), max_size=40)


@given(st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=30), ANY_TEXT)
def test_every_text_comes_back_by_its_key_and_nothing_by_another(texts: dict[str, str], other: str) -> None:
    kept = RecordedTexts()
    for position, (key, text) in enumerate(texts.items()):
        kept.add(position, key, text)
    kept.seal()
    assert {key: kept.get(key) for key in texts} == texts
    assert kept.get(other) == texts.get(other)
    assert len(kept) == len(texts)
    kept.close()


def test_keys_with_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "_code", lambda name: 7)
    kept = RecordedTexts()
    for position, key in enumerate("abc"):
        kept.add(position, key, key.upper())
    kept.seal()
    assert [kept.get(key) for key in "abcd"] == ["A", "B", "C", None]
    kept.close()


def test_a_key_that_comes_twice_is_named_with_both_positions() -> None:
    kept = RecordedTexts()
    for position, key in [(0, "x"), (3, "same"), (4, "y"), (9, "same")]:
        kept.add(position, key, "")
    with pytest.raises(RepeatedKey) as caught:
        kept.seal()
    assert (caught.value.key, caught.value.first, caught.value.second) == ("same", 3, 9)
    kept.close()


def test_memory_does_not_grow_with_the_texts() -> None:
    kept = RecordedTexts()
    for position in range(1000):
        kept.add(position, f"key {position}", "x" * 10_000)
    kept.seal()
    held = [value for value in vars(kept).values() if isinstance(value, array)]
    assert sum(value.itemsize * len(value) for value in held) == 16 * 1000
    assert kept.get("key 999") == "x" * 10_000
    kept.close()
