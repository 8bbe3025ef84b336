"""Promises of the path language: total on any data, the Sample first, older spellings by one table."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.base.errors import InputError
from gage_eval.base.field_paths import ALIASES, MISSING, compile_path, resolve, walk
from gage_eval.base.tables import SAMPLES

MULTIPLE_CHOICE: dict[str, Any] = {
    "id": "mc_0001",
    "task_type": "multiple-choice",
    "messages": [
        {"role": "system", "content": "Answer with a letter."},
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "inputs/sea.png"}},
                {"type": "text", "text": "Which one is a mammal?"},
            ],
        },
    ],
    "options": [{"id": "A", "content": "Shark"}, {"id": "B", "content": "Dolphin"}],
    "references": [{"answer": [{"type": "text", "text": "B"}]}],
    "label": "B",
    "choices_role": "option",
    "metadata": {"dataset": "demo"},
}
DOCUMENT: dict[str, Any] = {
    "id": "doc_0001",
    "messages": [],
    "references": [{"answer": "Paris"}, {"answer": [{"type": "text", "text": "paris"}]}],
    "choices_role": "reference",
    "metadata": {},
}


def test_walk_follows_keys_and_list_indexes() -> None:
    assert walk({"a": [{"b": 1}]}, "a.0.b") == 1
    assert walk({"a": {"0": "key"}}, "a.0") == "key"
    assert walk({"a": None}, "a") is None


@pytest.mark.parametrize("path", ["b", "a.1", "a.-1", "a.0.b", "a.x", "a.٠", "a." + "9" * 5000, "a.__class__"])
def test_what_is_not_there_is_missing(path: str) -> None:
    assert walk({"a": ["text"]}, path) is MISSING


def test_null_on_the_way_is_missing() -> None:
    assert walk({"a": None}, "a.b") is MISSING


def test_roots() -> None:
    where: dict[str, Any] = {
        "sample": {"label": "s"},
        "model_output": {"answer": "m"},
        "judge_output": {"score": 0.5},
    }
    assert resolve("sample.label", **where) == "s"
    assert resolve("label", **where) == "s"
    assert resolve("model_output.answer", **where) == "m"
    assert resolve("judge_output.score", **where) == 0.5
    assert resolve("answer", **where) is MISSING
    assert resolve("judge_output.score") is MISSING
    assert resolve("sample.label") is MISSING


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("sample.label", "B"),
        ("target", "B"),
        ("targets", ["B"]),
        ("targets.0", "B"),
        ("sample.choices.1.message.content.0.text", "Dolphin"),
        ("choices.0.message.content.0.text", "Shark"),
        ("choices.1.label", "B"),
        ("choices.1.text", "Dolphin"),
        ("sample.inputs.prompt", "Which one is a mammal?"),
        ("sample.inputs.multi_modal_data.image.0", "inputs/sea.png"),
        ("_dataset_id", "demo"),
        ("_dataset_metadata.dataset", "demo"),
        ("question_type", "multiple-choice"),
        ("sample.metadata.correct_choice", "B"),
        ("sample.metadata.option_map", {"A": "Shark", "B": "Dolphin"}),
        ("sample.metadata.option_map.A", "Shark"),
    ],
)
def test_older_spellings_of_a_multiple_choice_sample(path: str, expected: Any) -> None:
    assert resolve(path, sample=MULTIPLE_CHOICE) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("label", "Paris"),
        ("sample.choices.0.message.content.0.text", "Paris"),
        ("sample.choices.1.message.content.0.text", "paris"),
        ("sample.metadata.answers", ["Paris", "paris"]),
        ("sample.metadata.references.1", "paris"),
    ],
)
def test_choices_are_references_where_the_record_used_them_so(path: str, expected: Any) -> None:
    assert resolve(path, sample=DOCUMENT) == expected


def test_results_inside_the_sample_are_the_outputs() -> None:
    output, verdict = {"answer": "B"}, {"score": 1.0}
    assert resolve("sample.predict_result.0.answer", sample={}, model_output=output) == "B"
    assert resolve("sample.eval_result.score", sample={}, judge_output=verdict) == 1.0
    assert resolve("sample.judge_output.score", sample={}, judge_output=verdict) == 1.0


def test_what_the_sample_holds_comes_before_an_alias() -> None:
    sample = MULTIPLE_CHOICE | {"metadata": {"correct_choice": "A"}, "extra": {"inputs": {"prompt": "kept"}}}
    assert resolve("metadata.correct_choice", sample=sample) == "A"
    assert resolve("inputs.prompt", sample=sample) == "kept"


def test_media_references_are_their_address() -> None:
    media = {"references": [{"answer": [{"type": "image_url", "image_url": {"url": "refs/apple.png"}}]}]}
    flat = {"references": [{"answer": [{"type": "audio_url", "url": "refs/waves.wav", "text": None}]}]}
    assert resolve("label", sample=media) == "refs/apple.png"
    assert resolve("label", sample=flat) == "refs/waves.wav"


@pytest.mark.parametrize("path", ["", "a..b", ".a", "sample.", "choices[0].text"])
def test_a_path_that_cannot_be_meant_is_refused(path: str) -> None:
    with pytest.raises(InputError, match="path"):
        compile_path(path)


def test_brackets_are_refused_with_the_right_spelling() -> None:
    with pytest.raises(InputError, match=r"Write 'choices\.0\.text'"):
        compile_path("choices[0].text")


def test_sample_columns_name_what_a_path_reads() -> None:
    assert compile_path("sample.metadata.x").sample_columns == {"metadata"}
    assert compile_path("choices.0").sample_columns == {"extra", "options", "references", "choices_role"}
    assert compile_path("unheard_of").sample_columns == {"extra"}
    assert compile_path("model_output.answer").sample_columns == frozenset()


def test_every_alias_reads_columns_of_the_contract() -> None:
    for alias in ALIASES:
        assert alias.columns <= set(SAMPLES.arrow.names)
        assert alias.reads


def test_aliases_are_total_on_an_empty_sample() -> None:
    for alias in ALIASES:
        assert resolve(".".join(alias.spelling), sample={}) is MISSING


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab01"), inner, max_size=3),
)


@given(JSON, st.lists(st.sampled_from(["a", "b", "0", "1", "_"]), min_size=1, max_size=4))
def test_walk_is_total_and_finds_only_what_plain_indexing_finds(value: Any, parts: list[str]) -> None:
    expected: Any = value
    try:
        for part in parts:
            if expected is None or isinstance(expected, str):
                raise KeyError
            expected = expected[int(part)] if isinstance(expected, list) else expected[part]
    except (KeyError, IndexError, TypeError, ValueError):
        expected = MISSING
    assert walk(value, ".".join(parts)) == expected
