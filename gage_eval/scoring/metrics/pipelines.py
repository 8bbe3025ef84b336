"""Pipelines: filters applied one after another; one entry of ``filters:``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.extend import registry
from gage_eval.extend.loading import without_folders
from gage_eval.scoring.metrics.guarded import no_text, no_texts
from gage_eval.scoring.metrics.plugin_calls import PluginCall, read_call

FilterResult: TypeAlias = str | Exception | None
"""The result of filters on a text: a text, None where nothing was found, or the error."""


@dataclass(frozen=True)
class FilterStep(PluginCall):
    """One filter with its parameters."""

    @cached_property
    def per_sample(self) -> bool:
        """Whether it sees all replicates of a sample (`sample_filter`)."""
        return bool(self.plugin.info.get("per_sample"))

    def wrong(self, result: Any) -> str | None:
        return no_texts(result) if self.per_sample else no_text(result)


@dataclass(frozen=True)
class FilterPipeline:
    """Filters applied one after another under one name; every pipeline gives its own result.

    Attributes:
        name: shown after the metric, as in ``exact_match,strict-match``; None for the unchanged answer.
        steps: in order; the first that finds nothing ends the pipeline.
    """

    name: str | None
    steps: tuple[FilterStep, ...] = ()

    def identity(self) -> JsonValue:
        """The filters' part of keys, in order."""
        return [step.identity() for step in self.steps]

    @cached_property
    def per_sample(self) -> bool:
        """Whether it needs all replicates of a sample at once."""
        return any(step.per_sample for step in self.steps)

    def apply(self, text: str) -> str | None:
        """Apply the filters to a text; None when one finds nothing. Not for pipelines over replicates."""
        current: str | None = text
        for step in self.steps:
            if current is None:
                return None
            current = step.function(current, **step.params)
        return current

    def of_sample(self, texts: Sequence[str]) -> dict[int, FilterResult]:
        """Apply the filters to the replicates of a sample; returns the results by position."""
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
                positions = list(kept)
                filtered = step.function(list(kept.values()), **step.params)
                kept = {positions[at]: text for at, text in filtered.items()}
            else:
                kept = {
                    position: None if text is None else step.function(text, **step.params)
                    for position, text in kept.items()
                }
        return kept


def read_pipelines(filters: Sequence[JsonValue]) -> tuple[FilterPipeline, ...]:
    """Read the pipelines of a config: each a filter's name, ``{filter: params}``, or ``{name: …, steps: [filters]}``.

    Raises:
        InputError: an unknown filter, a parameter that does not fit, or two pipelines of one name.
    """
    pipelines = tuple(_pipeline(item) for item in filters) or (FilterPipeline(None),)
    names = [pipeline.name for pipeline in pipelines]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two filters are named '{twice}'. Name them: {{name: …, steps: [{twice}]}}.")
    return pipelines


def read_steps(filters: JsonValue) -> FilterPipeline:
    """Read filters on one text as one pipeline: a filter's name, ``{filter: params}``, or a list of these.

    Raises:
        InputError: an unknown filter, a parameter that does not fit, or a filter over the replicates of a sample.
    """
    steps = tuple(_step(item) for item in (filters if isinstance(filters, list) else [filters]))
    if whole_sample := next((step.plugin.name for step in steps if step.per_sample), None):
        raise InputError(f"filter {whole_sample} needs all replicates of a sample; here it would see only one text.")
    return FilterPipeline(None, steps)


def _pipeline(item: JsonValue) -> FilterPipeline:
    if isinstance(item, Mapping) and "steps" in item:
        unknown = sorted(set(item) - {"name", "steps"})
        if unknown or not isinstance(item.get("name"), str) or not isinstance(item["steps"], list):
            raise InputError(f"filter {dict(item)!r} is not {{name: text, steps: [filters]}}.")
        return FilterPipeline(item["name"], tuple(_step(step) for step in item["steps"]))
    step = _step(item)
    return FilterPipeline(without_folders(str(next(iter(item))) if isinstance(item, Mapping) else str(item)), (step,))


def _step(item: JsonValue) -> FilterStep:
    return read_call(FilterStep, registry.filters, item)
