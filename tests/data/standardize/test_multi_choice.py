"""Multiple choice: every form of choices and answers ends in lettered options and one correct letter."""

from typing import Any

import pytest

from gage_eval.base.errors import InputError
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.sample.rules import normalise_sample
from gage_eval.data.standardize.compose import build
from gage_eval.extend import registry


def sample_of(record: dict[str, Any], name: str = "multi_choice", **kwargs: Any) -> dict[str, Any]:
    return normalise_sample(build(registry.preprocessors.get(name), kwargs)(record), default_id="x")


PIQA = {"goal": "How?", "sol1": "this way ", "sol2": "that way", "label": 1}
PIQA_KWARGS: dict[str, Any] = {"question_field": "goal", "choices_field": ["sol1", "sol2"], "answer_field": "label"}


def test_a_question_becomes_a_prompt_with_lettered_options() -> None:
    sample = sample_of(PIQA, **PIQA_KWARGS, system_prompt="Be brief.")
    assert sample == {
        "schema_version": "v1",
        "id": "x",
        "task_type": "multiple-choice",
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
            {
                "role": "user",
                "content": [
                    {
                        "type": "text",
                        "text": "How?\n\nA. this way\nB. that way\n\n"
                        "Answer with the letter of the correct option only.",
                    }
                ],
            },
        ],
        "options": [{"id": "A", "content": "this way "}, {"id": "B", "content": "that way"}],
        "references": [{"answer": [{"type": "text", "text": "B"}]}],
        "label": "B",
        "metadata": {
            "question_text": "How?",
            "option_map": {"A": "this way ", "B": "that way"},
            "correct_choice": "B",
            "question_field": "goal",
            "choices_field": ["sol1", "sol2"],
            "answer_field": "label",
        },
        "choices_role": "options",
    }


def test_struct_only_writes_the_same_without_messages() -> None:
    full = sample_of(PIQA, **PIQA_KWARGS)
    assert sample_of(PIQA, "multi_choice_struct_only", **PIQA_KWARGS) == {**full, "messages": []}


@pytest.mark.parametrize(
    "choices",
    [
        ["Shark", "Dolphin"],
        {"A": "Shark", "B": "Dolphin"},
        [{"label": "A", "text": "Shark"}, {"label": "B", "text": "Dolphin"}],
        [{"id": "A", "content": "Shark"}, {"id": "B", "content": "Dolphin"}],
        {"text": ["Shark", "Dolphin"], "label": ["A", "B"]},
    ],
)
@pytest.mark.parametrize("answer", ["B", "b", "(B)", "B.", "Dolphin", 1, "1"])
def test_choices_and_answers_are_understood_in_all_usual_forms(choices: Any, answer: Any) -> None:
    sample = sample_of({"question": "Which?", "choices": choices, "answer": answer})
    assert sample["options"] == [{"id": "A", "content": "Shark"}, {"id": "B", "content": "Dolphin"}]
    assert sample["metadata"]["correct_choice"] == sample["label"] == "B"


def test_an_index_may_count_from_one() -> None:
    record = {"question": "Which?", "options": ["x", "y"], "answer": 1}
    assert sample_of(record, options_field="options", answer_index_base=1)["label"] == "A"


def test_a_text_comes_before_an_index_and_an_id_before_both() -> None:
    numbers = {"question": "1 + 1?", "choices": ["1", "2", "3"]}
    assert sample_of({**numbers, "answer": "2"})["label"] == "B"
    assert sample_of({**numbers, "answer": 2})["label"] == "C"
    assert sample_of({"question": "q", "choices": {"1": "2", "2": "1"}, "answer": "1"})["label"] == "1"


def test_a_set_without_answers_can_be_run() -> None:
    sample = sample_of({"question": "Which?", "choices": ["x", "y"]}, answer_field=None)
    assert sample["references"] == []
    assert "correct_choice" not in sample["metadata"]


def test_prompt_text_is_ones_own_when_asked() -> None:
    record = {"question": "Which?", "choices": ["x", "y"], "answer": "A"}
    bare = sample_of(record, instruction=None)
    assert bare["messages"][0]["content"][0]["text"] == "Which?\n\nA. x\nB. y"
    own = sample_of(record, template="{{ question }}{% for o in options %} {{ o.id }}) {{ o.content }}{% endfor %}")
    assert own["messages"][0]["content"][0]["text"] == "Which? A) x B) y"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"question": None},
            "question: there is no question. Fields here: choices, answer. Set question_field to one of them.",
        ),
        (
            {"choices": None},
            "choices: there is no list of choices. Fields here: question, answer. Set choices_field to one of them.",
        ),
        ({"choices": "x"}, "choices: the choices must be a list or an object, not a string."),
        ({"choices": ["x", None]}, "choices: it must be a string, not null."),
        ({"choices": {"text": ["x", "y"], "label": ["A"]}}, "choices: it has 2 texts and 1 labels."),
        (
            {"choices": [{"label": "A", "text": "x"}, {"label": "A", "text": "y"}]},
            "choices: two choices have the same id.",
        ),
        (
            {"answer": ...},
            "answer: there is no answer. Fields here: question, choices. Set answer_field to one of them.",
        ),
        ({"answer": [1]}, "answer: the answer must be a letter, an index or a text, not a list."),
        ({"answer": True}, "answer: true is not one of the choices."),
        ({"answer": 2}, "answer: index 2 is not one of the 2 choices."),
        ({"answer": -1}, "answer: index -1 is not one of the 2 choices."),
        ({"answer": "neither"}, "answer: 'neither' is not one of the choices."),
        ({"choices": ["same", "same"], "answer": "same"}, "answer: several choices read 'same'."),
        ({"metadata": []}, "metadata: it must be an object, not a list."),
    ],
)
def test_a_question_that_cannot_be_used_is_rejected_in_one_sentence(change: dict[str, Any], said: str) -> None:
    record = {"question": "Which?", "choices": ["x", "y"], "answer": "A", **change}
    with pytest.raises(RecordRejected) as caught:
        sample_of({name: value for name, value in record.items() if value is not ...})
    assert caught.value.reason == said


def test_arguments_that_contradict_each_other_are_refused() -> None:
    factory = registry.preprocessors.get("multi_choice").obj
    with pytest.raises(InputError, match="mean the same"):
        factory(choices_field="a", options_field="b")
    for name in ("multi_choice", "default"):
        with pytest.raises(InputError, match="answer_index_base: it must be 0 or 1, not 2"):
            registry.preprocessors.get(name).obj(answer_index_base=2)


@pytest.mark.parametrize("choices", [["True", "False"], [True, False], ["true", "false"]])
def test_a_boolean_answer_is_the_choice_that_reads_so(choices: list[Any]) -> None:
    sample = sample_of({"question": "Is it?", "choices": choices, "answer": False})
    assert sample["label"] == "B"
