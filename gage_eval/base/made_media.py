"""The picture, recording or video that a model answered with, as `tables.RESPONSES` names it.

The answer of such a row is the address of the bytes in the store. Its ``artifacts`` hold the same address, which no
text of a model can bring about: a model that writes an address has answered with a text.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from gage_eval.base.canonical import canonical_text, decode


class MadeMedium(NamedTuple):
    """A medium that a model made.

    Attributes:
        name: ``image.png``, ``speech.wav``, …
        url: ``media://sha256/…``.
        size: in bytes.
    """

    name: str
    url: str
    size: int

    @property
    def kind(self) -> str:
        """``image``, ``audio`` or ``video``."""
        return {"image": "image", "video": "video"}.get(self.name.partition(".")[0], "audio")

    @property
    def part(self) -> dict[str, Any]:
        """It as a part of a message's content."""
        return {"type": f"{self.kind}_url", f"{self.kind}_url": {"url": self.url}}

    @property
    def artifacts(self) -> str:
        """What `tables.RESPONSES` holds of it, in the form of an episode's final state."""
        files = {self.name: {"url": self.url, "bytes": self.size}}
        return canonical_text({"files": files, "problem": None, "text": ""})


def made_medium(response: Mapping[str, Any]) -> MadeMedium | None:
    """The medium of a row of `tables.RESPONSES`; None where the model answered with a text."""
    if not response.get("artifacts") or not response.get("answer"):
        return None
    files = decode(response["artifacts"])["files"]
    own = (MadeMedium(name, file["url"], file["bytes"]) for name, file in files.items())
    return next((medium for medium in own if medium.url == response["answer"] and len(files) == 1), None)
