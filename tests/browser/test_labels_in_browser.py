"""Promises of the labelling page in a browser: keys label and undo, nobody sees model or verdict, no label is lost."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from browser.conftest import LABELS, Viewer, started
from browser.rich_run import VERDICT

from tests.support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., "Page"]


def test_keys_label_undo_and_move(opened: Open, viewer: Viewer) -> None:
    page = opened(viewer, "/labels")
    _wait_for(page, 1, labelled=0)
    for at, key in enumerate("10", 1):
        page.keyboard.press(key)
        _wait_for(page, at + 1, labelled=at)
    assert _labels(viewer) == [1, 0, None, None]
    page.keyboard.press("u")
    _wait_for(page, 2, labelled=1)
    assert _labels(viewer) == [1, None, None, None]
    page.keyboard.press("k")
    _wait_for(page, 1, labelled=1)
    assert page.locator("button[aria-pressed=true]").inner_text() == "1"
    page.keyboard.press("2")
    page.keyboard.press("j")
    _wait_for(page, 2, labelled=1)
    assert _labels(viewer) == [1, None, None, None], "a key without a label does nothing"
    # As it was, for the other tests.
    page.keyboard.press("u")
    _wait_for(page, 1, labelled=0)


def test_who_labels_sees_neither_the_model_nor_a_verdict(opened: Open, viewer: Viewer) -> None:
    page = opened(viewer, "/labels")
    content = page.content()
    assert "What is 1 +" in content
    assert "It is 2." in content
    for blind in (VERDICT, "judged", "dummy", "strong", "[[8]]"):
        assert blind not in content, blind


def test_labels_outlive_a_kill_of_the_server(opened: Open, viewer: Viewer) -> None:
    """On a scale from 1 to 10, where the key 0 is 10."""
    folder = viewer.folder
    file = folder / "killed.jsonl"
    rows = map(json.loads, (folder / LABELS).read_bytes().splitlines())
    file.write_text("".join(json.dumps({**row, "scale": [1, 10]}) + "\n" for row in rows))
    with started(folder, folder / "store", "--labels", file.name) as first:
        page = opened(first, "/labels")
        page.keyboard.press("7")
        _wait_for(page, 2, labelled=1)
        first.process.kill()
        first.process.wait(PATIENCE_S)
        page.keyboard.press("8")
        page.get_by_role("status").filter(has_text="does not answer").wait_for()
        page.close()
    with started(folder, folder / "store", "--labels", file.name) as second:
        page = opened(second, "/labels")
        _wait_for(page, 2, labelled=1)
        page.keyboard.press("u")
        _wait_for(page, 1, labelled=0)
        for at in range(1, 4):
            page.keyboard.press("0")
            _wait_for(page, at + 1, labelled=at)
        page.keyboard.press("7")
        page.get_by_role("heading", name="All 4 answers have a label").wait_for()
        page.close()
    assert [json.loads(line)["label"] for line in file.read_bytes().splitlines()] == [10, 10, 10, 7]


def _labels(viewer: Viewer) -> list[Any]:
    return [json.loads(line)["label"] for line in (viewer.folder / LABELS).read_bytes().splitlines()]


def _wait_for(page: "Page", number: int, *, labelled: int) -> None:
    """Wait until an answer is shown, counted from 1, while so many have a label."""
    page.locator("h1", has_text=f"Answer {number} of 4").wait_for()
    page.locator(f"progress[value='{labelled}']").wait_for(state="attached")
