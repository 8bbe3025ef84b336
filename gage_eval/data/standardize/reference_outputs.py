"""Print what a reference solution returns. The text of this file is part of the programs that do so in a box."""

import contextlib
import copy
import json
import sys
from collections.abc import Callable
from typing import Any


class ReferenceOutputs:
    """Calls the reference solution.

    Args:
        solution: its source.
        entry: the function's name.
        to_data: makes data of a value that JSON may lack.
    """

    def __init__(self, solution: str, entry: str, to_data: Callable[[Any], Any]) -> None:
        scope: dict[str, Any] = {"__name__": "reference"}
        exec(compile(solution, "reference.py", "exec"), scope)  # noqa: S102
        self._reference = scope[entry]
        self._to_data = to_data
        self._values: list[Any] = []

    def __call__(self, *arguments: Any) -> None:
        """Call it once. What it prints is dropped."""
        with contextlib.redirect_stdout(None):
            value = self._reference(*copy.deepcopy(arguments))
            self._values.append(self._to_data(value))

    def show(self) -> None:
        """Print the results of all calls as one JSON text."""
        sys.stdout.write(json.dumps(self._values))
