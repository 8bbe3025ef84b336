"""A bench to call stages on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pipeline.calling import Bench

from gage_eval.engine.runtime import Runtime


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Stages on a store of their own."""
    with Runtime() as runtime:
        yield Bench(tmp_path, runtime)
