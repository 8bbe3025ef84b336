"""Settings that make a command-line process fast. A library must not change these in its host process."""

import gc
import os
import sys
from importlib.machinery import ModuleSpec

# The imports of a run leave 100,000 objects and drop few. With 50,000, the collector scans them twice and finds little:
# 5 % of the CPU time of a run of one row.
_WHILE_IMPORTING = (200_000, 50, 100)

# Rows are trees without cycles, and many exist at once. With Python's default threshold of 700, the collector scans
# them again and again, which takes a fifth of the time of standardize.
_WHILE_RUNNING = (50_000, 50, 100)

# While a thread renders rows, an arriving answer waits this long. With Python's default of 5 ms, a fast endpoint gets a
# third fewer requests during that time.
_SWITCH_S = 0.0005

# glibc's name for its number of heaps. By default every thread gets its own, and rows that one thread makes and another
# drops leave holes in all of them: a run of 100,000 rows grew by 40 MiB. Threads rarely wait for the one heap, because
# they hold the interpreter's lock while they make rows.
_M_ARENA_MAX = -8


def collect_rarely() -> None:
    """Collect garbage rarely, and not at all while a command imports its modules."""
    gc.set_threshold(*_WHILE_IMPORTING)


def let_idle_threads_sleep() -> None:
    """Call it before numpy is imported, and before processes are started that import it.

    A thread of its OpenBLAS otherwise waits for 2**26 cycles without giving up its core: numpy multiplies a matrix when
    it is imported, and a run of one row took a seventh more CPU time. Calculations still get all threads.
    """
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")


def tune_process() -> None:
    """Collect garbage rarely, switch threads often, keep one heap, and keep Arrow from importing pandas needlessly."""
    let_idle_threads_sleep()
    _keep_one_heap()
    _keep_pandas_out()
    # Modules exist as long as the process, so the collector need not scan them.
    gc.freeze()
    gc.set_threshold(*_WHILE_RUNNING)
    sys.setswitchinterval(_SWITCH_S)


def _keep_one_heap() -> None:
    import ctypes

    # Other systems' C libraries have no such setting.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def _keep_pandas_out() -> None:
    """Hide pandas from Arrow until it is needed.

    Arrow's first conversion of Python values imports pandas, only to check whether a value is a Series. The import
    takes a third of the start-up time. Conversions to pandas still work, because they check again. Other code may
    convert from pandas, so pandas is visible again before plug-ins are imported.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    from gage_eval.extend import loading

    def look_again() -> None:
        pa.table({"": [0]}).to_pandas()

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
    loading.before_foreign_code.append(look_again)


class _NoPandas:
    """An import hook that hides pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is hidden until it is needed", name=name)
        return None
