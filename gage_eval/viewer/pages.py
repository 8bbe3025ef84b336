"""The templates of the pages."""

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from gage_eval.report.console import count_text, seconds_text
from gage_eval.report.model_run import models_line
from gage_eval.report.pages import STYLE_FILE, clip, page_environment
from gage_eval.viewer.listing import sample_query
from gage_eval.viewer.query import format_term, with_term

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
_HASH = re.compile(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{12,}")
STATIC: dict[str, tuple[Path, str]] = {
    "report.css": (STYLE_FILE, "text/css"),
    "viewer.css": (HERE / "static" / "viewer.css", "text/css"),
    "viewer.js": (HERE / "static" / "viewer.js", "text/javascript"),
    "icon.svg": (HERE / "static" / "icon.svg", "image/svg+xml"),
}
"""The files that pages load."""


def rendered(template: str, **context: Any) -> str:
    """A page."""
    return environment().get_template(template).render(context)


@cache
def environment() -> "Environment":
    """The templates with their filters."""
    env = page_environment(
        HERE / "templates",
        cut=lambda text, limit=160: clip(text if len(text) <= limit else f"{text[: limit - 1]}…", limit),
        count=count_text,
        fields=parse_qsl,
        models=models_line,
        seconds=seconds_text,
        middle=_without_middle,
        plain="{:g}".format,
        term=format_term,
        with_term=with_term,
    )
    env.globals["sample_query"] = sample_query
    return env


def _without_middle(text: str, limit: int = 20) -> str:
    """A long id, whose ends tell it from others; of a hash, its beginning does."""
    if _HASH.fullmatch(text):
        return f"{text[:6]}…"
    return text if len(text) <= limit else f"{text[:8]}…{text[9 - limit :]}"
