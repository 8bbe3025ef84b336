"""An adapter answers as the model does that it is merged into."""

import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from real_engines import CHATS, MODEL, PAIRS, PYTHON, ROOT, Session, config_of

from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.client.types import Request

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1200)]


def scripted(name: str, *arguments: object) -> None:
    """Run one of the scripts beside this file in the second environment."""
    script = Path(__file__).with_name(name)
    subprocess.run([str(PYTHON), str(script), *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A random adapter, and the model it is merged into."""
    folder = tmp_path_factory.mktemp("lora")
    made = folder / "adapter", folder / "merged"
    scripted("tiny_lora.py", MODEL, *made)
    return made


def likelihoods(session: Session) -> list[float]:
    """Of `PAIRS`, asked for together."""
    responses = session.ask(*(Request("likelihood", prompt=context, choices=[choice]) for context, choice in PAIRS))
    return [json.loads(response.logprobs or "")["choices"][0]["ll"] for response in responses]


def plain(reference: dict[str, Any]) -> list[Any]:
    """The likelihoods of `PAIRS` by a plain forward pass, as near as they are to be met."""
    each = reference["ll"][: len(PAIRS)]
    return [pytest.approx(math.fsum(values), abs=1e-4 * len(values)) for values in each]


@pytest.mark.parametrize("type_", ["transformers", "vllm", pytest.param("vllm_native", marks=pytest.mark.slow)])
def test_an_adapter_answers_as_the_model_it_is_merged_into(
    type_: str, adapter: tuple[Path, Path], reference: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    merged = reference("float32", adapter[1])
    assert merged["answers"] != reference("float32")["answers"]
    # vLLM's kernels for CPUs fail where prompts are scored together under an adapter.
    own = {"max_num_seqs": 1} if type_.startswith("vllm") else {}
    with Runtime(log_folder=tmp_path) as runtime:
        config = config_of(type_, lora_path=str(adapter[0]), **own)
        session = Session(runtime, runtime.backend(type_, config, BackendContext(ROOT)))
        assert likelihoods(session) == plain(merged)
        params = {"temperature": 0, "max_new_tokens": 16}
        chats = [Request("chat", messages=[{"role": "user", "content": text}], params=params) for text in CHATS]
        assert [response.answer for response in session.ask(*chats)] == merged["answers"]


@pytest.mark.slow
def test_an_adapter_hides_no_place_of_a_token_from_its_model(
    reference: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """Where places are learned, a row of a batch counts them from its own first token."""
    model, lora, merged = (tmp_path / name for name in ("model", "adapter", "merged"))
    scripted("tiny_neo.py", MODEL, model)
    scripted("tiny_lora.py", model, lora, merged)
    with Runtime() as runtime:
        config = config_of("transformers", model_path=str(model), lora_path=str(lora))
        session = Session(runtime, runtime.backend("transformers", config, BackendContext(ROOT)))
        assert likelihoods(session) == plain(reference("float32", merged))
