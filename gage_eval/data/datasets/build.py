"""Build a loader from its name and parameters. Plug-in loaders are wrapped in a guard."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import JsonValue, canonical_json
from gage_eval.data.datasets.base import Record
from gage_eval.extend import registry
from gage_eval.extend.loading import PluginError, plugin_errors

_END = object()


def build_loader(name: str, params: Mapping[str, Any], base_dir: Path) -> Any:
    """The `Loader` of that name.

    Raises:
        InputError: no loader has that name, its parameters are wrong, or its file is missing.
    """
    plugin = registry.loaders.get(name)
    if plugin.is_builtin:
        return plugin.obj(dict(params), base_dir)
    with plugin_errors(f"{plugin.location}()"):
        made = plugin.obj(dict(params), base_dir)
    registry.loaders.protocol.check_made("loader", plugin.location, made)
    return _GuardedLoader(made, plugin.location)


class _GuardedLoader:
    """Wraps a plug-in's loader; reports its errors and wrong results in one sentence."""

    def __init__(self, inner: Any, location: str) -> None:
        self._inner = inner
        self._location = location

    def identity(self) -> JsonValue:
        what = f"{self._location}.identity()"
        with plugin_errors(what):
            identity = self._inner.identity()
        try:
            canonical_json(identity)
        except (TypeError, ValueError) as error:
            raise PluginError(f"{what} gave {type(identity).__name__} without a JSON form: {error}.") from error
        if identity is None:
            raise PluginError(f"{what} gave None; it must give a value that identifies the records, such as a hash.")
        return identity

    def records(self, *keep: Any) -> Iterator[Record]:
        what = f"{self._location}.records()"
        with plugin_errors(what):
            records = iter(self._inner.records(*keep))
        while True:
            with plugin_errors(what):
                record = next(records, _END)
            if record is _END:
                return
            if not _is_record(record):
                raise PluginError(
                    f"{what} gave {_shown(record)}; it must give pairs of a line number and a record as text."
                )
            yield record  # type: ignore[misc]  # checked


def _is_record(record: Any) -> bool:
    return type(record) is tuple and len(record) == 2 and type(record[0]) is int and type(record[1]) is str


def _shown(record: Any) -> str:
    if type(record) is tuple:
        return f"({', '.join(type(item).__name__ for item in record)})"
    return type(record).__name__
