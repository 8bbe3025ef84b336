"""The pictures of docs/orchestration.md: a run of the demo suite from its form in the Prefect UI to its report.

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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

from gage_eval import server
from tools.browser import Page, browser

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
SUITE = "demo"
SAMPLES = "12"
NAME = "quiet-otter"

_RUN_S = 300.0
_WIDTH = 1280
# Colours of a picture: the UI has few, and the files stay small.
_COLOURS = 48


def main() -> None:
    with started_server() as running, browser() as page:
        take_pictures(page, running)


def take_pictures(page: Page, running: server.Running) -> None:
    """Run the suite from its form and save a picture of each page."""
    page.open(f"{running.ui_url}/deployments")
    page.wait_for("agieval_likelihood")
    page.search(SUITE)
    time.sleep(2.0)  # the list is filtered while one types
    page.click(SUITE, nth=-1)
    page.click("Run")
    page.click("Custom run", exact=False)
    fill_form(page)
    _save(page, "prefect-form", height=1300)
    page.click("Submit")
    flow_run = _flow_run(running)
    page.open(f"{running.ui_url}/runs/flow-run/{flow_run}")
    page.wait_for("infer ", within_s=_RUN_S)
    page.click("Artifacts")
    page.wait_for("-infer", within_s=_RUN_S)
    _save(page, "prefect-progress", height=1050)
    page.wait_for("Completed", within_s=_RUN_S, exact=True)
    page.click("Logs")
    page.wait_for("Finished in state")
    _save(page, "prefect-run", height=900)
    page.click("Artifacts")
    page.click(f"{SUITE}-report")
    page.wait_for("Samples and answers")
    assert re.search(r"\d\.\d{3}", page.text()), "the report shows a score"
    _save(page, "prefect-report", height=900)


def fill_form(page: Page) -> None:
    """Fill the form of the demo suite."""
    page.wait_for("Which samples are asked.")
    page.fill("At most this many rows", SAMPLES)
    page.fill("Name of the run", NAME)
    page.show("Run Name")


@contextmanager
def started_server() -> Iterator[server.Running]:
    """A server with deployments and a worker, in a temporary folder."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        command = [sys.executable, "-m", "gage_eval", "server"]
        subprocess.run([*command, "start", "--port", str(_free_port())], cwd=name, check=True)  # noqa: S603 - our own
        try:
            running = server.find(Path(name) / server.HOME)
            assert running is not None
            yield running
        finally:
            subprocess.run([*command, "stop"], cwd=name, check=True)  # noqa: S603 - our own


def _flow_run(running: server.Running) -> str:
    """The id of the flow run that was just submitted."""
    body = json.dumps({"sort": "EXPECTED_START_TIME_DESC", "limit": 1}).encode()
    request = Request(f"{running.api_url}/flow_runs/filter", body, {"Content-Type": "application/json"})  # noqa: S310 - loopback
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        with build_opener(ProxyHandler({})).open(request, timeout=30) as answer:
            found = json.loads(answer.read())
        if found:
            return str(found[0]["id"])
        time.sleep(0.5)
    raise TimeoutError("the form was not submitted.")


def _save(page: Page, name: str, *, height: int) -> None:
    from PIL import Image

    picture = Image.open(io.BytesIO(page.picture(_WIDTH, height))).convert("RGB").resize((960, height * 3 // 4))
    file = FOLDER / f"{name}.png"
    picture.quantize(_COLOURS).save(file, optimize=True)
    sys.stdout.write(f"{os.path.relpath(file)}: {file.stat().st_size // 1024} KiB\n")


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
