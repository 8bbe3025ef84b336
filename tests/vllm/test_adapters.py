"""An adapter on vLLM's engines answers as the model does that it is merged into."""

import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from real_engines import CHATS, MODEL, PAIRS, PYTHON, ROOT, Session, config_of

from gage_eval.backends.base import BackendContext
from gage_eval.engine.runtime import Runtime
from gage_eval.engine.types import Request

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A random adapter, and the model it is merged into."""
    folder = tmp_path_factory.mktemp("lora")
    made = folder / "adapter", folder / "merged"
    script = Path(__file__).with_name("tiny_lora.py")
    subprocess.run([str(PYTHON), str(script), str(MODEL), *map(str, made)], check=True, capture_output=True)
    return made


@pytest.mark.parametrize("type_", ["vllm", "vllm_native"])
def test_an_adapter_answers_as_the_model_it_is_merged_into(
    type_: str, adapter: tuple[Path, Path], reference: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    merged = reference("float32", adapter[1])
    assert merged["answers"] != reference("float32")["answers"]
    with Runtime(log_folder=tmp_path) as runtime:
        # vLLM's kernels for CPUs fail where prompts are scored together under an adapter.
        config = config_of(type_, lora_path=str(adapter[0]), max_num_seqs=1)
        session = Session(runtime, runtime.backend(type_, config, BackendContext(ROOT)))
        scored = session.ask(*(Request("likelihood", prompt=context, choices=[choice]) for context, choice in PAIRS))
        params = {"temperature": 0, "max_new_tokens": 16}
        chats = [Request("chat", messages=[{"role": "user", "content": text}], params=params) for text in CHATS]
        assert [response.answer for response in session.ask(*chats)] == merged["answers"]
    for response, each in zip(scored, merged["ll"][: len(PAIRS)], strict=True):
        (found,) = json.loads(response.logprobs or "")["choices"]
        assert found["ll"] == pytest.approx(math.fsum(each), abs=1e-4 * len(each))
