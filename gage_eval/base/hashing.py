"""sha256 of files; the digests of large files are cached."""

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MEMO_BYTES = 8 * 2**20
_BUFFER = 4 * 2**20


def file_digest(path: Path, env: Mapping[str, str] | None = None) -> str:
    """sha256 of a file's content, 64 hex digits.

    For files of 8 MiB and more the digest is remembered by path, inode, size and both times, under
    ``$XDG_CACHE_HOME/gage-eval/hashes`` (by default ``~/.cache``); smaller files are read each time.

    Args:
        path: the file.
        env: where the cache folder is looked up; the process's environment by default.

    Raises:
        OSError: the file cannot be read.
    """
    real = path.resolve()
    before = _stamp(real)
    if before["size"] < MEMO_BYTES:
        return _digest(real)
    memo = _memo_folder(os.environ if env is None else env) / (hashlib.sha256(os.fsencode(real)).hexdigest() + ".json")
    known = _load(memo)
    if known is not None and known.get("stamp") == before and _is_digest(known.get("sha256")):
        return str(known["sha256"])
    digest = _digest(real)
    # A file that changed while it was read has no digest worth remembering.
    if _stamp(real) == before:
        _save(memo, {"stamp": before, "sha256": digest})
    return digest


def _stamp(path: Path) -> dict[str, int]:
    stat = path.stat()
    return {
        "inode": stat.st_ino,
        "device": stat.st_dev,
        "size": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "ctime_ns": stat.st_ctime_ns,
    }


def _digest(path: Path) -> str:
    hashed = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_BUFFER):
            hashed.update(piece)
    return hashed.hexdigest()


def _memo_folder(env: Mapping[str, str]) -> Path:
    base = env.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gage-eval" / "hashes"


def _load(memo: Path) -> dict[str, object] | None:
    """The memo's content; None if it is unusable. It can always be computed again."""
    try:
        value = json.loads(memo.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _save(memo: Path, value: dict[str, object]) -> None:
    """Replace the memo whole. A cache folder that cannot be written only costs the next reader time."""
    draft = memo.with_name(f"{memo.name}.{os.getpid()}-{secrets.token_hex(4)}")
    with suppress(OSError):
        memo.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_text(json.dumps(value))
            draft.replace(memo)
        finally:
            draft.unlink(missing_ok=True)


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and len(value) == 64
