"""Parameters that no engine takes are refused before anything starts, and those that one lacks are never in a key."""

from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import InputError
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.build import build_backend
from gage_eval.models.client.sampling import wrong_parameters
from gage_eval.models.client.types import Request

LOOPS = {"max_pattern_size": 20, "min_count": 4}
QUESTION = [{"role": "user", "content": "Is it?"}]


@pytest.mark.parametrize(
    ("value", "is_right"),
    [
        (LOOPS, True),
        ({**LOOPS, "min_pattern_size": 20}, True),
        ({**LOOPS, "min_pattern_size": 21}, False),
        ({**LOOPS, "min_count": 1}, False),
        ({"max_pattern_size": 20}, False),
        ({**LOOPS, "max_size": 3}, False),
        (True, False),
        (None, True),
    ],
)
def test_repetition_detection_is_what_vllm_takes(value: Any, is_right: bool) -> None:
    assert (list(wrong_parameters({"repetition_detection": value})) == []) is is_right


@pytest.mark.parametrize(
    ("type_", "config", "passed"),
    [
        ("vllm", {"base_url": "http://127.0.0.1:1/v1", "model": "m"}, True),
        ("vllm_native", {"model_path": "m"}, True),
        ("openai_http", {"base_url": "http://127.0.0.1:1/v1", "model": "m"}, True),
        ("transformers", {"model_path": "m"}, False),
        ("llama_cpp", {"model_path": "m.gguf"}, False),
    ],
)
def test_an_engine_that_cannot_end_loops_is_asked_the_same(type_: str, config: dict[str, Any], passed: bool) -> None:
    backend = build_backend(type_, config, BackendContext(Path()))
    plain, with_loops = (
        backend.body(Request("chat", messages=QUESTION, params={"temperature": 0, **more}))
        for more in ({}, {"repetition_detection": LOOPS})
    )
    assert with_loops == ({**plain, "repetition_detection": LOOPS} if passed else plain)
    limited = Request("chat", messages=QUESTION, params={"thinking_token_budget": 64})
    if passed:
        assert backend.body(limited)["thinking_token_budget"] == 64
    else:
        with pytest.raises(InputError, match="cannot limit thinking: remove parameter 'thinking_token_budget'"):
            backend.body(limited)
