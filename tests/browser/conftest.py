"""A browser and a viewer over stored runs: a real one, a large one, and with images, hostile texts, and everything."""

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import ProxyHandler, build_opener

import orjson
import pytest
import yaml
from browser.agent_run import AGENT, agent_row
from browser.rich_run import RICH, rich_row

from bench.large_run import make_run
from tests.support.pictures import write_image
from tests.support.runs import gage
from tests.support.waiting import PATIENCE_S
from tools.chromium import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TOKEN = "a-token-of-the-browser-tests"
LABELS = "labels.jsonl"
WIDE, NARROW = (1400, 900), (390, 844)
HOSTILE = "</pre></title></script><script>window.hit=1</script>\"'><img src=x onerror=window.hit=1>{{ 7*7 }}"
LARGE_ROWS = int(os.environ.get("GAGE_TEST_LARGE_ROWS", "1000000"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(600))


@dataclass(frozen=True)
class Viewer:
    """A running ``gage view``.

    Attributes:
        url: its address, without the token.
        folder: the working folder; its store is ``store``.
        process: of the viewer.
    """

    url: str
    folder: Path
    process: "subprocess.Popen[bytes]"


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs ``demo``, ``pictures``, ``hostile``, ``rich``, ``agent``, ``letters`` (``-before``) and
    ``judged``, and a file of labels of the last."""
    pytest.importorskip("xllamacpp")
    folder = tmp_path_factory.mktemp("browser")
    gage(folder, "suite", "demo", "--max-samples", "3", "--run-id", "demo", "--store", "store", "--inline")
    _pictures(folder)
    _hostile(folder)
    _write(folder, "rich", [rich_row(folder)], **RICH)
    _write(folder, "agent", [agent_row(folder)], **AGENT)
    _letters(folder)
    _judged(folder)
    return folder


@pytest.fixture(scope="session")
def large_store(repo_root: Path) -> Path:
    """A store with a run of a million answers, kept in ``build/`` until the keys of stages change."""
    store = repo_root / "build" / f"large-run-{LARGE_ROWS}"
    made, keys = store / "made", (repo_root / "tests" / "keys" / "golden.json").read_bytes()
    if not (made.exists() and made.read_bytes() == keys):
        shutil.rmtree(store, ignore_errors=True)
        make_run(str(store), LARGE_ROWS)
        made.write_bytes(keys)
    return store


@pytest.fixture(scope="session")
def viewer(workplace: Path) -> Iterator[Viewer]:
    """``gage view`` over the small runs, with the file of labels."""
    with started(workplace, workplace / "store", "--labels", LABELS) as viewer:
        yield viewer


@pytest.fixture(scope="session")
def large_viewer(workplace: Path, large_store: Path) -> Iterator[Viewer]:
    """``gage view`` over the large run."""
    with started(workplace, large_store) as viewer:
        yield viewer


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """Chromium of the system, without a window."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def opened(browser: "Browser") -> "Iterator[Callable[..., Page]]":
    """Opens a page; no page may show a dialog, run foreign script, or log an error."""
    contexts: list[Any] = []
    faults: list[str] = []

    def _open(viewer: Viewer, path: str, size: tuple[int, int] = WIDE, **options: Any) -> "Page":
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE_S * 1_000)
        page = context.new_page()
        page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("console", lambda said: faults.append(f"console: {said.text}") if _is_fault(said) else None)
        page.goto(f"{viewer.url}/?token={TOKEN}")
        page.goto(viewer.url + path)
        wait_for_index(page)
        return page

    yield _open
    hit = []
    for page in (page for context in contexts for page in context.pages):
        page.wait_for_load_state()
        hit.append(page.evaluate("window.hit"))
    for context in contexts:
        context.close()
    assert not any(hit), "a text of the data ran as a script"
    assert faults == []


def _is_fault(said: Any) -> bool:
    """Whether a line of the console is an error of a page; an answer such as 400 is not."""
    return said.type == "error" and not said.text.startswith("Failed to load resource")


def wait_for_index(page: "Page") -> None:
    """Wait until the page is not the one that waits for an index."""
    page.locator("h1:not(:text-is('One moment'))").first.wait_for(state="attached", timeout=300_000)


@contextmanager
def started(folder: Path, store: Path, *arguments: str) -> Iterator[Viewer]:
    """``gage view`` over a store, as a process that works in a folder."""
    log = folder / f"viewer-{uuid.uuid4().hex}.log"
    env = {**os.environ, "GAGE_EVAL_VIEWER_TOKEN": TOKEN, "GAGE_EVAL_VIEWER_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "gage_eval", "view", "--store", str(store), "--no-open", *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield Viewer(_address(log, process), folder, process)
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _address(log: Path, process: "subprocess.Popen[bytes]") -> str:
    opener = build_opener(ProxyHandler({}))
    while process.poll() is None:
        for line in log.read_text().splitlines():
            if line.startswith("gage view: "):
                url = line.removeprefix("gage view: ").removesuffix("labels").rstrip("/")
                with suppress(OSError):
                    opener.open(f"{url}/ok", timeout=PATIENCE_S).close()
                    return url
        time.sleep(0.1)
    raise AssertionError(f"gage view ended:\n{log.read_text()}")


def _write(folder: Path, name: str, rows: list[dict[str, Any]], **config: Any) -> None:
    (folder / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    params = {"path": f"{name}.jsonl", **config.pop("params", {})}
    dataset = config.get("metadata", {}).get("name", name)
    content = {"metadata": {"name": name}, "datasets": [{"dataset_id": dataset, "params": params}], **config}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    gage(folder, "run", f"{name}.yaml", "--run-id", name, "--store", "store", "--inline")


def _dummy(answer: str) -> list[dict[str, Any]]:
    return [{"backend_id": "model", "type": "dummy", "config": {"mode": "fixed", "answer": answer}}]


def _pictures(folder: Path) -> None:
    write_image(folder / "red.png")
    content = [{"type": "text", "text": "Which colour is it?"}, {"type": "image_url", "image_url": {"url": "red.png"}}]
    row = {"id": "colour", "messages": [{"role": "user", "content": content}], "label": "red"}
    _write(folder, "pictures", [row], backends=_dummy("blue"), metrics=["exact_match"], params={"content_root": "."})


def _hostile(folder: Path) -> None:
    rows = [
        {"id": f"{i}{HOSTILE}", "question": HOSTILE, "answer": HOSTILE if i else "no", "data_tag": {HOSTILE: HOSTILE},
         "metadata": {"note": HOSTILE}} for i in range(3)
    ]  # fmt: skip
    _write(folder, "hostile", rows, backends=_dummy(HOSTILE), metrics=["exact_match"])


def _letters(folder: Path) -> None:
    """Choices read out of a sentence: one run always answers B, the next one always A."""
    rows = [
        {
            "id": f"letter-{i}",
            "question": f"Which is {i}?",
            "choices": ["one", "two", "three", "four"],
            "answer": "ABCD"[i % 4],
            "data_tag": {"topic": ("low", "high")[i % 2]},
        }
        for i in range(60)
    ]
    params = {"preprocess": "multi_choice"}
    for name, answer in (("letters-before", "The answer is B."), ("letters", "The answer is A, I think.")):
        config = {"metadata": {"name": "letters"}, "backends": _dummy(answer), "metrics": ["multi_choice_accuracy"]}
        _write(folder, name, rows, params=params, **config)


def _judged(folder: Path) -> None:
    """Four answers with verdicts, drawn for labels."""
    rows = [{"id": f"sum-{i}", "question": f"What is 1 + {i}?", "answer": str(1 + i)} for i in range(4)]
    judge = {**RICH, "backends": [*_dummy("It is 2."), RICH["backends"][1]]}
    _write(folder, "judged", rows, **{**judge, "metrics": ["judge_threshold"], "params": {}})
    gage(folder, "labels", "suggest", "judged", "-n", "4", "--to", LABELS, "--store", "store")


def note_files(folder: Path) -> list[dict[str, Any]]:
    """The notes of the store."""
    return [json.loads(file.read_text()) for file in sorted((folder / "store" / "notes").rglob("*.json"))]
