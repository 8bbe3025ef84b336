"""Stands in for ``python -m vllm.entrypoints.openai.api_server``: its flags, its key, its API, its ways to fail.

``FAKE_FITS``: the largest share of memory there is enough of. ``FAKE_DIES``: the text after which it ends at once.
``FAKE_SECONDS``: how long an answer takes. ``FAKE_PLAIN``: answers do not say which process gave them.
``FAKE_HOLDS``: after so many requests, answers wait until a file ``go`` is beside the log.
A text that begins with ``sick`` always gets a 500.
Tokens are characters; the log probability of a token is minus its number / 1000, and even ones are the most likely.
"""

import json
import os
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MAX_LEN = 64


def options() -> dict[str, str]:
    flags = sys.argv[sys.argv.index("-m") + 2 :]
    values: dict[str, str] = {}
    while flags:
        name = flags.pop(0).removeprefix("--")
        values[name] = flags.pop(0) if flags and not flags[0].startswith("--") else ""
    return values


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Server(ThreadingHTTPServer):
    # Python's default of 5 drops connections that come together, and their clients try again seconds later.
    request_queue_size = 512
    daemon_threads = True


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.reply({"data": [{"id": "model"}]} if self.path == "/v1/models" else {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.reply(getattr(self, "on" + self.path.replace("/v1", "").replace("/", "_"))(body))

    def on_tokenize(self, body: Any) -> Any:
        begin = [1] if body["add_special_tokens"] else []
        text = body["prompt"] if "prompt" in body else self.templated(body)
        return {"tokens": [*begin, *map(ord, text)], "max_model_len": MAX_LEN}

    def on_detokenize(self, body: Any) -> Any:
        return {"prompt": "".join(map(chr, body["tokens"]))}

    def templated(self, body: Any) -> str:
        """``[user]text`` for each message; the beginning of an answer is left open."""
        text = "".join(f"[{message['role']}]{message['content']}" for message in body["messages"])
        assert body["add_generation_prompt"] != body["continue_final_message"]
        return f"{text}[assistant]" if body["add_generation_prompt"] else text

    def on_completions(self, body: Any) -> Any:
        if body.get("echo"):
            return {"choices": [self.echoed(n, text) for n, text in enumerate(body["prompt"])]}
        assert body["prompt_logprobs"] == 0
        choices = [
            {
                "index": index,
                "text": "",
                "prompt_logprobs": [
                    None,
                    *({str(t): {"logprob": -t / 1000, "rank": 1 + t % 2}} for t in tokens[1:]),
                ],
            }
            for index, tokens in enumerate(body["prompt"])
        ]
        return {"model": "model", "choices": choices[::-1], "usage": {"prompt_tokens": 7}}

    def echoed(self, index: int, text: str) -> Any:
        """OpenAI's own form, with one token generated behind the prompt."""
        if "mute" in text:
            return {"index": index, "text": "!", "logprobs": None}
        tokens = [*text, "!"]
        logprobs = [None, *(-ord(token) / 1000 for token in tokens[1:])]
        tops = [None, *({"?": -ord(token) / 1000 + ord(token) % 2} for token in tokens[1:])]
        told = {"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": tops}
        return {"index": index, "text": text + "!", "logprobs": {**told, "text_offset": list(range(len(tokens)))}}

    def on_chat_completions(self, body: Any) -> Any:
        text = body["messages"][-1]["content"]
        if text == "die":
            say("RuntimeError: the engine core went away")
            os._exit(3)
        with Path(os.environ["FAKE_LOG"]).with_name("asked").open("a") as log:
            log.write(json.dumps([os.getpid(), text]) + "\n")
        time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
        self.hold()
        if text.startswith("sick"):
            return None
        said = text if os.environ.get("FAKE_PLAIN") else f"{os.getpid()} {text}"
        message = {"role": "assistant", "content": said}
        return {"model": "model", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    def hold(self) -> None:
        log = Path(os.environ["FAKE_LOG"])
        if (held := os.environ.get("FAKE_HOLDS")) and len(log.with_name("asked").read_bytes().splitlines()) > int(held):
            while not log.with_name("go").exists():
                time.sleep(0.01)

    def reply(self, value: Any) -> None:
        known = self.headers.get("Authorization") == f"Bearer {os.environ['VLLM_API_KEY']}"
        data = json.dumps(value if known else {"error": "no key"}).encode()
        self.send_response((500 if value is None else 200) if known else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002


def main() -> None:
    flags = options()
    with Path(os.environ["FAKE_LOG"]).open("a") as log:
        log.write(json.dumps([flags, os.environ.get("CUDA_VISIBLE_DEVICES"), sys.argv]) + "\n")
    say(f"INFO 01-01 00:00:00 [serve.py:1] key {os.environ['VLLM_API_KEY']}")
    if died := os.environ.get("FAKE_DIES"):
        sys.exit(f"(EngineCore pid=1) ERROR 01-01 00:00:00 [core.py:1] ValueError: {died}\nRuntimeError: see above")
    if float(flags["gpu-memory-utilization"]) > float(os.environ.get("FAKE_FITS", "1")):
        sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    server = Server((flags["host"], int(flags["port"])), Handler)
    if file := flags.get("ssl-certfile"):
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(file, flags["ssl-keyfile"])
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()


if __name__ == "__main__":
    main()
