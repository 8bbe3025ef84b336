"""The one reader of stored runs: samples, requests as sent, responses, judgments and scores, joined row by row.

    reader = RunReader.open(locations, "calm-heron")
    for row in reader.task("gsm8k").rows(start=5_000, limit=50):
        row.sample, row.responses, row.scores

`gage show`, `gage export` and the Python API read runs here. One part of a dataset is in memory at a time. Filters read
only the columns they need, and only wanted rows are decoded. Of a running run, all existing data is read: committed
artifacts, and answers in finished chunks and in the write-ahead logs.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import decode
from gage_eval.base.errors import InputError, NotFinished, NotFound, closest
from gage_eval.base.inputs import INPUTS
from gage_eval.base.stages import writer_of
from gage_eval.data.sample.table import rows_of
from gage_eval.pipeline.specs import Plan, ScoreSpec, TaskPlan
from gage_eval.report.metric_names import metric_name
from gage_eval.report.summary import Summary, TaskSummary
from gage_eval.runs.options import Locations
from gage_eval.runs.planned import planned_before
from gage_eval.runs.results.calls import ModelCall, PendingResponses, TaskCalls
from gage_eval.runs.results.cards import Cards
from gage_eval.runs.results.outcomes import Measure, RowFilter, answer_table, measures
from gage_eval.runs.results.rows import (
    PartRows,
    SampleRow,
    Scores,
    by_row,
    of_replicate,
    only_rows,
    read_part,
    score_entry,
)
from gage_eval.runs.results.stored import StoredRun
from gage_eval.scoring.metrics.compared import ComparedValues
from gage_eval.scoring.metrics.overrides import compared_by_samples
from gage_eval.store import Artifact, Store

_LIGHT = ("row_index", "sample_id", "replicate", "status", "error_kind", "completion_tokens")
_EVERYTHING = RowFilter()

_log = logging.getLogger(__name__)


class RunReader:
    """A stored run: its tasks, its numbers, and its rows.

    Attributes:
        stored: the run's folder and record.
        store: where its artifacts are.
    """

    def __init__(self, stored: StoredRun, store: Store) -> None:
        self.stored = stored
        self.store = store
        self._tasks: dict[str, TaskReader] = {}

    @classmethod
    def open(cls, locations: Locations, run_id: str) -> "RunReader":
        """Open a run in these locations.

        Raises:
            InputError: the run does not exist.
        """
        return cls(StoredRun.open(locations, run_id), Store.open(locations.store, read_only=True))

    @property
    def run_id(self) -> str:
        """The run's name."""
        return self.stored.run_id

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The ids of the run's tasks, in the config's order."""
        return tuple(self.stored.record.tasks)

    @property
    def summary(self) -> Summary:
        """The content of summary.json.

        Raises:
            InputError: the run has not finished.
        """
        return self.stored.summary

    def task(self, task_id: str | None = None) -> "TaskReader":
        """A task of the run. The id is optional if there is only one.

        Raises:
            InputError: the task does not exist, or there are several and no id is given.
        """
        known = ", ".join(self.task_ids)
        if task_id is None:
            if len(self.task_ids) != 1:
                raise InputError(f"run {self.run_id} has several tasks; name one of them: {known}.")
            task_id = self.task_ids[0]
        if task_id not in self.task_ids:
            raise NotFound(
                f"run {self.run_id} has no task '{task_id}'. Tasks: {known}.{closest(task_id, self.task_ids)}"
            )
        if task_id not in self._tasks:
            outputs = {stage: ids for (name, stage), ids in self.stored.outputs.items() if name == task_id}
            self._tasks[task_id] = TaskReader(self.store, task_id, outputs, self)
        return self._tasks[task_id]

    @cached_property
    def plan(self) -> Plan:
        """The run's plan, from the config that it stored.

        Raises:
            InputError: the config names something that no longer exists.
        """
        return planned_before(self.stored).plan

    def tasks(self, task_id: str | None = None) -> "list[TaskReader]":
        """All tasks, or the named one.

        Raises:
            InputError: the task does not exist.
        """
        return [self.task(name) for name in (self.task_ids if task_id is None else (task_id,))]


class TaskReader:
    """The rows of one task of a run.

    Args:
        store: where the artifacts are.
        task_id: the task.
        outputs: artifact ids by stage and output, of finished stages.
        run: the run. Without it, only the artifacts in `outputs` can be read.
        plan: the task's plan, for requests as they were sent; by default that of the run.
    """

    def __init__(
        self,
        store: Store,
        task_id: str,
        outputs: Mapping[str, Mapping[str, str]],
        run: RunReader | None = None,
        plan: TaskPlan | None = None,
    ) -> None:
        self.store = store
        self.task_id = task_id
        self._outputs = outputs
        self._run = run
        self._given_plan = plan
        self._opened: dict[str, Artifact] = {}
        self._counts: dict[tuple[RowFilter, int], int] = {}

    # --- tables

    def artifact(self, output: str) -> Artifact:
        """An output of the task, by its name.

        Raises:
            InputError: its stage has not finished.
        """
        artifact = self._artifact(output)
        if artifact is None:
            raise self._missing(INPUTS[output].stage if output in INPUTS else writer_of(output))
        return artifact

    @cached_property
    def samples(self) -> Artifact:
        """The standardized samples (`tables.SAMPLES`).

        Raises:
            InputError: standardize has not finished.
        """
        return self.artifact("samples")

    @cached_property
    def asked(self) -> Artifact:
        """The prepared rows (`tables.PREPARED`) of the samples that are asked.

        Raises:
            InputError: preprocess has not finished.
        """
        return self.artifact("prepared")

    @cached_property
    def responses(self) -> Artifact | PendingResponses:
        """The responses so far (`tables.RESPONSES`).

        Raises:
            InputError: the task has no responses yet.
        """
        committed = self._artifact("responses")
        if committed is not None:
            return committed
        calls = self._calls
        asks_and_source = None if calls is None else next(calls.asks("infer"), None)
        if calls is None or asks_and_source is None:
            raise self._missing("infer")
        return calls.responses("infer", *asks_and_source)

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """The rows of `tables.METRICS`, the headline's first once there is a report; empty before scoring."""
        artifact = self._artifact("metrics")
        rows = [] if artifact is None else artifact.table().to_pylist()
        numbers = [] if self.report is None else self.report.metrics
        key = ("metric_id", "filter", "value_key", "aggregation")
        return sorted(rows, key=lambda row: not numbers or tuple(map(row.get, key)) != numbers[0].key)

    @cached_property
    def scores(self) -> dict[str, Artifact]:
        """The score rows (`tables.SCORES`) by metric id; empty before scoring."""
        return {row["metric_id"]: self.store.artifact(row["scores"]) for row in self.metrics}

    @cached_property
    def summary(self) -> TaskSummary:
        """The task's part of the summary.

        Raises:
            InputError: report has not finished.
        """
        text = self.artifact("report").table()["summary"][0].as_py()
        return TaskSummary.model_validate(decode(text))

    @property
    def model(self) -> str:
        """The name of its model in files for other programs.

        Raises:
            InputError: report has not finished.
        """
        return self.summary.model or "model"

    @property
    def report(self) -> TaskSummary | None:
        """The task's part of the summary; None before the report."""
        return None if self._artifact("report") is None else self.summary

    @cached_property
    def cards(self) -> Cards | None:
        """How score cards of samples are made; None without an answer type, and before the report."""
        card = None if self.report is None else self.report.score_card
        return None if card is None else Cards.of(card, self.metrics)

    @cached_property
    def measures(self) -> list[Measure]:
        """The measures of the task's answers, the primary one first; empty before scoring."""
        return measures(self.metrics, self.cards)

    def measure(self, name: str | None = None) -> Measure:
        """A measure by its name; the primary one by default.

        Raises:
            InputError: there is no measure of this name, or nothing is scored.
        """
        return self._named(self.measures, name)

    def number(self, name: str | None = None) -> Measure:
        """A measure with an aggregation, by the name under which its number is printed; the first one by default.

        Raises:
            InputError: there is no such number, or nothing is scored.
        """
        numbers = [
            replace(measure, name=metric_name(*key, row["aggregation"]), aggregation=row["aggregation"])
            for measure in self.measures
            for key in [(measure.metric_id, measure.filter, measure.value_key)]
            for row in self._rows_of(measure)
        ]
        printed = [measure for measure in numbers if measure.name == name]
        return self._named(printed or numbers, name)

    def number_row(self, number: Measure) -> dict[str, Any]:
        """The row of `tables.METRICS` that holds a number over all rows."""
        return next(row for row in self._rows_of(number) if row["aggregation"] == number.aggregation)

    def _rows_of(self, measure: Measure) -> Iterator[dict[str, Any]]:
        wanted = (measure.metric_id, measure.filter, measure.value_key)
        for row in self.metrics:
            if row["slice_field"] is None and (row["metric_id"], row["filter"], row["value_key"]) == wanted:
                yield row

    def _named(self, known: Sequence[Measure], name: str | None) -> Measure:
        if not known:
            raise self._missing("auto_eval")
        measure = next((candidate for candidate in known if name in (None, candidate.name, candidate.metric_id)), None)
        if measure is None:
            names = [candidate.name for candidate in known]
            raise NotFound(
                f"task '{self.task_id}' has no metric '{name}'. Metrics: {', '.join(names)}."
                f"{closest(name or '', names)}"
            )
        return measure

    def response_table(self) -> pa.Table:
        """All responses so far in one table.

        Raises:
            InputError: the task has no responses yet.
        """
        return pa.concat_tables([read_part(self.responses, part) for part in self.parts])

    # --- rows

    @property
    def has_rows(self) -> bool:
        """Whether the task has rows to read already."""
        return self._artifact("prepared") is not None

    @property
    def parts(self) -> tuple[int, ...]:
        """Indexes of the parts of the dataset."""
        return tuple(part.index for part in self.asked.parts)

    def rows(self, where: RowFilter = _EVERYTHING, *, start: int = 0, limit: int | None = None) -> Iterator[SampleRow]:
        """The asked samples in row order, each with all its stored data.

        Args:
            where: the filter.
            start: number of matching samples to skip. Whole parts are skipped without reading them, by their counts.
            limit: at most this many.

        Raises:
            InputError: preprocess has not finished, or the filter needs scores that do not exist.
        """
        left = limit
        for part in self.parts:
            if left == 0:
                return
            if start and start >= self.count(where, part=part):
                start -= self.count(where, part=part)
                continue
            wanted = self._selected(part, where)[start : None if left is None else start + left]
            start = 0
            if wanted:
                yield from self.rows_of_part(part, wanted)
                left = None if left is None else left - len(wanted)

    def row_indexes(self, part: int) -> list[int]:
        """Indexes of the asked rows of a part."""
        return self._selected(part, _EVERYTHING)

    def count(self, where: RowFilter = _EVERYTHING, *, part: int | None = None) -> int:
        """Number of matching samples, in all parts or in one. With a filter, its columns are read once."""
        if part is None:
            return sum(self.count(where, part=index) for index in self.parts)
        if not where.is_given:
            return next(info.rows for info in self.asked.parts if info.index == part)
        if (where, part) not in self._counts:
            self._counts[where, part] = len(self._selected(part, where))
        return self._counts[where, part]

    def find(self, sample_id: str) -> SampleRow | None:
        """The row of a sample; None if it was not asked."""
        return next(self.rows(RowFilter(ids=(sample_id,)), limit=1), None)

    def answers(self, part: int, measure: Measure | None = None) -> pa.Table:
        """One small row per response of a part.

        Args:
            part: index of the part.
            measure: the measure of ``score_status`` and ``value``. Without one, both are null.

        Returns:
            Columns row_index, sample_id, replicate, status, error_kind, completion_tokens, score_status, value.
        """
        responses = read_part(self.responses, part, _LIGHT)
        scores = None
        if measure is not None and measure.metric_id in self.scores:
            columns = ("row_index", "replicate", "filter", "status", "values")
            scores = read_part(self.scores[measure.metric_id], part, columns)
        return answer_table(responses, scores, measure)

    def values(self, measure: Measure) -> pa.Table:
        """Where each answer is, and its score: sample_id, replicate, part, row_index, at, value."""
        tables, at = [], 0
        for part in self.parts:
            table = self.answers(part, measure)
            is_scored = pc.fill_null(pc.not_equal(table["score_status"], "unscored"), fill_value=False)
            value = pc.if_else(is_scored, table["value"], pa.scalar(None, pa.float64()))
            place = pa.array(range(at, at + table.num_rows), pa.int64())
            at += table.num_rows
            table = table.select(["sample_id", "replicate", "row_index"])
            table = table.append_column("part", pa.repeat(pa.scalar(part, pa.int64()), table.num_rows))
            tables.append(table.append_column("at", place).append_column("value", value))
        return pa.concat_tables(tables)

    def part(
        self, index: int, only: Sequence[int] | None = None, *, tables: Collection[str] = ("responses", "scores")
    ) -> PartRows:
        """Rows of one part, decoded.

        Args:
            index: index of the part.
            only: row indexes; by default all samples with responses.
            tables: names of the tables to read: responses, telemetry, judgments, scores, executions; and compared,
                which adds the prediction and the reference to the metadata of the scores.
        """
        responses = self._table("responses", index, only) if "responses" in tables else {}
        wanted = pa.array(sorted(responses) if only is None else only, pa.int64())
        samples = self.samples.read(index, rows=only)
        return PartRows(
            samples.filter(pc.is_in(samples["row_index"], wanted)),
            responses,
            self._table("telemetry", index, only) if "telemetry" in tables else {},
            self._table("judgments", index, only) if "judgments" in tables else {},
            self._scores(index, only, compared="compared" in tables) if "scores" in tables else {},
            self._executions(index, only) if "executions" in tables else {},
        )

    def rows_of_part(self, part: int, wanted: Sequence[int]) -> Iterator[SampleRow]:
        """The asked samples at these row indexes of a part, each with all its stored data."""
        content = self.part(part, wanted, tables=("responses", "telemetry", "judgments", "scores", "executions"))
        for index, sample in zip(content.samples["row_index"].to_pylist(), rows_of(content.samples), strict=True):
            yield SampleRow(
                self.task_id,
                part,
                index,
                sample["id"],
                sample,
                content.responses.get(index, []),
                content.telemetry.get(index, []),
                content.judgments.get(index, []),
                content.scores.get(index, {}),
                content.executions.get(index, []),
            )

    def calls(self, row: SampleRow) -> list[ModelCall]:
        """All requests for a sample as they were sent, with their answers.

        Raises:
            InputError: the run's config names something that no longer exists.
        """
        return [] if self._calls is None else self._calls.of_sample(row.part, row.sample_id, row.row_index)

    def requests(self, part: int, samples: Mapping[int, str]) -> dict[tuple[str, int], dict[str, Any]]:
        """The bodies of the requests to the model under test as they were sent, by sample id and replicate.

        Args:
            part: the part that holds the samples. Only the rows that are needed are read, and once.
            samples: ids of the samples by row index.

        Raises:
            InputError: the run's config names something that no longer exists.
        """
        return {} if self._calls is None else self._calls.bodies("infer", part, samples)

    # --- inside

    def _selected(self, part: int, where: RowFilter) -> list[int]:
        """Indexes of the matching rows of a part."""
        table = self.asked.read(part, columns=["row_index", "sample_id"])
        if where.ids:
            table = table.filter(pc.is_in(table["sample_id"], pa.array(where.ids, pa.string())))
        if where.looks_at_answers and table.num_rows:
            fitting = where.fitting(self.answers(part, where.measure))["row_index"]
            table = table.filter(pc.is_in(table["row_index"], fitting.combine_chunks()))
        rows: list[int] = table["row_index"].to_pylist()
        return rows

    def _table(self, name: str, part: int, only: Sequence[int] | None) -> dict[int, list[dict[str, Any]]]:
        source: Artifact | PendingResponses | None
        if name in ("judgments", "executions", "execution_telemetry"):
            source = self._artifact(name)
        elif not self._has_responses:
            source = None
        elif name == "responses":
            source = self.responses
        elif isinstance(self.responses, PendingResponses):
            return by_row(only_rows(self.responses.telemetry(part), only))
        else:
            source = self._artifact("response_telemetry")
        return {} if source is None else by_row(only_rows(read_part(source, part, rows=only), only))

    def _executions(self, part: int, only: Sequence[int] | None) -> dict[int, list[dict[str, Any]]]:
        """Executions of a part, each with its measurements. Both tables have the same rows."""
        measured = self._table("execution_telemetry", part, only)
        return {
            index: [row | own for row, own in zip(rows, measured[index], strict=True)]
            for index, rows in self._table("executions", part, only).items()
        }

    def tests_of(self, row: SampleRow, replicate: int) -> str:
        """The tests that the program of an answer was run with; empty where the run's config does not say it."""
        spec = self._scoring
        if spec is None or spec.execution is None:
            return ""
        return spec.execution.tests_of(row.sample, of_replicate(row.responses, replicate))

    def _scores(self, part: int, only: Sequence[int] | None, *, compared: bool) -> dict[int, Scores]:
        out: dict[int, Scores] = {}
        for metric_id, artifact in self.scores.items():
            texts = self._compared(metric_id, part) if compared else {}
            for row in only_rows(read_part(artifact, part, rows=only), only).to_pylist():
                entry = score_entry(row, texts.get((row["row_index"], row["replicate"])))
                out.setdefault(row["row_index"], {}).setdefault(metric_id, []).append(entry)
        return out

    def _compared(self, metric_id: str, part: int) -> ComparedValues:
        """What a metric compared in the rows of a part."""
        spec = self._scoring
        metrics = () if spec is None else spec.metrics
        metric = next((candidate for candidate in metrics if candidate.metric_id == metric_id), None)
        if spec is None or metric is None:
            return {}
        sources = {name: self._artifact(name) for name in metric.inputs}
        tables = {name: read_part(source, part) for name, source in sources.items() if source is not None}
        return compared_by_samples(metric, {"samples": self.samples.read(part), **tables}, known=spec.nameable)

    @property
    def plan(self) -> TaskPlan | None:
        """The task's plan; None where only artifacts are known.

        Raises:
            InputError: the run's config names something that no longer exists.
        """
        return self._given_plan or (None if self._run is None else self._run.plan.task(self.task_id))

    @cached_property
    def _scoring(self) -> ScoreSpec | None:
        """How the task was scored; None, with a warning, where its config can no longer be used."""
        try:
            plan = self.plan
        except InputError as error:
            _log.warning("scores of task '%s' come without prediction and reference: %s", self.task_id, error)
            return None
        return None if plan is None else plan.auto_eval

    @cached_property
    def _has_responses(self) -> bool:
        try:
            return self.responses is not None
        except InputError:
            return False

    @cached_property
    def _calls(self) -> TaskCalls | None:
        if "preprocess" not in self._outputs or self.plan is None:
            return None
        if self._run is None:
            return TaskCalls(self.store, self.plan, self._outputs)
        refreshed = self._run.stored.record.options.get("refresh") or ()
        return TaskCalls(self.store, self.plan, self._outputs, run_id=self._run.run_id, refreshed=refreshed)

    def _artifact(self, output: str) -> Artifact | None:
        id_ = next((outputs[output] for outputs in self._outputs.values() if output in outputs), None)
        if id_ is None:
            return None
        if id_ not in self._opened:
            self._opened[id_] = self.store.artifact(id_)
        return self._opened[id_]

    def _missing(self, stage: str) -> NotFinished:
        if self._run is None:
            return NotFinished(f"{stage} of task '{self.task_id}' has not finished.")
        return self._run.stored.unfinished(self.task_id, stage)
