"""Bind a metric to parameters, paths, filters and an aggregation: one entry of ``metrics:``."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.base.field_paths import Path, compile_path, reference_texts
from gage_eval.base.statuses import NO_RECORD, UNANSWERED, Reason
from gage_eval.data.sample.table import rows_of
from gage_eval.extend import registry
from gage_eval.extend.loading import said_by
from gage_eval.scoring.metrics.aggregate import Aggregations, aggregate, read_aggregations
from gage_eval.scoring.metrics.base import Definition, Score, define
from gage_eval.scoring.metrics.grouping import Grouping, grouping
from gage_eval.scoring.metrics.guarded import RowFailed
from gage_eval.scoring.metrics.left_out import check_nothing_left_out, is_of_corpus, reads_judge
from gage_eval.scoring.metrics.normalization import NormalizationConfig
from gage_eval.scoring.metrics.parse_schema import ParseSchema
from gage_eval.scoring.metrics.pipelines import FilterPipeline, FilterResult, read_pipelines
from gage_eval.scoring.metrics.plugin_calls import plain
from gage_eval.scoring.metrics.references import References, check_references, over_references
from gage_eval.scoring.metrics.rows import Rows, ScoreRows, Tables, check_path, reads_parsed
from gage_eval.scoring.metrics.scale import DEFAULT, Scale
from gage_eval.store import Artifact

OnMissing: TypeAlias = Literal["ignore", "warn", "error"]
FilterResults: TypeAlias = dict[str | None, dict[int, FilterResult]]

_COMPARED = frozenset({"prediction", "reference", "answers"})
_LONGEST_REASON = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BoundMetric:
    """A metric ready to score tables. Build it with `bind`."""

    metric_id: str
    definition: Definition
    params: Mapping[str, Any]
    field_paths: tuple[Path, ...]
    filters: tuple[FilterPipeline, ...]
    aggregations: Aggregations
    value_keys: tuple[str, ...]
    grouping: Grouping
    renamed: Mapping[str, str] = field(default_factory=dict)
    on_missing_field: OnMissing = "warn"
    references: References = "any"
    default: float | None = None
    normalization: NormalizationConfig | None = None
    schema: ParseSchema | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    warned: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def implementation(self) -> str:
        """The metric's registered name or path."""
        return self.definition.plugin.name

    @cached_property
    def sample_columns(self) -> frozenset[str]:
        """Columns of the samples that `score_table` needs, besides ``row_index``."""
        return frozenset().union(*(path.sample_columns for path in self.field_paths))

    def media_addresses(self, samples: Artifact) -> set[str]:
        """Where the media are that samples name for this metric."""
        names = self.definition.plugin.info.get("media", ())
        paths = [
            path
            for path, item in zip(self.field_paths, self.definition.fields, strict=True)
            if item.name in names and path.sample_columns
        ]
        columns = sorted({"label", "references"}.union(*(path.sample_columns for path in paths)))
        rows = (row for table in samples.tables(columns=columns) for row in rows_of(table, columns)) if paths else ()
        return {
            str(address)
            for row in rows
            for path in paths
            for address in (*(reference_texts(row) if path.reads_label else ()), path.get(row))
            if address
        }

    @cached_property
    def inputs(self) -> frozenset[str]:
        """Names of the inputs that its scores depend on (`gage_eval.base.inputs`); always includes the responses."""
        return frozenset({"responses", *(path.input.name for path in self.field_paths)})

    @cached_property
    def _of_judge(self) -> bool:
        """Whether the text that it reads is a judge's: what cannot be read there is not the model's fault."""
        return reads_judge(self.definition, self.field_paths)

    @cached_property
    def _scores_empty_text(self) -> bool:
        return is_of_corpus(self.definition) or bool(self.definition.further_keys)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The metric's function for one reference or several, preceded by the normalisation of its texts."""
        return over_references(self.definition, self._on_normalised(), self.references)

    def _on_normalised(self) -> Callable[..., Any]:
        function, normalization = self.definition.function, self.normalization
        if normalization is None:
            return function
        kinds = [item.kind if item.name in _COMPARED else "value" for item in self.definition.fields]

        def normalised(*args: Any, **params: Any) -> Any:
            return function(
                *(_normalised(arg, kind, normalization) for arg, kind in zip(args, kinds, strict=True)), **params
            )

        return normalised

    def scale(self, value_key: str) -> Scale:
        """What the values under a key mean."""
        return self.aggregations.scale(value_key)

    def identity(self) -> dict[str, JsonValue]:
        """What determines its results: ``scores`` for the score rows, ``aggregation`` for the numbers made of them."""
        names = [item.name for item in self.definition.fields]
        scores: dict[str, JsonValue] = {
            "metric": self.definition.plugin.identity(),
            "params": {name: plain(value) for name, value in self.params.items()},
            "paths": dict(zip(names, (path.canonical for path in self.field_paths), strict=True)),
            "filters": [{"name": pipeline.name, "steps": pipeline.identity()} for pipeline in self.filters],
            "value_keys": list(self.value_keys),
            "default": self.default,
            # Only the policy ``error`` can refuse rows that are stored already.
            "strict": self.on_missing_field == "error",
            "references": self.references,
        }
        if self.normalization is not None:
            scores["normalization"] = self.normalization.identity()
        if self.schema is not None and any(reads_parsed(path) for path in self.field_paths):
            scores["parse_schema"] = self.schema.identity()
        return {
            "scores": scores,
            "aggregation": {**self.aggregations.identity(), **self.grouping.identity()},
        }

    def score_table(self, tables: Tables) -> pa.Table:
        """Score the responses of a part.

        Args:
            tables: by name; ``samples`` with at least ``row_index`` and `sample_columns`, the part's ``responses``, and
            the other `inputs`. An input without a table has no values.

        Returns:
            `tables.SCORES`: one row per response and filter, in the responses' order; filters over the replicates of a
            sample leave fewer rows.

        Raises:
            InputError: a field is missing and the policy is ``error``, or the metric refuses its parameters or data.
        """
        rows, responses = Rows(tables, self.schema), tables["responses"]
        fields = self.definition.fields
        columns = [rows.values(path, item.kind) for path, item in zip(self.field_paths, fields, strict=True)]
        out = ScoreRows(self.value_keys, self.renamed, self.aggregations.scales)
        statuses = responses.column("status").to_pylist()
        arguments = self._with_defaults(columns)
        kept = self._kept(responses, statuses, columns) if any(item.per_sample for item in self.filters) else {}
        for row, (status, args) in enumerate(zip(statuses, arguments or [()] * len(statuses), strict=True)):
            if status in UNANSWERED:
                self._add_all(out, row, _unanswered(status, responses.column("error_kind")[row].as_py()))
            elif None in args and (gap := self._first_missing_field(args)) is not None:
                name, path = responses.column("sample_id")[row].as_py(), self.field_paths[gap]
                self._add_all(out, row, self._missing(path, name, rows.missing_reason(path, row), args))
            else:
                self._score(out, row, args, kept)
        return out.table(responses)

    def unscored_table(self, responses: pa.Table, score: Score) -> pa.Table:
        """Score rows of responses that cannot be scored: ``score``, or `unanswered` for those without an answer."""
        out = ScoreRows(self.value_keys)
        for row, status in enumerate(responses.column("status").to_pylist()):
            if status in UNANSWERED:
                self._add_all(out, row, _unanswered(status, responses.column("error_kind")[row].as_py()))
            else:
                self._add_all(out, row, score)
        return out.table(responses)

    def score_row(self, args: Sequence[Any], status: str = "ok", name: str = "sample") -> list[dict[str, Any]]:
        """Score one response.

        Args:
            args: the value of each field, None where it is missing.
            status: of the response.
            name: of the sample, for messages.

        Returns:
            For each filter ``filter``, ``status``, ``values``, ``extracted``, ``reason``, ``explanation`` and
            ``components``.

        Raises:
            InputError: as in `score_table`; or a filter needs all replicates of a sample.
        """
        if any(item.per_sample for item in self.filters):
            raise InputError(f"metric {self.metric_id}: a filter over replicates cannot work on a single row.")
        out = ScoreRows(self.value_keys, self.renamed, self.aggregations.scales)
        (full,) = self._with_defaults([[arg] for arg in args]) or [()]
        if status in UNANSWERED:
            self._add_all(out, 0, _unanswered(status))
        elif (gap := self._first_missing_field(full)) is not None:
            path = self.field_paths[gap]
            self._add_all(out, 0, self._missing(path, name, path.input.missing, full))
        else:
            self._score(out, 0, full, {})
        return out.records()

    def _with_defaults(self, columns: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """The arguments of each row, with the defaults of fields that may be missing."""
        full = [
            column if item.required else [item.default if value is None else value for value in column]
            for column, item in zip(columns, self.definition.fields, strict=True)
        ]
        return list(zip(*full, strict=True))

    def _first_missing_field(self, args: Sequence[Any]) -> int | None:
        """The first required field that is missing."""
        fields = self.definition.fields
        return next((index for index, arg in enumerate(args) if arg is None and fields[index].required), None)

    def aggregate(self, score_tables: Iterable[pa.Table], response_counts: Mapping[str, int]) -> list[dict[str, Any]]:
        """Rows of `tables.METRICS` without ``scores`` (`aggregate.aggregate`).

        Args:
            score_tables: of `score_table`, labelled by ``grouping.label`` where it has fields.
            response_counts: rows of the responses by status.
        """
        return aggregate(
            score_tables,
            metric_id=self.metric_id,
            implementation=self.implementation,
            value_keys=self.value_keys,
            filters=[pipeline.name for pipeline in self.filters],
            how=self.aggregations,
            response_counts=response_counts,
            grouping=self.grouping,
        )

    def _score(self, out: ScoreRows, row: int, args: Sequence[Any], kept: FilterResults) -> None:
        for pipeline in self.filters:
            extracted: str | None = None
            try:
                if pipeline.steps:
                    position = self.definition.filtered_field
                    assert position is not None
                    if pipeline.per_sample:
                        if row not in kept[pipeline.name]:
                            continue
                        outcome = kept[pipeline.name][row]
                        if isinstance(outcome, Exception):
                            raise outcome
                        extracted = outcome
                    elif args[position] is not None:
                        extracted = pipeline.apply(args[position])
                    if extracted is None:
                        out.add(
                            row, pipeline.name, self._unparsed_score(args, "the filter found nothing", "no_match"), None
                        )
                        continue
                    result = self.function(*args[:position], extracted, *args[position + 1 :], **self.params)
                else:
                    result = self.function(*args, **self.params)
            except InputError:
                raise
            except Exception as error:  # noqa: BLE001  # a row that breaks a plug-in must not end the run
                result = self._broken(error)
            if self._of_judge and isinstance(result, Score) and result.status == "unparsed":
                result = _no_verdict(result.explanation)
            if isinstance(result, float | int):
                out.add_number(row, pipeline.name, result, extracted)
            else:
                out.add(row, pipeline.name, _as_score(result), extracted)

    def _kept(self, responses: pa.Table, statuses: Sequence[str], columns: Sequence[Sequence[Any]]) -> FilterResults:
        """The results of filters over replicates, by pipeline and position; only answered replicates take part."""
        position = self.definition.filtered_field
        assert position is not None
        rows: dict[int, list[int]] = {}
        for row, row_index in enumerate(responses.column("row_index").to_pylist()):
            if statuses[row] not in UNANSWERED and columns[position][row] is not None:
                rows.setdefault(row_index, []).append(row)
        kept: FilterResults = {}
        for pipeline in self.filters:
            if pipeline.per_sample:
                kept[pipeline.name] = {}
                for replicates in rows.values():
                    filtered = pipeline.of_sample([columns[position][row] for row in replicates])
                    kept[pipeline.name].update((replicates[at], text) for at, text in filtered.items())
        return kept

    def _add_all(self, out: ScoreRows, row: int, score: Score) -> None:
        for pipeline in self.filters:
            out.add(row, pipeline.name, score, None)

    def _unparsed_score(self, args: Sequence[Any], explanation: str, reason: Reason | None = None) -> Score:
        """The score of an answer from which nothing could be read.

        A corpus number is made of counts, so the answer adds those of an empty text; and the values of further keys
        are then its. Without them the row would not count, and the number would be better than with a wrong answer.
        """
        if self._of_judge:
            return _no_verdict(explanation)
        position = self.definition.filtered_field
        if position is not None and self._scores_empty_text:
            full = [*args[:position], "", *args[position + 1 :]]
            empty = self.function(*full, **self.params) if self._first_missing_field(full) is None else None
            if isinstance(empty, Score) and empty.status != "unscored":
                value = empty.value if isinstance(empty.value, Mapping) else {self.value_keys[0]: empty.value}
                return Score(value, "unparsed", None, reason, explanation, components=empty.components)
        return Score.unparsed(explanation, reason=reason)

    def _missing(self, path: Path, sample_id: str, reason: Reason, args: Sequence[Any]) -> Score:
        if reads_parsed(path):
            # The model caused this, not the data.
            return self._unparsed_score(args, f"the answer has no {path.parts[1]}")
        if self.on_missing_field == "error":
            raise InputError(
                f"metric {self.metric_id}: sample '{sample_id}' has no {path.text}. Point the metric at "
                "another field, or set on_missing_field: warn to leave such rows unscored."
            )
        if self.on_missing_field == "warn":
            self.warn(path.text, f"sample '{sample_id}' has no {path.text}; rows without it {self._consequence()}")
        if self.default is not None:
            return Score(self.default, reason=reason, explanation=f"{path.text} is missing; default")
        return Score.unscored(f"{path.text} is missing", reason=reason)

    def _consequence(self) -> str:
        return "are unscored" if self.default is None else f"get the default {self.default}"

    def _broken(self, error: Exception) -> Score:
        if isinstance(error, RowFailed):
            explanation = str(error).rstrip(".")[:_LONGEST_REASON]
            self.warn(type(error.__cause__).__name__, f"{explanation}; such rows are unscored")
        else:
            explanation = f"{type(error).__name__}: {said_by(error)}"[:_LONGEST_REASON]
            self.warn(type(error).__name__, f"raised {explanation}; such rows are unscored")
        return Score.unscored(explanation, reason="metric_failed")

    def warn(self, about: str, text: str) -> None:
        """Log a warning, once per subject."""
        if about not in self.warned:
            self.warned[about] = text
            log.warning("metric %s: %s", self.metric_id, text)


def bind(
    implementation: str,
    params: Mapping[str, JsonValue] | None = None,
    *,
    metric_id: str | None = None,
    aggregation: str | Sequence[str] | None = None,
    filters: Sequence[JsonValue] | None = None,
    on_missing_field: OnMissing = "warn",
    references: References = "any",
    value_key: str | None = None,
    cluster_field: str | None = None,
    weight_field: str | None = None,
    slices: Sequence[str] = (),
    normalization: NormalizationConfig | None = None,
    parse_schema: ParseSchema | None = None,
) -> BoundMetric:
    """Bind a metric, ready to score.

    Args:
        implementation: registered name, ``pkg.mod:function`` or ``file.py:function``.
        params: the metric's own parameters; paths of its fields (``prediction_field``, ``label_field``, …);
            ``default``, the value of a row whose field is missing; and ``preset``, a set of parameters by its name.
        metric_id: the name of the result; by default that of the implementation.
        aggregation: one or several instead of the metric's own.
        filters: pipelines, each a filter's name, ``{filter: params}``, or ``{name: …, steps: [filters]}``.
        on_missing_field: ``ignore`` and ``warn`` leave rows without a field unscored, ``error`` refuses them.
        references: ``any``: a sample's references are alternatives, and the best counts; ``all``: all are needed.
        value_key: another name for the number, for metrics that give one.
        cluster_field: field of the sample that groups dependent samples; it widens the interval.
        weight_field: field of the sample with its weight in ``weighted_mean``, which is then the default.
        slices: further fields; each number is also computed for each of their values.
        normalization: applied before the comparison of metrics that allow it. ``case_sensitive: true`` keeps the case.
        parse_schema: the fields of ``model_output.parsed``; one may also be written as ``prediction_field: name``.

    Raises:
        InputError: a metric, parameter, filter or aggregation is unknown, or a value does not fit.
    """
    # All arguments, so that another process can bind the same metric.
    recipe = dict(locals())
    definition = define(registry.metrics.get(implementation))
    definition.plugin.libraries()
    check_references(definition, references)
    settings = definition.with_preset(params or {})
    default = settings.pop("default", None)
    if default is not None and not _is_number(default):
        raise InputError(f"{definition.plugin.name}: parameter 'default' is {default!r}: it must be a finite number.")
    field_paths = _field_paths(definition, settings, parse_schema)
    pipelines = read_pipelines(filters or [])
    if any(pipeline.steps for pipeline in pipelines) and definition.filtered_field is None:
        raise InputError(f"{definition.plugin.name} reads no text of the model, so it takes no filters.")
    values = definition.signature.validate(settings)
    keys = definition.keys(values)
    renamed: dict[str, str] = {}
    if value_key is not None:
        if len(keys) != 1:
            raise InputError(f"{definition.plugin.name} gives {', '.join(keys)}: value_key cannot rename several.")
        renamed = dict.fromkeys(keys.values(), value_key)
        keys = dict.fromkeys(keys, value_key)
    name = metric_id or definition.plugin.name
    by = grouping(name, cluster_field=cluster_field, weight_field=weight_field, slices=slices)
    aggregations = _aggregations(definition, aggregation, keys, renamed, by, values)
    check_nothing_left_out(definition, aggregations, pipelines, field_paths)
    return BoundMetric(
        metric_id=name,
        definition=definition,
        params=values,
        field_paths=field_paths,
        filters=pipelines,
        aggregations=aggregations,
        value_keys=tuple(keys.values()),
        renamed=renamed,
        grouping=by,
        on_missing_field=on_missing_field,
        references=references,
        default=None if default is None else float(default),
        normalization=_normalization(definition, normalization, values),
        schema=parse_schema,
        recipe=recipe,
    )


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _normalization(
    definition: Definition, normalization: NormalizationConfig | None, params: Mapping[str, Any]
) -> NormalizationConfig | None:
    if normalization is None or not definition.plugin.info.get("normalized"):
        return None
    if params.get("case_sensitive") is not True:
        return normalization
    return NormalizationConfig.model_validate({**normalization.model_dump(), "lowercase": False})


def _normalised(value: Any, kind: str, how: NormalizationConfig) -> Any:
    if kind == "value" or value is None:
        return value
    return [how.apply(item) for item in value] if kind == "texts" else how.apply(value)


def _aggregations(
    definition: Definition,
    chosen: str | Sequence[str] | None,
    keys: Mapping[str, str],
    renamed: Mapping[str, str],
    by: Grouping,
    params: Mapping[str, Any],
) -> Aggregations:
    """The aggregations of the config, else those that the metric declares."""
    own = definition.aggregate
    component_keys = {shown: key for key, shown in renamed.items()}
    by_key: Mapping[str, str] = {}
    if chosen is None:
        chosen, by_key = ("mean", own) if isinstance(own, Mapping) else (own, {})
        by_key = {keys[key]: name for key, name in by_key.items() if key in keys}
        if by.weight is not None and chosen == "mean" and not by_key:
            chosen = "weighted_mean"
    return read_aggregations(
        [chosen] if isinstance(chosen, str) else chosen,
        by_key,
        by,
        component_keys=component_keys,
        scales={shown: definition.scale(key) for key, shown in keys.items()},
        others=next(map(definition.scale, definition.further_keys), DEFAULT),
        params={name: plain(value) for name, value in params.items()},
    )


def _field_paths(
    definition: Definition, settings: dict[str, JsonValue], schema: ParseSchema | None
) -> tuple[Path, ...]:
    """The path of each field. Removes the parameters that set paths from ``settings``."""
    name = definition.plugin.name
    chosen = {item.name: item.path for item in definition.fields}
    set_by: dict[str, str] = {}
    for spelling, field_name in definition.path_parameters.items():
        if spelling not in settings:
            continue
        path = settings.pop(spelling)
        if not isinstance(path, str):
            raise InputError(f"{name}: parameter '{spelling}' is {path!r}: it must be a path, written as text.")
        if field_name in set_by:
            raise InputError(f"{name}: '{set_by[field_name]}' and '{spelling}' set the same field. Keep one.")
        set_by[field_name] = spelling
        of_answer = schema is not None and path in schema.names and field_name in ("prediction", "text")
        chosen[field_name] = f"model_output.parsed.{path}" if of_answer else path
    compiled = tuple(compile_path(path) for path in chosen.values())
    for path in compiled:
        check_path(path, name, () if schema is None else schema.names)
    return compiled


def _no_verdict(explanation: str | None) -> Score:
    return Score.unscored(f"the judge gave no verdict: {explanation}", reason="no_verdict")


def _unanswered(status: str, error_kind: str | None = None) -> Score:
    kind = f" ({error_kind})" if error_kind else ""
    what = "the request failed" if status == "error" else "the request was skipped"
    if error_kind == NO_RECORD:
        what = "the sample has no recorded answer"
    return Score.unscored(f"{what}{kind}", reason="unanswered")


def _as_score(result: Any) -> Score:
    if isinstance(result, Score):
        return result
    if isinstance(result, Mapping):
        return Score(result)
    text = f"the metric returned a {type(result).__name__}, not a number or a Score"
    return Score.unscored(text, reason="metric_failed")
