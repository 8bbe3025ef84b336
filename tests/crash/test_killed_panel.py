"""MT-bench with two judges, killed while the model and while each judge answers, ends as if undisturbed."""

import hashlib
import json
import math
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import yaml
from crash.processes import PATIENCE_S, Gage, until
from support.logs import read_logs
from support.runs import stage_outputs, summary

from bench.local_suites import template_of

CATEGORIES = ("writing", "math", "coding", "stem", "roleplay", "reasoning")
TURNS = 2
# At most so many requests are open at each endpoint.
AT_ONCE = 3
KEPT = 5


class Endpoint:
    """A model behind an endpoint that stops to answer after some requests, until it is told to go on.

    Attributes:
        url: the base URL.
        answered: how often each request was answered.
    """

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        self.answered: Counter[bytes] = Counter()
        self._left: float = math.inf
        self._phase = 0
        self._may_go_on = threading.Condition()

    def stop_after(self, answers: float) -> None:
        """Drop what waits, which is of a client that was killed, and answer so many more requests."""
        with self._may_go_on:
            self._left = answers
            self._phase += 1
            self._may_go_on.notify_all()

    def admit(self, body: bytes) -> bool:
        """Wait until a request may be answered, and count it; False where it is dropped."""
        with self._may_go_on:
            phase = self._phase
            self._may_go_on.wait_for(lambda: self._left > 0 or self._phase != phase)
            if self._phase != phase:
                return False
            self._left -= 1
            self.answered[body] += 1
            return True


@contextmanager
def serving(rating: str) -> Iterator[Endpoint]:
    """A model that answers with a form, in which ``{}`` is a number from 1 to 10 that depends on the request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if not endpoint.admit(body):
                self.close_connection = True
                return
            text = rating.format(1 + hashlib.sha256(body).digest()[0] % 10)
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            data = orjson.dumps({"model": "m", "choices": [choice]})
            try:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True  # The client was killed.

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    endpoint = Endpoint(server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield endpoint
    finally:
        endpoint.stop_after(math.inf)
        server.shutdown()
        server.server_close()


def write_project(folder: Path, model: Endpoint, judges: list[Endpoint]) -> None:
    """The suite `mt_bench_panel` on questions of its form, with two seats."""
    folder.mkdir()
    _, template = template_of("mt_bench_panel")
    config = template["definition"]
    rows = [
        {"question_id": at, "category": name, "turns": [f"Question {at} about {name}?", f"And the second of {at}?"]}
        for at, name in enumerate(CATEGORIES)
    ]
    known = [
        {"question_id": row["question_id"], "choices": [{"index": 0, "turns": ["First.", "Second."]}]} for row in rows
    ]
    for name, lines in (("question", rows), ("gpt-4", known)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    params = config["datasets"][0]["params"]
    del params["origin"]
    params |= {"path": "question.jsonl", "labels_path": "gpt-4.jsonl"}
    ends = {"dut": model, "judge_1": judges[0], "judge_2": judges[1]}
    client = {"model": "m", "max_concurrency": AT_ONCE}
    config["backends"] = [
        {"backend_id": name, "type": "openai_http", "config": {"base_url": end.url, **client}}
        for name, end in ends.items()
    ]
    adapters = [adapter for adapter in config["role_adapters"] if not adapter["adapter_id"].startswith("judge_3")]
    for adapter in adapters:
        adapter["backend_id"] = adapter["adapter_id"].rpartition("_turn")[0]
    config["role_adapters"] = [{"adapter_id": "dut", "role_type": "dut_model", "backend_id": "dut"}, *adapters]
    for task in config["tasks"]:
        task["judges"] = [name for name in task["judges"] if not name.startswith("judge_3")]
    (folder / "mt.yaml").write_text(yaml.safe_dump({"metadata": {"name": "mt"}, **config}))


def logged(gage: Gage, form: str) -> int:
    """How many answers of a form are on disk in logs."""
    words = form.partition("{")[0].strip().encode()
    count = 0
    for folder in gage.logs():
        # That of a stage which ends meanwhile goes away.
        with suppress(FileNotFoundError):
            count += sum(words in payload for _, payload in read_logs(folder))
    return count


def test_mt_bench_with_two_judges_is_killed_and_nothing_that_was_answered_is_asked_again(tmp_path: Path) -> None:
    forms = ("Well, {}.", "It is fine. Rating: [[{}]]", "My view. [[{}]]")
    with ExitStack() as stack:
        ends = [stack.enter_context(serving(form)) for form in forms]
        model, *judges = ends
        write_project(tmp_path / "killed", model, judges)
        gage = Gage(tmp_path / "killed")
        known: list[set[bytes]] = []
        # Killed while the model answers, then while each judge does: five of twelve answers are on disk.
        for place, (end, form) in enumerate(zip(ends, forms, strict=True)):
            for other in ends[place + 1 :]:
                other.stop_after(0)
            end.stop_after(KEPT)
            process = gage.start(*(("resume", "r") if place else ("run", "mt.yaml", "--run-id", "r")))
            assert until(lambda form=form: logged(gage, form) == KEPT, process), gage.said()
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE_S)
            known.append(set(end.answered))
            end.stop_after(math.inf)
        gage.finish("resume", "r")

        rows = len(CATEGORIES) * TURNS
        for end, before in zip(ends, known, strict=True):
            assert len(end.answered) == rows
            assert {end.answered[body] for body in before} == {1}, "an answer on disk was asked for again"
        undisturbed = tmp_path / "undisturbed"
        write_project(undisturbed, model, judges)
        Gage(undisturbed).finish("run", "mt.yaml", "--run-id", "r")
        assert stage_outputs(gage.folder, "r") == stage_outputs(undisturbed, "r")

        for task in summary(gage.folder, "r")["tasks"]:
            assert task["judging"]["verdicts"] == 2 * len(CATEGORIES)
            assert task["judging"]["missing"] == 0
            assert task["metrics"][0]["n"] == len(CATEGORIES)
        # A panel's other rule asks nobody.
        counts = [sum(end.answered.values()) for end in ends]
        rule = [f"--set=tasks.turn_{turn}.metric_overrides=[{{panel_score: {{rule: median}}}}]" for turn in (1, 2)]
        gage.finish("run", "mt.yaml", "--run-id", "median", *rule)
        assert [sum(end.answered.values()) for end in ends] == counts
