"""A small packed file that unpacks to an endless line, row or document is refused before it fills the memory."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import InputError
from gage_eval.data.datasets import reading
from gage_eval.extend import registry
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.build import build_backend

LIMIT = 1 << 20


@pytest.fixture(autouse=True)
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_BYTES", LIMIT)
    monkeypatch.setattr(reading, "MAX_DOCUMENT", LIMIT)


def message(folder: Path, loader: str, name: str) -> str:
    with pytest.raises(InputError) as caught:
        list(registry.loaders.get(loader).obj({"path": name}, folder).records())
    return str(caught.value)


@pytest.mark.parametrize(
    ("loader", "name", "data", "said"),
    [
        ("jsonl", "d.jsonl.gz", b"x" * 2 * LIMIT, "'d.jsonl.gz' line 1 is longer than 1 MiB."),
        ("csv", "d.csv.gz", b"x" * 2 * LIMIT, "'d.csv.gz' line 1: its row is longer than 1 MiB."),
        ("csv", "d.csv.gz", b"a,b\n1," + b'"x\n",' * LIMIT, "'d.csv.gz' line 209717: its row is longer than 1 MiB."),
        ("json", "d.json.gz", b"[" + b"0," * LIMIT + b"0]", "'d.json.gz' is longer than 1 MiB as one document; write"),
    ],
)
def test_a_loader_refuses_it(tmp_path: Path, loader: str, name: str, data: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(data))
    assert message(tmp_path, loader, name).startswith(said)


@pytest.mark.parametrize("name", ["d.json.gz", "d.csv.gz", "d.jsonl.gz"])
def test_replay_refuses_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"x" * 2 * LIMIT))
    config: dict[str, Any] = {"path": name}
    with pytest.raises(InputError, match="longer than 1 MiB"):
        list(build_backend("replay", config, BackendContext(tmp_path))._keyed(name))  # type: ignore[attr-defined]


def test_many_rows_together_may_be_longer_than_one(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b\n" + f"1,{'x' * 1000}\n" * 3000)
    assert sum(1 for _ in registry.loaders.get("csv").obj({"path": "d.csv"}, tmp_path).records()) == 3000
