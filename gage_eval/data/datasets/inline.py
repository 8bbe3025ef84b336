"""Records written in the config itself."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.data.datasets.base import Record, check_params, record_text
from gage_eval.extend import registry


@registry.loaders.register("inline", version=1, params=("records",))
class InlineLoader:
    """Records given in the config, for small sets of questions.

    Parameters (``params``):
        records: a list of records.

    Raises:
        InputError: the list of records is missing.
    """

    def __init__(self, params: Mapping[str, Any], base_dir: Path) -> None:
        check_params(params, ("records",), "inline")
        records = params.get("records")
        if not isinstance(records, list) or not records:
            raise InputError("loader inline needs params.records, a list with at least one record.")
        self._records: list[JsonValue] = records

    def identity(self) -> JsonValue:
        """The records."""
        return {"records": self._records}

    def records(self) -> Iterator[Record]:
        """(position from 1, text) of each record."""
        for position, record in enumerate(self._records, 1):
            yield position, record_text(record)
