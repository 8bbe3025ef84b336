"""Stores to test against: a folder, and a bucket of an S3 server on this machine (`s3_url`)."""

from pathlib import Path

import pytest

from gage_eval.store import Store


@pytest.fixture(params=["local", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a fresh store of each kind."""
    if request.param == "local":
        return str(tmp_path / "store")
    return str(request.getfixturevalue("s3_url"))


@pytest.fixture
def store(url: str) -> Store:
    """A fresh store of each kind."""
    return Store.open(url)


@pytest.fixture
def local(tmp_path: Path) -> Store:
    """A fresh store in a folder."""
    return Store.open(str(tmp_path / "store"))
