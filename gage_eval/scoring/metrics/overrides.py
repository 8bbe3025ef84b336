"""Parameters of metrics that a sample sets in its ``eval_config``:

    {"eval_config": {"metrics": {"numeric_match": {"tolerance": 0.5}}}}

A metric is named by its id in the config or by its implementation. Parameters under the id override those under the
implementation, and both override the config. All ``params`` can be set, except those that name the numbers. A sample
with unusable settings is unscored (``invalid_override``).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import JsonValue, canonical_text, decode
from gage_eval.base.errors import InputError, closest
from gage_eval.extend import registry
from gage_eval.scoring.metrics.base import Score
from gage_eval.scoring.metrics.bind import BoundMetric, bind
from gage_eval.scoring.metrics.compared import ComparedValues, compared_values
from gage_eval.scoring.metrics.rows import Tables, keys
from gage_eval.store import Artifact

COLUMN = "eval_config"
_NAMES = "eval_config.metrics"


@dataclass(frozen=True)
class Override:
    """A sample's changes to a metric: its parameters and its judge.

    Attributes:
        params: as JSON.
        judge: as JSON; the judge was asked with these settings.
        unscored: the score of samples whose settings cannot be used.
    """

    params: str | None = None
    judge: str | None = None
    unscored: Score | None = None

    @property
    def text(self) -> str | None:
        """The note in the row of a score."""
        judge = {} if self.judge is None else {"judge": decode(self.judge)}
        return canonical_text({**decode(self.params or "{}"), **judge}) if self.params or judge else None


def eval_configs(samples: Artifact) -> Iterator[list[str | None]]:
    """The different ``eval_config`` values of samples, part by part; costs nothing where standardize counted none."""
    if samples.counts.get(COLUMN):
        for table in samples.tables(columns=[COLUMN]):
            yield pc.unique(table.column(COLUMN)).to_pylist()


def named_metrics(configs: Iterable[str | None]) -> frozenset[str]:
    """The metrics that samples set parameters for.

    Args:
        configs: the samples' ``eval_config`` as JSON.
    """
    names: set[str] = set()
    for text in configs:
        metrics = decode(text).get("metrics") if text is not None else None
        names.update(metrics if isinstance(metrics, Mapping) else ())
    return frozenset(names)


def unknown_metrics(named: Collection[str], known: Collection[str]) -> frozenset[str]:
    """The names in samples' ``eval_config`` that are not metrics; ``known`` are names besides those registered."""
    return frozenset(named) - frozenset(known) - frozenset(registry.metrics.names()) if named else frozenset()


def score_samples(metric: BoundMetric, tables: Tables, *, known: Collection[str] = ()) -> pa.Table:
    """Score the responses of a part, each with the parameters of its sample.

    Args:
        metric: with the parameters of the config.
        tables: as in `BoundMetric.score_table`; the samples have the column ``eval_config``.
        known: names of metrics that samples may use besides this one and the registered ones.
    """
    if not _has_overrides(tables):
        return metric.score_table(tables)
    scored = [_scored(metric, override, own) for override, own in _by_override(metric, tables, known)]
    return _in_order(pa.concat_tables(scored), tables["responses"])


def compared_by_samples(metric: BoundMetric, tables: Tables, *, known: Collection[str] = ()) -> ComparedValues:
    """`compared_values` with the field paths that samples set. The arguments are those of `score_samples`."""
    if not _has_overrides(tables):
        return compared_values(metric, tables)
    values: ComparedValues = {}
    for override, own in _by_override(metric, tables, known):
        changed = variant(metric, override)
        if isinstance(changed, BoundMetric):
            values |= compared_values(changed, own)
    return values


def _has_overrides(tables: Tables) -> bool:
    configs = tables["samples"].column(COLUMN)
    return bool(configs.null_count < len(configs))


def _by_override(metric: BoundMetric, tables: Tables, known: Collection[str]) -> Iterator[tuple[Override, Tables]]:
    """The rows of each override."""
    samples = tables["samples"]
    configs = samples.column(COLUMN)
    read = {text: override_of(metric, text, known) for text in pc.unique(configs).to_pylist()}
    unusable = _unusable(metric, tables)
    rows: dict[Override, list[int]] = {}
    for row, text in zip(samples.column("row_index").to_pylist(), configs.to_pylist(), strict=True):
        override = unusable[row] if row in unusable else read[text]
        rows.setdefault(override, []).append(row)
    for override, members in rows.items():
        yield override, _of_rows(tables, pa.array(members, pa.int64()))


def override_of(metric: BoundMetric, config: str | None, known: Collection[str] = ()) -> Override:
    """The changes that an ``eval_config`` (JSON) makes to a metric."""
    override = decode(config) if config is not None else {}
    wanted = override.get("metrics")
    judge = canonical_text(override["judge"]) if "judgments" in metric.inputs and override.get("judge") else None
    if wanted is None:
        return Override(judge=judge)
    if not isinstance(wanted, Mapping):
        return _invalid(f"{_NAMES} is not a mapping of metrics to parameters")
    names = {metric.metric_id, metric.implementation, *known}
    if unknown := sorted(unknown_metrics(wanted, names)):
        near = closest(unknown[0], [*names, *registry.metrics.names()])
        return _invalid(f"{_NAMES} names '{unknown[0]}', which is not a metric.{near}")
    params: dict[str, JsonValue] = {}
    for name in dict.fromkeys((metric.implementation, metric.metric_id)):
        own = wanted.get(name)
        if own is not None and not isinstance(own, Mapping):
            return _invalid(f"{_NAMES}.{name} is not a mapping of parameters")
        params.update(own or {})
    return Override(canonical_text(params) if params else None, judge)


def variant(metric: BoundMetric, override: Override) -> BoundMetric | Score:
    """The metric with a sample's parameters, or the score of samples whose parameters cannot be used."""
    if override.unscored is not None:
        return override.unscored
    if override.params is None:
        return metric
    params = {**(metric.recipe["params"] or {}), **decode(override.params)}
    try:
        changed = bind(**{**metric.recipe, "params": params})
    except InputError as error:
        return _unscored(f"{_NAMES}: {error}")
    if changed.value_keys != metric.value_keys:
        named, wanted = (", ".join(bound.value_keys) for bound in (changed, metric))
        return _unscored(f"{_NAMES} would name the numbers {named} instead of {wanted}: set that in the config")
    # The variants share their warnings, so that each is logged once.
    return replace(changed, warned=metric.warned)


def _scored(metric: BoundMetric, override: Override, tables: Tables) -> pa.Table:
    changed = variant(metric, override)
    if isinstance(changed, Score):
        return metric.unscored_table(tables["responses"], changed)
    table = changed.score_table(tables)
    own = pa.array([override.text] * table.num_rows, pa.string())
    return table.set_column(table.column_names.index("overrides"), "overrides", own)


def _invalid(explanation: str) -> Override:
    return Override(unscored=_unscored(explanation))


def _unscored(explanation: str) -> Score:
    return Score.unscored(explanation, reason="invalid_override")


def _unusable(metric: BoundMetric, tables: Tables) -> dict[int, Override]:
    """The samples whose settings an input could not use, by row; for example settings of the judge."""
    unusable: dict[int, Override] = {}
    for name in sorted(metric.inputs & tables.keys()):
        table = tables[name]
        if {"row_index", "reason", "explanation"} <= {*table.column_names}:
            rejected = table.filter(pc.equal(table.column("reason"), "invalid_override"))
            rows, explanations = (rejected.column(column).to_pylist() for column in ("row_index", "explanation"))
            unusable.update(zip(rows, map(_invalid, explanations), strict=True))
    return unusable


def _of_rows(tables: Tables, rows: pa.Array) -> Tables:
    """The rows of some samples; a table that is joined in another way is not cut."""
    return {
        name: table.filter(pc.is_in(table.column("row_index"), rows)) if "row_index" in table.column_names else table
        for name, table in tables.items()
    }


def _in_order(scored: pa.Table, responses: pa.Table) -> pa.Table:
    row_of = {pair: row for row, pair in enumerate(keys(responses))}
    order = np.argsort([row_of[pair] for pair in keys(scored)], kind="stable")
    return scored.take(pa.array(order)).combine_chunks()
