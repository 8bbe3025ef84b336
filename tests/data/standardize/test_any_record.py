"""Whatever a dataset holds, a preprocessor gives a Sample or a reason; and real sets go through whole."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from data import sample_strategies as strategies
from hypothesis import given, settings
from hypothesis import strategies as st

from gage_eval.base.canonical import canonical_text
from gage_eval.data.sample.record import RecordRejected, content_id, parse_record
from gage_eval.data.sample.rules import normalise_sample
from gage_eval.data.sample.table import rows_of, samples_to_table
from gage_eval.data.standardize.compose import build
from gage_eval.extend import registry
from gage_eval.pipeline.standardize import to_standard

FACTORIES: list[tuple[str, dict[str, Any]]] = [
    ("default", {}),
    ("default", {"answer_split": "#", "answer_strip": ",", "template": "{{ question }} {{ record.goal }}"}),
    ("default", {"question_field": "a.0", "id_field": "b.c", "fields": {"metadata.x": "a", "id": "goal"}}),
    ("multi_choice", {}),
    ("multi_choice", {"choices_field": ["goal", "text"], "answer_field": "label", "template": "{{ record.a.b }}"}),
    ("multi_choice_struct_only", {"options_field": "options", "answer_index_base": 1, "answer_field": None}),
    ("simple", {"template": "{{ question }} {{ record.goal }}", "fields": {"data_tag.x": "a"}}),
    ("strip_assistant", {"system_prompt": "Be kind."}),
    ("agent", {"tools_field": "a", "trajectories_field": "b", "roles_to_remove": ["system"]}),
    ("mt_bench", {"turns_field": "choices", "references_field": "answer", "id_field": "a"}),
    ("preference", {"chosen_field": "answer", "rejected_field": "messages", "preferred_field": "label"}),
    ("preference", {"chosen_field": "choices", "rejected_field": "text", "question_field": "question"}),
    ("piqa", {"choices_field": ["goal", "text"]}),
    ("mmlu", {"choices_field": ["a", "b"], "subject_field": "target"}),
    ("cmmlu", {"question_field": "question", "choices_field": ["a", "b"], "answer_field": "label"}),
    ("truthfulqa_mc", {}),
    ("gsm8k", {"instruction": "Think."}),
    ("math", {"question_field": "question", "solution_field": "text", "id_field": "a"}),
    ("bbh", {"question_field": "goal", "answer_field": "target", "task_field": "label"}),
    ("ifeval", {"id_field": "a"}),
    ("humaneval", {}),
    ("humaneval_plus", {}),
    ("cruxeval", {"predicts": "output", "template": "{{ record.a }}"}),
    ("gaia", {"question_field": "goal", "file_field": "text", "id_field": "a"}),
    ("livecodebench", {"windows": ["2024-08-01"], "question_field": "goal", "id_field": "a"}),
    ("cruxeval", {"predicts": "input", "id_field": "a"}),
    ("hellaswag", {"answer_field": "target"}),
    ("agieval", {"set_field": "a"}),
    ("mbpp", {"question_field": "goal", "id_field": "a"}),
    ("mbpp_plus", {"id_field": "a"}),
    ("truthfulqa_generation", {"question_field": "goal", "answer_field": "answer", "category_field": "a"}),
    ("docvqa", {"content_field": "goal"}),
    ("mmmu", {"image_prefix": "", "choices_field": "choices"}),
    ("mmmu_pro", {"image_prefix": "", "choices_field": "choices", "subject_field": "target"}),
    ("mmmu_pro", {"setting": "vision", "mode": "cot", "choices_field": "options"}),
]
KEYS = st.sampled_from([
    "id", "question", "prompt", "text", "goal", "answer", "label", "target", "choices", "options", "messages",
    "references", "question_type", "task_type", "metadata", "data_tag", "extra", "a", "b", "few_shot_examples",
    "mc1_targets", "instruction_id_list", "passage", "code", "test_list", "Correct Answers", "Incorrect Answers",
    "activity_label", "input", "output", "ctx_a", "ctx_b", "endings", "kwargs", "entry_point", "test", "problem",
    "image", "1", "tools", "question_content", "public_test_cases", "private_test_cases", "contest_date",
])  # fmt: skip
CHOICES = st.one_of(
    st.lists(
        st.one_of(strategies.TEXT_VALUES, st.fixed_dictionaries({"label": strategies.JSON, "text": strategies.JSON}))
    ),
    st.dictionaries(st.sampled_from(["A", "B", "text", "label"]), strategies.JSON),
    st.lists(st.fixed_dictionaries({"message": st.one_of(strategies.messages(), strategies.JSON)}), max_size=2),
)
RECORDS = st.dictionaries(
    KEYS,
    st.one_of(
        strategies.JSON,
        CHOICES,
        strategies.CONVERSATIONS,
        st.integers(-1, 3),
        st.sampled_from(["A", "b", "#5", "#### 5", "<image 1>", "['a', 'b']", "../../x", "{{ 7 * 7 }}", r"\boxed{1}"]),
        st.dictionaries(strategies.TEXTS, st.integers(0, 1), max_size=3),
    ),
    max_size=7,
)


def test_every_preprocessor_is_tried() -> None:
    builtin = {plugin.name for plugin in registry.preprocessors if plugin.origin == "builtin"}
    assert {name for name, _ in FACTORIES} == builtin


@pytest.mark.parametrize(("name", "kwargs"), FACTORIES)
@settings(deadline=None, max_examples=60)
@given(record=RECORDS)
def test_any_record_is_a_sample_or_has_a_reason(name: str, kwargs: dict[str, Any], record: dict[str, Any]) -> None:
    to_sample = build(registry.preprocessors.get(name), kwargs)
    before = copy.deepcopy(record)
    try:
        sample = normalise_sample(to_sample(record), default_id="x")
    except RecordRejected as rejected:
        sample, reason = None, rejected.reason
    assert repr(record) == repr(before)
    if sample is not None:
        assert rows_of(samples_to_table([sample], [0])) == [sample]
    else:
        assert reason.endswith(".")
        assert "\n" not in reason


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        (
            "simple",
            '{"question": 1e999, "answer": "x"}',
            "the record is not JSON: the number 1e999 is too large.",
        ),
        (
            "mmmu",
            '{"question": "q", "options": "[1e999, 2]", "answer": "A"}',
            "options: '[1e999, 2]' is not a list.",
        ),
        ("mmmu", '{"question": "q", "options": "[{1, 2}]", "answer": "A"}', "options: '[{1, 2}]' is not a list."),
    ],
)
def test_what_has_no_value_or_no_json_form_rejects_its_record(name: str, text: str, reason: str) -> None:
    to_sample = build(registry.preprocessors.get(name), {})
    with pytest.raises(RecordRejected) as rejected:
        to_sample(parse_record(text))
    assert rejected.value.reason == reason


def through(folder: Path, params: dict[str, Any], name: str, kwargs: dict[str, Any]) -> list[dict[str, Any]]:
    to_sample = build(registry.preprocessors.get(name), kwargs)

    def samples() -> Iterator[dict[str, Any]]:
        for _, text in registry.loaders.get("jsonl").obj(params, folder).records():
            yield normalise_sample(to_sample(parse_record(text)), default_id=content_id(text.encode()))

    made = list(samples())
    assert rows_of(samples_to_table(made, range(len(made)))) == made
    return made


def test_gsm8k_goes_through_with_its_final_numbers(shared: Path) -> None:
    samples = through(
        shared / "data/gsm8k",
        {"path": "test.jsonl"},
        "default",
        {"answer_split": "#### ", "answer_strip": ","},
    )
    assert len(samples) == 1319
    assert [sample["label"] for sample in samples[:5]] == ["18", "3", "70000", "540", "20"]
    assert all(sample["label"].lstrip("-").replace(".", "").isdigit() for sample in samples)
    assert samples[0]["messages"][0]["content"][0]["text"].startswith("Janet’s ducks lay 16 eggs per day.")
    assert samples[0]["metadata"]["answer_text"].endswith("#### 18")
    assert len({sample["id"] for sample in samples}) == 1319


def test_piqa_goes_through_with_the_labels_of_its_second_file(shared: Path) -> None:
    folder = shared / "data/piqa"
    samples = through(
        folder,
        {"path": "valid.jsonl", "labels_path": "valid-labels.lst"},
        "multi_choice",
        {"question_field": "goal", "choices_field": ["sol1", "sol2"], "answer_field": "label"},
    )
    assert len(samples) == 1838
    gold = (folder / "valid-labels.lst").read_text().split()
    assert [sample["label"] for sample in samples] == ["AB"[int(label)] for label in gold]
    assert samples[1]["options"][0] == {"id": "A", "content": "replace drawer with bobby pin "}
    assert samples[1]["metadata"]["question_text"] == "dresser"


@pytest.mark.parametrize(
    ("name", "record", "reason"),
    [
        (
            "strip_assistant",
            {"messages": [{"role": ["a"], "content": "x"}, {"role": "assistant", "content": "y"}]},
            "messages[0].role: ['a'] is not a role (system, developer, user, assistant, tool, function).",
        ),
        (
            "default",
            {"messages": [{"role": "user", "content": [{"type": ["a"]}]}], "references": [], "inputs": {"prompt": "x"}},
            "messages[0].content[0].type: ['a'] is not a segment type "
            "(text, image_url, audio_url, video_url, file_url).",
        ),
    ],
)
def test_a_list_where_a_word_belongs_rejects_its_record(name: str, record: dict[str, Any], reason: str) -> None:
    to_sample = build(registry.preprocessors.get(name), {})
    with pytest.raises(RecordRejected) as rejected:
        to_standard(canonical_text(record), to_sample)
    assert rejected.value.reason == reason
