"""mini-swe-agent, as it is published, works in a box without network: its model is behind the relay."""

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.boxes import NEEDS_BOX
from support.command import command
from support.podman import libraries, unpack_image

import gage_eval

_LIBRARY = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
PACKAGES = Path(".venv-agents", _LIBRARY).resolve()
pytestmark = [
    pytest.mark.skipif(not (PACKAGES / "minisweagent").is_dir(), reason="no mini-swe-agent: make install-agents"),
    NEEDS_BOX,
    # Both programs compile all that they import.
    pytest.mark.timeout(1200),
]
COMMANDS = ["cat prompt.txt", "echo $((17 * 3)) > answer.txt", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"]
AGENT = 'exec python3 -m minisweagent --model $0/any --yolo --exit-immediately --task "$(cat prompt.txt)"'


@contextmanager
def scripted_model() -> Iterator[tuple[str, list[Any]]]:
    """The address of a model that asks for one command after another, and what it was asked."""
    requests: list[Any] = []

    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(body := json.loads(self.rfile.read(int(self.headers["content-length"]))))
            done = sum(message["role"] == "tool" for message in body["messages"])
            call = {"name": "bash", "arguments": json.dumps({"command": COMMANDS[done]})}
            message = {"role": "assistant", "content": None}
            message["tool_calls"] = [{"id": f"of_model_{len(requests)}", "type": "function", "function": call}]
            choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
            usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
            reply = json.dumps({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", requests
    finally:
        server.shutdown()
        server.server_close()


def test_mini_swe_agent_solves_a_task_in_the_dialects_of_two_providers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tmp_path / "image"
    unpack_image(image, ["sh", "bash", "cat", "env"], python=True)
    shutil.copytree(PACKAGES, image / "py" / _LIBRARY, copy_function=_same)
    for library in {library for module in PACKAGES.rglob("*.so") for library in libraries(str(module))}:
        (image / library.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library, image / library.lstrip("/"))
    env = {
        "MSWEA_CONFIGURED": "1",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_GLOBAL_CONFIG_DIR": "/tmp/mini",
        "LITELLM_LOCAL_MODEL_COST_MAP": "true",
    }
    agent = {"env": env, "answer_file": "answer.txt"}
    box = {"executor": "bubblewrap", "image": "mini", "roots": {"mini": str(image)}, "slots": 2, "cpu_s": 120}
    records = [{"question": "What is 17 * 3?", "answer": "51"}]
    dialects = ("openai", "anthropic")
    with scripted_model() as (url, requests):
        config = {
            "datasets": [{"dataset_id": "sum", "loader": "inline", "params": {"records": records}}],
            "backends": [
                {"backend_id": "model", "type": "openai_http", "config": {"base_url": url, "model": "scripted"}}
            ],
            "role_adapters": [
                {
                    "adapter_id": dialect,
                    "role_type": "dut_model",
                    "backend_id": "model",
                    "agent": {"command": ["sh", "-c", AGENT, dialect], **agent},
                    "box": box,
                }
                for dialect in dialects
            ],
            "tasks": [{"task_id": dialect, "dataset_id": "sum", "adapter_id": dialect} for dialect in dialects],
            "metrics": ["exact_match"],
        }
        (tmp_path / "mini.yaml").write_text(yaml.safe_dump(config))
        ended = command(tmp_path, capsys, monkeypatch)("run", "mini.yaml")
    assert ended.code == 0, ended.err
    rows = gage_eval.sql("SELECT status, value FROM scores", store=str(tmp_path / ".gage")).to_pylist()
    assert rows == [{"status": "scored", "value": 1.0}] * 2
    assert len(requests) == 2 * len(COMMANDS)
    for body in requests:
        assert body["tools"][0]["function"]["name"] == "bash"
        assert "17 * 3" in json.dumps(body["messages"])


def _same(source: str, target: str) -> None:
    """The same file at another place, or a copy where the places are on two disks."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
