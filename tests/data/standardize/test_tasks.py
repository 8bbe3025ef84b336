"""The preprocessors of benchmarks and conversations: what they make of their records, and what they refuse."""

import inspect
from typing import Any

import pytest

from gage_eval.base.errors import InputError
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.sample.rules import normalise_sample
from gage_eval.data.standardize.compose import build
from gage_eval.data.standardize.simple import Simple
from gage_eval.data.standardize.solutions import Bbh
from gage_eval.extend import registry


def _without_gaps(record: dict[str, Any]) -> dict[str, Any]:
    """The record without the fields that are ``...``."""
    return {name: value for name, value in record.items() if value is not ...}


def sample_of(name: str, record: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    to_sample = build(registry.preprocessors.get(name), kwargs)
    return normalise_sample(to_sample(record), default_id="x")


def reason(name: str, record: dict[str, Any], **kwargs: Any) -> str:
    with pytest.raises(RecordRejected) as caught:
        sample_of(name, record, **kwargs)
    return caught.value.reason


def said(sample: dict[str, Any], message: int = -1) -> Any:
    """A message's text; with images, its segments, images by their address."""
    parts = [
        part["text"] if part["type"] == "text" else part["image_url"] for part in sample["messages"][message]["content"]
    ]
    return parts[0] if len(parts) == 1 else parts


def references(sample: dict[str, Any]) -> list[str]:
    return [reference["answer"][0]["text"] for reference in sample["references"]]


def test_simple_guesses_nothing() -> None:
    record = {"question": "2 + 2?", "answer": ["4", 4], "messages": "no", "label": None, "level": 1}
    sample = sample_of("simple", record, instruction="Be brief.", fields={"data_tag.level": "level"})
    assert said(sample) == "2 + 2?\n\nBe brief."
    assert references(sample) == ["4", "4"]
    assert sample["data_tag"] == {"level": 1}
    assert reason("simple", {"prompt": "2 + 2?", "answer": "4"}) == (
        "question: there is no question. Fields here: prompt, answer. Set question_field to one of them."
    )
    assert reason("simple", {"question": "2 + 2?"}) == (
        "answer: there is no answer. Fields here: question. Set answer_field to one of them."
    )
    assert sample_of("simple", {"question": "2 + 2?"}, answer_field=None)["references"] == []


def test_piqa_is_multiple_choice_of_two() -> None:
    sample = sample_of("piqa", {"goal": "How?", "sol1": "so", "sol2": "or so", "label": 1})
    assert sample["label"] == "B"
    assert said(sample).startswith("How?\n\nA. so\nB. or so\n\n")


MMLU = {"question": "Which?", "A": "w", "B": "x", "C": "y", "D": "z", "answer": "C"}


def test_mmlu_is_asked_as_its_authors_ask() -> None:
    sample = sample_of("mmlu", {**MMLU, "subject": "high_school_physics_test"})
    assert said(sample, 0) == ("The following are multiple choice questions (with answers) about high school physics.")
    assert said(sample) == "Which?\nA. w\nB. x\nC. y\nD. z\nAnswer:"
    assert sample["label"] == "C"
    assert sample["data_tag"] == {"subject": "high_school_physics"}


def test_mmlu_takes_the_hubs_form_and_records_without_a_subject() -> None:
    record = {"question": "Which?", "choices": ["w", "x", "y", "z"], "answer": 2}
    sample = sample_of("mmlu", record)
    assert sample["label"] == "C"
    assert len(sample["messages"]) == 1
    assert "data_tag" not in sample


def test_cmmlu_is_asked_in_chinese_with_the_subjects_own_name() -> None:
    record = {"Question": "哪个？", "A": "甲", "B": "乙", "C": "丙", "D": "丁", "Answer": "D", "subject": "agronomy"}
    sample = sample_of("cmmlu", record, subject_names={"agronomy": "农学"})
    assert said(sample, 0) == "以下是关于农学的单项选择题，请直接给出正确答案的选项。"
    assert said(sample) == "题目：哪个？\nA. 甲\nB. 乙\nC. 丙\nD. 丁\n答案是："
    assert sample["label"] == "D"


TRUTH = {"question": "Q?", "mc1_targets": {"yes": 1, "no": 0, "maybe": 0}, "mc2_targets": {"a": 1, "b": 1, "c": 0}}


def test_truthfulqa_orders_options_by_seed_and_keeps_their_truth() -> None:
    sample = sample_of("truthfulqa_mc", TRUTH)
    contents = [option["content"] for option in sample["options"]]
    assert sorted(contents) == ["maybe", "no", "yes"]
    assert contents["ABC".index(sample["label"])] == "yes"
    assert sample["metadata"]["targets"] == [1 if text == "yes" else 0 for text in contents]
    orders = {
        tuple(option["content"] for option in sample_of("truthfulqa_mc", TRUTH, seed=seed)["options"])
        for seed in range(12)
    }
    assert len(orders) > 2
    many = sample_of("truthfulqa_mc", TRUTH, targets="mc2")
    true = [option["id"] for option in many["options"] if option["content"] in "ab"]
    assert references(many) == true


@pytest.mark.parametrize(
    ("targets", "text"),
    [
        (None, "mc1_targets: it must be an object that maps answers to 1 or 0, not null."),
        ({"a": 2}, "mc1_targets: the label of 'a' must be 0 or 1, not a number."),
        ({"a": 0, "b": 0}, "mc1_targets: no answer is true."),
    ],
)
def test_truthfulqa_refuses_targets_without_truth(targets: Any, text: str) -> None:
    assert reason("truthfulqa_mc", {"question": "Q?", "mc1_targets": targets}) == text


def test_gsm8k_takes_the_number_and_keeps_the_solution() -> None:
    record = {"question": "How many?", "answer": "So.\n#### 1,234"}
    sample = sample_of("gsm8k", record, instruction="Think.")
    assert sample["label"] == "1234"
    assert sample["metadata"] == {"answer_text": record["answer"]}
    assert said(sample) == "How many?\n\nThink."


def test_math_takes_the_answer_else_what_is_boxed_last() -> None:
    record = {"problem": "p", "solution": r"\boxed{1}, so \boxed{\frac{1}{2}}.", "type": "Algebra", "level": "Level 5"}
    sample = sample_of("math", record)
    assert sample["label"] == r"\frac{1}{2}"
    assert sample["data_tag"] == {"subject": "Algebra", "level": "Level 5"}
    assert said(sample) == "p\n\nPut your final answer within \\boxed{}."
    assert sample_of("math", {**record, "answer": "7"})["label"] == "7"
    assert reason("math", {"problem": "p", "solution": "no box"}) == (
        "there is no answer in answer, and none is boxed in solution."
    )


def test_math_reads_a_solutions_box_as_the_scripts_of_hendrycks_math_do() -> None:
    """The first ``\\boxed`` wins over a later ``\\fbox``, and one without braces holds what follows up to ``$``."""
    assert sample_of("math", {"problem": "p", "solution": r"$\boxed{1}$, drawn as \fbox{2}"})["label"] == "1"
    assert sample_of("math", {"problem": "p", "solution": r"so it is $\boxed 3$."})["label"] == "3"


def test_bbh_keeps_the_target_and_knows_its_task() -> None:
    sample = sample_of("bbh", {"input": "q", "target": "(B)", "task": "date_understanding"})
    assert sample["label"] == "(B)"
    assert sample["data_tag"] == {"task": "date_understanding"}


def test_ifeval_needs_arguments_for_every_instruction() -> None:
    record = {"key": 7, "prompt": "Write.", "instruction_id_list": ["a:b"], "kwargs": [{"n": 1}]}
    sample = sample_of("ifeval", record)
    assert (sample["id"], said(sample), sample["references"]) == ("7", "Write.", [])
    assert sample["extra"] == {"instruction_id_list": ["a:b"], "kwargs": [{"n": 1}]}
    assert reason("ifeval", {**record, "kwargs": []}) == "instruction_id_list and kwargs must be lists of one length."


def test_humaneval_keeps_all_that_running_an_answer_needs() -> None:
    record = {"task_id": "H/0", "prompt": "def f():\n", "entry_point": "f", "test": "check", "canonical_solution": " 1"}
    sample = sample_of("humaneval", record)
    assert sample["id"] == "H/0"
    assert sample["metadata"] == {"prompt": "def f():\n", "entry_point": "f", "tests": "check\ncheck(f)\n"}
    assert said(sample).endswith("```python\ndef f():\n\n```")
    assert said(sample_of("humaneval", record, instruction=None)) == "def f():\n"
    assert reason("humaneval", {**record, "test": None}) == "test: it must be a string, not null."


def test_docvqa_shows_the_page_before_the_question() -> None:
    record = {"question": "Total?", "answers": ["9.00", "9"], "image": "img/0.png", "id": 3}
    sample = sample_of("docvqa", record, instruction=None)
    assert said(sample) == [{"url": "img/0.png"}, "Total?"]
    assert references(sample) == sample["metadata"]["answers"] == ["9.00", "9"]
    assert sample["metadata"]["image_url"] == "img/0.png"


def test_docvqa_takes_paths_into_the_record_and_one_question_for_all() -> None:
    record = {
        "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a.png"}},
                                                  {"type": "text", "text": "Who?"}]}],
        "choices": [{"message": {"content": [{"type": "text", "text": "Ann"}]}}],
    }  # fmt: skip
    fields = {
        "answers_field": "choices.0.message.content.0.text",
        "content_field": "messages.0.content.0.image_url.url",
    }
    sample = sample_of("docvqa", record, question_field="messages.0.content.1.text", instruction=None, **fields)
    assert said(sample) == [{"url": "a.png"}, "Who?"]
    assert sample["label"] == "Ann"
    other = sample_of("docvqa", record, question="What?", instruction=None, **fields)
    assert said(other) == [{"url": "a.png"}, "What?"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"image": None}, "image: it must be the path of an image, not null."),
        ({"image": []}, "image: there is no image."),
        (
            {"answer": ...},
            "there is no answer (answers, answer, ground_truth). Fields here: question, image. "
            "Set answers_field to one of them.",
        ),
        (
            {"question": None},
            "question: there is no question. Fields here: answer, image. Set question_field to one of them.",
        ),
    ],
)
def test_docvqa_refuses_what_cannot_be_asked(change: dict[str, Any], text: str) -> None:
    assert reason("docvqa", _without_gaps({"question": "Q?", "answer": "a", "image": "i.png", **change})) == text


def test_two_names_of_one_argument_are_not_both_taken() -> None:
    with pytest.raises(InputError, match="mean the same"):
        sample_of("docvqa", {}, image_field="a", content_field="b")


MMMU = {"question": "Which is <image 1>?", "options": "['<image 2>', 'none']", "answer": "B",
        "image_1": "a.png", "image_2": {"path": "b.png"}, "image_3": None}  # fmt: skip


def test_mmmu_puts_images_where_the_text_names_them() -> None:
    sample = sample_of("mmmu", MMMU)
    assert said(sample) == [
        "Which is ", {"url": "a.png"}, "?\n(A) ", {"url": "b.png"},
        "\n(B) none\nAnswer with the option's letter from the given choices directly.",
    ]  # fmt: skip
    assert (sample["label"], sample["task_type"]) == ("B", "multiple-choice")
    assert "extra" not in sample


def test_mmmu_asks_open_questions_too() -> None:
    record = {"question": "Which?", "options": "[]", "answer": "['1/2', '0.5']", "image_1": "a.png"}
    sample = sample_of("mmmu", record)
    assert said(sample) == [{"url": "a.png"}, "Which?\nAnswer the question using a single word or phrase."]
    assert references(sample) == ["1/2", "0.5"]
    assert sample["task_type"] == "short-answer"
    assert references(sample_of("mmmu", {"question": "Which?", "answer": "[3, 4)"})) == ["[3, 4)"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"image_2": None}, "image_2: it must be the path of an image, not null."),
        ({"options": "[__import__('os')]"}, "options: '[__import__('os')]' is not a list."),
        ({"options": ["a", "b", "c"], "answer": "E"}, "answer: 'E' is not one of the choices."),
        (
            {"answer": ...},
            "answer: there is no answer. Fields here: question, options, image_1, image_2. "
            "Set answer_field to one of them.",
        ),
    ],
)
def test_mmmu_refuses_what_cannot_be_asked(change: dict[str, Any], text: str) -> None:
    assert reason("mmmu", _without_gaps({**MMMU, **change})) == text


LETTER_LINE = (
    "The last line of your response should be of the following format: 'Answer: $LETTER' (without quotes) "
    "where LETTER is one of options."
)
PRO = {"id": "test_Art_1", "question": "Which is <image 1>?", "options": "['<image 2>', 'A. James', \"Pauls' \"]",
       "answer": "B", "subject": "Art", "image_1": "a.png", "image_2": {"path": "b.png"}, "image_3": None}  # fmt: skip
VISION = {"id": "test_Art_1", "image": {"path": "q.png"}, "options": "['x', 'y']", "answer": "B", "subject": "Art"}


@pytest.mark.parametrize(
    ("mode", "last"),
    [
        ("direct", "Answer with the option letter from the given choices directly."),
        (
            "cot",
            f"Answer the preceding multiple choice question. {LETTER_LINE} Think step by step before answering.",
        ),
    ],
)
def test_mmmu_pro_standard_is_asked_as_its_authors_ask(mode: str, last: str) -> None:
    sample = sample_of("mmmu_pro", PRO, mode=mode)
    assert said(sample) == [
        "Which is ", {"url": "a.png"}, "?\nA. ", {"url": "b.png"}, f"\nB. A. James\nC. Pauls' \n{last}",
    ]  # fmt: skip
    assert (sample["id"], sample["label"], sample["data_tag"]) == ("test_Art_1", "B", {"subject": "Art"})
    assert sample["metadata"]["option_map"] == {"A": "<image 2>", "B": "A. James", "C": "Pauls' "}


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("direct", f"Answer with the option letter from the given choices directly. {LETTER_LINE}"),
        (
            "cot",
            "Write out the multiple-choice question in the image and then solve it. "
            f"{LETTER_LINE} Think step by step before answering.",
        ),
    ],
)
def test_mmmu_pro_vision_sends_the_instruction_and_the_image(mode: str, text: str) -> None:
    sample = sample_of("mmmu_pro", VISION, setting="vision", mode=mode)
    assert said(sample) == [text, {"url": "q.png"}]
    assert (sample["label"], sample["data_tag"]) == ("B", {"subject": "Art"})


def test_mmmu_pro_reads_published_rows_without_images_as_text() -> None:
    recorded = {**PRO, "image_1": None, "image_2": None, "response": "B.", "pred_indexs": "B", "if_right": True}
    sample = sample_of("mmmu_pro", recorded, instruction="")
    assert said(sample) == "Which is <image 1>?\nA. <image 2>\nB. A. James\nC. Pauls' "
    assert said(sample_of("mmmu_pro", PRO, instruction="", text_only=True)) == said(sample)
    assert said(sample_of("mmmu_pro", recorded, setting="vision", instruction="Look.")) == "Look."


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"image_2": None}, "image_2: it must be the path of an image, not null."),
        ({"options": "A, B"}, "options: there is no list of options. Fields here: id, question, options, answer,"),
        ({"answer": "D"}, "answer: 'D' is not one of the choices."),
        ({"answer": ...}, "answer: there is no answer. Fields here: id, question, options, subject,"),
        ({"question": None}, "question: there is no question. Fields here: id, options, answer, subject,"),
    ],
)
def test_mmmu_pro_refuses_what_cannot_be_asked(change: dict[str, Any], text: str) -> None:
    assert reason("mmmu_pro", _without_gaps({**PRO, **change})).startswith(text)


def test_mt_bench_is_one_user_message_a_turn() -> None:
    record = {"question_id": 81, "category": "math", "turns": ["One?", "Two?"], "reference": ["1", ""]}
    sample = sample_of("mt_bench", record, system_prompt="Be kind.")
    assert [message["role"] for message in sample["messages"]] == ["system", "user", "user"]
    assert sample["metadata"] == {"turns": True}
    assert sample["data_tag"] == {"category": "math"}
    assert references(sample) == ["1", ""]
    assert reason("mt_bench", {"turns": []}) == "turns: it must be a list of questions."


def test_of_two_answers_the_better_one_is_chosen() -> None:
    pair = {
        "question": "Q?",
        "response_A": "x",
        "response_B": [{"role": "user"}, {"role": "assistant", "content": "y"}],
    }
    fields = {"chosen_field": "response_A", "rejected_field": "response_B", "preferred_field": "label"}
    for label, better, worse in (("A>B", "x", "y"), ("B>A", "y", "x")):
        sample = sample_of("preference", {**pair, "label": label}, **fields)
        assert (sample["metadata"]["chosen"], sample["metadata"]["rejected"]) == (better, worse)
        assert [message["content"][0]["text"] for message in sample["messages"]] == ["Q?"]
    assert reason("preference", {**pair, "label": ["A>B"]}, **fields) == "label: it must be A>B or B>A."
    asked_before = {"chosen": TALK[:2], "rejected": "No."}
    assert sample_of("preference", asked_before)["messages"][0]["content"][0]["text"] == "Hi"
    assert reason("preference", {"chosen": "a", "rejected": "b"}).startswith("there is no question")


TALK = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "Bye"},
    {"role": "assistant", "content": "So long"},
]


def test_what_the_assistant_said_last_becomes_the_reference() -> None:
    sample = sample_of("strip_assistant", {"messages": TALK}, system_prompt="Be kind.")
    assert [message["role"] for message in sample["messages"]] == ["system", "user", "user"]
    assert sample["label"] == "So long"
    assert sample_of("strip_assistant", {"messages": TALK, "label": "own"})["label"] == "own"
    assert reason("strip_assistant", {"messages": TALK[1:2]}) == (
        "messages: none is left after removing those of assistant."
    )


def test_a_role_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="roles_to_remove: 'robot' is not a role"):
        sample_of("strip_assistant", {}, roles_to_remove=["robot"])


def test_an_agent_has_its_tools_and_traces_in_one_form() -> None:
    record = {
        "question": "Weather?",
        "answer": "Sunny",
        "functions": '[{"type": "function"}]',
        "trace": [{"role": "assistant", "content": "Sunny"}],
    }
    sample = sample_of("agent", record, tools_field="functions", trajectories_field="trace")
    assert sample["tools"] == [{"type": "function"}]
    assert sample["golden_trajectories"] == [[{"role": "assistant", "content": [{"type": "text", "text": "Sunny"}]}]]
    assert (sample["task_type"], sample["label"]) == ("agent", "Sunny")
    assert reason("agent", {"question": "q", "answer": "a", "tools": "{"}) == "tools: it is a text that is not JSON."


# Preprocessors of users


class Upper:
    """A class with to_sample."""

    def __init__(self, *, field: str = "q") -> None:
        self.field = field

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        text = record.pop(self.field)
        return {**record, "messages": [{"role": "user", "content": text.upper()}], "references": []}


class Nothing:
    """A class without to_sample."""


def by_path(name: str) -> str:
    return f"{__name__}:{name}"


def test_a_class_with_to_sample_is_a_preprocessor() -> None:
    record = {"text": "hi"}
    sample = sample_of(by_path("Upper"), record, field="text")
    assert said(sample) == "HI"
    assert record == {"text": "hi"}, "it gets a copy"


def test_what_a_users_code_raises_rejects_the_record_with_the_reason() -> None:
    assert reason(by_path("Upper"), {"other": 1}) == "test_tasks.py:Upper failed with KeyError: 'q'."
    assert reason(by_path("Upper"), {"q": 3}).startswith("test_tasks.py:Upper failed with AttributeError: 'int'")


def test_what_is_no_preprocessor_is_refused() -> None:
    with pytest.raises(InputError, match=r"lacks to_sample\(\)"):
        sample_of(by_path("Nothing"), {})


def test_a_file_is_a_preprocessor_by_its_path_and_known_by_its_content(tmp_path: Any) -> None:
    file = tmp_path / "mine.py"
    source = "def make(r, *, tail='!'):\n    return {'messages': [], 'references': [r.pop('a') + tail]}\n"
    file.write_text(source)
    record = {"a": "x"}
    sample = sample_of(f"{file}:make", record, tail="?")
    assert sample["label"] == "x?"
    assert record == {"a": "x"}, "it gets a copy"
    identity = registry.preprocessors.get(f"{file}:make").identity()
    copy = tmp_path / "elsewhere" / "mine.py"
    copy.parent.mkdir()
    copy.write_text(source)
    assert registry.preprocessors.get(f"{copy}:make").identity() == identity
    copy.write_text(source.replace("!", "."))
    assert registry.preprocessors.get(f"{copy}:make").identity() != identity
    file.write_text("def make(record):\n    return 3\n")
    assert reason(f"{file}:make", {}).endswith("gave a number, not a sample.")


def test_the_options_of_a_preprocessor_do_not_depend_on_which_was_used_before() -> None:
    Simple(question_field="q")
    assert "descriptions" in inspect.signature(Bbh).parameters
