"""The laboratory of five rows, one for all tests of a module."""

import pytest
from five_rows import Laboratory


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    """Runs of five rows; each base config is computed once."""
    return Laboratory(tmp_path_factory.mktemp("lab"))
