"""The pictures of README.md and docs/orchestration.md: a run of the demo suite from its form to its report.

python -m tools.ui_pictures    start a server in a temporary folder, take the pictures, and stop it

Needs Chromium, Pillow and the small model of the demo (``make install-demo``). It also checks what the pages show: it
fails if a text is missing. Takes about three minutes.
"""

import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import ProxyHandler, Request, build_opener

from gage_eval.base.ports import free_port
from gage_eval.local import server
from tools.chromium import chromium

if TYPE_CHECKING:
    from PIL.Image import Image
    from playwright.sync_api import Page

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
SUITE = "demo"
TASKS = 3
SAMPLES = "24"
NAME = "quiet-otter"

_PAGE_MS = 60_000.0
_RUN_MS = 300_000.0
# A progress artifact of a task whose answers are not complete.
_UNDER_WAY = re.compile(r"\d+ of \d+ .* left$")
# The page lays itself out again for the height of a picture.
_LAYOUT_MS = 1_500.0
_WIDTH = 1280
# Height of two pages that are shown side by side, and what is between them.
_BESIDE = 1090
_MARGIN_COLOUR = "#8b9099"
# Colours of a picture: the UI has few, and the files stay small.
_COLOURS = 48


def main() -> None:
    with started_server() as running, chromium() as browser:
        page = browser.new_page(viewport={"width": _WIDTH, "height": 900})
        page.set_default_timeout(_PAGE_MS)
        take_pictures(page, running)


def take_pictures(page: "Page", running: server.Running) -> None:
    """Run the suite from its form and save a picture of each page."""
    login = server.login_at(running.api_url)
    assert login is not None
    log_in(page, running.ui_url, login)
    open_form(page, running.ui_url, SUITE)
    fill_field(page, "At most this many rows", SAMPLES)
    fill_field(page, "Name of the run", NAME)
    page.get_by_text("Run Name", exact=True).scroll_into_view_if_needed()
    _save(page, "prefect-form", height=1300)
    page.get_by_role("button", name="Submit").click()
    page.goto(f"{running.ui_url}/runs/flow-run/{_flow_run(running)}")
    open_progress(page)
    _save(page, "prefect-progress", height=1130)
    under_way = _picture(page, height=_BESIDE)
    page.get_by_text("Completed", exact=True).first.wait_for(timeout=_RUN_MS)
    page.get_by_text("Logs", exact=True).click()
    page.get_by_text("Finished in state").first.wait_for()
    _save(page, "prefect-run", height=900)
    page.get_by_text("Artifacts", exact=True).click()
    page.get_by_text(f"{SUITE}-report", exact=True).click()
    page.get_by_text("Samples and answers").first.wait_for()
    text = page.locator("body").inner_text()
    assert re.search(r"\d\.\d{3}", text), "the report shows a score"
    _save(page, "prefect-report", height=900)
    report = re.search(r"(/\S+/report\.html)", text)
    assert report, "the page names the report"
    page.goto(f"file://{report[1]}")
    _save_beside("run", under_way, _picture(page, height=_BESIDE))


def log_in(page: "Page", ui_url: str, login: str) -> None:
    """Log in to the UI, as it asks once per browser."""
    page.goto(f"{ui_url}/login")
    page.locator("input[type=password]").fill(login)
    page.get_by_role("button", name="Login").click()
    page.wait_for_url(lambda url: "/login" not in url)


def open_form(page: "Page", ui_url: str, deployment: str) -> None:
    """Open the form of a deployment, by the clicks of a newcomer."""
    page.goto(f"{ui_url}/deployments")
    page.get_by_placeholder("Search deployments").fill(deployment)
    page.get_by_role("link", name=deployment, exact=True).click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Custom run").click()
    page.get_by_text("Which samples are asked.").wait_for()


def open_progress(page: "Page") -> None:
    """Open the artifacts of a run while all of its tasks are being answered.

    The tab shows new artifacts only after a while, so the page is loaded again until it has them.
    """
    deadline = time.monotonic() + _RUN_MS / 1000
    while time.monotonic() < deadline:
        page.get_by_text("Artifacts", exact=True).click()
        page.wait_for_timeout(_LAYOUT_MS)
        if page.get_by_text(_UNDER_WAY).count() == TASKS:
            return
        page.reload()
    raise TimeoutError("the run was never in the middle of its answers.")


def fill_field(page: "Page", text: str, value: str) -> None:
    """Fill the first field of a form that stands after a text. The form does not connect its labels to its fields."""
    field = page.get_by_text(text).first.locator("xpath=following::*[self::input or self::textarea][1]")
    field.fill(value)


@contextmanager
def started_server() -> Iterator[server.Running]:
    """A server with deployments and a worker, in a temporary folder."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        command = [sys.executable, "-m", "gage_eval", "server"]
        subprocess.run([*command, "start", "--port", str(free_port())], cwd=name, check=True)  # noqa: S603 - our own
        try:
            running = server.find(Path(name) / server.HOME)
            assert running is not None
            yield running
        finally:
            subprocess.run([*command, "stop"], cwd=name, check=True)  # noqa: S603 - our own


def _flow_run(running: server.Running) -> str:
    """The id of the flow run that was just submitted."""
    body = json.dumps({"sort": "EXPECTED_START_TIME_DESC", "limit": 1}).encode()
    login = (server.login_at(running.api_url) or "").encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Basic {b64encode(login).decode()}"}
    request = Request(f"{running.api_url}/flow_runs/filter", body, headers)  # noqa: S310 - loopback
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        with build_opener(ProxyHandler({})).open(request, timeout=30) as answer:
            found = json.loads(answer.read())
        if found:
            return str(found[0]["id"])
        time.sleep(0.5)
    raise TimeoutError("the form was not submitted.")


def _save(page: "Page", name: str, *, height: int) -> None:
    _write(name, _picture(page, height=height))


def _save_beside(name: str, left: "Image", right: "Image") -> None:
    """Save two pictures of one height as one, with a margin around each."""
    from PIL import Image

    margin = 12
    size = (left.width + right.width + 3 * margin, left.height + 2 * margin)
    both = Image.new("RGB", size, _MARGIN_COLOUR)
    both.paste(left, (margin, margin))
    both.paste(right, (left.width + 2 * margin, margin))
    _write(name, both, colours=256)


def _picture(page: "Page", *, height: int) -> "Image":
    """The page in a window of this height, at three quarters of its size."""
    from PIL import Image

    page.set_viewport_size({"width": _WIDTH, "height": height})
    page.wait_for_timeout(_LAYOUT_MS)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    return picture.resize((_WIDTH * 3 // 4, height * 3 // 4))


def _write(name: str, picture: "Image", *, colours: int = _COLOURS) -> None:
    file = FOLDER / f"{name}.png"
    picture.quantize(colours).save(file, optimize=True)
    sys.stdout.write(f"{os.path.relpath(file)}: {file.stat().st_size // 1024} KiB\n")


if __name__ == "__main__":
    main()
