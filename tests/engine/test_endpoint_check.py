"""The check of an endpoint finds each property that is not the model's, and calls nothing known that is not."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.canonical import digest
from gage_eval.base.errors import InputError
from gage_eval.engine.endpoint_check import (
    check_endpoint,
    divergences,
    read_reference,
    stored_reference,
    write_reference,
)
from gage_eval.engine.endpoint_record import EndpointRecord, check_prompts, record_endpoint
from gage_eval.engine.probe import PROMPTS, Verdict
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.openai_http import OpenAIHTTP, OpenAIHTTPConfig, read_chat
from gage_eval.models.client.types import Request, Response
from gage_eval.store import Store
from tests.support.checked_endpoint import CONTEXT, reply_to

PROPERTIES = (
    *("chat_template", "stop_strings", "thinking", "tool_calls", "parameters"),
    *("context", "logprobs", "determinism", "throughput"),
)


class StandIn(OpenAIHTTP):
    """An endpoint without a network, of which some properties are broken, or fields of its answers are missing."""

    def __init__(self, broken: str = "", without: tuple[str, ...] = ()) -> None:
        super().__init__(OpenAIHTTPConfig(model="m", base_url="http://127.0.0.1:9/v1"), BackendContext())
        self._broken, self._without = broken, without

    async def call(self, request: Request, body: bytes) -> Response:
        content = json.loads(body)
        if any(name in content for name in self._without):
            return Response("error", error_kind="http_400", errors=["400 (not supported)"])
        status, reply = reply_to(content, self._broken)
        if status != 200:
            return Response("error", error_kind=f"http_{status}", errors=[reply["error"]["message"]])
        for name in self._without:
            reply.pop(name, None)
        return read_chat(reply)


def probed(verdict: str = "near") -> Verdict:
    return Verdict.model_validate(
        {
            "verdict": verdict,
            "prompts": 64,
            "crowds": [{"size": 64, "changed": 3, "largest_gap": 0.01}],
            "fingerprints": [],
            "identity": {},
            "created": "2026-11-01T00:00:00Z",
        }
    )


def record(broken: str = "", *without: str, prompts: int = 24, context: int | None = CONTEXT) -> EndpointRecord:
    verdict = probed("drifting" if broken == "determinism" else "near")
    seen = asyncio.run(record_endpoint(StandIn(broken, without), "m", verdict, prompts=prompts, context=context))
    # What was measured depends on this machine.
    return seen.model_copy(update={"tokens_per_s": 20.0 if broken == "throughput" else 100.0})


def verdicts(seen: EndpointRecord, reference: EndpointRecord | None, **options: Any) -> dict[str, str]:
    return {name: verdict for name, verdict, _ in check_endpoint(seen, reference, **options)}


@pytest.fixture(scope="module")
def reference() -> EndpointRecord:
    return record()


def test_the_model_itself_passes_each_check(reference: EndpointRecord) -> None:
    assert verdicts(record(), reference) == dict.fromkeys(PROPERTIES, "passed")


@pytest.mark.parametrize("broken", PROPERTIES)
def test_a_broken_property_fails_alone(reference: EndpointRecord, broken: str) -> None:
    assert verdicts(record(broken), reference) == dict.fromkeys(PROPERTIES, "passed") | {broken: "failed"}


def test_without_a_reference_only_what_the_endpoint_itself_shows_is_known(reference: EndpointRecord) -> None:
    compared = ("chat_template", "parameters", "logprobs", "throughput")
    assert verdicts(reference, None) == dict.fromkeys(PROPERTIES, "passed") | dict.fromkeys(compared, "not_known")


def test_what_an_endpoint_does_not_tell_is_not_known(reference: EndpointRecord) -> None:
    silent = record("", "logprobs", "tools", "prompt_token_ids", "return_token_ids", "stop", context=None)
    properties = verdicts(silent, silent)
    unknown = ("chat_template", "stop_strings", "tool_calls", "context", "logprobs")
    assert properties == dict.fromkeys(PROPERTIES, "passed") | dict.fromkeys(unknown, "not_known")
    # A model that takes no tools is not one that takes some.
    assert verdicts(silent, reference)["tool_calls"] == "failed"
    uncounted = verdicts(record("", "usage"), reference)
    assert (uncounted["context"], uncounted["throughput"]) == ("not_known", "passed")


def test_an_endpoint_with_one_temperature_is_asked_without_one(reference: EndpointRecord) -> None:
    fixed = record("", "temperature")
    assert fixed.refused["temperature 0.3"] is True
    properties = verdicts(fixed, reference)
    assert (properties["parameters"], properties["logprobs"], properties["stop_strings"]) == (
        "failed",
        "passed",
        "passed",
    )


def test_a_failure_that_is_no_refusal_says_nothing(reference: EndpointRecord) -> None:
    class Down(StandIn):
        async def call(self, request: Request, body: bytes) -> Response:
            return Response("error", error_kind="http_503")

    down = asyncio.run(record_endpoint(Down(), "m", probed(), prompts=20, context=CONTEXT))
    assert verdicts(down, reference) == dict.fromkeys(PROPERTIES, "not_known") | {"determinism": "passed"}


@pytest.mark.parametrize(
    "reply",
    [
        {"message": {"content": "\ud800 \x1b[31m one two three four"}, "logprobs": {"content": 5}},
        {"message": {"content": None, "tool_calls": [{"function": {"name": "a\x1b[31m", "arguments": "[" * 50_000}}]}},
        {"message": {"content": None, "tool_calls": [{"function": {"name": "", "arguments": [1]}}] * 3}},
        {"message": {"content": "a b a b a b"}, "logprobs": {"content": [{"token": "a", "logprob": 1e8}] * 9}},
        {
            "message": {"content": ""},
            "logprobs": {"content": [{"token": "\ufffd", "logprob": -1, "top_logprobs": [1]}]},
        },
    ],
)
def test_whatever_an_endpoint_says_is_recorded_and_checked(
    tmp_path: Path, reference: EndpointRecord, reply: dict[str, Any]
) -> None:
    class Odd(StandIn):
        async def call(self, request: Request, body: bytes) -> Response:
            # Counts that make no sense: each prompt has one token more than the one before.
            self.count = getattr(self, "count", 0) + 1
            return read_chat({"choices": [reply], "usage": {"prompt_tokens": self.count, "completion_tokens": 2**50}})

    odd = asyncio.run(record_endpoint(Odd(), "m", probed(), prompts=20, context=CONTEXT))
    assert verdicts(odd, reference)["chat_template"] == "failed"
    assert verdicts(reference, odd)["logprobs"] != "passed"
    file = tmp_path / "reference.json"
    name = write_reference(file, odd, Store.open(str(tmp_path / "store")))
    assert read_reference(file)[1] == name


def test_another_number_of_tokens_is_another_template_where_ids_are_not_told(reference: EndpointRecord) -> None:
    templates = tuple(each.model_copy(update={"digest": None}) for each in reference.templates)
    longer = (*templates[:2], templates[2].model_copy(update={"tokens": 99}), *templates[3:])
    silent, other = (reference.model_copy(update={"templates": each}) for each in (templates, longer))
    assert verdicts(silent, reference)["chat_template"] == "not_known"
    assert verdicts(other, reference)["chat_template"] == "failed"


def test_the_distance_is_that_of_the_tokens_before_the_answers_part(reference: EndpointRecord) -> None:
    first = reference.answers[0]
    assert list(divergences(reference, reference)) == [0.0] * 24
    parted = first.model_copy(update={"tokens": ("other", *first.tokens[1:]), "known": (first.known[0], {"x": -0.1})})
    assert list(divergences(reference.model_copy(update={"answers": (parted,)}), reference)) == [0.0]


def test_a_distance_around_what_is_tolerated_is_not_known_and_few_prompts_are_too_few(
    reference: EndpointRecord,
) -> None:
    other = record("logprobs")
    values = list(divergences(other, reference))
    mean = sum(values) / len(values)
    for tolerance, expected in ((mean / 2, "failed"), (mean, "not_known"), (mean * 2, "passed")):
        assert verdicts(other, reference, tolerance=tolerance)["logprobs"] == expected
    assert verdicts(record("logprobs", prompts=20), reference)["logprobs"] == "failed"
    assert verdicts(other.model_copy(update={"answers": other.answers[:19]}), reference)["logprobs"] == "not_known"
    text = next(x.text for x in check_endpoint(other, reference) if x.property == "logprobs")
    assert "a lower bound" in text


def test_a_model_that_is_slower_by_less_or_asked_otherwise_is_not_called_slow(reference: EndpointRecord) -> None:
    def speed(**changes: Any) -> str:
        return verdicts(reference.model_copy(update=changes), reference)["throughput"]

    assert (speed(tokens_per_s=30.0), speed(tokens_per_s=20.0)) == ("passed", "failed")
    assert speed(tokens_per_s=20.0, concurrency=1) == "not_known"


def test_a_reference_is_a_file_by_its_content(tmp_path: Path, reference: EndpointRecord) -> None:
    file = tmp_path / "reference.json"
    store = Store.open(str(tmp_path / "store"))
    name = write_reference(file, reference, store)
    assert read_reference(file) == (reference, name)
    assert stored_reference(store, name) == reference
    with pytest.raises(InputError, match="is there already"):
        write_reference(file, reference, store)
    with pytest.raises(InputError, match="has no reference"):
        stored_reference(store, "0" * 64)
    (stored,) = (tmp_path / "store" / "references").iterdir()
    stored.write_text(file.read_text().replace('"model":"m"', '"model":"n"'))
    with pytest.raises(InputError, match="is damaged"):
        stored_reference(store, name)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"form": 2}', "[" * 100_000, '{"form": 1, "answers": [NaN]}', "\xff"])
def test_what_is_no_reference_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "reference.json"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match="holds no reference of this version"):
        read_reference(file)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_reference(tmp_path / "none.json")


def test_the_prompts_are_those_of_the_form() -> None:
    """Other prompts need another `EndpointRecord.form`: answers to different ones are not comparable."""
    assert check_prompts(64) == list(PROMPTS)
    assert len(set(check_prompts(1000))) == 1000
    assert digest(check_prompts(1000))[:12] == "ea8abdcc15c5"
