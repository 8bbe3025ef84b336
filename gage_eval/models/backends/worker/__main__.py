"""Starts an engine: run as a script by an interpreter that need not have this package.

The package's name is bound to its folder alone, so that nothing of what it imports elsewhere is needed there, and
packages next to it are never found before the interpreter's own.
"""

import sys
from pathlib import Path
from types import ModuleType


def main() -> None:
    """Serve until the socket's other end is closed."""
    package = ModuleType("gage_eval")
    package.__path__ = [str(Path(__file__).parents[3])]
    sys.modules["gage_eval"] = package
    from gage_eval.models.backends.worker.serve import serve

    serve()


# An engine's own processes import the main module again.
if __name__ == "__main__":
    main()
