"""The form of recordings and documents is found out: that which the endpoint takes, and never at the cost of a row."""

from typing import Any

import pytest
from support.calls import ask
from support.chat_server import chat_server

from gage_eval.engine.runtime import Runtime
from gage_eval.models.client.types import Request, Response
from tests.models.backends.test_media_server import CONTEXT, OTHER, PICTURE, SOUND, request


def types_of(body: dict[str, Any]) -> list[str]:
    return [part["type"] for message in body["messages"] for part in message["content"]]


def answers(taken: set[str], *requests: Request, **config: Any) -> tuple[list[Response], list[list[str]]]:
    """The responses of an endpoint that takes these parts, one request after another, and what it was sent."""

    def reply(body: dict[str, Any]) -> Any:
        return "heard" if set(types_of(body)) <= taken else 400

    with chat_server(reply) as endpoint, Runtime() as runtime:
        backend = runtime.backend("openai_http", {"base_url": endpoint.url, "model": "m", **config}, CONTEXT)
        responses = [response for each in requests for response in ask(runtime, backend, [each])]
        return responses, [types_of(body) for body in endpoint.asked]


@pytest.mark.parametrize(
    ("part", "theirs"), [(("audio_url", SOUND), "input_audio"), (("file_url", PICTURE), "file")], ids=["audio", "file"]
)
def test_a_form_that_is_refused_is_followed_by_the_other_which_then_stays(part: tuple[str, str], theirs: str) -> None:
    (first, second), sent = answers({theirs}, request(part), request(part))
    assert (first.answer, first.attempts, len(first.errors)) == ("heard", 2, 1)
    assert (second.answer, second.attempts) == ("heard", 1)
    assert sent == [[part[0]], [theirs], [theirs]]


def test_a_form_that_is_taken_once_is_not_changed_by_a_later_refusal() -> None:
    heard, refused = request(("audio_url", SOUND)), request(("audio_url", SOUND), ("video_url", OTHER))
    (_, later), sent = answers({"audio_url"}, heard, refused)
    assert later.error_kind == "http_400"
    assert sent == [["audio_url"], ["audio_url", "video_url"]]


def test_where_no_form_is_taken_the_first_refusal_is_the_rows() -> None:
    (response,), sent = answers({"text"}, request(("audio_url", SOUND)))
    assert (response.status, response.error_kind, len(response.errors)) == ("error", "http_400", 1)
    assert sent == [["audio_url"], ["input_audio"]]


def test_a_recording_that_the_other_form_cannot_hold_keeps_its_refusal() -> None:
    (response,), sent = answers({"input_audio"}, request(("audio_url", OTHER)))
    assert response.error_kind == "http_400"
    assert sent == [["audio_url"]]


def test_a_form_that_the_config_sets_is_not_changed() -> None:
    (response,), sent = answers({"input_audio"}, request(("audio_url", SOUND)), audio_part="audio_url")
    assert response.error_kind == "http_400"
    assert sent == [["audio_url"]]
