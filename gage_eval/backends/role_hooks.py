"""``role_adapters[].class_path``: a class of the user's that has a hand in requests and answers of a role.

    class Adapter:
        version = 1

        def prepare(self, request: Request, context: Mapping[str, Any]) -> Request: ...
        def parse(self, response: Response) -> Response: ...

Either may be missing. `prepare` makes the request that is sent of the rendered one; ``context`` holds ``sample``,
``model_output`` and ``support_output``. `parse` makes the response that metrics and judges read of the one that was
received; the model's own words are stored beside it, so that a changed `parse` sends nothing.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from gage_eval import registry
from gage_eval.canonical import JsonValue
from gage_eval.client.types import Request, Response
from gage_eval.errors import GageError, InputError
from gage_eval.statuses import ANSWERED, RESPONSE_STATUSES
from gage_eval.tables import RESPONSES

# What `parse` may change of a row.
_PARSED = ("status", "answer", "reasoning", "tool_calls", "error_kind")


@dataclass(frozen=True)
class RoleHooks:
    """The hooks of one role adapter.

    Attributes:
        path: ``pkg.mod:Class``, ``pkg.mod.Class`` or ``file.py:Class``.
        base_dir: folder that a file is relative to.
    """

    path: str
    base_dir: Path

    @cached_property
    def _loaded(self) -> tuple[Any, str]:
        module, _, name = self.path.rpartition(":")
        in_file = module.endswith(".py")
        kind, origin = registry.load_object(f"{self.base_dir / module}:{name}" if in_file else self.path)
        if not isinstance(kind, type):
            raise InputError(f"'{self.path}' is no class.")
        if not (hasattr(kind, "prepare") or hasattr(kind, "parse")):
            raise InputError(f"'{self.path}' has neither 'prepare' nor 'parse'.")
        with self._told("cannot be built"):
            return kind(), origin

    @property
    def prepares(self) -> bool:
        """Whether requests go through it."""
        return hasattr(self._loaded[0], "prepare")

    @property
    def parses(self) -> bool:
        """Whether answers go through it."""
        return hasattr(self._loaded[0], "parse")

    def identity(self) -> JsonValue:
        """Its code, for keys.

        Raises:
            InputError: there is no such class.
        """
        adapter, origin = self._loaded
        name = f"{Path(self.path.rpartition(':')[0]).name}:{self.path.rpartition(':')[2]}"
        return {"class": name, "origin": origin, "version": int(getattr(adapter, "version", 1))}

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Have what foreign code raises end in one sentence."""
        try:
            yield
        except GageError:
            raise
        except Exception as error:
            raise InputError(f"{self.path}: {what}: {type(error).__name__}: {error}.") from error

    def prepare(self, request: Request, context: Mapping[str, Any]) -> Request:
        """The request that is sent. Whose it is stays as it was.

        Raises:
            InputError: the hook failed or gave no request.
        """
        with self._told(f"prepare failed for sample '{request.sample_id}'"):
            made = self._loaded[0].prepare(request, context)
        if not isinstance(made, Request):
            raise InputError(f"{self.path}: prepare gave {type(made).__name__} and no Request.")
        return replace(made, sample_id=request.sample_id, row_index=request.row_index, replicate=request.replicate)

    def parse(self, table: pa.Table) -> pa.Table:
        """`tables.RESPONSES` rows as metrics and judges read them; rows without an answer stay as they are.

        Raises:
            InputError: the hook failed, or gave no response of a known status.
        """
        rows = table.to_pylist()
        for row in rows:
            if row["status"] not in ANSWERED:
                continue
            received = Response(**{name: row[name] for name in _PARSED})
            with self._told(f"parse failed for sample '{row['sample_id']}'"):
                made = self._loaded[0].parse(received)
            if not isinstance(made, Response) or made.status not in RESPONSE_STATUSES:
                raise InputError(
                    f"{self.path}: parse must give a Response whose status is one of {', '.join(RESPONSE_STATUSES)}."
                )
            row.update({name: getattr(made, name) for name in _PARSED})
        return pa.Table.from_pylist(rows, schema=RESPONSES.arrow)
