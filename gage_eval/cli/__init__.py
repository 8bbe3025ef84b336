"""The command line: ``gage``."""

from gage_eval.cli.main import main

__all__ = ["main"]
