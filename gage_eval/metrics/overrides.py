"""Parameters that a sample sets for metrics, in its ``eval_config``:

    {"eval_config": {"metrics": {"numeric_match": {"tolerance": 0.5}}}}

A metric is named by its id in the config or by its implementation; the id's parameters count before the
implementation's, and both before those of the config. Everything of ``params`` can be set, except what names the
numbers. A sample whose settings cannot be used is unscored (``invalid_override``).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gage_eval import registry
from gage_eval.canonical import JsonValue, canonical_text, decode
from gage_eval.errors import InputError, closest
from gage_eval.metrics.base import Score
from gage_eval.metrics.bind import BoundMetric, bind
from gage_eval.metrics.rows import pairs
from gage_eval.store import Artifact

COLUMN = "eval_config"
_NAMES = "eval_config.metrics"


@dataclass(frozen=True)
class Override:
    """What a sample changes of a metric: its parameters and its judge.

    Attributes:
        params: as JSON.
        judge: as JSON; the judge was asked under it.
        unscored: the score of such samples when their settings cannot be used.
    """

    params: str | None = None
    judge: str | None = None
    unscored: Score | None = None

    @property
    def told(self) -> str | None:
        """What stands beside the score."""
        judge = {} if self.judge is None else {"judge": decode(self.judge)}
        return canonical_text({**decode(self.params or "{}"), **judge}) if self.params or judge else None


def eval_configs(samples: Artifact) -> Iterator[list[str | None]]:
    """The different ``eval_config`` of samples, part by part; costs nothing where standardize counted none."""
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
    """Of the names in samples' ``eval_config`` those that are no metric; ``known`` are names beside the registry's."""
    return frozenset(named) - frozenset(known) - frozenset(registry.metrics.names()) if named else frozenset()


def score_samples(
    metric: BoundMetric,
    samples: pa.Table,
    responses: pa.Table,
    judgments: pa.Table | None = None,
    telemetry: pa.Table | None = None,
    *,
    known: Collection[str] = (),
) -> pa.Table:
    """Score the responses of a part, each under the parameters of its sample.

    Args:
        metric: with the parameters of the config.
        samples: with the column ``eval_config``, beside what `BoundMetric.score_table` needs.
        responses: as for `BoundMetric.score_table`.
        judgments: the same.
        telemetry: the same.
        known: names of metrics that samples may have beside this one's and the registry's.
    """
    configs = samples.column(COLUMN)
    if configs.null_count == len(configs):
        return metric.score_table(samples=samples, responses=responses, judgments=judgments, telemetry=telemetry)
    read = {text: override_of(metric, text, known) for text in pc.unique(configs).to_pylist()}
    unjudged = _unjudged(judgments) if metric.reads_judgments and judgments is not None else {}
    rows: dict[Override, list[int]] = {}
    for row, text in zip(samples.column("row_index").to_pylist(), configs.to_pylist(), strict=True):
        override = unjudged[row] if row in unjudged else read[text]
        rows.setdefault(override, []).append(row)
    scored = []
    for override, members in rows.items():
        mine = pa.array(members, pa.int64())
        taken = (_of_rows(table, mine) for table in (samples, responses, judgments, telemetry))
        scored.append(_scored(metric, override, *taken))
    return _in_order(pa.concat_tables(scored), responses)


def override_of(metric: BoundMetric, config: str | None, known: Collection[str] = ()) -> Override:
    """What an ``eval_config`` (JSON) changes of a metric."""
    given = decode(config) if config is not None else {}
    wanted = given.get("metrics")
    judge = canonical_text(given["judge"]) if metric.reads_judgments and given.get("judge") else None
    if wanted is None:
        return Override(judge=judge)
    if not isinstance(wanted, Mapping):
        return _invalid(f"{_NAMES} is no mapping of metrics to parameters")
    names = {metric.metric_id, metric.implementation, *known}
    if strange := sorted(unknown_metrics(wanted, names)):
        near = closest(strange[0], [*names, *registry.metrics.names()])
        return _invalid(f"{_NAMES} names '{strange[0]}', which is no metric.{near}")
    params: dict[str, JsonValue] = {}
    for name in dict.fromkeys((metric.implementation, metric.metric_id)):
        own = wanted.get(name)
        if own is not None and not isinstance(own, Mapping):
            return _invalid(f"{_NAMES}.{name} is no mapping of parameters")
        params.update(own or {})
    return Override(canonical_text(params) if params else None, judge)


def variant(metric: BoundMetric, override: Override) -> BoundMetric | Score:
    """The metric under a sample's parameters, or the score of samples whose parameters cannot be used."""
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
        named, wanted = (", ".join(one.value_keys) for one in (changed, metric))
        return _unscored(f"{_NAMES} would name the numbers {named} instead of {wanted}: set that in the config")
    # What one of them warned of, the others need not repeat.
    return replace(changed, warned=metric.warned)


def _scored(
    metric: BoundMetric,
    override: Override,
    samples: pa.Table,
    responses: pa.Table,
    judgments: pa.Table | None,
    telemetry: pa.Table | None,
) -> pa.Table:
    changed = variant(metric, override)
    if isinstance(changed, Score):
        return metric.unscored_table(responses, changed)
    table = changed.score_table(samples, responses, judgments, telemetry)
    own = pa.array([override.told] * table.num_rows, pa.string())
    return table.set_column(table.column_names.index("overrides"), "overrides", own)


def _invalid(explanation: str) -> Override:
    return Override(unscored=_unscored(explanation))


def _unscored(explanation: str) -> Score:
    return Score.unscored(explanation, reason="invalid_override")


def _unjudged(judgments: pa.Table) -> dict[int, Override]:
    """By row the samples whose settings for the judge cannot be used, so that it was not asked."""
    found = judgments.filter(pc.equal(judgments.column("reason"), "invalid_override"))
    rows, explanations = (found.column(name).to_pylist() for name in ("row_index", "explanation"))
    return {row: _invalid(explanation) for row, explanation in zip(rows, explanations, strict=True)}


def _of_rows(table: pa.Table | None, rows: pa.Array) -> Any:
    return None if table is None else table.filter(pc.is_in(table.column("row_index"), rows))


def _in_order(scored: pa.Table, responses: pa.Table) -> pa.Table:
    place_of = {pair: place for place, pair in enumerate(pairs(responses))}
    order = np.argsort([place_of[pair] for pair in pairs(scored)], kind="stable")
    return scored.take(pa.array(order)).combine_chunks()
