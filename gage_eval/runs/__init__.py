"""A run: its options, its folder, the inline runner, and what is published at its end."""

from gage_eval.runs.folder import RunFolder
from gage_eval.runs.inline import run_inline
from gage_eval.runs.options import RunOptions
from gage_eval.runs.session import RunOutcome, RunSession

__all__ = ["RunFolder", "RunOptions", "RunOutcome", "RunSession", "run_inline"]
