import base64
import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.endpoint import mock_endpoint

from gage_eval.base.canonical import encode
from gage_eval.base.errors import EndpointFailed, InputError
from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends import echo_likelihood
from gage_eval.models.backends.base import Backend, BackendContext
from gage_eval.models.backends.build import build_backend
from gage_eval.models.backends.openai_http import read_chat, read_completion, read_embedding
from gage_eval.models.client.http import Ask, data_url
from gage_eval.models.client.payload import Malformed, parse_json
from gage_eval.models.client.types import Request, Response

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16
CONTEXT = BackendContext(Path(), env={})


def backend_of(**config: Any) -> Backend:
    return build_backend("openai_http", {"base_url": "http://host/v1", "model": "m", **config}, CONTEXT)


def user(text: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def chat_reply(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": finish}], **more}


def test_the_body_is_the_config_then_the_request_then_what_is_asked() -> None:
    backend = backend_of(default_params={"temperature": 1, "max_new_tokens": 9, "seed": 3}, top_k=5)
    request = Request("chat", messages=user("hi"), params={"max_new_tokens": 2, "stop": ["x"], "top_p": None})
    assert backend.body(request) == {
        "model": "m", "messages": user("hi"), "temperature": 1, "max_tokens": 2, "seed": 3,
        "stop": ["x"], "top_k": 5,
    }  # fmt: skip


def test_an_endpoint_may_have_another_name_for_max_new_tokens() -> None:
    body = backend_of(max_tokens_field="max_completion_tokens").body(
        Request("completion", prompt="p", params={"max_new_tokens": 2})
    )
    assert body == {"model": "m", "prompt": "p", "max_completion_tokens": 2}


def test_tools_go_along_with_their_choice() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    body = backend_of().body(Request("chat", messages=user("hi"), tools=tools, tool_choice="required"))
    assert (body["tools"], body["tool_choice"]) == (tools, "required")
    assert "tool_choice" not in backend_of().body(Request("chat", messages=user("hi"), tool_choice="auto"))


@pytest.mark.parametrize("name", ["model", "messages", "prompt", "stream", "n"])
def test_no_parameter_changes_what_is_asked_of_whom(name: str) -> None:
    with pytest.raises(InputError, match=f"default_params.{name} is set by gage-eval itself"):
        backend_of(default_params={name: "other"})
    with pytest.raises(InputError, match=f"sample 's1': parameter '{name}'"):
        backend_of().body(Request("chat", messages=user("hi"), params={name: "other"}, sample_id="s1"))


def test_the_identity_holds_what_determines_answers_and_nothing_else() -> None:
    base = backend_of().identity()
    for same in ({"timeout": 5}, {"max_concurrency": 1}, {"max_attempts": 2}, {"api_key": "env:OTHER"}):
        assert backend_of(**same).identity() == base, same
    for other in (
        {"model": "other"},
        {"base_url": "http://other/v1"},
        {"identity": "revision 2"},
        {"freshness": "2026-01-01"},
        {"default_params": {"temperature": 1}},
        {"top_k": 5},
        {"max_tokens_field": "max_completion_tokens"},
    ):
        assert backend_of(**other).identity() != base, other
    assert backend_of(base_url="http://host/v1/").identity() == base


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"api_key": "sk-literal"}, "a key is never written into a config: use env:NAME or block:name"),
        ({"hf_token": "literal"}, "'hf_token' is not a field and may hold a secret"),
        ({"base_url": "ftp://host"}, "base_url starts with http:// or https:// and names a host"),
        ({"base_url": "http://host:99999/v1"}, "base_url is not a URL: Port out of range"),
        ({"base_url": "http://host:80x/v1"}, "base_url is not a URL: Port"),
        ({"base_url": "http://[::1/v1"}, "base_url is not a URL: Invalid IPv6 URL"),
        ({"base_url": "http://my host/v1"}, "base_url has no blanks"),
        ({"base_url": "http://user:pass@host/v1"}, "base_url holds no user or password"),
        ({"model": ""}, "model: "),
        ({"max_concurrency": 0}, "max_concurrency: "),
    ],
)
def test_a_config_that_cannot_work_is_refused_in_one_sentence(config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        backend_of(**config)
    assert sentence in str(caught.value)
    assert not any(secret in str(caught.value) for secret in ("sk-literal", "literal'", "user:pass"))


def test_a_key_for_openai_is_found_by_its_usual_name_and_sent_to_nobody_else() -> None:
    context = BackendContext(Path(), env={})
    with Runtime() as runtime:
        with pytest.raises(InputError, match="env:OPENAI_API_KEY"):
            runtime.backend("openai_http", {"model": "m"}, context)
        runtime.backend("openai_http", {"model": "m", "base_url": "https://api.openai.com.evil.test/v1"}, context)


class _Blocks:
    def secret(self, name: str) -> str:
        return f"key-of-{name}"

    def backend(self, name: str) -> dict[str, Any]:
        raise NotImplementedError


def test_a_block_reference_is_resolved_by_the_context() -> None:
    context = BackendContext(Path(), env={}, blocks=_Blocks())
    assert context.secret("block:my-endpoint") == "key-of-my-endpoint"
    with pytest.raises(InputError, match="set PREFECT_API_URL"):
        CONTEXT.secret("block:my-endpoint")
    with pytest.raises(InputError, match="is not an API key"):
        BackendContext(Path(), env={"K": "a\nb"}).secret("env:K")


def test_a_plain_answer() -> None:
    text = chat_reply(
        {"content": "four"},
        model="m-1",
        system_fingerprint="fp",
        usage={"prompt_tokens": 3, "completion_tokens": 1},
    )
    response = read_chat(text)
    assert (response.status, response.answer, response.finish_reason) == ("ok", "four", "stop")
    assert (response.prompt_tokens, response.completion_tokens) == (3, 1)
    assert response.model_fingerprint == "m-1 fp"


@pytest.mark.parametrize("vector", [None, [], "AAAA", [1, "2"], [1, True], {"0": 1}, [float("nan")]])
def test_an_embedding_without_a_vector_of_numbers_is_asked_again(vector: Any) -> None:
    with pytest.raises(Malformed):
        read_embedding({"data": [{"embedding": vector}]})


@pytest.mark.parametrize(
    ("message", "finish", "status", "answer"),
    [
        ({"content": "cut of"}, "length", "truncated", "cut of"),
        ({"content": ""}, "content_filter", "refused", ""),
        ({"content": None, "refusal": "I cannot."}, "stop", "refused", "I cannot."),
        ({"content": None}, "stop", "ok", ""),
        ({"content": None, "reasoning_content": "hm"}, "length", "truncated", ""),
        ({"tool_calls": [{"id": "1", "function": {"name": "add"}}]}, "tool_calls", "ok", ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "stop", "ok", "ab"),
        ({"content": ["a", {"type": "image"}]}, "stop", "ok", "a"),
    ],
)
def test_what_an_answer_means(message: dict[str, Any], finish: str, status: str, answer: str) -> None:
    response = read_chat(chat_reply(message, finish))
    assert (response.status, response.answer) == (status, answer)


def test_thinking_and_tool_calls_are_kept_apart_from_the_answer() -> None:
    calls = [{"id": 1, "function": {"name": "add", "arguments": "[2]"}}]
    response = read_chat(chat_reply({"content": "4", "reasoning": "2+2", "tool_calls": calls}))
    assert (response.reasoning, response.tool_calls) == (
        "2+2",
        '[{"function":{"arguments":"[2]","name":"add"},"id":1}]',
    )


def test_log_probabilities_that_are_no_json_are_let_through_as_text() -> None:
    text = b'{"choices":[{"text":"x","logprobs":{"token_logprobs":[null,-1.5]},"finish_reason":"stop"}]}'
    assert read_completion(parse_json(text)).logprobs == '{"token_logprobs":[null,-1.5]}'


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"[]", b"null", b"{}", b'{"choices":{}}', b'{"choices":[1]}', b'{"choices":[{}]}',
        b'{"choices":[{"message":{}}]}', b'{"choices":[{"message":{"content":5}}]}',
        b'{"error":"overloaded"}', b'{"error":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"choices":[{"message":{"content":[["yes"]]}}]}',
        b'{"choices":[{"message":{"content":[{"type":"image"}]}}]}',
        b'{"choices":[{"message":{"content":null,"refusal":["no"]}}]}',
        b'{"choices":[{"message":{"content":null,"tool_calls":5}}]}',
        b'{"choices":[{"message":{"content":null,"tool_calls":[{"id":"1"}]}}]}',
        b'{"choices":[{"message":{"content":"","tool_calls":[{"function":{"name":null,"arguments":"{}"}}]}}]}',
    ],
)  # fmt: skip
def test_an_answer_without_an_answer_is_malformed(text: bytes) -> None:
    with pytest.raises(Malformed):
        read_chat(parse_json(text))


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda s: s.encode(errors="surrogatepass")))
def test_no_bytes_do_more_than_be_malformed(text: bytes) -> None:
    for read in (read_chat, read_completion):
        with pytest.raises(Malformed):
            read(parse_json(text))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "content": json_values, "refusal": json_values, "reasoning_content": json_values,
            "tool_calls": json_values,
        },
    ),
    json_values, json_values, json_values,
)  # fmt: skip
def test_whatever_fields_hold_the_response_can_be_logged(
    message: dict[str, Any], finish: Any, usage: Any, logprobs: Any
) -> None:
    choice = {"message": message, "finish_reason": finish, "logprobs": logprobs}
    text = json.dumps({"choices": [choice], "usage": usage, "model": usage}).encode()
    try:
        response = read_chat(parse_json(text))
    except Malformed:
        return
    assert response.from_bytes(response.to_bytes()) == response


def test_lone_surrogates_and_bad_bytes_become_replacement_characters() -> None:
    assert parse_json(b'{"a": "\\ud800"}') == {"a": "\ufffd"}
    assert parse_json(b'{"a": "\xff"}') == {"a": "\ufffd"}


def test_a_byte_order_mark_before_an_answer_is_dropped() -> None:
    assert parse_json(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    "request_",
    [
        Request("chat", messages=[]),
        Request("chat", messages=user("  ")),
        Request("chat", messages=user([{"type": "text", "text": ""}])),
        Request("chat", messages=[{"role": "system", "content": "be good"}]),
        Request("completion", prompt=""),
        Request("completion"),
    ],
)
def test_an_empty_prompt_is_skipped_without_a_request(request_: Request) -> None:
    with mock_endpoint() as endpoint, Runtime() as runtime:
        backend = runtime.backend("openai_http", {"base_url": endpoint.url, "model": "mock"}, CONTEXT)
        response = runtime.call(backend.call(request_, encode(backend.body(request_))))
        assert endpoint.stats()["requests"] == 0
    assert (response.status, response.attempts) == ("skipped", 0)


def test_a_completion_is_asked_at_its_own_path() -> None:
    with mock_endpoint() as endpoint, Runtime() as runtime:
        backend = runtime.backend("openai_http", {"base_url": endpoint.url, "model": "mock"}, CONTEXT)
        request = Request("completion", prompt="What is 20 + 3?")
        assert runtime.call(backend.call(request, encode(backend.body(request)))).answer == "ANSWER: 23"


def test_media_becomes_a_data_url_only_when_it_is_sent() -> None:
    url = "media://sha256/" + "0" * 64
    read: list[str] = []

    def media(wanted: str) -> bytes:
        read.append(wanted)
        return PNG

    part = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    web = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    note = {"type": "file_url", "file_url": {"url": url, "media_type": "text/markdown"}}
    request = Request("chat", messages=user([{"type": "text", "text": "What is 1 + 1?"}, part, web, note]))
    with mock_endpoint(keep_bodies=True) as endpoint, Runtime() as runtime:
        context = BackendContext(Path(), media=media, env={})
        backend = runtime.backend("openai_http", {"base_url": endpoint.url, "model": "mock"}, context)
        body = encode(backend.body(request))
        assert url.encode() in body
        assert read == []
        assert runtime.call(backend.call(request, body)).answer == "ANSWER: 2"
        (sent,) = endpoint.stats()["bodies"]
    data = base64.b64encode(PNG).decode()
    encoded = f"data:image/png;base64,{data}"
    assert sent["messages"][0]["content"][1:] == [
        {"type": "image_url", "image_url": {"url": encoded, "detail": "low"}},
        web,
        {"type": "file_url", "file_url": {"url": f"data:text/markdown;base64,{data}"}},
    ]
    assert read == [url, url]


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"), (b"\xff\xd8\xff\xe0", "image/jpeg"), (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"), (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (b"%PDF-1.7", "application/pdf"),
        (b"", "application/octet-stream"),
    ],
)  # fmt: skip
def test_the_type_of_media_is_told_by_its_content(data: bytes, media_type: str) -> None:
    assert data_url(data).startswith(f"data:{media_type};base64,")


@pytest.mark.parametrize(
    "choices",
    [
        [{"index": 0, "text": "ab!", "logprobs": {"content": []}}],
        [{"index": 0, "text": "ab!", "logprobs": {"tokens": ["a", "b"], "token_logprobs": [None, -1.0]}}],
        [{"index": 0, "text": "ab!"}],
        [{"index": 0, "text": "!", "logprobs": None}],
        [{"text": "ab!"}, {"text": "ab!"}],
    ],
    ids=["chat's form", "no offsets", "no log probabilities", "no echo", "too many"],
)
async def test_an_endpoint_without_log_probabilities_is_told_in_one_request(choices: list[dict[str, Any]]) -> None:
    class Endpoint:
        """Answers; what cannot be read would be asked again."""

        base_url = "http://it/v1"

        async def call(self, ask: Ask) -> Response:
            return ask.read({"choices": choices})

    with pytest.raises(EndpointFailed, match="does not echo prompts with their log probabilities"):
        await echo_likelihood.answer(cast(Any, Endpoint()), "m", Request("likelihood", prompt="a", choices=["b"]))
