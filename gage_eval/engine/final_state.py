"""The final state of an episode: the files that its task declares, taken from the box before it is closed.

What a box holds is up to a model. A state that cannot be taken is the model's, with a sentence; only a box that fails
is an error.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from gage_eval.base.canonical import JsonValue, canonical_text
from gage_eval.box.types import Box, BoxError, BoxRefused, Limits

MOST_FILES = 1000
LARGEST_FILE_MB = 16
LARGEST_STATE_MB = 64

_CPU_S, _WALL_S, _OUTPUT_KB = 10.0, 120.0, 1024
# Above those of the box, whose files may already take all of them.
_MORE_FILES, _MORE_MEMORY_MB, _MORE_PROCESSES = 64, 256, 8
_LINKS = r"""cd "$0" || exit; for path; do [ ! -L "$path" ] || printf 'l%s\0' "$path"; done"""
_FILES = rf"""cd "$0" || exit
[ "$(find . -prune -exec printf x \; 2>&1)" = x ] || {{ echo "the box has no find, or no printf" >&2; exit 1; }}
find "$@" -type l -exec printf 'l%s\0' {{}} +
find "$@" -type f -size +{LARGEST_FILE_MB << 10}k -exec printf 'b%s\0' {{}} +
find "$@" -type f -exec printf 'f%s\0' {{}} +
exit 0"""


class _Unfit(Exception):
    """The state cannot be taken: one word, and a sentence."""


async def final_state(box: Box, artifacts: Sequence[str], limits: Limits, keep: Callable[[bytes], str]) -> str:
    """The declared files as JSON text: ``{"files": {path: {url, bytes}}, "problem", "text"}``.

    Folders stand for all regular files in them. What is missing is left out. Where a link is among the files or on the
    way to them, or where they are too many or too large, there are no files, and ``problem`` is ``link``, ``too_many``,
    ``too_large`` or ``unreadable``.

    Args:
        box: of the episode, after its last command.
        artifacts: paths in its work folder.
        limits: of a command in the box.
        keep: stores bytes, and returns their address.

    Raises:
        BoxError: the box failed.
    """
    files: dict[str, JsonValue] = {}
    try:
        left = LARGEST_STATE_MB << 20
        for path in await _paths(box, artifacts, _for_lists(limits)):
            content = await box.take(path)
            left -= len(content)
            if left < 0:
                raise _Unfit("too_large", f"the artifacts have more than {LARGEST_STATE_MB} MiB")
            files[path] = {"url": await asyncio.to_thread(keep, content), "bytes": len(content)}
    except (_Unfit, BoxRefused) as unfit:
        problem, text = unfit.args if isinstance(unfit, _Unfit) else ("unreadable", str(unfit))
        return canonical_text({"files": {}, "problem": problem, "text": text})
    return canonical_text({"files": files, "problem": None, "text": ""})


def _for_lists(limits: Limits) -> Limits:
    return replace(
        limits,
        cpu_s=_CPU_S,
        wall_s=_WALL_S,
        output_kb=_OUTPUT_KB,
        files=limits.files + _MORE_FILES,
        memory_mb=limits.memory_mb + _MORE_MEMORY_MB,
        processes=limits.processes + _MORE_PROCESSES,
    )


async def _paths(box: Box, artifacts: Sequence[str], limits: Limits) -> list[str]:
    """The paths of all declared files that are there, sorted."""
    steps = {step for path in artifacts for step in _steps(path)}
    for kind, path in await _listed(box, _LINKS, sorted(steps), limits):
        raise _unfit(kind, path)
    paths = set()
    for kind, path in await _listed(box, _FILES, [f"./{path}" for path in artifacts], limits):
        if kind != "f":
            raise _unfit(kind, path)
        paths.add(str(PurePosixPath(path)))
    if len(paths) > MOST_FILES:
        raise _Unfit("too_many", f"there are {len(paths):,} artifacts; at most {MOST_FILES:,} are taken")
    return sorted(paths)


def _unfit(kind: str, path: str) -> _Unfit:
    if kind == "l":
        return _Unfit("link", f"{path!r} is a link")
    if kind == "b":
        return _Unfit("too_large", f"{path!r} has more than {LARGEST_FILE_MB} MiB")
    return _Unfit("unreadable", f"the list of the artifacts holds {kind + path!r}")


def _steps(path: str) -> Iterator[str]:
    """A path and all folders on the way to it."""
    pure = PurePosixPath(path)
    return (f"./{step}" for step in (pure, *pure.parents))


async def _listed(box: Box, script: str, arguments: Sequence[str], limits: Limits) -> list[tuple[str, str]]:
    """(kind, path) of what a script lists."""
    ran = await box.run(["sh", "-c", script, box.root, *arguments], limits=limits)
    if ran.reason == "output" or len(ran.stdout) >= limits.output_kb << 10:
        raise _Unfit("too_many", f"the artifacts are too many; at most {MOST_FILES:,} are taken")
    if ran.reason in ("cpu", "memory"):
        raise _Unfit(
            "too_many", f"the artifacts cannot be listed within the box's memory and {_CPU_S:g} s of processor time"
        )
    sentence = f"the artifacts cannot be listed: {ran.reason or ran.stderr.decode('utf-8', 'replace')[:200]}"
    if ran.reason in ("", "files") and ran.exit != 0:
        raise _Unfit("unreadable", sentence)
    if ran.reason:
        raise BoxError(sentence)
    try:
        entries = ran.stdout.decode().split("\0")
    except UnicodeDecodeError:
        raise _Unfit("unreadable", "the name of an artifact is not UTF-8") from None
    return [(entry[0], entry[1:]) for entry in entries if entry]
