"""What a message offers as the name that was meant is one a person may have meant."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.base.errors import closest, nearest
from gage_eval.config.models import DatasetParams, TaskConfig
from gage_eval.extend import registry

_WORDS = st.text(string.ascii_lowercase, min_size=5, max_size=12)
_KNOWN = sorted({
    *TaskConfig.model_fields,
    *DatasetParams.model_fields,
    *(name for kind in registry.ALL.values() for name in kind.names()),
})  # fmt: skip


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("treshold", ["threshold", "lengths"], "threshold"),
        ("prompt", ["params", "prompt_id"], "prompt_id"),
        ("MMLU", ["mmmu", "mmlu"], "mmlu"),
        ("openai", ["openai_http"], "openai_http"),
        ("dutt", ["dut"], "dut"),
        ("vlm", ["vllm"], "vllm"),
        ("max_tokens", ["max_samples", "max_new_tokens"], "max_new_tokens"),
        ("accuracy", ["latency"], None),
        ("tmp", ["top"], None),
        ("a", ["b", "ab"], None),
        ("run-2", ["run-1", "run-3"], None),
        ("2024", ["2023"], None),
        ("mmlu_v2", ["mmlu_v1"], None),
        ("---", ["--", "----"], None),
        ("", ["a", ""], ""),
    ],
)
def test_only_a_name_that_was_likely_meant_is_offered(word: str, known: list[str], meant: str | None) -> None:
    assert nearest(word, known) == meant
    assert closest(word, known) == ("" if meant is None else f" Did you mean '{meant}'?")


@given(_WORDS, st.data())
def test_a_word_with_one_slip_is_recognised(word: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(word) - 2))
    slip = data.draw(st.sampled_from(["missing", "twice", "swapped"]))
    left, letter, after, right = word[:place], word[place], word[place + 1], word[place + 2 :]
    slipped = {"missing": after, "twice": letter * 2 + after, "swapped": after + letter}[slip]
    assert nearest(left + slipped + right, [word]) == word


@given(st.text(max_size=20))
def test_what_is_offered_shares_most_letters_and_all_numbers(word: str) -> None:
    offered = nearest(word, _KNOWN)
    if offered is None or offered == word:
        return
    letters = [char for char in word.casefold() if char.isalpha()]
    shared = [char for char in letters if char in offered.casefold()]
    assert len(letters) > 1
    assert 2 * len(shared) > len(letters)
    assert [char for char in word if char.isdecimal()] == [char for char in offered if char.isdecimal()]


@given(st.integers(0, 10**6), st.lists(st.integers(0, 10**6)))
def test_a_number_is_never_taken_for_another(number: int, others: list[int]) -> None:
    known = [str(other) for other in others if other != number]
    assert nearest(str(number), known) is None
    assert nearest(f"sample-{number}", [f"sample-{other}" for other in known]) is None
