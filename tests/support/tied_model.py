"""A stand-in for an endpoint whose answers have near ties: an HTTP server that answers sums with log-probabilities."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TIE, CLEAR = 0.04, 2.0
"""By how many nats the right word of an answer and ``no`` differ: in each fourth sum, and in the others."""


class TiedModel(BaseHTTPRequestHandler):
    """Answers ``n + 1 = ?`` with ``The sum is <n + 1>.``, a token at a time; the name of the model says what it does.

    float32: always right. bfloat16: the near ties come out wrong. tuned: each second sum is wrong, ties or not.
    templated: three more prompt tokens, and all sums of three digits wrong. short: cut after three tokens.
    judge: a rating, another one where it is asked to be strict.
    """

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = json.dumps(reply_to(body)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002


def reply_to(body: dict[str, Any]) -> dict[str, Any]:
    """The chat completion of a request."""
    said, model = body["messages"][-1]["content"], body["model"]
    if model == "judge":
        return _reply([("Rating: [[2]]" if "strict" in said else "Rating: [[4]]", {})], body, "stop")
    number = int(said.rpartition("+")[0].split()[-1])
    gap = TIE if number % 4 == 0 else CLEAR
    wrong = (
        (model == "bfloat16" and gap == TIE)
        or (model == "tuned" and number % 2 == 1)
        or (model == "templated" and number % 3 == 0)
        or ("Be brief." in said and number % 5 == 0)
    )
    right = str(number + 1)
    chosen, other = ("no", right) if wrong else (right, "no")
    tokens: list[tuple[str, dict[str, float]]] = [(word, {word: -0.01, "?": -5.0}) for word in ("The", " sum", " is ")]
    tokens += [(chosen, {chosen: -0.7, other: -0.7 - gap}), (".", {".": -0.01, "!": -5.0})]
    finish = "stop"
    if model == "short":
        tokens, finish = tokens[:3], "length"
    for stop in body.get("stop") or ():
        tokens = tokens[: next((at for at, (word, _) in enumerate(tokens) if stop in word), None)]
    return _reply(tokens, body, finish)


def _reply(tokens: list[tuple[str, dict[str, float]]], body: dict[str, Any], finish: str) -> dict[str, Any]:
    most = body.get("top_logprobs") if body.get("logprobs") else None
    content = [
        {
            "token": word,
            "logprob": known.get(word, 0.0),
            "top_logprobs": [{"token": text, "logprob": value} for text, value in list(known.items())[:most]],
        }
        for word, known in tokens
    ]
    choice = {"message": {"role": "assistant", "content": "".join(word for word, _ in tokens)}, "finish_reason": finish}
    prompt = len(json.dumps(body["messages"])) // 4 + (3 if body["model"] == "templated" else 0)
    return {
        "choices": [{**choice, "logprobs": None if most is None else {"content": content}}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": len(tokens)},
    }


class _Server(ThreadingHTTPServer):
    # A client that connects often at once would wait a second for each connection that is not queued.
    request_queue_size = 128


@contextmanager
def tied_model() -> Iterator[str]:
    """The base URL of a `TiedModel`."""
    server = _Server(("127.0.0.1", 0), TiedModel)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
