"""The default preprocessor: Samples as they are, legacy records mapped, everything else rejected with a reason."""

from typing import Any

import pytest

from gage_eval.base import patterns
from gage_eval.base.errors import InputError
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.sample.rules import normalise_sample
from gage_eval.data.standardize.compose import build
from gage_eval.extend import registry


def sample_of(record: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    return normalise_sample(build(registry.preprocessors.get("default"), kwargs)(record), default_id="x")


def reason(record: dict[str, Any], **kwargs: Any) -> str:
    with pytest.raises(RecordRejected) as caught:
        sample_of(record, **kwargs)
    return caught.value.reason


def text(sample: dict[str, Any], index: int = -1) -> str:
    content: str = sample["messages"][index]["content"][0]["text"]
    return content


def test_a_sample_passes_as_it_is() -> None:
    record = {
        "id": "a",
        "messages": [{"role": "user", "content": "Hi"}],
        "references": ["x"],
        "options": [{"id": "A", "content": "x"}],
        "choices": "kept as an unknown key",
    }
    assert sample_of(record) == normalise_sample(record)


@pytest.mark.parametrize("field", ["question", "prompt", "text", "goal"])
@pytest.mark.parametrize("answer", ["answer", "label", "target"])
def test_question_and_answer_become_messages_and_reference(field: str, answer: str) -> None:
    sample = sample_of({field: "What?", answer: 42, "level": "hard", "question_type": "short-answer"})
    assert sample == {
        "schema_version": "v1",
        "id": "x",
        "task_type": "short-answer",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "What?"}]}],
        "references": [{"answer": [{"type": "text", "text": "42"}]}],
        "label": "42",
        "extra": {"level": "hard"},
    }


def test_fields_may_be_paths() -> None:
    sample = sample_of(
        {"doc": {"qs": [{"q": "What?"}]}, "gold": {"all": ["a", "b"]}, "uid": 9, "subject": "art"},
        question_field="doc.qs.0.q",
        answer_field="gold.all",
        id_field="uid",
        fields={"data_tag.topic": "subject", "metadata.first": "gold.all.0", "metadata.none": "nowhere"},
        task_type="short-answer",
    )
    assert sample["id"] == "9"
    assert text(sample) == "What?"
    assert [part["answer"][0]["text"] for part in sample["references"]] == ["a", "b"]
    assert sample["data_tag"] == {"topic": "art"}
    assert sample["metadata"] == {"first": "a"}


def test_the_final_answer_is_taken_out_and_the_solution_kept() -> None:
    record = {"question": "How much?", "answer": "It is #### not 5.\n#### 1,234 "}
    by_split = sample_of(record, answer_split="#### ", answer_strip=",")
    by_regex = sample_of(record, answer_regex=r"#### ([0-9,]+)", answer_strip=",")
    assert by_split == by_regex
    assert by_split["label"] == "1234"
    assert by_split["metadata"] == {"answer_text": record["answer"]}


def test_choices_become_options_with_the_correct_letter() -> None:
    sample = sample_of({"question": "Which?", "choices": ["Shark", "Dolphin"], "answer": 1})
    assert sample["options"] == [{"id": "A", "content": "Shark"}, {"id": "B", "content": "Dolphin"}]
    assert sample["metadata"] == {"option_map": {"A": "Shark", "B": "Dolphin"}, "correct_choice": "B"}
    assert (sample["label"], sample["choices_role"]) == ("B", "options")


def test_choices_of_a_response_are_the_reference() -> None:
    message = {"role": "assistant", "content": [{"type": "text", "text": "B"}]}
    record = {
        "messages": [{"role": "user", "content": "Which?"}],
        "choices": [{"index": 0, "message": message}],
    }
    sample = sample_of(record)
    assert (sample["label"], sample["choices_role"]) == ("B", "reference")
    assert "extra" not in sample


def test_messages_without_any_reference_are_a_sample() -> None:
    assert sample_of({"messages": [{"role": "user", "content": "Hi"}]})["references"] == []
    assert sample_of({"prompt": "Hi"})["references"] == []


def test_an_answer_beside_messages_is_the_reference() -> None:
    sample = sample_of({"messages": [{"role": "user", "content": "Hi"}], "answer": "x"})
    assert sample["label"] == "x"
    assert "extra" not in sample


def test_system_prompt_and_template_make_the_messages() -> None:
    sample = sample_of(
        {"question": "Which {{ x }}?", "choices": ["a", "b"], "answer": "b", "hint": "h"},
        system_prompt="Be brief.",
        template="{{ question }} {{ record.hint }}{% for o in options %} {{ o.id }}={{ o.content }}{% endfor %}",
    )
    assert text(sample, 0) == "Be brief."
    assert text(sample) == "Which {{ x }}? h A=a B=b"


@pytest.mark.parametrize(
    ("record", "kwargs", "said"),
    [
        (
            {"q": "x"},
            {},
            "there is no question (question, prompt, text, goal, inputs.prompt). "
            "Fields here: q. Set question_field to one of "
            "them.",
        ),
        ({"question": ["x"]}, {}, "question: it must be a string, not a list."),
        ({"question": "x", "answer": {"a": 1}}, {}, "answer: it must be a string, not an object."),
        (
            {"question": "x", "answer": "5"},
            {"answer_split": "#### "},
            "answer: there is no '#### ' before a final answer.",
        ),
        ({"question": "x", "answer": "five"}, {"answer_regex": "[0-9]+"}, "answer: no answer matches '[0-9]+'."),
        ({"question": "x", "choices": ["a", "b"], "answer": "c"}, {}, "answer: 'c' is not one of the choices."),
        (
            {"question": "x", "choices": ["a"], "answer": "a"},
            {},
            "choices: a question needs at least two choices, but has 1.",
        ),
        ({"question": "x", "answer": "a", "label": "b"}, {}, "label: 'b' is not the first reference ('a')."),
        (
            {"question": "x", "answer": "a", "metadata": 1},
            {"answer_strip": ","},
            "metadata: it must be an object, not a number.",
        ),
        (
            {"question": "x"},
            {"id_field": "uid"},
            "uid: there is no id. Fields here: question. Set id_field to one of them.",
        ),
        (
            {"question": "x"},
            {"template": "{{ record.y }}"},
            "template: the template uses 'y', which is not defined ('dict object' has no attribute 'y').",
        ),
        (
            {"messages": [], "choices": [{"message": None}]},
            {},
            "choices[0].message.content: the reference is null, not text.",
        ),
    ],
)
def test_a_record_that_cannot_be_used_is_rejected_in_one_sentence(
    record: dict[str, Any], kwargs: dict[str, Any], said: str
) -> None:
    assert reason(record, **kwargs) == said


def test_a_pattern_that_takes_too_long_on_an_answer_rejects_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "TIME_LIMIT_S", 0.05)
    said = reason({"question": "x", "answer": "a " * 5000 + "!"}, answer_regex=r"(\w+\s?)*$")
    assert said.startswith("answer: the pattern '(\\\\w+\\\\s?)*$' took more than 0.05 s on 10001 characters:")


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        (
            {"answer_regex": "("},
            "answer_regex: '(' is not a regular expression (missing ) at position 1).",
        ),
        ({"answer_split": ""}, "answer_split: it is empty; name the text before the final answer."),
        (
            {"template": "{% if %}"},
            "preprocess_kwargs.template, line 1: Expected an expression, got 'end of statement block'.",
        ),
        (
            {"fields": {"messages.0": "x"}},
            "fields.messages.0: a target must be one of id, task_type, label, unconditioned_input, "
            "image, audio, video, file, "
            "metadata.<key>, data_tag.<key>, sampling_params.<key>, generation_params.<key>, eval_config.<key>, "
            "extra.<key>.",
        ),
    ],
)
def test_arguments_that_cannot_work_are_refused_before_any_row(kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        build(registry.preprocessors.get("default"), kwargs)
    assert str(caught.value) == said
