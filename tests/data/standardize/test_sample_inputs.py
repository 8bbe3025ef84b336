"""What `inputs` of a record asks and shows reaches the messages."""

from typing import Any

import pytest

from gage_eval.base.canonical import canonical_text
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.standardize.compose import build
from gage_eval.extend import registry
from gage_eval.pipeline.standardize import to_standard


def sample_of(record: dict[str, Any], name: str = "default") -> dict[str, Any]:
    return to_standard(canonical_text(record), build(registry.preprocessors.get(name), {}))[0]


def contents(record: dict[str, Any]) -> list[list[str]]:
    """Of each message its texts and addresses."""
    return [
        [part["text"] if part["type"] == "text" else part[part["type"]]["url"] for part in message["content"]]
        for message in sample_of(record)["messages"]
    ]


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def test_a_prompt_alone_is_the_question() -> None:
    assert contents({"inputs": {"prompt": "What is it?"}, "answer": "x"}) == [["What is it?"]]
    assert contents({"messages": [], "inputs": {"prompt": "What is it?"}}) == [["What is it?"]]
    assert sample_of({"inputs": {"prompt": "q"}})["extra"] == {"inputs": {"prompt": "q"}}


def test_media_beside_the_messages_are_shown_in_the_last_question() -> None:
    record = {
        "messages": [{"role": "user", "content": "Hi"}, {"role": "user", "content": "What is it?"}],
        "inputs": {"multi_modal_data": {"image": ["a.png", {"url": "b.png"}], "audio": "c.wav", "video": None}},
    }
    assert contents(record) == [["Hi"], ["a.png", "b.png", "c.wav", "What is it?"]]
    assert contents({**record, "messages": None, "question": "What?"}) == [["a.png", "b.png", "c.wav", "What?"]]


@pytest.mark.parametrize("kind", ["image", "audio", "video", "file"])
def test_media_of_named_fields_stand_before_the_question(kind: str) -> None:
    options = {"question": "What is it?", "fields": {kind: "what.path"}}
    record = {"what": {"path": "it"}, "answer": "x"}
    sample = to_standard(canonical_text(record), build(registry.preprocessors.get("simple"), options))[0]
    shown, question = sample["messages"][0]["content"]
    assert (shown["type"], shown[f"{kind}_url"]["url"], question["text"]) == (f"{kind}_url", "it", "What is it?")
    assert sample["references"][0]["answer"][0]["text"] == "x"


def test_media_that_a_message_shows_are_not_shown_twice() -> None:
    record = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Read."}, image("/docs/page1.png")]}],
        "choices": [{"index": 0, "message": {"content": [{"type": "text", "text": "A"}], "role": "assistant"}}],
        "inputs": {"prompt": "Read.", "multi_modal_data": {"image": ["/docs/page1.png"]}},
    }
    assert contents(record) == [["Read.", "/docs/page1.png"]]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (
            {"messages": [{"role": "system", "content": "s"}], "inputs": {"multi_modal_data": {"image": "a.png"}}},
            "inputs.multi_modal_data: there is no user message to show these media in.",
        ),
        (
            {"question": "q", "inputs": {"multi_modal_data": ["a.png"]}},
            "inputs.multi_modal_data: it must be an object of media, not a list.",
        ),
        (
            {"question": "q", "inputs": {"multi_modal_data": {"smell": "a"}}},
            "inputs.multi_modal_data.smell: media are image, audio, video or file.",
        ),
        (
            {"question": "q", "inputs": {"multi_modal_data": {"image": 7}}},
            "inputs.multi_modal_data.image: it must be the path of a file, not a number.",
        ),
    ],
)
def test_media_that_cannot_be_shown_reject_the_record(record: dict[str, Any], reason: str) -> None:
    with pytest.raises(RecordRejected) as rejected:
        sample_of(record)
    assert rejected.value.reason == reason
