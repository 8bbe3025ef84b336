import hashlib
import os
from pathlib import Path

import pytest

from gage_eval.base import hashing
from gage_eval.base.hashing import file_digest


def test_a_small_file_is_read_each_time_and_nothing_is_remembered(tmp_path: Path) -> None:
    file, env = tmp_path / "f", {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    for content in (b"", b"one", b"two"):
        file.write_bytes(content)
        os.utime(file, ns=(1, 1))
        assert file_digest(file, env) == hashlib.sha256(content).hexdigest()
    assert not (tmp_path / "cache").exists()


def test_a_large_file_is_read_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "MEMO_BYTES", 4)
    reads: list[Path] = []
    digest = hashing._digest

    def counted(path: Path) -> str:
        reads.append(path)
        return digest(path)

    monkeypatch.setattr(hashing, "_digest", counted)
    file, env = tmp_path / "f", {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    file.write_bytes(b"content")
    first = file_digest(file, env)
    assert file_digest(file, env) == first
    assert len(reads) == 1
    # The same size and the same times: only ctime tells.
    stat = file.stat()
    file.write_bytes(b"CONTENT")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert file_digest(file, env) == hashlib.sha256(b"CONTENT").hexdigest()


def test_a_damaged_or_unwritable_memo_only_costs_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "MEMO_BYTES", 4)
    file, cache = tmp_path / "f", tmp_path / "cache"
    file.write_bytes(b"content")
    right = hashlib.sha256(b"content").hexdigest()
    assert file_digest(file, {"XDG_CACHE_HOME": str(cache)}) == right
    (memo,) = (cache / "gage-eval" / "hashes").iterdir()
    for damage in (b"", b"[]", b"\xff", b'{"stamp": {}, "sha256": "x"}'):
        memo.write_bytes(damage)
        assert file_digest(file, {"XDG_CACHE_HOME": str(cache)}) == right
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    assert file_digest(file, {"XDG_CACHE_HOME": str(blocked)}) == right


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        file_digest(tmp_path / "none")
