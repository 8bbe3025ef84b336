"""A headless Chromium for pictures and tests of web pages, driven over its DevTools protocol."""

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

from websockets.sync.client import connect
from websockets.sync.connection import Connection

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_START_S = 60.0
_WAIT_S = 60.0
_LOOK_EVERY_S = 0.2

# The innermost visible elements whose own text is as asked, in the order of the page.
_FIND = """
(text, exact) => [...document.querySelectorAll('body *')].filter((one) => {
  const texts = [...one.childNodes].filter((node) => node.nodeType === 3);
  const own = texts.map((node) => node.textContent).join(' ').trim();
  const box = one.getBoundingClientRect();
  return own && (exact ? own === text : own.includes(text)) && box.width > 0 && box.height > 0;
})
"""


def program() -> str | None:
    """The Chromium of this machine."""
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


class Page:
    """A page of the browser.

    Args:
        connection: to the page's DevTools target.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)

    def open(self, url: str) -> None:
        """Go to an address."""
        self._call("Page.navigate", url=url)

    def run(self, script: str, *arguments: Any) -> Any:
        """The JSON value of a JavaScript function, called with arguments.

        Raises:
            RuntimeError: the script failed.
        """
        called = f"({script})({', '.join(map(json.dumps, arguments))})"
        answer = self._call("Runtime.evaluate", expression=called, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "the script failed"))
        return answer["result"].get("value")

    def wait_for(self, text: str, *, within_s: float = _WAIT_S, exact: bool = False) -> None:
        """Wait until the page shows a text.

        Raises:
            TimeoutError: it does not; the message has what the page shows.
        """
        deadline = time.monotonic() + within_s
        while not self.run(f"(text, exact) => ({_FIND})(text, exact).length > 0", text, exact):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the page does not show '{text}'. It shows:\n{self.text()}")
            time.sleep(_LOOK_EVERY_S)

    def click(self, text: str, *, nth: int = 0, exact: bool = True) -> None:
        """Click the element that shows a text; waits for it."""
        self.wait_for(text, exact=exact)
        box = self.run(
            f"""(text, exact, nth) => {{
              const found = ({_FIND})(text, exact).at(nth);
              found.scrollIntoView({{block: 'center'}});
              const box = found.getBoundingClientRect();
              return [box.x + box.width / 2, box.y + box.height / 2];
            }}""",
            text,
            exact,
            nth,
        )
        self._click_at(*box)

    def fill(self, text: str, value: str) -> None:
        """Type a value into the first field after an element that shows a text, in place of what it holds."""
        self.wait_for(text)
        self.run(
            f"""(text) => {{
              const label = ({_FIND})(text, false)[0];
              const field = [...document.querySelectorAll('input, textarea')].find(
                (one) => label.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING);
              field.scrollIntoView({{block: 'center'}});
              field.focus();
              field.select();
            }}""",
            text,
        )
        self._call("Input.insertText", text=value)

    def show(self, text: str) -> None:
        """Scroll to the element that shows a text."""
        self.run(f"(text) => ({_FIND})(text, true)[0].scrollIntoView({{block: 'end'}})", text)

    def search(self, value: str) -> None:
        """Type a value into the search field of the page."""
        self.run(
            "() => { const field = document.querySelector('input[type=search], input[placeholder]'); field.focus(); }"
        )
        self._call("Input.insertText", text=value)

    def text(self) -> str:
        """What the page shows."""
        return str(self.run("() => document.body.innerText"))

    def picture(self, width: int, height: int) -> bytes:
        """A PNG of the visible part of the page."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        time.sleep(1.5)  # the page lays itself out again
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def _click_at(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def _call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._connection.recv(timeout=_WAIT_S))
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]


@contextmanager
def browser(width: int = 1280, height: int = 900) -> Iterator[Page]:
    """A browser with one page.

    Raises:
        RuntimeError: there is no Chromium, or it does not start.
    """
    name = program()
    if name is None:
        raise RuntimeError(f"none of {', '.join(_PROGRAMS)} is installed. On Debian: apt-get install chromium.")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(  # noqa: S603 - a browser of the system
            [
                name, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                "--no-proxy-server", f"--window-size={width},{height}", f"--user-data-dir={profile}",
                "--remote-debugging-port=0", "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            with connect(_target(Path(profile), process), max_size=None, proxy=None) as connection:
                page = Page(connection)
                page._call("Page.enable")
                yield page
        finally:
            process.terminate()
            process.wait(timeout=30)


def _target(profile: Path, process: "subprocess.Popen[bytes]") -> str:
    """The address of the page's DevTools target."""
    file = profile / "DevToolsActivePort"
    deadline = time.monotonic() + _START_S
    while not (file.is_file() and file.read_text().strip()):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("Chromium does not start.")
        time.sleep(_LOOK_EVERY_S)
    port = file.read_text().splitlines()[0]
    with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/json", timeout=_START_S) as answer:
        targets = json.loads(answer.read())
    return str(next(one["webSocketDebuggerUrl"] for one in targets if one["type"] == "page"))
