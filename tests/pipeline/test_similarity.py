"""A judge that embeds: how near in meaning an answer is to its references."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

import gage_eval
from gage_eval.base.errors import InputError
from gage_eval.engine.episodes import similarity
from gage_eval.models.client.tools import Observation
from gage_eval.models.client.types import Request, Response

ANSWERS = {"same?": "abba", "turned?": "ab", "other?": "ccc", "near?": "abc", "silent?": " "}


class Embedder(BaseHTTPRequestHandler):
    """Answers questions from a list, and embeds a text as how often a, b and c are in it."""

    embedded: ClassVar[Counter[str]] = Counter()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/embeddings"):
            type(self).embedded[body["input"]] += 1
            reply: Any = {"data": [{"embedding": [body["input"].count(letter) for letter in "abc"]}]}
        else:
            message = {"role": "assistant", "content": ANSWERS[body["messages"][-1]["content"]]}
            reply = {"choices": [{"message": message, "finish_reason": "stop"}]}
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    monkeypatch.chdir(tmp_path)
    Embedder.embedded.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Embedder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    rows = [
        {"question": question, "references": ["baab", "c"] if question == "near?" else ["ab"]} for question in ANSWERS
    ]
    yield {
        "datasets": [{"dataset_id": "rows", "params": {"records": rows}}],
        "backends": [
            {"backend_id": name, "type": "openai_http", "config": {"base_url": url, "model": name}}
            for name in ("model", "embedder")
        ],
        "role_adapters": [
            {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"},
            {"adapter_id": "similarity", "role_type": "judge_model", "backend_id": "embedder", "embeds": True},
        ],
        "metrics": [{"metric_id": "semantic_similarity", "implementation": "judge_score"}],
    }
    server.shutdown()
    server.server_close()


def test_the_cosine_to_the_nearest_reference_is_the_score_and_equal_texts_are_embedded_once(config: Any) -> None:
    run = gage_eval.run(config)
    frame = run.frame().set_index("sample_id")
    samples = {row["id"]: row["messages"][-1]["content"][0]["text"] for row in run.samples().to_pylist()}
    values = {samples[name]: value for name, value in frame["value"].items()}
    assert values["same?"] == values["turned?"] == pytest.approx(1)
    assert values["other?"] == pytest.approx(0)
    assert values["near?"] == pytest.approx(2 / 6**0.5, abs=1e-5), "baab is nearer than c"
    assert values["silent?"] == 0
    assert set(Embedder.embedded.values()) == {1}
    # The same scores come from the store.
    assert gage_eval.run(config).summary.run.sent == 0


def test_a_model_that_cannot_embed_and_a_role_that_must_not_are_refused(config: Any) -> None:
    config["role_adapters"][0]["embeds"] = True
    with pytest.raises(InputError, match="'embeds' is for a judge_model without a prompt"):
        gage_eval.run(config)
    config["role_adapters"][0]["embeds"] = False
    config["backends"][1] = {"backend_id": "embedder", "type": "dummy", "config": {}}
    with pytest.raises(InputError, match="cannot answer"):
        gage_eval.run(config)


@pytest.mark.parametrize("vectors", [["[1, 0]", "[1, 0, 0]"], ["[0, 0]", "[1, 0]"]])
async def test_embeddings_that_cannot_be_compared_are_an_error_of_their_row(vectors: list[str]) -> None:
    class Calls:
        async def generate(self, request: Request) -> Response:
            return Response("ok", answer=vectors.pop(0))

        async def run_tool(self, name: str, arguments: str) -> Observation:
            raise AssertionError(name)

    messages = [{"role": "user", "content": text} for text in ("a", "b")]
    outcome = await similarity(Calls(), Request("similarity", messages=messages))
    assert (outcome.response.status, outcome.response.error_kind) == ("error", "malformed")
