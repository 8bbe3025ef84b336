"""Real engines answer as a plain forward pass of the same model does."""

import asyncio
import json
import math
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from real_engines import CHATS, IN_CHAT, PAIRS, Opener
from support.engines import children, engine_of

from gage_eval.base.errors import EndpointFailed
from gage_eval.engine.endpoint_check import check_endpoint
from gage_eval.engine.endpoint_record import EndpointRecord, record_endpoint
from gage_eval.engine.probe import CrowdResult, Verdict
from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.engine_worker import Worker
from gage_eval.models.backends.vllm import VLLM
from gage_eval.models.client.types import Request

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

ENGINES = ("transformers", "vllm", "vllm_native")
Reference = Callable[[str], dict[str, Any]]


def chat(text: str, **params: Any) -> Request:
    return Request("chat", messages=[{"role": "user", "content": text}], params={"temperature": 0, **params})


def likelihood(context: str, *choices: str, unconditioned: str | None = None) -> Request:
    return Request("likelihood", prompt=context, choices=list(choices), unconditioned=unconditioned)


@pytest.mark.parametrize("type_", ENGINES)
def test_greedy_chat_answers_are_those_of_a_plain_forward_pass(
    type_: str, opened: Opener, reference: Reference
) -> None:
    responses = opened(type_).ask(*(chat(text, max_new_tokens=16) for text in CHATS))
    assert [response.answer for response in responses] == reference("float32")["answers"]
    assert {response.status for response in responses} <= {"ok", "truncated"}
    assert not any("/" in (response.model_fingerprint or "/") for response in responses)


@pytest.mark.parametrize(
    ("type_", "dtype", "tolerance"),
    [*((type_, "float32", 1e-4) for type_ in ENGINES), ("transformers", "bfloat16", 1e-2)],
)
def test_likelihoods_are_those_of_a_plain_forward_pass(
    type_: str, dtype: str, tolerance: float, opened: Opener, reference: Reference
) -> None:
    requests = [likelihood(context, choice) for context, choice in PAIRS]
    requests += [Request("likelihood", messages=messages, choices=[choice]) for messages, choice in IN_CHAT]
    for request, each in zip(requests, reference(dtype)["ll"], strict=True):
        (response,) = opened(type_, dtype).ask(request)
        (content,) = json.loads(response.logprobs or "")["choices"]
        assert content["tokens"] == len(each)
        # A token's log probability is what the tolerance is about; a sum of n of them has n times as much.
        assert content["ll"] == pytest.approx(math.fsum(each), abs=tolerance * len(each))
        assert content["truncated"] is False


@pytest.mark.parametrize("type_", ENGINES)
def test_choices_are_compared_with_and_without_their_context(type_: str, opened: Opener) -> None:
    request = likelihood("The capital of France is", " Paris", " of", unconditioned="")
    (response,) = opened(type_).ask(request)
    told = json.loads(response.logprobs or "")
    assert [len(told[name]) for name in ("choices", "unconditioned")] == [2, 2]
    assert told["choices"][0]["ll"] > told["unconditioned"][0]["ll"]


@pytest.mark.parametrize("type_", ENGINES)
def test_the_greedy_continuation_is_said_to_be_greedy(type_: str, opened: Opener) -> None:
    session = opened(type_)
    context = "One, two, three, four,"
    (made,) = session.ask(Request("completion", prompt=context, params={"temperature": 0, "max_new_tokens": 3}))
    (response,) = session.ask(likelihood(context, made.answer or "", " seventeen"))
    told = json.loads(response.logprobs or "")["choices"]
    assert [choice["is_greedy"] for choice in told] == [True, False]


@pytest.mark.parametrize("type_", ENGINES)
def test_a_context_that_is_too_long_is_cut_at_its_left_and_said_so(type_: str, opened: Opener) -> None:
    tail = "The capital of France is"
    responses = opened(type_).ask(
        likelihood("word " * 2000 + tail, " Paris"), likelihood("other " * 1500 + "word " * 1100 + tail, " Paris")
    )
    first, second = (json.loads(response.logprobs or "")["choices"][0] for response in responses)
    assert first["truncated"]
    assert second["truncated"]
    assert first["ll"] == pytest.approx(second["ll"], abs=1e-3)


@pytest.mark.parametrize("type_", ENGINES)
def test_an_empty_prompt_is_skipped_and_one_that_is_too_long_is_a_row_error(type_: str, opened: Opener) -> None:
    empty, long = opened(type_).ask(
        Request("completion", prompt="  "), Request("completion", prompt="word " * 2000, params={"max_new_tokens": 4})
    )
    assert (empty.status, empty.error_kind) == ("skipped", "empty_prompt")
    assert (long.status, long.error_kind) == ("error", "context_too_long")


@pytest.mark.parametrize("type_", ["vllm", "vllm_native"])
def test_the_engine_ends_a_loop(type_: str, opened: Opener) -> None:
    """The same tokens go on to the limit without it. A bias has the model say one token over and over."""
    params = {"temperature": 0, "max_new_tokens": 64, "logit_bias": {"253": 100}}
    prompt = "One, two,"
    detected = {**params, "repetition_detection": {"max_pattern_size": 4, "min_count": 6}}
    ended, cut = opened(type_).ask(
        Request("completion", prompt=prompt, params=detected), Request("completion", prompt=prompt, params=params)
    )
    assert (ended.status, ended.finish_reason) == ("looped", "repetition"), (ended, cut)
    assert ended.completion_tokens is not None
    assert ended.completion_tokens < 64
    assert (cut.finish_reason, cut.completion_tokens) == ("length", 64)
    assert (cut.answer or "").startswith(ended.answer or "?")


@pytest.mark.parametrize("type_", ["vllm", "vllm_native"])
def test_a_budget_for_thinking_is_refused_by_an_engine_without_a_parser_of_it(type_: str, opened: Opener) -> None:
    (response,) = opened(type_).ask(chat("Hello", thinking_token_budget=8, max_new_tokens=4))
    assert response.status == "error"
    assert "reasoning" in str(response.errors)


def test_every_engine_tells_the_same_token_ids_of_a_prompt(opened: Opener) -> None:
    digests = [opened(type_).ask(chat(CHATS[0], token_logprobs=2, max_new_tokens=1))[0] for type_ in ENGINES]
    assert len({response.prompt_digest for response in digests}) == 1
    assert digests[0].prompt_digest is not None


def test_the_check_of_an_endpoint_sees_what_a_real_server_does(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its prompts' token ids, stop strings, log probabilities and context; and another chat template."""
    monkeypatch.setattr("gage_eval.engine.endpoint_record._BUDGET", 32)
    backend = opened("vllm").backend
    assert isinstance(backend, VLLM)
    server = backend._servers[0]
    assert server.child is not None
    context = BackendContext(env={"KEY": server.child._hidden[0]})
    config = {"base_url": server.client.endpoint.base_url, "model": backend._name, "api_key": "env:KEY"}
    told = Verdict(
        identity={},
        created=datetime.now(UTC),
        verdict="exact",
        prompts=1,
        crowds=(CrowdResult(size=2, changed=0, largest_gap=None),),
        fingerprints=(),
    )

    def recorded(size: int, **params: Any) -> EndpointRecord:
        with Runtime() as runtime:
            model = runtime.backend("openai_http", {**config, "default_params": params}, context)
            return runtime.call(record_endpoint(model, "model", told, prompts=20, context=size))

    reference, other = recorded(1024), recorded(4096, add_generation_prompt=False)
    again = {each.property: each for each in check_endpoint(reference, reference)}
    shown = {
        name: again[name].verdict for name in ("chat_template", "stop_strings", "parameters", "context", "logprobs")
    }
    assert shown == dict.fromkeys(shown, "passed"), again
    changed = {each.property: each.verdict for each in check_endpoint(other, reference)}
    assert (changed["chat_template"], changed["context"], changed["logprobs"]) == ("failed", "failed", "failed")
    (response,) = opened("transformers").ask(chat("What is rain?", max_new_tokens=1))
    assert reference.templates[0].digest == response.prompt_digest


@pytest.mark.parametrize("type_", ["vllm", "vllm_native"])
def test_a_straggler_delays_nobody(type_: str, opened: Opener) -> None:
    """Requests of different lengths end one by one."""
    session = opened(type_)
    ended: list[str] = []

    async def one(name: str, request: Request) -> None:
        await session._one(request)
        ended.append(name)

    async def all_of() -> None:
        quick = [one("quick", chat(f"Say {n}.", max_new_tokens=2)) for n in range(24)]
        params = {"temperature": 0, "max_new_tokens": 200, "ignore_eos": True}
        long = Request("completion", prompt="One, two,", params=params)
        await asyncio.gather(one("long", long), *quick)

    session.runtime.call(all_of())
    assert len(ended) == 25
    assert ended[-1] == "long"


def test_the_log_is_kept_and_holds_no_key(opened: Opener) -> None:
    session = opened("vllm")
    backend, folder = session.backend, session.runtime.log_folder
    assert isinstance(backend, VLLM)
    assert folder is not None
    child = backend._servers[0].child
    assert child is not None
    log = (folder / "vllm.log").read_text()
    assert "vLLM" in log
    assert child._hidden[0] not in log


def test_an_engine_that_dies_under_requests_ends_the_run_with_one_sentence(opened: Opener) -> None:
    """Last: the engines of this module are gone afterwards."""
    for type_ in ENGINES:
        session = opened(type_)
        guard = _guard(session.backend)
        os.kill(_deepest(engine_of(guard)), signal.SIGKILL)
        with pytest.raises(EndpointFailed) as failed:
            session.ask(*(chat(f"Hello {n}", max_new_tokens=64) for n in range(100)))
        assert "\n" not in str(failed.value)


def _guard(backend: Any) -> int:
    if isinstance(backend, VLLM):
        child = backend._servers[0].child
        assert child is not None
        return child.pid
    worker: Worker = backend._engine.parts[0]
    return worker.child.pid


def _deepest(pid: int) -> int:
    """The process that computes: vLLM's engine core is a child of the one we started."""
    named = [child for child in children(pid) if b"EngineCore" in Path(f"/proc/{child}/cmdline").read_bytes()]
    return named[0] if named else pid
