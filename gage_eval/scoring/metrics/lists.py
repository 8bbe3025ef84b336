"""Read lists in text."""

import re

from gage_eval.scoring.metrics.json_text import find_json
from gage_eval.scoring.metrics.text_utils import as_text, normalise_text

_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,9}[.)])\s+")


def list_items(text: str, separator: str | None = None, *, case_sensitive: bool = False) -> list[str]:
    """The items of a text: of its JSON list, else its lines if there are several, else its parts between commas.

    ``separator`` replaces these. Items are stripped of bullets and white space, and lowered unless case
    counts; empty items are left out.
    """
    if separator:
        parts = text.split(separator)
    else:
        document = find_json(text)
        if document is not None and isinstance(document[0], list):
            parts = [as_text(item) for item in document[0]]
        else:
            lines = [line for line in text.splitlines() if line.strip()]
            parts = lines if len(lines) > 1 else re.split("[,;，；、]", text)
    cleaned = (
        normalise_text(_BULLET.sub("", part), case_sensitive=case_sensitive, collapse_whitespace=True) for part in parts
    )
    return [item for item in cleaned if item]
