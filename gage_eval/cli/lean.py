"""What a process of the command line does to be quick, and a library must not do to its host."""

import gc
import sys
from importlib.machinery import ModuleSpec

from gage_eval import foreign

# Rows are trees without cycles, and many live at once: Python's own threshold of 700 has the collector look at them
# again and again, which is a fifth of the time of standardize.
_GC_THRESHOLDS = (50_000, 50, 100)

# While a thread renders rows, an answer that arrives waits so long for its turn. With Python's own 5 ms a fast endpoint
# gets a third fewer requests meanwhile.
_SWITCH_S = 0.0005


def be_lean() -> None:
    """Collect garbage rarely, take turns often, and keep Arrow from importing pandas until somebody wants it."""
    _keep_pandas_out()
    gc.set_threshold(*_GC_THRESHOLDS)
    # Modules stay as long as the process: no collection needs to look at them.
    gc.freeze()
    sys.setswitchinterval(_SWITCH_S)


def _keep_pandas_out() -> None:
    """Let Arrow find no pandas when it looks for it.

    Arrow's first conversion of Python values imports pandas, which takes a third of a start, only to know whether a
    value is a Series. Conversions to pandas look again and work. Code that is not ours may convert from pandas, so
    before any is imported Arrow is told the truth.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    def look_again() -> None:
        pa.table({"": [0]}).to_pandas()

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
    foreign.before_foreign_code.append(look_again)


class _NoPandas:
    """Finds no pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not wanted yet", name=name)
        return None
