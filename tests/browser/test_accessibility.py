"""Promise of report and viewer: axe finds nothing serious, at two widths, light and dark, and nothing is cut off."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from browser.conftest import NARROW, WIDE, Viewer, wait_for_index

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., "Page"]

PAGES = {
    "runs": "/",
    "run": "/runs/letters",
    "demo": "/runs/demo",
    "list": "/runs/letters/samples?task=letters&against=letters-before",
    "sample": "/runs/pictures/sample?id=colour",
    "everything": "/runs/rich/sample?id=tone",
    "steps": "/runs/agent/sample?id=long&step=5000",
    "compare": "/runs/letters/compare?with=letters-before",
    "side by side": "/runs/letters/side-by-side?with=letters-before&task=letters&id=letter-1",
    "matrix": "/matrix?runs=letters-before,letters&task=letters",
    "plots": "/matrix/plots?runs=letters-before,letters&task=letters",
    "plots of ratings": "/matrix/plots?runs=rich",
    "notes": "/notes",
    "labels": "/labels",
    "token": "/token",
    "error": "/runs/nothing-of-that-name",
}
WINDOWS = pytest.mark.parametrize(
    ("size", "scheme"),
    [
        pytest.param(WIDE, "light", id="wide-light"),
        pytest.param(NARROW, "dark", id="narrow-dark"),
        pytest.param(WIDE, "dark", id="wide-dark", marks=pytest.mark.slow),
        pytest.param(NARROW, "light", id="narrow-light", marks=pytest.mark.slow),
    ],
)


@WINDOWS
def test_axe_finds_nothing_serious_in_the_viewer(
    opened: Open, viewer: Viewer, size: tuple[int, int], scheme: str
) -> None:
    page = opened(viewer, "/", size, color_scheme=scheme)
    violations = {}
    for name, path in PAGES.items():
        page.goto(viewer.url + path)
        wait_for_index(page)
        if name == "list" and size == WIDE:
            page.locator("article").wait_for()
        violations[name] = serious(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], f"{name} is wider than the window"
    assert {name: texts for name, texts in violations.items() if texts} == {}


@WINDOWS
def test_axe_finds_nothing_serious_in_the_report(
    opened: Open, viewer: Viewer, size: tuple[int, int], scheme: str
) -> None:
    page = opened(viewer, "/", size, color_scheme=scheme)
    for run in ("demo", "letters", "rich"):
        page.goto(f"file://{viewer.folder}/store/runs/{run}/report.html")
        assert page.locator("h1").count() == 1
        assert serious(page) == []


def serious(page: "Page") -> list[str]:
    """What axe finds of serious or critical impact, with the first place of each."""
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {rule['nodes'][0]['html'][:200]} {rule['nodes'][0].get('failureSummary', '')[:300]}"
        for rule in violations
        if rule["impact"] in ("serious", "critical")
    ]
