"""Speech that is made from known text goes through our recordings to a real recogniser, and is scored as jiwer does."""

import base64
import io
import json
import shutil
import subprocess
import threading
import wave
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jiwer
import pytest
import yaml
from whisper_normalizer.basic import BasicTextNormalizer

from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader

SENTENCES = ["one two three four five", "go forward ten meters", "the weather is nice today", "please open the door"]


class Recogniser(BaseHTTPRequestHandler):
    """An endpoint that writes down the recording of a request."""

    lock = threading.Lock()
    decoder: Any = None

    def do_GET(self) -> None:
        self._send({"object": "list", "data": [{"id": "sphinx"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (part,) = (part for part in body["messages"][-1]["content"] if part["type"] == "input_audio")
        with wave.open(io.BytesIO(base64.b64decode(part["input_audio"]["data"]))) as file:
            assert (file.getframerate(), file.getnchannels()) == (16_000, 1)
            samples = file.readframes(file.getnframes())
        with self.lock:
            self.decoder.start_utt()
            self.decoder.process_raw(samples, full_utt=True)
            self.decoder.end_utt()
            heard = self.decoder.hyp()
        message = {"role": "assistant", "content": heard.hypstr if heard is not None else "nothing"}
        self._send({"choices": [{"message": message, "finish_reason": "stop"}], "model": "sphinx"})

    def _send(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""


@pytest.fixture
def recogniser() -> Iterator[str]:
    pocketsphinx = pytest.importorskip("pocketsphinx")
    Recogniser.decoder = pocketsphinx.Decoder(loglevel="FATAL")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Recogniser)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_error_rate_of_a_recogniser_is_that_of_jiwer(tmp_path: Path, recogniser: str) -> None:
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not installed (Debian: espeak-ng)")
    with (tmp_path / "said.jsonl").open("w") as out:
        for number, sentence in enumerate(SENTENCES):
            name = f"said-{number}.wav"
            subprocess.run(["espeak-ng", "-s", "130", "-w", tmp_path / name, sentence], check=True)
            content = [{"type": "audio_url", "audio_url": {"url": name}}, {"type": "text", "text": "Write it down."}]
            record = {"id": str(number), "messages": [{"role": "user", "content": content}], "references": [sentence]}
            out.write(json.dumps(record) + "\n")
    backend = {"base_url": recogniser, "model": "sphinx", "audio_part": "input_audio"}
    config = {
        "datasets": [{"dataset_id": "said", "params": {"path": "said.jsonl", "audio_rate": 16_000}}],
        "backends": [{"backend_id": "ear", "type": "openai_http", "config": backend}],
        "metrics": ["wer", "cer"],
    }
    (tmp_path / "asr.yaml").write_text(yaml.safe_dump(config))
    store = str(tmp_path / "store")
    run_inline(RunOptions(config=str(tmp_path / "asr.yaml"), store=store, run_id="asr"))

    reader = RunReader.open(Locations.at(store), "asr")
    heard = {row.sample_id: row.responses[0]["answer"] for row in reader.task().rows()}
    assert len(heard) == len(SENTENCES)
    normalised = BasicTextNormalizer()
    said = [normalised(sentence) for sentence in SENTENCES]
    answers = [normalised(heard[str(number)]) for number in range(len(SENTENCES))]
    numbers = {metric.metric_id: metric.value for metric in reader.task().summary.metrics}
    assert numbers["wer"] == pytest.approx(jiwer.wer(said, answers))
    assert numbers["cer"] == pytest.approx(jiwer.cer(said, answers))
