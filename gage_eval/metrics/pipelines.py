"""Filters applied one after another: what an entry of ``filters:`` becomes."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from gage_eval import registry
from gage_eval.canonical import JsonValue
from gage_eval.errors import InputError
from gage_eval.metrics.base import define_filter

FilterResult: TypeAlias = str | Exception | None
"""What filters leave of a text: a text, None where nothing was found, or what they raised."""


@dataclass(frozen=True)
class FilterStep:
    """One filter with its parameters; ``per_sample`` ones see all replicates of a sample (`sample_filter`)."""

    identity: JsonValue
    function: Callable[..., Any]
    params: Mapping[str, Any]
    per_sample: bool = False


@dataclass(frozen=True)
class FilterPipeline:
    """Filters applied one after another under one name; every pipeline is a result of its own.

    Attributes:
        name: shown beside the metric, as in ``exact_match,strict-match``; None for the answer as it is.
        steps: in order; the first that finds nothing ends it.
    """

    name: str | None
    steps: tuple[FilterStep, ...] = ()

    @cached_property
    def per_sample(self) -> bool:
        """Whether it needs all replicates of a sample at once."""
        return any(step.per_sample for step in self.steps)

    def apply(self, text: str) -> str | None:
        """What the filters leave of a text, None when one finds nothing; for pipelines that see one text at a time."""
        current: str | None = text
        for step in self.steps:
            if current is None:
                return None
            current = step.function(current, **step.params)
        return current

    def of_sample(self, texts: Sequence[str]) -> dict[int, FilterResult]:
        """What stays of the replicates of a sample, by place among them."""
        try:
            return dict(self._of_sample(texts))
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001  # told on each replicate's row, as for filters of one text
            return dict.fromkeys(range(len(texts)), error)

    def _of_sample(self, texts: Sequence[str]) -> dict[int, str | None]:
        kept: dict[int, str | None] = dict(enumerate(texts))
        for step in self.steps:
            if step.per_sample:
                places = list(kept)
                found = step.function(list(kept.values()), **step.params)
                kept = {places[at]: text for at, text in found.items()}
            else:
                kept = {
                    place: None if text is None else step.function(text, **step.params) for place, text in kept.items()
                }
        return kept


def read_pipelines(filters: Sequence[JsonValue]) -> tuple[FilterPipeline, ...]:
    """The pipelines of a config: each a filter's name, ``{filter: params}``, or ``{name: …, steps: [filters]}``.

    Raises:
        InputError: an unknown filter, a parameter that does not fit, or two pipelines of one name.
    """
    pipelines = tuple(_pipeline(item) for item in filters) or (FilterPipeline(None),)
    names = [pipeline.name for pipeline in pipelines]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two filters are named '{twice}'. Name them: {{name: …, steps: [{twice}]}}.")
    return pipelines


def _pipeline(item: JsonValue) -> FilterPipeline:
    if isinstance(item, Mapping) and "steps" in item:
        unknown = sorted(set(item) - {"name", "steps"})
        if unknown or not isinstance(item.get("name"), str) or not isinstance(item["steps"], list):
            raise InputError(f"filter {dict(item)!r} is not {{name: text, steps: [filters]}}.")
        return FilterPipeline(item["name"], tuple(_step(step)[1] for step in item["steps"]))
    name, step = _step(item)
    return FilterPipeline(name, (step,))


def _step(item: JsonValue) -> tuple[str, FilterStep]:
    params: JsonValue = {}
    if isinstance(item, str):
        name = item
    elif isinstance(item, Mapping) and len(item) == 1:
        ((name, params),) = item.items()
        params = params or {}
    else:
        raise InputError(f"filter {item!r} is neither a name nor {{name: {{parameters}}}}.")
    if not isinstance(params, Mapping):
        raise InputError(f"filter {name}: its parameters are {params!r}, not a mapping.")
    plugin = registry.filters.get(str(name))
    function, signature = define_filter(plugin)
    values = signature.validate(params)
    identity = {"filter": plugin.identity(), "params": {key: plain(value) for key, value in values.items()}}
    return str(name), FilterStep(identity, function, values, bool(plugin.info.get("per_sample")))


def plain(value: Any) -> JsonValue:
    """A parameter as it goes into keys: a compiled pattern as its text."""
    return value.pattern if isinstance(value, re.Pattern) else value
