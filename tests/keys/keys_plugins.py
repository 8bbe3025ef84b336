"""Plug-ins of a user, for tests of what is computed when one takes a built-in's place."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gage_eval.data.datasets.jsonl import JsonlLoader
from gage_eval.data.standardize.default import Default
from gage_eval.models.backends.dummy import Dummy, DummyConfig
from gage_eval.plugins import BackendConfig, BackendContext, Request


class OtherLoader(JsonlLoader):
    """Reads the same lines."""


class OtherModel(Dummy):
    """Answers the same."""

    def __init__(self, config: BackendConfig, context: BackendContext) -> None:
        super().__init__(DummyConfig.model_validate(config.model_dump()), context)


class Shouting:
    """Puts the last question in capitals."""

    def prepare(self, request: Request, context: Mapping[str, Any]) -> Request:
        *before, last = request.messages or []
        return replace(request, messages=[*before, {**last, "content": last["content"].upper()}])


def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


class Nothing:
    """Has no hand in anything."""


def other_preprocess(record: dict[str, Any]) -> dict[str, Any]:
    """Makes the same samples."""
    return Default().to_sample(record)


def words(sample: dict[str, object], **kwargs: object) -> str:
    """The same question for all."""
    return "How much is it?"


def nothing(sample: dict[str, object], **kwargs: object) -> None:
    """No media."""
