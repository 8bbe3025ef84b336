import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.engines import FAKE_VLLM, children, ends, engine_of, is_alive, starts, write_fake_vllm

from gage_eval.base.canonical import encode
from gage_eval.base.errors import EndpointFailed, InputError
from gage_eval.base.ports import free_port
from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.base import Backend, BackendContext
from gage_eval.models.backends.build import build_backend, parse_config
from gage_eval.models.backends.vllm import VLLM
from gage_eval.models.client.types import Request, Response


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a checkpoint and an interpreter whose vLLM is `fake_vllm`."""
    write_fake_vllm(tmp_path)
    return tmp_path


def context(folder: Path, **env: str) -> BackendContext:
    kept = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    return BackendContext(folder, env={**kept, **env})


def started(folder: Path, runtime: Runtime, env: dict[str, str] | None = None, **config: Any) -> VLLM:
    settings = {"model_path": "checkpoint", "python": "./python", **config}
    backend = runtime.backend("vllm", settings, context(folder, **(env or {})))
    assert isinstance(backend, VLLM)
    return backend


def ask(runtime: Runtime, backend: Backend, *requests: Request) -> list[Response]:
    async def all_of() -> list[Response]:
        return await asyncio.gather(*(backend.call(request, encode(backend.body(request))) for request in requests))

    return runtime.call(all_of())


def chat(text: str) -> Request:
    return Request("chat", messages=[{"role": "user", "content": text}])


def test_a_server_is_started_on_loopback_with_a_key_that_no_list_of_processes_shows(folder: Path) -> None:
    with Runtime(log_folder=folder / "engines") as runtime:
        backend = started(folder, runtime, max_num_seqs=8, enable_prefix_caching=False, dtype="float32")
        child = backend._servers[0].child
        assert child is not None
        engine = engine_of(child.pid)
        (response,) = ask(runtime, backend, chat("hello"))
        assert (response.answer or "").endswith("hello")
        ((flags, _, argv),) = starts(folder)
        (key,) = child._hidden
        assert not any(key in argument for argument in argv)
        assert flags["host"] == "127.0.0.1"
        assert flags["served-model-name"] == "model"
        assert flags["max-num-seqs"] == "8"
        assert flags["long-prefill-token-threshold"] == "512"
        assert "no-enable-prefix-caching" in flags
        assert key not in child.output()
    assert not is_alive(engine)
    assert (folder / "engines" / "vllm.log").is_file()


def test_while_a_server_starts_its_log_is_told_without_its_key(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gage_eval.models.backends.child._TELL_EVERY_S", 0.01)
    caplog.set_level("INFO", "gage_eval.models.backends")
    with Runtime() as runtime:
        (key,) = started(folder, runtime)._servers[0].child._hidden  # type: ignore[union-attr]
    assert "vLLM's server has been loading the model for " in caplog.text
    assert "serve.py:1] key ***" in caplog.text
    assert key not in caplog.text


def test_a_server_without_enough_memory_is_started_with_less(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Runtime() as runtime:
        started(folder, runtime, {"FAKE_FITS": "0.5"})
        assert [flags["gpu-memory-utilization"] for flags, _, _ in starts(folder)] == ["0.9", "0.7", "0.5"]
    assert "ran out of memory with gpu_memory_utilization 0.7; trying 0.5" in caplog.text


def test_when_no_share_of_memory_suffices_one_sentence_says_what_was_tried(folder: Path) -> None:
    with (
        Runtime() as runtime,
        pytest.raises(EndpointFailed, match=r"gpu_memory_utilization 0\.6, 0\.5\. Its last words: .*OutOfMemory"),
    ):
        started(folder, runtime, {"FAKE_FITS": "0.1"}, gpu_memory_utilization=0.6)


def test_a_server_that_cannot_start_is_not_started_again_and_the_cause_is_told(folder: Path) -> None:
    with Runtime() as runtime, pytest.raises(EndpointFailed) as failed:
        started(folder, runtime, {"FAKE_DIES": "max_num_seqs is too large"})
    assert len(starts(folder)) == 1
    assert str(failed.value) == (
        "vLLM's server ended with status 1. Its last words: ValueError: max_num_seqs is too large"
    )


def test_a_line_that_announces_a_cause_is_not_taken_for_it(folder: Path) -> None:
    with Runtime() as runtime, pytest.raises(EndpointFailed, match="Its last words: ImportError: no such library"):
        started(folder, runtime, {"FAKE_DIES": "Error raised in subprocess:\nImportError: no such library"})


def test_a_server_that_is_not_ready_in_time_is_ended(folder: Path) -> None:
    write_fake_vllm(folder, "exec sleep 600")
    with Runtime() as runtime, pytest.raises(EndpointFailed, match=r"has not loaded the model in 0\.3 s"):
        started(folder, runtime, start_timeout=0.3)


def test_a_server_that_dies_ends_the_run_with_its_last_words(folder: Path) -> None:
    with Runtime() as runtime:
        backend = started(folder, runtime)
        with pytest.raises(EndpointFailed, match="Its last words: RuntimeError: the engine core went away"):
            ask(runtime, backend, chat("die"))


# What is semantic and what only spreads the work, as a config and as vLLM's arguments.
ARGUMENTS = {
    "quantization": "fp8",
    "max_model_len": 512,
    "dtype": "float16",
    "revision": "r2",
    "trust_remote_code": True,
}
SPREAD = {"tensor_parallel_size": 2, "data_parallel_size": 3}


def test_the_fields_of_an_engine_reach_the_servers_command_line(folder: Path) -> None:
    (folder / "adapter").mkdir()
    with Runtime() as runtime:
        started(folder, runtime, **ARGUMENTS, **SPREAD, lora_path="adapter", speculative_config={"k": 1})
    ((flags, _, _),) = starts(folder)
    told = {name.replace("_", "-"): str(value) for name, value in {**ARGUMENTS, **SPREAD}.items()}
    assert {name: flags[name] for name in told} == {**told, "trust-remote-code": ""}
    assert flags["speculative-config"] == '{"k":1}'
    # Requests name the adapter; the model beside it has another name.
    assert (flags["served-model-name"], flags["lora-modules"]) == ("base", f"model={folder / 'adapter'}")
    assert "enable-lora" in flags


def test_the_fields_of_an_engine_reach_the_offline_engine(folder: Path) -> None:
    (folder / "adapter").mkdir()
    (folder / "python").write_text(f"#!/bin/sh\nhead -n 1 > {folder / 'read'}\nexit 3\n")
    config = {"model_path": "checkpoint", "python": "./python", "lora_path": "adapter", **ARGUMENTS, **SPREAD}
    with Runtime() as runtime, pytest.raises(EndpointFailed, match="vLLM's engine ended with status 3"):
        runtime.backend("vllm_native", {**config, "max_num_seqs": 8, "add_bos_token": True}, context(folder))
    options = json.loads((folder / "read").read_text())
    expected = {**ARGUMENTS, **SPREAD, "max_num_seqs": 8, "gpu_memory_utilization": 0.9}
    assert {name: options["arguments"][name] for name in expected} == expected
    assert (options["lora"], options["add_bos_token"]) == (str(folder / "adapter"), True)


@pytest.mark.parametrize("type_", ["vllm", "vllm_native"])
@pytest.mark.parametrize("gpus", ["", "0"])
def test_a_deterministic_engine_is_started_in_its_batch_invariant_mode(type_: str, gpus: str, folder: Path) -> None:
    variables = ("VLLM_BATCH_INVARIANT", "VLLM_USE_FLASHINFER_SAMPLER")
    wanted = " ".join(f"${name}" for name in variables)
    script = f'#!/bin/sh\nhead -n 1 > {folder / "read"}\necho {wanted} "$@" > {folder / "told"}\nexit 3\n'
    (folder / "python").write_text(script)
    config = {"model_path": "checkpoint", "python": "./python"}

    def told(**more: Any) -> str:
        with Runtime() as runtime, pytest.raises(EndpointFailed, match="ended with status 3"):
            runtime.backend(type_, {**config, **more}, context(folder, CUDA_VISIBLE_DEVICES=gpus))
        return (folder / "told").read_text() + (folder / "read").read_text()

    assert not told().startswith("1 0")
    mode = told(deterministic=True)
    assert mode.startswith("1 0")
    # FlashAttention 3 is not invariant on Hopper; a processor has no choice.
    assert ("TRITON_ATTN" in mode) == bool(gpus)
    own = told(deterministic=True, attention_backend="FLASH_ATTN")
    assert "FLASH_ATTN" in own
    assert "TRITON_ATTN" not in own
    here = context(folder, CUDA_VISIBLE_DEVICES=gpus)
    keys = [build_backend(type_, {**config, "deterministic": is_set}, here).engine_key() for is_set in (True, False)]  # type: ignore[attr-defined]
    assert keys[0] != keys[1]


@pytest.mark.parametrize("type_", ["vllm", "vllm_native"])
def test_how_much_a_model_thinks_is_part_of_what_is_asked(type_: str, folder: Path) -> None:
    config = {"model_path": "checkpoint", "reasoning_effort": "low", "thinking_budget": 64}
    backend = build_backend(type_, config, context(folder))
    body = backend.body(chat("hello"))
    assert (body["reasoning_effort"], body["thinking_token_budget"]) == ("low", 64)
    request = Request("likelihood", messages=[{"role": "user", "content": "a"}], choices=["b"])
    assert backend.body(request) == {"messages": request.messages, "choices": ["b"], "reasoning_effort": "low"}


def test_replicas_have_gpus_of_their_own_and_share_the_requests(folder: Path) -> None:
    with Runtime() as runtime:
        backend = started(folder, runtime, {"CUDA_VISIBLE_DEVICES": "4,5,6,7"}, replicas=2, tensor_parallel_size=2)
        responses = ask(runtime, backend, *(chat(str(n)) for n in range(8)))
        assert sorted(gpus or "" for _, gpus, _ in starts(folder)) == ["4,5", "6,7"]
        assert len({(response.answer or "").split()[0] for response in responses}) == 2


def test_too_few_gpus_are_said_before_anything_starts(folder: Path) -> None:
    with Runtime() as runtime, pytest.raises(InputError, match="needs 4 GPUs and this machine has 3"):
        started(folder, runtime, {"CUDA_VISIBLE_DEVICES": "0,1,2"}, replicas=2, tensor_parallel_size=2)
    assert starts(folder) == []


def test_a_replica_that_fails_takes_the_others_along(folder: Path) -> None:
    write_fake_vllm(folder, f'[ "$CUDA_VISIBLE_DEVICES" = 1 ] && exit 3\nexec {FAKE_VLLM}')
    with Runtime() as runtime, pytest.raises(EndpointFailed, match="ended with status 3"):
        started(folder, runtime, {"CUDA_VISIBLE_DEVICES": "0,1"}, replicas=2)


def test_likelihoods_follow_the_rules_whatever_order_the_server_answers_in(folder: Path) -> None:
    with Runtime() as runtime:
        backend = started(folder, runtime)
        (response,) = ask(runtime, backend, Request("likelihood", prompt="ab ", choices=["b", "a"], unconditioned=""))
        told = json.loads(response.logprobs or "")
        assert told["choices"] == [
            {"ll": pytest.approx(-(32 + 98) / 1000), "is_greedy": True, "tokens": 2, "truncated": False},
            {"ll": pytest.approx(-(32 + 97) / 1000), "is_greedy": False, "tokens": 2, "truncated": False},
        ]
        assert [choice["tokens"] for choice in told["unconditioned"]] == [1, 1]
        assert response.prompt_tokens == 7
        (cut,) = ask(runtime, backend, Request("likelihood", prompt="x" * 100, choices=["ab"]))
        assert json.loads(cut.logprobs or "")["choices"][0]["truncated"] is True


def test_the_context_of_a_likelihood_in_a_chat_is_what_the_models_template_makes_of_it(folder: Path) -> None:
    chat: list[dict[str, Any]] = [{"role": "user", "content": "a"}]
    begun = [*chat, {"role": "assistant", "content": "b"}]
    with Runtime() as runtime:
        backend = started(folder, runtime, add_bos_token=True)
        in_chat = [Request("likelihood", messages=messages, choices=["c"]) for messages in (chat, begun)]
        scored = {"ll": -0.099, "is_greedy": False, "tokens": 1, "truncated": False}
        for response in ask(runtime, backend, *in_chat):
            assert json.loads(response.logprobs or "") == {"choices": [scored]}
        template = Request("likelihood", messages=chat, choices=["c"], params={"chat_template_kwargs": {"k": 1}})
        assert backend.body(in_chat[0]) == {"messages": chat, "choices": ["c"]}
        assert backend.body(template) == {**backend.body(in_chat[0]), "chat_template_kwargs": {"k": 1}}


def test_a_likelihood_request_is_told_from_a_completion_and_no_sampling_parameter_has_a_part_in_it(
    folder: Path,
) -> None:
    backend = build_backend("vllm", {"model_path": "checkpoint"}, context(folder))
    hot = Request("likelihood", prompt="a", choices=["b"], params={"temperature": 1.0})
    assert backend.body(hot) == {"prompt": "a", "choices": ["b"]}


@pytest.fixture
def running(folder: Path) -> Iterator[tuple[str, BackendContext]]:
    """The URL of a server that runs already, and a context whose SOME_KEY is its key."""
    port = free_port()
    env = {**context(folder).env, "VLLM_API_KEY": "abc", "SOME_KEY": "abc"}
    flags = ["-m", "vllm", "--host", "127.0.0.1", "--port", str(port), "--gpu-memory-utilization", "0.9"]
    server = subprocess.Popen([str(folder / "python"), *flags], env=env, stdout=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}/v1", BackendContext(folder, env=env)
        assert server.poll() is None, "it was not ours to end"
    finally:
        server.kill()
        server.wait()


def test_a_running_server_is_asked_and_left_running(running: tuple[str, BackendContext]) -> None:
    url, surroundings = running
    with Runtime() as runtime:
        config = {"base_url": url, "model": "model", "api_key": "env:SOME_KEY"}
        backend = runtime.backend("vllm", config, surroundings)
        chatted, scored = ask(runtime, backend, chat("hi"), Request("likelihood", prompt="a", choices=["b"]))
        assert (chatted.status, scored.status) == ("ok", "ok")


def test_an_endpoint_that_echoes_scores_likelihoods_and_one_that_does_not_is_found_out(
    running: tuple[str, BackendContext],
) -> None:
    url, surroundings = running
    config = {"base_url": url, "model": "model", "api_key": "env:SOME_KEY"}
    assert "likelihood" not in build_backend("openai_http", config, surroundings).capabilities
    with Runtime() as runtime:
        backend = runtime.backend("openai_http", {**config, "echo_logprobs": True}, surroundings)
        assert "likelihood" in backend.capabilities
        request = Request("likelihood", prompt="ab ", choices=["b", "a"], unconditioned="Answer:")
        scored, empty = ask(runtime, backend, request, Request("likelihood", prompt="", choices=["b"]))
        told = json.loads(scored.logprobs or "")
        assert told["choices"] == [
            {"ll": pytest.approx(-(32 + 98) / 1000), "is_greedy": True, "tokens": 2, "truncated": False},
            {"ll": pytest.approx(-(32 + 97) / 1000), "is_greedy": False, "tokens": 2, "truncated": False},
        ]
        assert [choice["tokens"] for choice in told["unconditioned"]] == [1, 1]
        assert (empty.status, empty.error_kind) == ("error", "empty_context")
        with pytest.raises(EndpointFailed, match="does not echo prompts"):
            ask(runtime, backend, Request("likelihood", prompt="mute", choices=["b"]))


PARENT = """
import sys, time
from pathlib import Path
from gage_eval.models.backends.base import BackendContext
from gage_eval.engine.runtime import Runtime

runtime = Runtime()
config = {"model_path": "checkpoint", "python": "./python"}
backend = runtime.backend("vllm", config, BackendContext(Path(sys.argv[1])))
print(backend._servers[0].child.pid, flush=True)
time.sleep(600)
"""


def test_no_process_of_a_server_outlives_a_run_that_is_killed(folder: Path, repo_root: Path) -> None:
    write_fake_vllm(folder, f"sleep 600 &\n{FAKE_VLLM}")
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder)],
        cwd=repo_root,
        env=dict(context(folder).env),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    guard = int(parent.stdout.readline())
    engine = engine_of(guard)
    workers = children(engine)
    assert len(workers) == 2
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert all(ends(pid) for pid in (guard, engine, *workers))


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({}, "set model_path"),
        ({"base_url": "http://h/v1"}, "set 'model'"),
        ({"base_url": "localhost:8000/v1", "model": "m"}, "base_url starts with http:// or https://"),
        ({"base_url": "http://me:secret@h/v1", "model": "m"}, "base_url holds no user or password"),
        ({"base_url": "http://h/v1", "model": "m", "model_path": "p"}, "'model_path' belongs to a server"),
        ({"base_url": "http://h/v1", "model": "m", "max_num_seqs": 3}, "a running server takes no arguments"),
        ({"model_path": "p", "model": "m"}, "'model' belongs to a running server"),
        ({"model_path": "p", "port": 80}, "'port' is set by gage-eval itself"),
        ({"model_path": "p", "Max-Seqs": 80}, "is not an argument of vLLM"),
        ({"model_path": "p", "env": {"HF_TOKEN": "x"}}, "may be a secret"),
        (
            {"model_path": "p", "deterministic": True, "env": {"VLLM_BATCH_INVARIANT": "0"}},
            "deterministic: true needs VLLM_BATCH_INVARIANT=1: remove it from env",
        ),
    ],
)
def test_what_a_config_may_not_say_is_named(config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_config("vllm", config)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("./none", "no folder './none'"), ("empty", "holds no config.json"), ("a/b/c", "no folder 'a/b/c'")],
)
def test_a_checkpoint_that_is_none_is_named_with_its_field(folder: Path, path: str, sentence: str) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(InputError, match=f"vllm: config.model_path: .*{sentence}"):
        build_backend("vllm", {"model_path": path}, context(folder)).identity()


def test_an_interpreter_that_is_not_there_is_named(folder: Path) -> None:
    for python, said in (
        ("./nothing", r"no interpreter '\./nothing'"),
        ("python9", "no 'python9' on the PATH"),
        ("~nobody-here/python", "there is no home folder '~nobody-here'"),
    ):
        with Runtime() as runtime, pytest.raises(InputError, match=said):
            started(folder, runtime, python=python)
