"""Use a metric outside a run: read its short forms, and score one row, as in a notebook."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from gage_eval.base.canonical import JsonValue, canonical_text, decode
from gage_eval.base.errors import ConfigError, InputError
from gage_eval.base.field_paths import MISSING, Path, RowValues, reference_texts, walk
from gage_eval.base.statuses import ScoreStatus
from gage_eval.config.bound_metric import bound
from gage_eval.config.models import MetricConfig
from gage_eval.config.validation_messages import plain_words
from gage_eval.config.yaml.lines import as_written, parse
from gage_eval.data.sample.rules import normalise_sample
from gage_eval.scoring.metrics.base import Score
from gage_eval.scoring.metrics.bind import BoundMetric
from gage_eval.scoring.metrics.compared import compared_in
from gage_eval.scoring.metrics.overrides import override_of, variant
from gage_eval.scoring.metrics.rows import alternatives, in_form


@dataclass(frozen=True)
class ScoreResult:
    """A metric's result for one row.

    Attributes:
        values: the numbers by value key; none when ``status`` is ``unscored``.
        metadata: ``metric``, ``filter``, ``prediction`` and ``reference`` where there are any (several references are
            a list), ``extracted`` (what was read from the answer), ``reason`` (why it is not ``scored``, one word),
            ``explanation``, what the metric adds (``best_reference``, ``hit_rank``, …), and ``components`` where corpus
            numbers are made of them.
        status: ``scored``; ``unparsed``: no answer could be read, which counts as wrong; ``unscored``: no score.
    """

    values: dict[str, float]
    metadata: dict[str, JsonValue]
    status: ScoreStatus


def score(
    metric: str | Mapping[str, Any],
    *,
    sample: Mapping[str, Any] | None = None,
    model_output: Mapping[str, Any] | str | None = None,
    judge_output: Mapping[str, Any] | None = None,
    params: Mapping[str, JsonValue] | None = None,
    filters: Sequence[JsonValue] = (),
    **others: Mapping[str, Any] | Sequence[Mapping[str, Any]],
) -> ScoreResult:
    """Score one row; what its ``eval_config`` sets for the metric counts.

        >>> import gage_eval
        >>> gage_eval.score("exact_match", sample={"label": "4"}, model_output={"answer": " 4 "}).values
        {'score': 1.0}

    Args:
        metric: as in a config: a name, ``name(key='value')``, ``{name: {…}}``, the full form, a class path or file.
        sample: the fields of a Sample that the metric reads, in the forms that data may have.
        model_output: the response's fields, ``answer`` and others; a text is the answer.
        judge_output: the judgment's fields.
        params: the metric's parameters, in addition to its defaults.
        filters: the filters of one pipeline, one after the other.
        others: the fields of other inputs, by the root of their paths (`gage_eval.base.inputs`); ``verdicts`` is a
        list.

    Raises:
        InputError: unknown metric or parameter, several pipelines of filters, or a field of another kind.
    """
    spec = metric_spec(metric)
    if params:
        spec = spec.model_copy(update={"params": {**spec.params, **params}})
    if filters:
        spec = spec.model_copy(update={"filters": [{"name": "filters", "steps": list(filters)}]})
    ready = bound(spec)
    if len(ready.filters) > 1:
        raise InputError(f"metric {ready.metric_id} has {len(ready.filters)} pipelines of filters; one row takes one.")
    output = {"answer": model_output} if isinstance(model_output, str) else dict(model_output or {})
    normalised = _normalised(sample or {})
    own = variant(ready, override_of(ready, canonical_text(normalised.get("eval_config") or {})))
    if isinstance(own, Score):
        metadata = {"metric": ready.implementation, "reason": own.reason, "explanation": own.explanation}
        return ScoreResult({}, metadata, own.status)
    args = _arguments(own, normalised, {**others, "model_output": output, "judge_output": judge_output})
    (row,) = own.score_row(args, str(output.get("status", "ok")), normalised["id"])
    metadata = {"metric": ready.implementation, "filter": row["filter"], "extracted": row["extracted"]}
    metadata |= {"reason": row["reason"], "explanation": row["explanation"]}
    metadata |= compared_in((item.name for item in own.definition.fields), args)
    for name in ("components", "metadata"):
        if row[name] is not None:
            metadata |= {name: decode(row[name])} if name == "components" else decode(row[name])
    return ScoreResult(row["values"], metadata, row["status"])


def metric_spec(metric: str | Mapping[str, Any]) -> MetricConfig:
    """A metric from any form a config or a command line may give it.

    Raises:
        InputError: it is none.
    """
    entry: Any = metric
    if isinstance(metric, str) and metric.lstrip().startswith("{"):
        try:
            entry = as_written(parse(metric, "the metric"))
        except ConfigError as error:
            raise InputError(f"metric {metric!r} is neither name(key='value') nor {{name: {{key: value}}}}.") from error
    try:
        return _with_filters(MetricConfig.model_validate(entry))
    except ValidationError as error:
        problems = plain_words(error, entry, MetricConfig)
        text = " ".join(item.message for item in problems)
        raise InputError(f"metric: {text}" if repr(metric) in text else f"metric {metric!r}: {text}") from error


def _with_filters(spec: MetricConfig) -> MetricConfig:
    """The metric with the filters that a short form names among its parameters: ``gsm8k(filters=['strict-match'])``."""
    if "filters" not in spec.params or spec.filters:
        return spec
    named = spec.params["filters"]
    params = {name: value for name, value in spec.params.items() if name != "filters"}
    filters = named if isinstance(named, list) else [named]
    return MetricConfig.model_validate({**spec.model_dump(), "params": params, "filters": filters})


def _normalised(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are given in the Sample's own form; what every Sample must have may be missing."""
    known = {"messages": [], **({} if "label" in sample else {"references": []}), **sample}
    return normalise_sample(known, default_id="sample")


def _arguments(metric: BoundMetric, sample: Mapping[str, Any], others: Mapping[str, RowValues]) -> list[Any]:
    """The value of each field, in the form the metric wants, None where there is none."""
    values = (_value(path, sample, others) for path in metric.field_paths)
    fields = metric.definition.fields
    texts = reference_texts(sample)
    arguments = []
    for value, item, path in zip(values, fields, metric.field_paths, strict=True):
        formed = None if value is None else in_form(value, item.kind)
        several = item.kind in ("reference", "list_reference") and path.reads_label
        arguments.append(alternatives(path, formed, texts) if several else formed)
    return arguments


def _value(path: Path, sample: Mapping[str, Any], others: Mapping[str, RowValues]) -> Any:
    value = path.get(sample, **others)
    if value is MISSING and (column := path.input.open_column) is not None:
        value = walk(others.get(path.root), (column, *path.parts))
    return None if value is MISSING else value
