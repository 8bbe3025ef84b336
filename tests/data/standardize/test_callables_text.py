"""doc_to_text: a function of the config writes what a record asks with."""

from typing import Any

import pytest

from gage_eval.base.errors import InputError
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.sample.rules import normalise_sample
from gage_eval.data.standardize.callables import TextCallable
from gage_eval.data.standardize.compose import build
from gage_eval.extend import registry


def ask(record: dict[str, Any], *, style: str = "plain", question_field: str = "") -> Any:
    """The text of a record; it writes into what it is given."""
    record.pop("unused", None)
    return f"{style}: {record['topic']}{question_field}"


def callable_(name: str = "ask", inherited: dict[str, Any] | None = None, **kwargs: Any) -> TextCallable:
    return TextCallable(f"{__name__}:{name}", kwargs, inherited or {})


def sample_of(record: dict[str, Any], name: str, text: TextCallable) -> dict[str, Any]:
    to_sample = text.before(build(registry.preprocessors.get(name), text.inherited))
    return normalise_sample(to_sample(record), default_id="x")


def test_the_text_stands_where_the_question_would() -> None:
    record = {"topic": "rain", "answer": "wet", "unused": 1}
    sample = sample_of(record, "default", callable_(style="short"))
    assert sample["messages"][0]["content"][0]["text"] == "short: rain"
    assert sample["extra"] == {"topic": "rain", "unused": 1}


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("math", {"problem": "old", "solution": r"\boxed{2}"}),
        ("piqa", {"goal": "old", "sol1": "a", "sol2": "b", "label": 0}),
    ],
)
def test_a_preprocessor_that_reads_another_field_by_itself_finds_it_there(name: str, record: dict[str, Any]) -> None:
    sample = sample_of({"topic": "rain", **record}, name, callable_())
    text = sample["messages"][0]["content"][0]["text"]
    assert "plain: rain" in text
    assert "old" not in text


def test_a_preprocessor_that_reads_another_field_finds_it_there() -> None:
    inherited = {"question_field": "q.text", "choices_field": "options"}
    record = {"topic": "rain", "options": ["a", "b"], "answer": 1}
    sample = sample_of(record, "multi_choice", callable_(inherited=inherited))
    assert sample["metadata"]["question_text"] == "plain: rainq.text"


def test_in_a_conversation_it_is_the_last_question_and_media_stay() -> None:
    image = {"type": "image_url", "image_url": {"url": "a.png"}}
    messages = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": [image, {"type": "text", "text": "old"}]},
    ]
    sample = sample_of({"topic": "rain", "messages": messages, "references": []}, "default", callable_())
    assert sample["messages"][0]["content"][0]["text"] == "first"
    assert sample["messages"][2]["content"] == [image, {"type": "text", "text": "plain: rain"}]
    bare = sample_of({"topic": "rain", "messages": [], "references": []}, "default", callable_())
    assert [message["role"] for message in bare["messages"]] == ["user"]


def test_its_own_arguments_count_before_inherited_ones_and_are_part_of_its_identity() -> None:
    inherited = {"style": "inherited", "foreign": 1}
    assert callable_(inherited=inherited).arguments == {"style": "inherited"}
    assert callable_(inherited=inherited, style="own").arguments == {"style": "own"}
    assert callable_(style="a").identity() != callable_(style="b").identity()
    assert callable_(inherited={"foreign": 1}).identity() == callable_().identity()


def test_an_argument_it_has_no_parameter_for_is_refused() -> None:
    with pytest.raises(InputError, match=r"has no parameter 'stile'\. It takes: question_field, style\. Did you mean"):
        _ = callable_(stile="x").arguments


@pytest.mark.parametrize(
    ("record", "text"),
    [({}, f"{__name__}:ask failed with KeyError: 'topic'."), ({"topic": None}, None)],
)
def test_a_record_it_cannot_do_with_is_rejected(record: dict[str, Any], text: str | None) -> None:
    if text is None:
        assert sample_of({**record, "answer": "a"}, "default", callable_())["label"] == "a"
        return
    with pytest.raises(RecordRejected) as caught:
        sample_of(record, "default", callable_())
    assert caught.value.reason == text


def nothing(record: dict[str, Any]) -> Any:
    """No text."""
    return record.get("text")


@pytest.mark.parametrize(("value", "kind"), [(None, "null"), (3, "a number"), ("", "a string")])
def test_what_is_no_text_rejects_the_record(value: Any, kind: str) -> None:
    with pytest.raises(RecordRejected) as caught:
        sample_of({"text": value, "answer": "a"}, "default", callable_("nothing"))
    assert caught.value.reason == f"{__name__}:nothing gave {kind}, not a text that is not empty."
