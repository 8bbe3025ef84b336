"""Slots without containment: plain processes of this user, in a new folder."""

import os
import sys

from gage_eval.box.slot import ServerSlot, Slot, server_command
from gage_eval.box.types import BoxError


def unsafe_slot(image: str | None) -> Slot:
    """A slot whose programs may do what this user may. The limits still hold, as far as the programs let them."""
    if image is not None:
        raise BoxError(f"image {image!r} needs a container; programs run as plain processes here")
    return ServerSlot(
        lambda descriptor: server_command([sys.executable, "-s"], descriptor, contained=False), _environment()
    )


def _environment() -> dict[str, str]:
    """Only what an interpreter needs: this process may hold secrets."""
    names = ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "HOME", "TMPDIR")
    return {name: os.environ[name] for name in names if name in os.environ} | {"PYTHONHASHSEED": "0"}
