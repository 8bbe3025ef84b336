"""A run: its options, its folder, the inline runner, and what is published at the end.

Modules are loaded on first use, because the command line needs only the options.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gage_eval.runs.folder import RunFolder
    from gage_eval.runs.inline import run_inline
    from gage_eval.runs.options import RunOptions
    from gage_eval.runs.session import RunOutcome, RunSession

__all__ = ["RunFolder", "RunOptions", "RunOutcome", "RunSession", "run_inline"]

_HOMES = {
    "RunFolder": "folder",
    "RunOptions": "options",
    "RunOutcome": "session",
    "RunSession": "session",
    "run_inline": "inline",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gage_eval.runs' has no attribute '{name}'")
    return getattr(import_module(f"gage_eval.runs.{_HOMES[name]}"), name)
