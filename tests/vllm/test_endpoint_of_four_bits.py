"""The check of an endpoint tells a model in 4 bits from the same model in 8."""

import subprocess
from pathlib import Path

import pytest
from real_engines import PYTHON

from gage_eval.engine.endpoint_check import PropertyVerdict, check_endpoint
from gage_eval.engine.endpoint_record import EndpointRecord, first_tokens
from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.llama_cpp import packaged_model

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

# Fewer than usual, because the test is part of each build; more tell them apart all the better.
PROMPTS = 20


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bits")
    names = {name: folder / f"{name}.gguf" for name in ("Q8_0", "Q4_0")}
    script = Path(__file__).with_name("quantize.py")
    wanted = [f"{name}={file}" for name, file in names.items()]
    subprocess.run([str(PYTHON), str(script), str(packaged_model("smollm2-135m")), *wanted], check=True)
    return names


def recorded(file: Path) -> EndpointRecord:
    """A record of the distributions alone, which take the least time."""
    with Runtime() as runtime:
        backend = runtime.backend("llama_cpp", {"model_path": str(file), "n_ctx": 512}, BackendContext())
        answers, tokens_per_s, concurrency = runtime.call(first_tokens(backend, PROMPTS))
    unknown = {
        "stop_strings": "not_known",
        "thinking": "not_known",
        "takes_tools": None,
        "tools": None,
        "context": None,
        "refused": {},
    }
    return EndpointRecord.model_validate(
        {
            "model": file.stem,
            "created": "2026-11-01T00:00:00Z",
            "fingerprints": [],
            "templates": [],
            **unknown,
            "determinism": "exact",
            "determinism_text": "",
            "answers": answers,
            "tokens_per_s": tokens_per_s,
            "concurrency": concurrency,
        }
    )


def verdict(seen: EndpointRecord, reference: EndpointRecord) -> PropertyVerdict:
    (check,) = (each for each in check_endpoint(seen, reference) if each.property == "logprobs")
    return check


def test_four_bits_are_told_from_eight(files: dict[str, Path]) -> None:
    eight, four = recorded(files["Q8_0"]), recorded(files["Q4_0"])
    assert verdict(four, eight).verdict == "failed", verdict(four, eight).text
    assert verdict(eight, eight).verdict == "passed", verdict(eight, eight).text
