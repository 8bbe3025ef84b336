"""``doc_to_text``, ``doc_to_visual`` and ``doc_to_audio``: callables in a config that give a sample text and media."""

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError, closest
from gage_eval.data.prepare.images import as_png
from gage_eval.data.prepare.media import media_in_messages
from gage_eval.data.sample.record import RecordRejected, kind_of
from gage_eval.data.standardize.compose import last_user, reason_of
from gage_eval.data.standardize.fields import Preprocessor
from gage_eval.extend.loading import PluginError, load_object, plugin_errors, without_folders
from gage_eval.store.media import Media

# The errors that unexpected data may cause in a callable. Any other error is a defect and ends the run.
_OF_DATA = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, OSError)


class AdapterFailed(RecordRejected):
    """A callable of the config failed on a record, or returned something that cannot be used.

    Attributes:
        adapter: the callable's name.
    """

    def __init__(self, adapter: str, reason: str) -> None:
        super().__init__(reason)
        self.adapter = adapter


class ConfigCallable:
    """A function that a config names, with its arguments besides the first one.

    Attributes:
        path: ``pkg.mod:function`` or ``file.py:function``.
        kwargs: its own arguments.
        inherited: arguments of the preprocessor; those that the function has a parameter for are passed to it as well.
    """

    path: str
    kwargs: Mapping[str, JsonValue]
    inherited: Mapping[str, JsonValue]

    @property
    def name(self) -> str:
        """Its name in messages and reasons."""
        return without_folders(self.path)

    @cached_property
    def _loaded(self) -> tuple[Any, str]:
        function, origin = load_object(self.path)
        if not callable(function):
            raise InputError(f"'{self.name}' is a {type(function).__name__}, not a function.")
        return function, origin

    @cached_property
    def arguments(self) -> dict[str, JsonValue]:
        """Its keyword arguments; its own ones override inherited ones.

        Raises:
            InputError: the function does not exist, has no parameter for one of its own arguments, or cannot be called
                with a record and its arguments.
        """
        function, _ = self._loaded
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return dict(self.kwargs)
        parameters = list(signature.parameters.values())[1:]
        named = {item.name for item in parameters if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)}
        takes_all = any(item.kind is item.VAR_KEYWORD for item in parameters)
        for name in self.kwargs:
            if name not in named and not takes_all:
                takes = ", ".join(sorted(named)) or "none"
                raise InputError(f"'{self.name}' has no parameter '{name}'. It takes: {takes}.{closest(name, named)}")
        arguments = {**{name: value for name, value in self.inherited.items() if name in named}, **self.kwargs}
        try:
            signature.bind(None, **arguments)
        except TypeError as error:
            raise InputError(f"'{self.name}' cannot be called with a record: {error}.") from error
        return arguments

    def identity(self) -> JsonValue:
        """Its code and its arguments, for keys."""
        return {"origin": self._loaded[1], "name": self.path.rpartition(":")[2], "arguments": self.arguments}

    def _called(self, sample: Mapping[str, Any]) -> Any:
        """Call it with a record or sample.

        Raises:
            AdapterFailed: it fails on this one.
            PluginError: it fails with an error that data cannot explain.
        """
        function, _ = self._loaded
        try:
            with plugin_errors(self.name):
                return function(sample, **self.arguments)
        except PluginError as error:
            if isinstance(error.__cause__, _OF_DATA):
                raise AdapterFailed(self.name, reason_of(self.name, error.__cause__)) from error
            raise


@dataclass(frozen=True)
class TextCallable(ConfigCallable):
    """``doc_to_text``: ``f(record, **kwargs)`` returns the question text of a record."""

    path: str
    kwargs: Mapping[str, JsonValue]
    inherited: Mapping[str, JsonValue]

    def before(self, to_sample: Preprocessor) -> Preprocessor:
        """The preprocessor, applied to records whose question is the callable's text.

        The text goes where the preprocessor reads the question: to its ``question_field``, or to ``question`` for a
        plug-in that is given none. In a record of messages it replaces the text of the last user message.
        """
        own = getattr(getattr(to_sample, "__self__", None), "question_field", None)
        question_field = self.inherited.get("question_field") or own or "question"

        def asking(record: dict[str, Any]) -> dict[str, Any]:
            text = self._called(copy.deepcopy(record))
            if not isinstance(text, str) or not text:
                raise AdapterFailed(self.name, f"{self.name} gave {kind_of(text)}, not a text that is not empty.")
            messages = record.get("messages")
            if type(messages) is not list:
                return to_sample({**record, question_field: text})
            return to_sample({**record, "messages": _asked_with(text, messages)})

        return asking


def _asked_with(text: str, messages: list[Any]) -> list[Any]:
    """The messages with another text in the last user message; its media stay."""
    last = last_user(messages)
    if last is None:
        return [*messages, {"role": "user", "content": text}]
    content = messages[last].get("content")
    segments = content if type(content) is list else []
    kept = [item for item in segments if not (type(item) is dict and item.get("type") == "text")]
    merged = {**messages[last], "content": [*kept, {"type": "text", "text": text}]}
    return [*messages[:last], merged, *messages[last + 1 :]]


@dataclass(frozen=True)
class MediaCallable(ConfigCallable):
    """A callable in a config, ``f(sample, **kwargs)``, that returns the media of a sample.

    It returns None, one medium or a list of media: a path or address, bytes, or a Pillow image.

    Attributes:
        path: ``pkg.mod:function`` or ``file.py:function``.
        kind: type of its media: ``image_url`` or ``audio_url``.
        kwargs: its own arguments.
        inherited: arguments of the preprocessor; those that the function has a parameter for are passed to it as well.
    """

    path: str
    kind: str
    kwargs: Mapping[str, JsonValue]
    inherited: Mapping[str, JsonValue]

    def urls(self, sample: Mapping[str, Any], store: Media) -> list[str]:
        """Addresses of the media of a sample; bytes are stored.

        Raises:
            AdapterFailed: the callable fails on this sample, or returns something else.
        """
        result = self._called(copy.deepcopy(sample))
        several = result if isinstance(result, list | tuple) else [] if result is None else [result]
        return [self._url(address, store) for address in several]

    def _url(self, address: Any, store: Media) -> str:
        if isinstance(address, str) and address and address.isprintable():
            return address
        if isinstance(address, bytes | bytearray) and address:
            return store.put(bytes(address))
        if self.kind == "image_url" and hasattr(address, "save") and hasattr(address, "has_transparency_data"):
            return store.put(self._png(address))
        reason = f"{self.name} gave {kind_of(address)}; it must give paths, URLs, bytes or Pillow images."
        raise AdapterFailed(self.name, reason)

    def _png(self, picture: Any) -> bytes:
        try:
            return as_png(picture)
        except RecordRejected as error:
            raise AdapterFailed(self.name, f"{self.name} gave an image that cannot be used: {error.reason}") from error


def attach(sample: dict[str, Any], callables: tuple[MediaCallable, ...], store: Media) -> dict[str, Any]:
    """The sample with the media of the callables at the beginning of its last user message.

    A sample that has media in its messages stays as it is.

    Args:
        sample: in canonical form.
        callables: called in this order.
        store: stores the bytes that they return.

    Raises:
        RecordRejected: a callable fails, or there is no user message for its media.
    """
    if not callables or any(media_in_messages(sample["messages"])):
        return sample
    segments = [{"type": item.kind, item.kind: {"url": url}} for item in callables for url in item.urls(sample, store)]
    if not segments:
        return sample
    messages = sample["messages"]
    last = last_user(messages)
    if last is None:
        raise RecordRejected("there is no user message that doc_to_visual or doc_to_audio could add media to.")
    message = {**messages[last], "content": [*segments, *messages[last].get("content", [])]}
    return {**sample, "messages": [*messages[:last], message, *messages[last + 1 :]]}
