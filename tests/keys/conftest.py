"""The laboratory of five rows, one for all tests of a module."""

from collections.abc import Iterator

import pytest
from five_rows import Laboratory
from support.boxes import FakeExecutor

from gage_eval.pipeline import boxes


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """Runs of five rows; each base config is computed once. No program is run in earnest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boxes, "open_executor", lambda settings: FakeExecutor())
        patch.setattr(boxes, "_backends", {})
        yield Laboratory(tmp_path_factory.mktemp("lab"))
