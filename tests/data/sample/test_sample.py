"""The Sample contract: one set of rules in two forms, and no loss on the way to Arrow and back."""

import copy
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data import sample_strategies as strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gage_eval.base import canonical, tables
from gage_eval.data.sample.model import Sample, json_schema
from gage_eval.data.sample.record import RecordRejected, content_id, parse_record
from gage_eval.data.sample.rules import normalise_sample, option_letter
from gage_eval.data.sample.table import messages_from_array, messages_to_array, rows_of, samples_to_table

EXAMPLES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "sample_examples.json").read_text())
MINIMAL: dict[str, Any] = {"id": "a", "messages": [{"role": "user", "content": "Hi"}], "references": ["x"]}


def accepts_model(record: dict[str, Any]) -> bool:
    try:
        Sample.model_validate(record)
    except ValidationError:
        return False
    return True


def accepts_fast(record: dict[str, Any]) -> bool:
    try:
        normalise_sample(record)
    except RecordRejected:
        return False
    return True


def same(left: Any, right: Any) -> bool:
    """Equal to the type of every number, which ``==`` is not."""
    return canonical.canonical_json(left) == canonical.canonical_json(right)


@pytest.mark.parametrize("example", EXAMPLES, ids=[example["task_type"] for example in EXAMPLES])
def test_an_example_of_the_contract_is_a_sample_and_survives_the_table(example: dict[str, Any]) -> None:
    sample = normalise_sample(example)
    assert Sample.model_validate(example).id == example["id"]
    table = samples_to_table([sample], [0])
    table.validate(full=True)
    assert rows_of(table) == [sample]
    # Nothing but the short form of one tool's content and a derived label differs from what was written.
    written = copy.deepcopy(example)
    written.setdefault("label", sample["label"])
    for trajectory in written.get("golden_trajectories", []):
        for message in trajectory:
            if isinstance(message.get("content"), str):
                message["content"] = [{"type": "text", "text": message["content"]}]
    assert sample == written


@settings(deadline=None)
@given(strategies.SAMPLES)
def test_generated_samples_are_accepted_by_both_forms_of_the_contract(record: dict[str, Any]) -> None:
    before = copy.deepcopy(record)
    sample = normalise_sample(record)
    assert same(record, before)
    Sample.model_validate(record)
    Sample.model_validate(sample)


@settings(deadline=None, max_examples=2 * settings().max_examples)
@given(strategies.spoilt())
def test_what_one_form_of_the_contract_rejects_the_other_rejects(record: dict[str, Any]) -> None:
    assert accepts_fast(record) == accepts_model(record)


@settings(deadline=None)
@given(strategies.SAMPLES)
def test_normalising_twice_changes_nothing(record: dict[str, Any]) -> None:
    sample = normalise_sample(record)
    assert same(normalise_sample(sample), sample)


@settings(deadline=None)
@given(st.lists(strategies.SAMPLES, max_size=4), st.integers(0, 3), st.booleans())
def test_samples_survive_arrow_and_json_without_loss(records: list[dict[str, Any]], offset: int, chunked: bool) -> None:
    samples = [normalise_sample(record) for record in records]
    table = samples_to_table(samples, range(len(samples)))
    assert table.schema.equals(tables.SAMPLES.arrow)
    table.validate(full=True)
    assert same(rows_of(table), samples)
    shown = pa.concat_tables([table, table]) if chunked else table
    assert same(rows_of(shown.slice(offset)), ([*samples, *samples] if chunked else samples)[offset:])
    assert same([canonical.decode(canonical.canonical_json(sample)) for sample in samples], samples)


@settings(deadline=None)
@given(st.lists(strategies.CONVERSATIONS, max_size=4), st.integers(0, 4))
def test_messages_survive_arrow_in_openai_form(conversations: list[list[dict[str, Any]]], offset: int) -> None:
    wanted = [
        normalise_sample({"id": "a", "references": [], "messages": messages})["messages"] for messages in conversations
    ]
    array = messages_to_array(wanted)
    assert array.type == tables.MESSAGES
    assert same(messages_from_array(array.slice(offset), collapse=False), wanted[offset:])
    collapsed = messages_from_array(pa.chunked_array([array, array]))
    again = messages_from_array(messages_to_array(collapsed), collapse=False)
    assert same(again, wanted + wanted)


@settings(deadline=None)
@given(st.lists(strategies.CONVERSATIONS, max_size=4), st.integers(0, 4))
def test_messages_have_the_same_short_form_alone_and_among_others(
    conversations: list[list[dict[str, Any]]], offset: int
) -> None:
    plain = [{"role": "user", "content": "Hi"}]
    wanted = [
        normalise_sample({"id": "a", "references": [], "messages": messages})["messages"]
        for messages in [plain, *conversations, plain]
    ]
    array = messages_to_array(wanted)
    alone = [messages_from_array(array.slice(row, 1))[0] for row in range(len(array))]
    assert same(messages_from_array(array.slice(offset)), alone[offset:])
    assert alone[0] == alone[-1] == plain


def test_a_single_text_becomes_a_plain_string_when_sent() -> None:
    array = messages_to_array([[{"role": "user", "content": "Hi"}], []])
    assert messages_from_array(array) == [[{"role": "user", "content": "Hi"}], []]


def test_samples_survive_parquet(tmp_path: Path) -> None:
    samples = [normalise_sample(example) for example in EXAMPLES]
    pq.write_table(samples_to_table(samples, range(len(samples))), tmp_path / "s.parquet")
    assert rows_of(pq.read_table(tmp_path / "s.parquet")) == samples


def test_some_columns_can_be_read_alone() -> None:
    table = samples_to_table([normalise_sample(MINIMAL)], [7])
    assert rows_of(table, ["id", "label", "row_index"]) == [{"id": "a", "label": "x", "row_index": 7}]
    assert rows_of(table.select(["messages"]))[0]["messages"][0]["role"] == "user"


def test_the_order_of_data_tags_makes_no_difference() -> None:
    left = normalise_sample({**MINIMAL, "data_tag": {"a": 1, "b": True}})
    right = normalise_sample({**MINIMAL, "data_tag": {"b": True, "a": 1}})
    assert samples_to_table([left], [0]).equals(samples_to_table([right], [0]))


def test_data_tags_take_any_json_and_come_back_as_they_were() -> None:
    tags = {"topics": ["a", "b"], "hard": True, "level": 2, "share": 0.5, "source": {"year": 1999}, "none": None}
    sample = normalise_sample({**MINIMAL, "data_tag": tags})
    assert rows_of(samples_to_table([sample], [0]))[0]["data_tag"] == tags


def test_a_boolean_answer_is_its_text() -> None:
    assert normalise_sample({"id": "a", "messages": [], "references": [True]})["label"] == "true"
    assert normalise_sample({"id": "a", "messages": [], "label": False})["label"] == "false"


def test_as_many_row_indexes_as_samples_are_required() -> None:
    with pytest.raises(ValueError, match="1 samples, but 2 row indexes"):
        samples_to_table([MINIMAL], [0, 1])


def test_the_published_schema_is_the_models_one(repo_root: Path) -> None:
    published = (repo_root / "docs" / "sample.schema.json").read_text(encoding="utf-8")
    assert json.loads(published) == json_schema(), "write it anew: gage schema sample --output docs/sample.schema.json"


def test_all_fields_of_the_contract_are_in_the_model_and_the_schema() -> None:
    assert set(strategies.FIELDS) <= set(Sample.model_fields)
    assert set(strategies.FIELDS) <= set(json_schema()["properties"])
    assert json_schema()["required"] == ["messages", "id"]


def test_short_forms_become_long_forms() -> None:
    sample = normalise_sample({**MINIMAL, "id": 7, "options": ["x", 2], "source": {"n": 1.0}})
    assert sample["id"] == "7"
    assert sample["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    assert sample["options"] == [{"id": "A", "content": "x"}, {"id": "B", "content": "2"}]
    assert sample["references"] == [{"answer": [{"type": "text", "text": "x"}]}]
    assert sample["label"] == "x"
    assert sample["extra"] == {"source": {"n": 1}}
    assert sample["schema_version"] == "v1"


def test_a_label_alone_is_the_reference() -> None:
    record = {"id": "a", "messages": [], "label": 4}
    assert normalise_sample(record)["references"] == [{"answer": [{"type": "text", "text": "4"}]}]
    assert Sample.model_validate(normalise_sample(record)).label == "4"


def test_no_reference_at_all_is_allowed_when_said() -> None:
    sample = normalise_sample({"id": "a", "messages": [], "references": []})
    assert sample["references"] == []
    assert "label" not in sample


@pytest.mark.parametrize("label", ["refs/apple.png", "apple.png", "apple", "img-7"])
def test_a_medium_is_labelled_by_path_or_id(label: str) -> None:
    reference = {"answer": [{"type": "image_url", "image_url": "refs/apple.png"}], "meta": {"id": "img-7"}}
    assert normalise_sample({**MINIMAL, "references": [reference], "label": label})["label"] == label


def test_prompts_of_earlier_formats_are_left_out() -> None:
    record = {**MINIMAL, "model_prompt_tmpl": "{x}", "model_prompt_placeholder": "x"}
    assert normalise_sample(record) == normalise_sample(MINIMAL)


def test_the_result_shares_nothing_that_can_change() -> None:
    record = {
        **MINIMAL,
        "metadata": {"list": [1]},
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }
    sample = normalise_sample(record)
    sample["metadata"]["list"].append(2)
    sample["messages"][0]["content"][0]["text"] = "changed"
    assert record["metadata"] == {"list": [1]}
    assert record["messages"][0]["content"][0]["text"] == "Hi"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"id": None}, "id: it is missing."),
        ({"messages": None}, "messages: they are missing."),
        ({"messages": "Hi"}, "messages: it must be a list of messages, not a string ('Hi')."),
        (
            {"messages": [{"role": "usr", "content": "Hi"}]},
            "messages[0].role: 'usr' is not a role (system, developer, user, assistant, tool, function).",
        ),
        ({"messages": [{"role": "user"}]}, "messages[0].content: it is missing."),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "image": "x"}]}]},
            "messages[0].content[0].type: 'image' is not a segment type "
            "(text, image_url, audio_url, video_url, file_url).",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages[0].content[0].image_url.url: it must be an address or a path, and is missing.",
        ),
        ({"references": None}, "references: they are missing; write [] when there are none."),
        (
            {"references": [{"answer": "x", "score": 1}]},
            "references[0].score: a reference holds answer and meta only.",
        ),
        ({"label": "y"}, "label: 'y' is not the first reference ('x')."),
        (
            {"options": [{"id": "A", "content": "x"}, {"id": "A", "content": "y"}]},
            "options: two options have the same id.",
        ),
        ({"options": [{"id": "A", "text": "x"}]}, "options[0].text: an option holds id and content only."),
        (
            {"few_shot_examples": [{**MINIMAL, "sandbox": {}}]},
            "few_shot_examples[0].sandbox: a few-shot example cannot hold sandbox.",
        ),
        (
            {"few_shot_examples": [{"messages": []}]},
            "few_shot_examples[0].references: they are missing; write [] when there are none.",
        ),
        ({"sandbox": {"files": {"../up": "x"}}}, "sandbox.files: '../up' leads out of the working folder."),
        (
            {"sandbox": {"files": {"/etc/passwd": "x"}}},
            "sandbox.files: '/etc/passwd' leads out of the working folder.",
        ),
        ({"data_tag": ["a"]}, "data_tag: it must be an object, not a list (['a'])."),
        ({"choices_role": "both"}, "choices_role: it must be options or reference, not a string ('both')."),
        ({"extra": {"id": "b"}}, "extra.id: 'id' is a field of the Sample and belongs outside extra."),
        ({"extra": {"k": 1}, "k": 2}, "extra.k: it is given twice, inside and outside extra."),
        ({"metadata": {"x": float("nan")}}, "the record has no JSON form: nan has no JSON form."),
    ],
)
def test_a_broken_rule_is_said_in_one_sentence(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(RecordRejected) as caught:
        normalise_sample({**MINIMAL, **change})
    assert caught.value.reason == reason


def test_lone_surrogates_and_deep_nesting_are_rejected_not_met_later() -> None:
    with pytest.raises(RecordRejected, match="has no JSON form"):
        normalise_sample(parse_record('{"id": "a", "messages": [], "references": ["\\ud800"]}'))
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(RecordRejected, match="nested too deeply"):
        normalise_sample({**MINIMAL, "metadata": {"deep": deep}})
    with pytest.raises(RecordRejected, match="nested too deeply"):
        parse_record("[" * 100_000 + "]" * 100_000)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1]", "the record is a list, not a JSON object."),
        ("null", "the record is null, not a JSON object."),
        ('{"a": NaN}', "the record is not JSON: NaN is not JSON."),
        ('{"a": "b', "the record is not JSON: unterminated string starting at character 7."),
        ("{'a': 1}", "the record is not JSON: expecting property name enclosed in double quotes at character 2."),
        ("a", "the record is not JSON: expecting value at character 1."),
    ],
)
def test_a_raw_record_must_be_an_object(text: str, reason: str) -> None:
    with pytest.raises(RecordRejected) as caught:
        parse_record(text)
    assert caught.value.reason == reason


def test_ids_of_records_without_one_come_from_their_content() -> None:
    assert content_id(b'{"q": 1}') == "7a160a56eccfdb86"
    assert normalise_sample({**MINIMAL, "id": None}, default_id="0123")["id"] == "0123"


def test_options_beyond_z_go_on_as_in_a_spreadsheet() -> None:
    assert [option_letter(index) for index in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]
