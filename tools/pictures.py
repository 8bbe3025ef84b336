"""Takes the pictures of docs/images in Chromium: of the viewer, and of Prefect's UI.

    python -m tools.pictures [NAME …]    those whose names begin so, and what is taken with them; all by default

The viewer shows runs of made-up models. Prefect's UI shows the demo (its model: `make install-demo`), and two weeks of
nights of made-up models, on a server that the script starts. All of them take about five minutes.
"""

import io
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import gage_eval
from gage_eval.base.ports import LOOPBACK, free_port
from gage_eval.engine.host import SharedEngines
from gage_eval.local import server
from gage_eval.regression.nightly import Nightly, run_night
from gage_eval.regression.pages import trend_page
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from gage_eval.viewer.server import ViewerServer
from tools.chromium import chromium
from tools.prefect_ui import fill_field, log_in, open_form

if TYPE_CHECKING:
    from PIL.Image import Image
    from playwright.sync_api import Browser, Page

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDE, PHONE, UI = (1400, 900), (390, 844), (1280, 900)
# Pages have few colours, and fewer in a picture keep its file small.
COLOURS = 64
PAGE_MS, RUN_S = 60_000.0, 300.0
# The page lays itself out again for the height of a picture.
LAYOUT_MS = 1_500.0

QUESTIONS = 1_319
# The made-up models err with these shares.
ERRS = {"otter-1b": 0.3, "otter-3b": 0.16, "otter-7b": 0.1}
RUNS = {"fair-linnet": "otter-1b", "calm-heron": "otter-3b", "bold-finch": "otter-7b", "quiet-otter": "otter-3b"}
AGENT = "wise-badger"
NIGHTS = 14
NIGHTLY = """
name: every-night
schedule: {cron: "0 3 * * *"}
rows: [{config: sums.yaml, options: {max_samples: 400}}]
models:
  - {name: otter-7b, baseline: main, options: {overrides: [backends.model.config.model=otter-7b]}}
  - {name: otter-3b, baseline: main-3b, options: {overrides: [backends.model.config.model=otter-3b]}}
"""

_TEXTS = {
    "addition": "A shop sells {a} pens on Monday and {b} on Tuesday. How many pens does it sell on both days?",
    "prices": "A pen costs {a} cents. How many cents do {b} pens cost?",
    "fractions": "A shop has {c} pens. It sells half of them in the morning and {a} at noon. How many are left?",
}
_TOOL = '''
async def multiply(first: int, second: int) -> int:
    """Multiply two numbers."""
    return first * second
'''


# --- the viewer


def _take_viewer(browser: "Browser", folder: Path) -> None:
    """A run, the list of its answers, runs side by side, a run on a phone, and a model with a tool."""
    with _MadeUpModels(folder) as models:
        for run_id, model in RUNS.items():
            models.run(run_id, model)
        models.run(AGENT, "otter-7b", tools=["tools.py:multiply"], tool_rounds=2)
    with _viewer(folder) as viewer:
        wide, phone = (_opened(browser, viewer.link(), size) for size in (WIDE, PHONE))
        _take_page(wide, f"{viewer.url}/runs/quiet-otter", "viewer-run")
        _take_page(phone, f"{viewer.url}/runs/quiet-otter", "viewer-run-phone")
        _take_page(
            wide, f"{viewer.url}/runs/quiet-otter/samples?task=sums&against=calm-heron&q=flip:worse", "viewer-list"
        )
        _take_page(wide, f"{viewer.url}/matrix?runs=fair-linnet,quiet-otter,bold-finch&show=differ", "viewer-matrix")
        _take_page(wide, f"{viewer.url}/runs/{AGENT}/sample?task=sums&id=sum-1", "viewer-agent")


@contextmanager
def _viewer(folder: Path) -> Iterator[ViewerServer]:
    viewer = ViewerServer(Locations.at(str(folder / "store"), None), folder / "cache")
    thread = threading.Thread(target=viewer.serve, daemon=True)
    thread.start()
    try:
        yield viewer
    finally:
        viewer.stop()
        thread.join(30)


def _opened(browser: "Browser", url: str, size: tuple[int, int]) -> "Page":
    page = browser.new_page(viewport={"width": size[0], "height": size[1]})
    page.set_default_timeout(PAGE_MS)
    page.goto(url)
    return page


def _take_page(page: "Page", url: str, name: str) -> None:
    """Save a picture of the window, or of less where the page ends before."""
    page.goto(url)
    page.locator("h1:not(:text-is('One moment'))").first.wait_for(state="attached")
    page.wait_for_load_state("networkidle")
    ends = page.evaluate("Math.ceil(document.querySelector('main').getBoundingClientRect().bottom)")
    picture = _screenshot(page)
    _save(name, picture.crop((0, 0, picture.width, min(picture.height, ends))))


# --- Prefect's UI


def _take_nights(browser: "Browser", folder: Path) -> None:
    """Two weeks of nights; in the last one, a model becomes worse."""
    nightly = Nightly.of_text(NIGHTLY, "the file of nights")
    locations = Locations.at(str(folder / "store"), None)
    configs = {"sums.yaml": str(folder / "sums.yaml")}

    def run(options: RunOptions, host: SharedEngines) -> RunReader:
        return RunReader.open(locations, run_inline(options, host=host).run_id)

    with _MadeUpModels(folder) as models:
        models.write("sums.yaml", "otter-7b")
        for number in range(NIGHTS + 1):
            models.luck, models.errs = f"night {number}", dict(ERRS)
            if number == NIGHTS:
                models.errs["otter-3b"] += 0.09
            day = datetime.now(UTC).date() - timedelta(days=NIGHTS - number)
            night = run_night(nightly, str(day), configs, locations, run)
            for cell in night.cells:
                assert cell.run is not None
                _backdate(Path(locations.runs) / cell.run.run_id / "run.json", day)
                if not number:
                    baseline = ["baseline", "set", cell.model.baseline_name, cell.run.run_id]
                    _gage(folder, *baseline, "--store", locations.store)
    with _prefect(folder) as (running, login):
        # The browser's driver has an event loop in this thread.
        with ThreadPoolExecutor(1) as other:
            artifact = other.submit(_publish, trend_page(night), running.api_url, login).result()
        page = _opened(browser, f"{running.url}/login", UI)
        log_in(page, running.url, login)
        page.goto(f"{running.url}/artifacts/artifact/{artifact}")
        page.get_by_text("scores per night").first.wait_for()
        _save("nightly-trend", _shrunk(page, 800).crop((190, 0, 700, 580)))


def _backdate(record: Path, day: date) -> None:
    """Say that a run began in the night of a day."""
    content = orjson.loads(record.read_bytes())
    record.write_bytes(orjson.dumps(content | {"created": f"{day}T03:00:00+00:00"}))


def _publish(page: str, api_url: str, login: str) -> object:
    """The id of an artifact with a page of a night."""
    from prefect.artifacts import create_markdown_artifact
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: api_url, PREFECT_API_AUTH_STRING: login}):
        return create_markdown_artifact(page, key="every-night-trend", description="Scores per night")


def _take_prefect(browser: "Browser", folder: Path) -> None:
    """A run of the demo: its form, its progress, its report; and its graph next to report.html."""
    with _prefect(folder) as (running, login):
        page = _opened(browser, f"{running.url}/login", UI)
        log_in(page, running.url, login)
        open_form(page, running.url, "demo")
        fill_field(page, "Samples (Optional)", "24")
        fill_field(page, "Run Name", "quiet-otter")
        page.get_by_text("Run Name", exact=True).scroll_into_view_if_needed()
        _save("prefect-form", _shrunk(page, 1300))
        with page.expect_response(re.compile("create_flow_run$")) as submitted:
            page.get_by_role("button", name="Submit").click()
        page.goto(f"{running.url}/runs/flow-run/{submitted.value.json()['id']}")
        _open_artifacts(page, re.compile(r"\d+ of \d+ .* left$"), 3)
        _save("prefect-progress", _shrunk(page, 1130))
        under_way = _shrunk(page, 1090)
        page.get_by_text("Completed", exact=True).first.wait_for(timeout=RUN_S * 1_000)
        _open_artifacts(page, re.compile("^demo-report$"), 1)
        page.get_by_text("demo-report", exact=True).click()
        page.get_by_text("Samples and answers").first.wait_for()
        report = re.search(r"(/\S+/report\.html)", page.locator("body").inner_text())
        assert report, "the page names the report"
        _save("prefect-report", _shrunk(page, 900))
        page.goto(f"file://{report[1]}")
        _save("run", _beside(under_way, _shrunk(page, 1090)), colours=256)


def _open_artifacts(page: "Page", text: re.Pattern[str], count: int) -> None:
    """Open the artifacts of a run once so many of them have a text. A page that is loaded shows new ones late."""
    ends = time.monotonic() + RUN_S
    while time.monotonic() < ends:
        page.get_by_text("Artifacts", exact=True).click()
        page.wait_for_timeout(LAYOUT_MS)
        if page.get_by_text(text).count() == count:
            return
        page.reload()
    raise TimeoutError(f"the run never had {count} artifacts with {text.pattern}.")


@contextmanager
def _prefect(folder: Path) -> "Iterator[tuple[server.PrefectServer, str]]":
    """A server with deployments and a worker, and its login."""
    _gage(folder, "server", "start", "--port", str(free_port()))
    try:
        running = server.find(folder / server.HOME)
        assert running is not None
        yield running, server.login(folder / server.HOME)
    finally:
        _gage(folder, "server", "stop")


def _gage(folder: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "gage_eval", *arguments], cwd=folder, check=True)  # noqa: S603 - our own


# --- the made-up models


class _MadeUpModels:
    """An endpoint of made-up models, and configs and runs that ask them.

    Attributes:
        luck: which questions a model gets wrong.
        errs: the share of questions that each model gets wrong.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.luck, self.errs = "", ERRS
        self._socket = socket.create_server((LOOPBACK, 0))
        routes = [Route("/v1/chat/completions", self._answer, methods=["POST"])]
        self._server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def __enter__(self) -> "_MadeUpModels":
        rows = b"".join(orjson.dumps(_question(number)) + b"\n" for number in range(QUESTIONS))
        (self._folder / "sums.jsonl").write_bytes(rows)
        (self._folder / "tools.py").write_text(_TOOL, encoding="utf-8")
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        self._socket.close()

    def write(self, name: str, model: str, **adapter: Any) -> Path:
        """A config that asks a model."""
        url = f"http://{LOOPBACK}:{self._socket.getsockname()[1]}/v1"
        role = {"adapter_id": "model", "role_type": "dut_model", "backend_id": "model", **adapter}
        config = {
            "metadata": {"name": "sums"},
            "datasets": [{"dataset_id": "sums", "params": {"path": "sums.jsonl"}}],
            "backends": [{"backend_id": "model", "type": "openai_http", "config": {"base_url": url, "model": model}}],
            "role_adapters": [role],
            "metrics": ["numeric_match"],
        }
        file = self._folder / name
        file.write_bytes(orjson.dumps(config))
        return file

    def run(self, run_id: str, model: str, **adapter: Any) -> None:
        """Ask a model all questions."""
        self.luck = run_id
        config = self.write(f"{run_id}.yaml", model, **adapter)
        gage_eval.run(str(config), run_id=run_id, store=str(self._folder / "store"), freshness=run_id)

    async def _answer(self, request: Request) -> Response:
        """An answer; wrong ones are most often those about fractions."""
        body = await request.json()
        question = next(said["content"] for said in body["messages"] if said["role"] == "user")
        first, second = (int(number) for number in re.findall("[0-9]+", question))
        drawn = random.Random(f"{question} {body['model']} {self.luck}").random()  # noqa: S311 - a made-up answer
        drawn /= 2 if "half" in question else 1
        wrong = drawn < self.errs[body["model"]]
        message: dict[str, Any] = {"role": "assistant"}
        if body.get("tools") and len(body["messages"]) == 1 and "cost" in question:
            arguments = orjson.dumps({"first": first, "second": second}).decode()
            call = {"id": "call-1", "type": "function", "function": {"name": "multiply", "arguments": arguments}}
            message |= {"content": f"I multiply {first} by {second}.", "tool_calls": [call]}
        elif drawn < self.errs[body["model"]] / 8:
            message["content"] = "I would have to know more about the shop to say that."
        elif "half" in question:
            told = f"Half of {first} is {first // 2}, so {first // 2} pens are left at noon."
            message["content"] = f"{told} The answer is {first // 2 - (0 if wrong else second)}."
        elif "cost" in question:
            told = f"One pen costs {first} cents, so {second} pens cost {second} times as much."
            message["content"] = f"{told} The answer is {first * second + (10 if wrong else 0)}."
        else:
            told = f"It sells {first} pens on the first day and {second} on the second, so I add them."
            message["content"] = f"{told} The answer is {first + second - wrong}."
        used = {"prompt_tokens": len(question) // 4, "completion_tokens": len(message["content"]) // 4}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        return JSONResponse({"model": body["model"], "choices": [choice], "usage": used})


def _question(number: int) -> dict[str, object]:
    """A record: a question of a topic, with its answer."""
    topic = tuple(_TEXTS)[number % len(_TEXTS)]
    draw = random.Random(number)  # noqa: S311 - a made-up question
    a, b = draw.randint(2, 60), draw.randint(2, 60)
    c = 2 * (a + b)
    answer = {"addition": a + b, "prices": a * b, "fractions": c // 2 - a}[topic]
    text = _TEXTS[topic].format(a=a, b=b, c=c)
    return {"id": f"sum-{number}", "question": text, "answer": str(answer), "data_tag": {"topic": topic}}


# --- files


def _screenshot(page: "Page") -> "Image":
    from PIL import Image

    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def _shrunk(page: "Page", height: int) -> "Image":
    """The page in a window of this height, at three quarters of its size."""
    page.set_viewport_size({"width": UI[0], "height": height})
    page.wait_for_timeout(LAYOUT_MS)
    picture = _screenshot(page)
    return picture.resize((picture.width * 3 // 4, picture.height * 3 // 4))


def _beside(left: "Image", right: "Image", margin: int = 12) -> "Image":
    """Two pictures of one height as one, with a margin around each."""
    from PIL import Image

    size = (left.width + right.width + 3 * margin, left.height + 2 * margin)
    both = Image.new("RGB", size, "#8b9099")
    both.paste(left, (margin, margin))
    both.paste(right, (left.width + 2 * margin, margin))
    return both


def _save(name: str, picture: "Image", *, colours: int = COLOURS) -> None:
    file = IMAGES / f"{name}.png"
    picture.quantize(colours).save(file, optimize=True)
    sys.stdout.write(f"{os.path.relpath(file)}: {file.stat().st_size // 1024} KiB\n")


PICTURES = {
    ("viewer-run", "viewer-run-phone", "viewer-list", "viewer-matrix", "viewer-agent"): _take_viewer,
    ("nightly-trend",): _take_nights,
    ("prefect-form", "prefect-progress", "prefect-report", "run"): _take_prefect,
}


def main(names: list[str]) -> None:
    """Take the pictures whose names begin so, with those that are taken with them."""
    with chromium() as browser:
        for pictures, take in PICTURES.items():
            if any(picture.startswith(tuple(names) or "") for picture in pictures):
                with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                    take(browser, Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
