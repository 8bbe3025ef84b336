"""The pictures of docs/images: the viewer over two runs of a small made-up model, in Chromium.

python -m tools.screenshots
"""

import random
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

import gage_eval
from gage_eval.runs.options import Locations
from gage_eval.viewer.server import ViewerServer
from tools.chromium import chromium

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect, Page

IMAGES = Path(__file__).parents[1] / "docs" / "images"
ROWS = 1_319
SIZES = {"": (1400, 900), "-phone": (390, 844)}
PAGES = {
    "viewer-run": "/runs/quiet-otter",
    "viewer-list": "/runs/quiet-otter/samples?task=sums&against=calm-heron&q=flip:worse",
}
ON_PHONE = ("viewer-run",)
# Runs of models that err with these shares, the older one first.
RUNS = {"calm-heron": 0.14, "quiet-otter": 0.16}

_QUESTIONS = {
    "addition": "A shop sells {a} pens on Monday and {b} on Tuesday. How many pens does it sell on both days?",
    "prices": "A pen costs {a} cents. How many cents do {b} pens cost?",
    "fractions": "A shop has {c} pens. It sells half of them in the morning and {a} at noon. How many are left?",
}
_MODEL = '''
import random
import re


class Model:
    """Solves the questions, and errs with a share of them; more often in fractions."""

    def __init__(self, errs):
        self.errs = errs

    def generate(self, request):
        question = request["messages"][-1]["content"]
        first, second = (int(number) for number in re.findall("[0-9]+", question))
        luck = random.Random(f"{question} {self.errs}").random() / (2 if "half" in question else 1)
        if luck < self.errs / 8:
            answer = "I would have to know more about the shop to say that."
        elif "half" in question:
            half = first // 2
            told = f"Half of {first} is {half}, so {half} pens are left at noon."
            answer = f"{told} The answer is {half - second if luck > self.errs else half}."
        elif "cost" in question:
            told = f"One pen costs {first} cents, so I multiply {first} by {second}."
            answer = f"{told} The answer is {first * second + (0 if luck > self.errs else 10)}."
        else:
            told = f"It sells {first} pens on the first day and {second} on the second, so I add them."
            answer = f"{told} The answer is {first + second - (0 if luck > self.errs else 1)}."
        used = {"prompt_tokens": len(question) // 4, "completion_tokens": len(answer) // 4}
        return {"answer": answer, "finish_reason": "stop", **used}
'''


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        store = Path(folder) / "store"
        for name, errs in RUNS.items():
            make_run(Path(folder), store, name, errs)
        with _serving(store, Path(folder) / "cache") as server:
            for suffix, (width, height) in SIZES.items():
                page = browser.new_page(viewport={"width": width, "height": height})
                page.goto(server.link())
                for name, path in PAGES.items():
                    if not suffix or name in ON_PHONE:
                        _take(page, server.url + path, IMAGES / f"{name}{suffix}.png")
                page.close()


def _take(page: "Page", address: str, file: Path) -> None:
    """Save a picture of the window, or of less where the page ends before."""
    page.goto(address)
    page.locator("h1:not(:text-is('One moment'))").first.wait_for(state="attached", timeout=120_000)
    page.locator("article.answer, section.task .fails").first.wait_for()
    window = page.viewport_size
    assert window is not None
    clip: FloatRect = {"x": 0, "y": 0, "width": window["width"], "height": window["height"]}
    last = page.locator("section.task").last
    if last.count() and (box := last.bounding_box()):
        clip["height"] = min(clip["height"], box["y"] + box["height"] + 40)
    page.screenshot(path=file, clip=clip)


def make_run(folder: Path, store: Path, name: str, errs: float) -> None:
    """Ask the made-up model all questions."""
    (folder / "sums.jsonl").write_bytes(b"".join(orjson.dumps(_question(number)) + b"\n" for number in range(ROWS)))
    (folder / "model.py").write_text(_MODEL, encoding="utf-8")
    model = {"file_path": str(folder / "model.py"), "class_name": "Model", "errs": errs}
    config = {
        "metadata": {"name": "sums"},
        "datasets": [{"dataset_id": "sums", "params": {"path": str(folder / "sums.jsonl")}}],
        "backends": [{"backend_id": "model", "type": "custom_script", "config": model}],
        "metrics": ["numeric_match"],
    }
    gage_eval.run(config, run_id=name, store=str(store))


def _question(number: int) -> dict[str, object]:
    """A record: a question of a topic, with its answer."""
    topic = tuple(_QUESTIONS)[number % len(_QUESTIONS)]
    draw = random.Random(number)  # noqa: S311 - a made-up question
    a, b = draw.randint(2, 60), draw.randint(2, 60)
    c = 2 * (a + b)
    answer = {"addition": a + b, "prices": a * b, "fractions": c // 2 - a}[topic]
    asked = _QUESTIONS[topic].format(a=a, b=b, c=c)
    return {"id": f"sum-{number}", "question": asked, "answer": str(answer), "data_tag": {"topic": topic}}


@contextmanager
def _serving(store: Path, cache: Path) -> Iterator[ViewerServer]:
    server = ViewerServer(Locations.at(str(store), None), cache)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(30)


if __name__ == "__main__":
    main()
