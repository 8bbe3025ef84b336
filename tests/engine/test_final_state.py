"""The final state of an episode: whatever a model left in its box, the outcome is the model's and not an error."""

import asyncio
import json
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from gage_eval.box.types import BoxError, BoxRefused, Limits, Ran
from gage_eval.engine.final_state import final_state

LIMITS = Limits(files=5000, memory_mb=4096)


class Listing:
    """A box whose commands print what they are told."""

    listener: socket.socket | None = None
    root = "."

    def __init__(self, stdout: bytes = b"", code: int | None = 0, reason: str = "", refuses: bool = False) -> None:
        self._said = (code, stdout, reason)
        self._refuses = refuses
        self.limits: list[Limits] = []

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", limits: Limits | None = None) -> Ran:
        if self._refuses:
            raise BoxRefused("The box refused: no")
        assert limits is not None
        self.limits.append(limits)
        code, stdout, reason = self._said
        # The first command looks for links.
        return Ran(code, stdout if len(self.limits) > 1 else b"", b"", 0.0, 0.0, 0.0, reason)

    async def put(self, path: str, content: bytes) -> None: ...

    async def take(self, path: str) -> bytes:
        return path.encode()

    async def close(self) -> None: ...


def state(box: Listing) -> dict[str, Any]:
    return dict(json.loads(asyncio.run(final_state(box, ["out"], LIMITS, lambda content: content.decode()))))


def test_a_box_that_refuses_or_lists_nonsense_is_unreadable_and_one_that_fails_is_an_error() -> None:
    odd = [Listing(refuses=True), Listing(code=1), Listing(code=None, reason="files"), Listing(b"x./out/a\0")]
    assert [state(box)["problem"] for box in odd] == ["unreadable"] * 4
    with pytest.raises(BoxError):
        state(Listing(code=None, reason="starved"))


def test_a_path_that_is_declared_twice_counts_once_and_lists_have_room_above_the_limits_of_the_box() -> None:
    box = Listing(b"f./out/a\0" * 1001)
    assert list(state(box)["files"]) == ["out/a"]
    assert all(limits.files > LIMITS.files and limits.memory_mb > LIMITS.memory_mb for limits in box.limits)
