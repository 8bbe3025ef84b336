"""A guard around a plug-in's backend: its errors and wrong results are reported in one sentence."""

import reprlib
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import JsonValue, canonical_json
from gage_eval.base.statuses import RESPONSE_STATUSES
from gage_eval.extend.loading import PluginError, plugin_errors
from gage_eval.models.client.limiter import Limiter
from gage_eval.models.client.types import Request, Response, token_count

_TEXTS = ("answer", "reasoning", "tool_calls", "finish_reason", "logprobs", "error_kind", "model_fingerprint")
_COUNTS = ("prompt_tokens", "completion_tokens")
_NUMBERS = ("latency_ms", "ttft_ms")


class GuardedBackend:
    """A `Backend` that passes all calls on to a plug-in's backend.

    An error of ``call`` is the error of that row, as a refused request is; an error of any other method ends the run.

    Args:
        inner: the plug-in's backend, checked already.
        location: what messages call it, as ``rows.py:Rows``.
    """

    def __init__(self, inner: Any, location: str) -> None:
        self._inner = inner
        self._location = location
        with plugin_errors(f"backend {location}"):
            self.type = str(inner.type)
            self.capabilities = self._capabilities(inner.capabilities)
            self.limiter: Limiter = inner.limiter
            self.lookup_field: str | None = inner.lookup_field
        if not isinstance(self.limiter, Limiter):
            raise PluginError(f"backend {location}: limiter is {_type(self.limiter)}, not a gage_eval Limiter.")
        if hasattr(type(inner), "max_concurrency"):
            raise PluginError(
                f"backend {location}: an attribute max_concurrency has no effect. It is a field of the config; for "
                "another default, set it in the class of the config (docs/plugins/backend.md)."
            )

    def _capabilities(self, capabilities: Any) -> frozenset[str]:
        if isinstance(capabilities, str) or not all(isinstance(name, str) for name in capabilities):
            shown = reprlib.repr(capabilities)
            raise PluginError(f"backend {self._location}: capabilities is {shown}, not a set of texts.")
        return frozenset(capabilities)

    def identity(self) -> dict[str, JsonValue]:
        """What determines the model's answers.

        Raises:
            PluginError: it failed, or gave no mapping that has a JSON form.
        """
        return self._mapping("identity", ())

    def body(self, request: Request) -> dict[str, JsonValue]:
        """The effective request body.

        Raises:
            PluginError: it failed, or gave no mapping that has a JSON form.
        """
        return self._mapping("body", (request,))

    def _mapping(self, method: str, arguments: tuple[Any, ...]) -> dict[str, JsonValue]:
        what = f"{self._location}.{method}()"
        with plugin_errors(what):
            mapping = getattr(self._inner, method)(*arguments)
        if not isinstance(mapping, dict):
            raise PluginError(f"{what} gave {_type(mapping)}, not a dict.")
        try:
            canonical_json(mapping)
        except (TypeError, ValueError) as error:
            raise PluginError(f"{what} gave a dict without a JSON form: {error}.") from error
        return mapping

    async def open(self, log_folder: Path | None) -> None:
        """Start what is needed.

        Raises:
            PluginError: it failed.
        """
        with plugin_errors(f"{self._location}.open()"):
            await self._inner.open(log_folder)

    async def call(self, request: Request, body: bytes) -> Response:
        """One answer. An exception or an invalid result of the plug-in becomes an error row."""
        what = f"{self._location}.call()"
        try:
            with plugin_errors(what):
                response = await self._inner.call(request, body)
            check_response(what, response)
        except PluginError as error:
            return Response("error", error_kind="plugin", attempts=1, errors=[str(error)])
        return response  # type: ignore[no-any-return]  # checked

    def remember(self, request: Request, body: bytes) -> None:
        """Nothing to note: a plug-in knows of no earlier run."""

    async def close(self) -> None:
        """Stop what `open` started.

        Raises:
            PluginError: it failed.
        """
        with plugin_errors(f"{self._location}.close()"):
            await self._inner.close()


def check_response(what: str, response: Any) -> None:
    """Refuse what no table can hold.

    Raises:
        PluginError: it is not a `Response`, or one of its fields is of another type.
    """
    if not isinstance(response, Response):
        raise PluginError(f"{what} gave {_type(response)}, not a Response.")
    if not isinstance(response.status, str) or response.status not in RESPONSE_STATUSES:
        raise PluginError(
            f"{what} gave the status {reprlib.repr(response.status)}, not one of {', '.join(RESPONSE_STATUSES)}."
        )
    values = {name: getattr(response, name) for name in (*_TEXTS, *_COUNTS, *_NUMBERS)}
    for name, value in values.items():
        if value is None:
            continue
        if name in _TEXTS:
            fits, wanted = isinstance(value, str), "a text"
        elif name in _COUNTS:
            fits, wanted = token_count(value) is not None, "a count"
        else:
            fits, wanted = isinstance(value, int | float), "a number"
        if not fits:
            raise PluginError(f"{what} gave {name} {reprlib.repr(value)}, not {wanted}.")
    try:
        response.to_bytes()
    except (TypeError, ValueError) as error:
        raise PluginError(f"{what} gave a Response that cannot be stored: {error}.") from error
    if type(response.attempts) is not int or not isinstance(response.errors, list):
        raise PluginError(f"{what} gave a Response whose attempts are not a count, or whose errors are not a list.")


def _type(value: Any) -> str:
    return type(value).__name__
