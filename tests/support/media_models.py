"""Stand-ins for models that draw, edit, film, speak, listen and look, behind OpenAI's APIs on loopback."""

import base64
import hashlib
import io
import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image, ImageOps


@dataclass
class MediaModels:
    """What was asked of the models.

    Attributes:
        url: base URL of all APIs.
        requests: (path, body) of each request; forms as a mapping from a field's name to its bytes, None for a GET.
        heard: what a recording says, for transcriptions.
        instead: bytes and content type that are answered in place of what was asked, by path.
        jobs: the prompt of each job that makes a video.
        looks: how often a job is looked at before it is completed.
        sends: set where the content of videos is sent; else those who ask for it wait.
    """

    url: str = ""
    requests: list[tuple[str, Any]] = field(default_factory=list)
    heard: Callable[[bytes], str] = lambda data: f"{len(data)} bytes"
    instead: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    looks: int = 2
    sends: threading.Event = field(default_factory=threading.Event)

    def count(self, path: str) -> int:
        """How often a path was asked."""
        return sum(name == path for name, _ in self.requests)


def drawn(prompt: str) -> bytes:
    """A picture of a prompt: a colour of its own."""
    colour = tuple(hashlib.sha256(prompt.encode()).digest()[:3])
    out = io.BytesIO()
    Image.new("RGB", (48, 32), colour).save(out, "PNG")
    return out.getvalue()


def edited(picture: bytes) -> bytes:
    """A picture in its opposite colours."""
    out = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as image:
        ImageOps.invert(image.convert("RGB")).save(out, "PNG")
    return out.getvalue()


@cache
def filmed(prompt: str) -> bytes:
    """A video of a prompt: three frames in a colour of its own."""
    import av

    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as container, Image.open(io.BytesIO(drawn(prompt))) as image:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height = image.size
        for _ in range(3):
            container.mux(stream.encode(av.VideoFrame.from_image(image)))
        container.mux(stream.encode())
    return out.getvalue()


def spoken(text: str) -> bytes:
    """A recording of a text, by espeak-ng."""
    return subprocess.run(
        ["espeak-ng", "-s", "130", "--stdout", text], check=True, capture_output=True, stdin=subprocess.DEVNULL
    ).stdout


def looked_at(messages: list[dict[str, Any]]) -> str | dict[str, Any]:
    """A judge's verdict: 5 for a picture of the text between quotation marks, else 1."""
    parts = messages[-1]["content"]
    if not isinstance(parts, list):
        return "I see no picture."
    text = "".join(part.get("text", "") for part in parts)
    pictures = [part["image_url"]["url"].partition(",")[2] for part in parts if part["type"] == "image_url"]
    wanted = re.search(r'"(.*)"', text)
    assert wanted is not None
    return "Score: 5" if [base64.b64decode(data) for data in pictures] == [drawn(wanted[1])] else "Score: 1"


def embedded(body: dict[str, Any]) -> list[int]:
    """The embedding of a text or a picture, as CLIP's: a picture is near the text that `drawn` drew it of."""
    if "input" in body:
        return [*hashlib.sha256(body["input"].encode()).digest()[:3]]
    (part,) = body["messages"][0]["content"]
    with Image.open(io.BytesIO(base64.b64decode(part["image_url"]["url"].partition(",")[2]))) as image:
        return [*image.convert("RGB").getpixel((0, 0))]


@contextmanager
def media_models() -> Iterator[MediaModels]:
    """Serve the models."""
    models = MediaModels()
    models.sends.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply(None)

        def do_POST(self) -> None:
            self._reply(self._body())

        def _reply(self, body: Any) -> None:
            path = self.path.removeprefix("/v1/")
            models.requests.append((path, body))
            data, kind = models.instead.get(path) or self._answer(path, body)
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _body(self) -> Any:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            kind = self.headers["Content-Type"]
            if kind == "application/json":
                return json.loads(data)
            form = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + data)
            return {
                part.get_param("name", header="content-disposition"): part.get_payload(decode=True)
                for part in form.iter_parts()
            }

        def _answer(self, path: str, body: Any) -> tuple[bytes, str]:
            if path == "audio/speech":
                return spoken(body["input"]), "audio/wav"
            if path.startswith("videos/") and path.endswith("/content"):
                models.sends.wait()
                return filmed(models.jobs[path.split("/")[1]]), "video/mp4"
            if path.startswith("videos"):
                return json.dumps(self._job(path, body)).encode(), "application/json"
            if path == "images/generations":
                value: Any = {"data": [{"b64_json": base64.b64encode(drawn(body["prompt"])).decode()}]}
            elif path == "images/edits":
                value = {"data": [{"b64_json": base64.b64encode(edited(body["image"])).decode()}]}
            elif path == "embeddings":
                value = {"data": [{"embedding": embedded(body)}]}
            elif path == "audio/transcriptions":
                value = {"text": models.heard(body["file"])}
            else:
                said = looked_at(body["messages"])
                message = {"role": "assistant", **(said if isinstance(said, dict) else {"content": said})}
                value = {"choices": [{"message": message, "finish_reason": "stop"}], "model": "judge"}
            return json.dumps(value).encode(), "application/json"

        def _job(self, path: str, body: Any) -> dict[str, str]:
            if body is not None:
                job = f"video_{len(models.jobs)}"
                models.jobs[job] = body["prompt"].decode()
                return {"id": job, "status": "queued"}
            done = models.count(path) > models.looks
            return {"id": path.removeprefix("videos/"), "status": "completed" if done else "in_progress"}

        def log_message(self, *_: Any) -> None:
            """Nothing is logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    models.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield models
    finally:
        models.sends.set()
        server.shutdown()
        thread.join()
        server.server_close()
