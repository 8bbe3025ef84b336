"""Several threads may read Python at once: tasks load plug-ins and read written lists side by side."""

import ast
import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gage_eval.base import python_syntax


class Cycle:
    """Garbage whose end lets other threads run."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        sum(range(200))


@pytest.fixture
def threads_alternate() -> Iterator[None]:
    """Python changes threads, and collects garbage, as often as it can."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("threads_alternate")
def test_threads_that_parse_at_once_do_not_fail() -> None:
    code = Path(python_syntax.__file__).read_bytes() * 4

    def parse(_: int) -> str:
        for _ in range(20):
            Cycle()
        shape = ast.dump(python_syntax.expression_tree("[1, [2]]"))
        return f"{len(python_syntax.module_tree(code).body)} {shape}"

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(parse, range(400)))) == 1
