"""Small YAML files next to a config, such as scoring profiles and pinned origins, read within bounds.

They may be a stranger's: nested so deep that the parser's stack overflows, with aliases that repeat each other, or
files without an end.
"""

import errno
from pathlib import Path
from typing import Any

import yaml

MAX_BYTES = 2**20
_MAX_LEVELS = 64
_MAX_VALUES = 200_000


def read_bounded(file: Path) -> bytes:
    """The bytes of a regular file, of a longer one only the first; `plain_values` refuses those.

    Raises:
        OSError: it cannot be read, or is a pipe, a device or the like.
        ValueError: the path holds a NUL byte.
    """
    if file.exists() and not file.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file")
    with file.open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def plain_values(data: bytes) -> Any:
    """The plain values of a YAML document, by the rules of YAML 1.1.

    Raises:
        yaml.YAMLError: it is not YAML, or longer, deeper or, with what aliases repeat, larger than such a file needs.
    """
    if len(data) > MAX_BYTES:
        raise yaml.YAMLError(f"it is larger than {MAX_BYTES >> 20} MiB")
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_nesting(data, loader)
        value = yaml.load(data, loader)  # noqa: S506 - a safe loader either way
        size, levels = _extent(value, {})
    except RecursionError:
        raise yaml.YAMLError("its aliases contain themselves") from None
    except (ValueError, OverflowError) as error:
        # Dates and numbers that no value can hold.
        raise yaml.YAMLError(str(error)) from error
    if size > _MAX_VALUES or levels > _MAX_LEVELS:
        raise yaml.YAMLError(f"its aliases make more than {_MAX_VALUES:,} values or {_MAX_LEVELS} levels of it")
    return value


def _check_nesting(data: bytes, loader: Any) -> None:
    """Events come one by one, however deep they are; building values of them uses the stack of C."""
    levels = 0
    for event in yaml.parse(data, Loader=loader):
        levels += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if levels > _MAX_LEVELS:
            raise yaml.YAMLError(f"it is nested more than {_MAX_LEVELS} levels deep")


def _extent(value: Any, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How many values and levels there are; what aliases repeat counts each time."""
    if not isinstance(value, dict | list):
        return 1, 0
    if id(value) not in known:
        items = [*value, *value.values()] if isinstance(value, dict) else value
        inner = [_extent(item, known) for item in items]
        known[id(value)] = (
            1 + sum(size for size, _ in inner),
            1 + max((levels for _, levels in inner), default=0),
        )
    return known[id(value)]
