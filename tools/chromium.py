"""The Chromium of this machine, driven by Playwright: for pictures and tests of web pages."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gage_eval.base.errors import InputError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def program() -> str | None:
    """The path of Chromium; None where it is not installed."""
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


@contextmanager
def chromium() -> "Iterator[Browser]":
    """A browser without a window.

    Raises:
        InputError: Chromium is not installed.
    """
    from playwright.sync_api import sync_playwright

    path = program()
    if path is None:
        raise InputError(f"none of {', '.join(_PROGRAMS)} is installed. On Debian: apt-get install chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()
