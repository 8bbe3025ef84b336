"""No secret is written into a config, nor shown by a message that refuses it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from gage_eval.config.load import LoadedConfig
from gage_eval.config.secrets import is_reference, is_secret_name, scrub

CANARY = "canary-4711-swordfish"


def backend(**config: Any) -> list[dict[str, Any]]:
    base = {"base_url": "http://h/v1", "model": "m"}
    return [{"backend_id": "local", "type": "openai_http", "config": {**base, **config}}]


def test_a_literal_key_is_refused_without_being_shown(
    small: Callable[..., str], refusal: Callable[..., list[str]]
) -> None:
    lines = refusal(small(backends=backend(api_key=CANARY)))
    assert lines == [
        "backends[0].config.api_key: a config must not contain a literal secret; write env:NAME (or block:NAME)."
    ]


def test_an_interpolated_key_is_refused_with_the_reference_to_write(
    small: Callable[..., str], refusal: Callable[..., list[str]]
) -> None:
    lines = refusal(small(backends=backend(api_key="${OPENAI_API_KEY}")), {"OPENAI_API_KEY": CANARY})
    assert lines == [
        "backends[0].config.api_key: ${OPENAI_API_KEY} would write the secret into records; write env:OPENAI_API_KEY."
    ]


def test_a_secret_variable_is_refused_wherever_it_goes(
    small: Callable[..., str], refusal: Callable[..., list[str]]
) -> None:
    text = small(metadata={"description": "x ${MY_API_TOKEN}"})
    assert refusal(text, {"MY_API_TOKEN": CANARY}) == [
        "metadata.description: ${MY_API_TOKEN} would write a secret into records; "
        "give it as env:MY_API_TOKEN to a field that takes a secret."
    ]


def test_a_slip_in_the_name_of_a_limit_is_an_unknown_key_and_no_secret(
    small: Callable[..., str], refusal: Callable[..., list[str]]
) -> None:
    (line,) = refusal(small(limits={"token": 5}))
    assert "Did you mean 'tokens'?" in line
    assert "literal secret" in refusal(small(backends=backend(token=5)))[0]


@pytest.mark.parametrize("reference", ["env:OPENAI_API_KEY", "block:keys", "block:keys/openai"])
def test_a_reference_is_accepted(small: Callable[..., str], load: Callable[..., LoadedConfig], reference: str) -> None:
    assert load(small(backends=backend(api_key=reference))).config.backends[0].config["api_key"] == reference


@pytest.mark.parametrize(
    "config",
    [
        {"extra_body": {"deep": [{"password": CANARY}]}},
        {"headers": {"Authorization": CANARY}},
        {"headers": {"X-Vendor-Key": CANARY}},
        {"apiKey": CANARY},
        {"some_vendor_key": CANARY},
        {"password": 12345678},
        {"api_key": [CANARY]},
        {"note": "Bearer abcdefghijklmnop"},
        {"note": "sk-abcdefghijklmnopqrstu"},
        {"base_url": f"http://user:{CANARY}@h/v1"},
        {"base_url": f"http://h/v1?api_key={CANARY}"},
    ],
)
def test_secrets_are_found_however_deep(
    small: Callable[..., str], refusal: Callable[..., list[str]], config: dict[str, Any]
) -> None:
    lines = refusal(small(backends=backend(**config)))
    assert len(lines) >= 1
    assert all(CANARY not in line for line in lines)


@pytest.mark.parametrize(
    "name",
    ["api_key", "apiKey", "X-Api-Key", "OPENAI_API_KEY", "token", "hf_token", "client_secret",
     "Authorization", "password", "aws_secret_access_key", "Ocp-Apim-Subscription-Key", "cookie"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "max_new_tokens", "max_completion_tokens", "eos_token", "stop_token_ids", "answer_key",
     "tokenizer", "value_key", "keywords", "prompt_tokens", "monkey"],
)  # fmt: skip
def test_names_that_only_sound_like_secrets(name: str) -> None:
    assert not is_secret_name(name, connection=True)


@pytest.mark.parametrize(
    "text", ["a." * 200_000, "eyJ-" * 200_000, "sk-" * 200_000, "a://b:" * 100_000, "?key=" * 100_000]
)
def test_long_hostile_text_is_scrubbed_in_one_pass(text: str) -> None:
    assert isinstance(scrub({text: text}), dict)


def test_a_web_token_is_masked() -> None:
    assert scrub("got eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl back") == "got *** back"


def test_a_reference_is_exactly_that() -> None:
    assert is_reference("env:A_1")
    assert not is_reference("env:A B")
    assert not is_reference("env:A\n")
    assert not is_reference(f"x env:{CANARY}")


def test_scrub_masks_by_name_and_by_shape_and_keeps_the_rest() -> None:
    record = {
        "api_key": CANARY,
        "headers": {"X-Custom-Key": CANARY, "Accept": "json"},
        "list": [{"token": CANARY}, "Bearer abcdefghijklmnop", ("a", 1)],
        "url": f"https://u:{CANARY}@h/p?x=1&token={CANARY}",
        "reference": {"api_key": "env:KEY"},
        "max_tokens": 5,
        "some_key": 3,
        "none": None,
    }
    out = scrub(record)
    assert CANARY not in json.dumps(out)
    assert out["headers"] == {"X-Custom-Key": "***", "Accept": "json"}
    assert out["list"] == [{"token": "***"}, "Bearer ***", ["a", 1]]
    assert out["url"] == "https://***@h/p?x=1&token=***"
    assert out["reference"] == {"api_key": "env:KEY"}
    assert (out["max_tokens"], out["some_key"], out["none"]) == (5, 3, None)
