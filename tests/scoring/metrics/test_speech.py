"""Word and character error rates are those of jiwer 4.0.0, with Whisper's normalisers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.scoring.metrics.base import Score
from gage_eval.scoring.metrics.builtin.speech import cer, wer


@pytest.mark.parametrize(
    ("reference", "said", "words", "characters"),
    [
        ("the cat sat on the mat", "the cat sat on the mat", 0.0, 0.0),
        ("the cat sat on the mat", "the cat sit on mat", 2 / 6, 5 / 22),
        ("hello world", "hello duck", 0.5, 5 / 11),
        ("one two three", "", 1.0, 1.0),
        ("one", "one two three four", 3.0, 15 / 3),
        ("ni hao", "ni hao ma", 0.5, 0.5),
    ],
)
def test_rates_are_those_of_jiwer(reference: str, said: str, words: float, characters: float) -> None:
    assert _value(wer(said, [reference], normalizer="none"), "wer") == pytest.approx(words)
    assert _value(cer(said, [reference], normalizer="none"), "cer") == pytest.approx(characters)


@pytest.mark.parametrize(
    ("normalizer", "reference", "said", "edits"),
    [
        ("none", "Hello, World!", "hello world", 2),
        ("whisper_basic", "Hello, World!", "hello world", 0),
        ("whisper_basic", "I'm twenty-one", "i am 21", 3),
        ("whisper_english", "I'm twenty-one", "i am 21", 0),
        ("whisper_english", "The colour of money", "the color of money", 0),
    ],
)
def test_a_normaliser_decides_what_is_the_same_word(normalizer: str, reference: str, said: str, edits: int) -> None:
    components = wer(said, [reference], normalizer=normalizer).components  # type: ignore[arg-type]
    assert components is not None
    assert components["wer"][0] == edits  # type: ignore[index]


def test_the_nearest_reference_counts_and_one_without_words_is_none() -> None:
    score = wer("a b", ["a b c d", "a b c", "..."])
    assert score.components == {"wer": [1, 3]}
    assert wer("a", ["..."]).status == "unscored"
    assert wer("a", []).status == "unscored"


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_two_texts_have_a_rate_or_no_reference(said: str, reference: str) -> None:
    for score, name in ((wer(said, [reference]), "wer"), (cer(said, [reference]), "cer")):
        if score.status == "scored":
            assert _value(score, name) >= 0.0


def _value(score: Score, name: str) -> float:
    values = score.value
    assert values is not None
    return float(values[name] if isinstance(values, dict) else values)
