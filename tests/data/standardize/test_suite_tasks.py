"""The preprocessors that only built-in suites use: HellaSwag, AGIEval, MBPP, TruthfulQA's short answers."""

from typing import Any

import pytest
from test_tasks import reason, references, said, sample_of


def test_hellaswag_is_cleaned_as_in_the_harness() -> None:
    record = {
        "activity_label": "Removing ice",
        "ctx_a": "[header] How to start [title] A man  stands.",
        "ctx_b": "then HE",
        "endings": ["goes [step] home.", "sings.", "sits.", "waits."],
        "label": "2",
    }
    sample = sample_of("hellaswag", record)
    assert sample["metadata"]["question_text"] == "Removing ice: How to start. A man stands. Then he"
    assert [option["content"] for option in sample["options"]] == ["goes home.", "sings.", "sits.", "waits."]
    assert (sample["label"], sample["data_tag"]) == ("C", {"activity": "Removing ice"})
    assert reason("hellaswag", {**record, "ctx_b": None}) == "ctx_b: it is missing."


@pytest.mark.parametrize(
    ("fields", "choices_field"),
    [({"ends": ["go [step] on", "stop"]}, "ends"), ({"e1": "go [step] on", "e2": "stop"}, ["e1", "e2"])],
)
def test_the_endings_of_hellaswag_may_be_in_other_fields(fields: dict[str, Any], choices_field: Any) -> None:
    record = {"activity_label": "Ice", "ctx_a": "A man", "ctx_b": "may", "label": 1, **fields}
    sample = sample_of("hellaswag", record, choices_field=choices_field)
    assert [option["content"] for option in sample["options"]] == ["go on", "stop"]
    assert sample["label"] == "B"


def test_agieval_has_the_authors_zero_shot_prompts() -> None:
    record: dict[str, Any] = {"passage": None, "question": "How many?", "options": ["(A)1", "(B)2"], "label": "B"}
    sample = sample_of("agieval", {**record, "answer": None, "set": "sat-math"})
    assert said(sample) == "Q: How many? Answer Choices: (A)1 (B)2\nA: Among A through B, the answer is"
    assert (sample["label"], sample["data_tag"]) == ("B", {"set": "sat-math"})
    several = sample_of("agieval", {**record, "passage": "文。", "label": ["B", "A"]}, language="zh")
    assert said(several) == "文。问题：How many? 选项：(A)1 (B)2\n答案：从A到B, 我们应选择"
    assert (references(several), several["metadata"]["letters"]) == (["A", "B"], "AB")
    cloze = sample_of("agieval", {"question": "1 + 1?", "options": None, "label": None, "answer": "2"})
    assert (said(cloze), references(cloze)) == ("Q: 1 + 1?\nA: The answer is", ["2"])
    assert reason("agieval", {**record, "label": "C"}) == "label: 'C' does not name options of A, B."


def test_mbpp_keeps_what_running_the_answer_needs() -> None:
    record = {"task_id": 2, "text": "Add.", "code": "def f(a, b): return a + b", "test_list": ["assert f(1, 1) == 2"]}
    sample = sample_of("mbpp", record)
    assert said(sample) == (
        "You are an expert Python programmer, and here is your task: Add. Your code should pass these tests:"
        "\n\nassert f(1, 1) == 2\n[BEGIN]\n"
    )
    assert sample["metadata"]["test_list"] == ["assert f(1, 1) == 2"]
    assert sample["metadata"]["answer_text"] == "def f(a, b): return a + b\n[DONE]"


def test_a_record_of_the_sanitized_mbpp_brings_the_imports_of_its_tests() -> None:
    record = {
        "task_id": 2,
        "prompt": "Area.",
        "code": "def f(r): return 3 * r * r",
        "test_list": ["assert f(1) < math.pi"],
    }
    sample = sample_of("mbpp", {**record, "test_imports": ["import math"]}, question_field="prompt")
    assert "here is your task: Area." in said(sample)
    assert sample["metadata"]["prelude"] == "import math"
    assert "test_imports" in reason("mbpp", {**record, "test_imports": "import math"}, question_field="prompt")


def test_a_task_of_mbpp_without_a_solution_is_still_a_sample() -> None:
    record = {"task_id": 2, "text": "Add.", "code": None, "test_list": ["assert f(1, 1) == 2"]}
    sample = sample_of("mbpp", record)
    assert references(sample) == []
    assert "answer_text" not in sample["metadata"]


def test_truthfulqa_answers_are_sentences_and_no_comment_is_true() -> None:
    record = {
        "Category": "Myths",
        "Question": " What happens? ",
        "Best Answer": "Nothing",
        "Correct Answers": "Nothing; Nothing much.",
        "Incorrect Answers": "You die; ",
    }
    sample = sample_of("truthfulqa_generation", record, template="Q: {{ question }}")
    assert (said(sample), references(sample)) == ("Q: What happens?", ["Nothing"])
    assert sample["metadata"] == {
        "correct_answers": ["Nothing.", "Nothing much.", "I have no comment."],
        "incorrect_answers": ["You die."],
    }
    assert sample["data_tag"] == {"category": "Myths"}


def test_a_worked_solution_is_what_examples_of_mmlu_pro_show() -> None:
    record = {
        "question": "?",
        "options": ["x", "y", "z"],
        "answer": "B",
        "category": "law",
        "cot_content": "A: Think. y",
    }
    options = {"choices_field": "options", "subject_field": "category", "solution_field": "cot_content"}
    sample = sample_of("mmlu", record, **options, solution_prefix="A: Think. ")
    assert sample["metadata"]["answer_text"] == "y"
    assert "answer_text" not in sample_of("mmlu", {**record, "cot_content": ""}, **options)["metadata"]


def test_bbh_has_a_description_and_the_target_of_a_worked_answer() -> None:
    record = {"input": "not True is", "target": "So the answer is False.", "task": "boolean_expressions"}
    options = {"descriptions": {"boolean_expressions": "Evaluate."}, "answer_regex": r"answer is (.*)\.$"}
    sample = sample_of("bbh", record, **options)
    assert ([message["role"] for message in sample["messages"]], said(sample, 0)) == (["system", "user"], "Evaluate.")
    assert references(sample) == ["False"]
