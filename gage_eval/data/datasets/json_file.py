"""JSON documents that each hold a list of records."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gage_eval.base import canonical
from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError, closest
from gage_eval.base.field_paths import MISSING, walk
from gage_eval.data.datasets.base import RowLoader, Source, record_text, text_param
from gage_eval.data.datasets.reading import document_of
from gage_eval.extend import registry
from gage_eval.store.media import Keep

_PARAMS = ("records_path", "source_field")
_KEYS_SHOWN = 20


@registry.loaders.register("json", version=1, params=_PARAMS)
class JsonLoader(RowLoader):
    """A list of records, or an object of records by id, in one or several JSON documents. Each is read as a whole.

    In an object of records, each record gets its key as ``id`` unless it has one.

    Parameters (``params``):
        path: file, list of files, glob pattern (files in sorted order) or address; ``.gz`` and the like are unpacked.
        records_path: dotted path of the records inside the document; by default the document itself.
        source_field: the record's field that takes the file's name without endings.

    Raises:
        InputError: a parameter is unknown or the file is not there.
    """

    def __init__(self, params: Mapping[str, Any], base_dir: Path) -> None:
        self._source = Source.of(params, base_dir, "json", _PARAMS)
        self._records_path = text_param(params, "records_path", "json") or ""

    def identity(self) -> JsonValue:
        """sha256 of each file's bytes in reading order, and the path of the records in it."""
        return {**self._source.identity(), "records_path": self._records_path}

    def _rows(self, file: str, keep: Keep) -> Iterator[tuple[int, str | None]]:
        for number, record in enumerate(self._document(file), 1):
            yield number, record_text(self._source.named(record, file))

    def _document(self, file: str) -> list[JsonValue]:
        # One file is named as in the config; several are named one by one.
        name = self._source.path if len(self._source.files) == 1 else Path(file).name
        try:
            document = canonical.decode(document_of(file, name))
        except ValueError as error:
            raise InputError(f"'{name}' is not JSON: {error}.") from None
        records = walk(document, self._records_path) if self._records_path else document
        kinds = {type(value) for value in records.values()} if isinstance(records, dict) else set()
        if list in kinds and dict not in kinds:
            records = MISSING  # such as {"data": [...]}: the records are one level down
        if records is MISSING or not isinstance(records, list | dict):
            where = f"at '{self._records_path}'" if self._records_path else "as its top level"
            raise InputError(f"'{name}' holds no list of records {where}.{_keys_of(document, self._records_path)}")
        if not records:
            raise InputError(f"'{name}' holds no records.")
        return records if isinstance(records, list) else [_with_id(key, record) for key, record in records.items()]


def _keys_of(document: JsonValue, path: str) -> str:
    """What the document holds where the path stops matching, and the key that was probably meant."""
    reached: list[str] = []
    *_, last = path.split(".")
    for step in path.split("."):
        inner = walk(document, [*reached, step]) if path else MISSING
        if not isinstance(inner, dict):
            last = step
            break
        reached.append(step)
    here = walk(document, reached) if reached else document
    if not isinstance(here, dict) or not here:
        return ""
    keys = [str(key) for key in here]
    where = f"at '{'.'.join(reached)}'" if reached else "at the top level"
    shown = ", ".join(keys[:_KEYS_SHOWN]) + (", …" if len(keys) > _KEYS_SHOWN else "")
    return f" Keys {where}: {shown}. Set records_path.{closest(last, keys)}"


def _with_id(key: str, record: JsonValue) -> JsonValue:
    return {"id": key, **record} if isinstance(record, dict) else record
