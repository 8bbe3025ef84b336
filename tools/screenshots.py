"""The pictures of docs/images: the viewer over two runs that are made for them, in Chromium.

python -m tools.screenshots
"""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.large_run import make_run
from gage_eval.runs.options import Locations
from gage_eval.viewer.server import ViewerServer
from tools.chromium import chromium

IMAGES = Path(__file__).parents[1] / "docs" / "images"
ROWS = 1_319
SIZES = {"": (1400, 900), "-phone": (390, 844)}
PAGES = {
    "viewer-run": "/runs/quiet-otter",
    "viewer-list": "/runs/quiet-otter/samples?task=sums&against=calm-heron&q=flip:worse",
}


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        store = Path(folder) / "store"
        make_run(str(store), ROWS, "calm-heron", seed=0)
        make_run(str(store), ROWS, "quiet-otter", seed=1)
        with _serving(store, Path(folder) / "cache") as server:
            for suffix, (width, height) in SIZES.items():
                page = browser.new_page(viewport={"width": width, "height": height})
                page.goto(server.link())
                for name, path in PAGES.items():
                    page.goto(server.url + path)
                    page.locator("h1:not(:text-is('One moment'))").first.wait_for(state="attached", timeout=120_000)
                    if not suffix and "/samples" in path:
                        page.locator("article.answer").wait_for()
                    page.screenshot(path=IMAGES / f"{name}{suffix}.png")
                page.close()


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
