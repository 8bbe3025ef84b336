import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.engines import ends, engine_of, is_alive

from gage_eval.base.canonical import encode
from gage_eval.base.errors import EndpointFailed, InputError
from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.base import BackendContext, check_served
from gage_eval.models.backends.build import build_backend
from gage_eval.models.backends.llama_cpp import LlamaCpp, packaged_model
from gage_eval.models.client.types import Request

CONTEXT = BackendContext(Path())
CONFIG = {"model": "smollm2-135m", "n_ctx": 512}
QUESTIONS = ("What is the capital of France?", "Name a colour.", "Is the sky blue? Answer yes or no.")

PARENT = """
import sys, time
from pathlib import Path
from gage_eval.models.backends.base import BackendContext, check_served
from gage_eval.models.backends.base import BackendContext
from gage_eval.engine.runtime import Runtime

runtime = Runtime()
backend = runtime.backend("llama_cpp", {"model": "smollm2-135m", "n_ctx": 64}, BackendContext(Path()))
print(backend._server.child.pid, flush=True)
if sys.argv[1] == "wait":
    time.sleep(600)
elif sys.argv[1] == "raise":
    raise RuntimeError("nobody closes the runtime")
"""


def backend_of(**config: Any) -> LlamaCpp:
    backend = build_backend("llama_cpp", config, CONTEXT)
    assert isinstance(backend, LlamaCpp)
    return backend


@pytest.fixture
def smollm2() -> Path:
    """The packaged model's file; the test skips without it."""
    pytest.importorskip("xllamacpp")
    try:
        return packaged_model("smollm2-135m")
    except InputError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({}, "set either model_path (a .gguf file) or model (smollm2-135m)"),
        ({"model": "smollm2-135m", "model_path": "x.gguf"}, "set either model_path"),
        ({"model": "smollm2-135m", "deterministic": True, "n_parallel": 2}, "deterministic: true needs n_parallel: 1"),
    ],
)
def test_a_config_names_one_model(config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        backend_of(**config)
    assert sentence in str(caught.value)


def test_a_model_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match=r"no file 'none\.gguf'"):
        backend_of(model_path="none.gguf").identity()
    with pytest.raises(InputError, match=r"no packaged model 'gpt-9'\. Known: smollm2-135m"):
        backend_of(model="gpt-9").identity()


def test_the_identity_is_the_model_s_content_and_never_a_port_a_thread_or_a_path(tmp_path: Path) -> None:
    for name in ("one.gguf", "two.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    first = backend_of(model_path=str(tmp_path / "one.gguf"))
    assert first.identity() == backend_of(model_path=str(tmp_path / "two.gguf"), n_threads=9, n_parallel=3).identity()
    assert str(tmp_path) not in json.dumps(first.identity())
    assert first.identity() != backend_of(model_path=str(tmp_path / "one.gguf"), n_ctx=99).identity()
    (tmp_path / "two.gguf").write_bytes(b"GGUF2")
    assert first.identity() != backend_of(model_path=str(tmp_path / "two.gguf")).identity()


def test_likelihood_is_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match="Use a backend with the capability 'likelihood'"):
        check_served(backend_of(model="smollm2-135m"), ["likelihood"])


@pytest.mark.model
def test_greedy_answers_of_a_real_model_are_the_same_in_another_server(smollm2: Path) -> None:
    runs: list[list[str | None]] = []
    for _ in range(2):
        with Runtime(concurrency=8) as runtime:
            backend = runtime.backend("llama_cpp", CONFIG, CONTEXT)
            assert isinstance(backend, LlamaCpp)
            assert backend.limiter.cap == 1, "no more than the server answers at once"
            pid, (key,) = engine_of(backend._server.child.pid), backend._server.child._hidden
            assert key.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
            requests = [
                Request(
                    "chat",
                    messages=[{"role": "user", "content": question}],
                    params={"temperature": 0, "max_new_tokens": 12},
                )
                for question in QUESTIONS
            ]
            responses = [runtime.call(backend.call(request, encode(backend.body(request)))) for request in requests]
        assert not is_alive(pid)
        assert {response.status for response in responses} <= {"ok", "truncated"}
        assert not any("/" in (response.model_fingerprint or "") for response in responses)
        runs.append([response.answer for response in responses])
    assert runs[0] == runs[1]
    assert all(runs[0])


@pytest.mark.model
@pytest.mark.parametrize("how", ["wait", "raise", "exit"])
def test_no_server_outlives_its_parent_however_it_ends(smollm2: Path, repo_root: Path, how: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, how],
        cwd=repo_root,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    guard = int(parent.stdout.readline())
    pid = engine_of(guard) if how == "wait" else guard
    if how == "wait":
        assert is_alive(pid)
        os.kill(parent.pid, signal.SIGKILL)
    parent.wait(60)
    parent.stdout.close()
    assert ends(pid)


@pytest.mark.model
def test_a_file_that_is_no_model_fails_with_the_engine_s_last_words(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    (tmp_path / "bad.gguf").write_bytes(b"this is not a model")
    with Runtime() as runtime, pytest.raises(EndpointFailed, match=r"server ended with status .* last words: "):
        runtime.backend("llama_cpp", {"model_path": str(tmp_path / "bad.gguf")}, CONTEXT)


@pytest.mark.model
def test_a_server_that_dies_ends_the_run_at_once(smollm2: Path) -> None:
    request = Request("completion", prompt="One, two,", params={"max_new_tokens": 1})
    with Runtime() as runtime:
        backend = runtime.backend("llama_cpp", {"model": "smollm2-135m", "n_ctx": 64}, CONTEXT)
        assert isinstance(backend, LlamaCpp)
        assert runtime.call(backend.call(request, encode(backend.body(request)))).status == "truncated"
        os.kill(engine_of(backend._server.child.pid), signal.SIGKILL)
        assert ends(backend._server.child.pid)
        with pytest.raises(EndpointFailed, match="its server stopped"):
            runtime.call(backend.call(request, encode(backend.body(request))))
