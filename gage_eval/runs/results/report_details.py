"""What report.html shows besides the summary, read from the run: few samples, a few small columns of all answers."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.errors import InputError, StoreError
from gage_eval.base.stages import writer_of
from gage_eval.data.prepare.images import preview
from gage_eval.data.prepare.recordings import waveform
from gage_eval.data.sample.record import RecordRejected
from gage_eval.models.client.http import data_url
from gage_eval.report.details import Bin, Comparison, KindOfAnswer, Reason, RunDetails, TaskDetails
from gage_eval.report.html import report_html
from gage_eval.report.messages import Part
from gage_eval.report.sample_view import KINDS, Kind, SampleView
from gage_eval.runs.record import RunRecord
from gage_eval.runs.results.calls import ModelCall
from gage_eval.runs.results.outcomes import Measure, answer_kinds
from gage_eval.runs.results.reading import RunReader, TaskReader
from gage_eval.runs.results.rows import read_part
from gage_eval.runs.results.sample_view import sample_view
from gage_eval.runs.results.sent_requests import ShownCalls
from gage_eval.scoring.metrics.scale import Scale
from gage_eval.store import Store
from gage_eval.store.media import media_url
from gage_eval.store.media_types import media_type

CARDS = 10
"""Samples of each kind."""

# A million rows; of larger tasks, the report shows the first ones.
_MOST_PARTS = 256
# Answers are read whole only to count their characters, where no tokens are known.
_MOST_TEXT_PARTS = 8
_MOST_REASONS = 12
_BINS = 10
_RIGHT_OR_WRONG = 2
# From one whole number to another: ratings of 1 to 10 have one bar each, and an axis without gaps.
_MOST_RATINGS = _BINS - 1
# Pictures of more bytes are shown as smaller copies, of so many pixels; longer recordings are not in the page.
_PICTURE_BYTES, _PREVIEW_PIXELS, _RECORDING_BYTES = 20_000, 320, 300_000
_MOST_BEFORE = 2
_PROMPT_KEYS = frozenset({"messages", "prompt", "model", "tools", "choices"})

_Array = np.ndarray[Any, np.dtype[Any]]


def run_details(
    record: RunRecord,
    tasks: Iterable[TaskReader],
    *,
    began: datetime | None = None,
    comparison: Comparison | None = None,
) -> RunDetails:
    """What the report shows of a run besides its summary.

    Args:
        record: of the run.
        tasks: its scored tasks.
        began: when it began, in UTC.
        comparison: with a baseline.
    """
    stages = record.by_stage.items()
    return RunDetails(
        began=began,
        commit=record.commit or "",
        config_source=record.config.source,
        config_digest=record.config.digest,
        config_text=record.config.text,
        options={name: value for name, value in record.options.items() if value not in (None, False, [], {})},
        packages=record.packages,
        probes=tuple(probe.text for probe in record.probes),
        digests=tuple((task_id, stage, record.key) for (task_id, stage), record in stages if record.key),
        tasks={task.task_id: task_details(task) for task in tasks},
        comparison=comparison,
    )


def stored_report(run: RunReader, comparison: Comparison | None = None, *, home: str = "") -> str:
    """report.html of a stored run, with a comparison. Arguments as in `gage_eval.report.html.report_html`.

    Raises:
        InputError: the run has not finished.
    """
    record = run.stored.record
    details = run_details(record, run.tasks(), began=record.created, comparison=comparison)
    return report_html(run.summary, details, home=home)


def task_details(task: TaskReader) -> TaskDetails:
    """Samples of each kind, distributions and reasons of a task.

    Small columns of all answers are read, at most a million rows. Samples are from the first parts that have ten of
    their kind.
    """
    measure = task.measures[0] if task.measures else None
    scan = _Scan(task, measure)
    for part in islice(task.parts, _MOST_PARTS):
        scan.read(part)
    values, scored, lengths = scan.columns()
    cards, sampling = _cards(task, scan, measure)
    return TaskDetails(
        measure=None if measure is None else measure.name,
        answers=scan.answers,
        complete=len(task.parts) <= _MOST_PARTS,
        kinds=tuple(KindOfAnswer(kind, scan.counts[kind], tuple(cards.get(kind, ()))) for kind in scan.kinds),
        distribution=distribution(values[scored], measure.scale) if measure is not None else (),
        lengths=length_bins(lengths, np.where(scored, values, np.nan)),
        length_unit="characters" if scan.counts_characters else "tokens",
        reasons=_reasons(task, scan, measure),
        sampling=sampling,
    )


@dataclass
class _Shortlist:
    """The answers of a kind to show: (rank, part, row index, replicate); the lowest rank is shown first."""

    answers: list[tuple[float, int, int, int]] = field(default_factory=list)

    def add(self, part: int, ranks: _Array, table: pa.Table) -> None:
        if len(self.answers) >= CARDS:
            return
        rows, replicates = table["row_index"].to_numpy(), table["replicate"].to_numpy()
        for place in np.argsort(ranks, kind="stable")[: CARDS - len(self.answers)].tolist():
            self.answers.append((float(ranks[place]), part, int(rows[place]), int(replicates[place])))


class _Scan:
    """One pass over the small columns of a task's answers."""

    def __init__(self, task: TaskReader, measure: Measure | None) -> None:
        self._task, self._measure = task, measure
        self._judges = True
        self._tables: list[tuple[_Array, _Array, _Array]] = []
        self._texts_read = 0
        self.counts_characters = False
        self.answers = 0
        self.counts: dict[Kind, int] = {}
        self.kept: dict[Kind, _Shortlist] = {}
        self.errors: dict[str, int] = {}

    @property
    def kinds(self) -> list[Kind]:
        """The kinds that occur, in the order of the report."""
        return [kind for kind in KINDS if self.counts.get(kind)]

    def read(self, part: int) -> None:
        """Look at the answers of a part."""
        table = self._task.answers(part, self._measure)
        self.answers += table.num_rows
        values = table["value"].to_numpy(zero_copy_only=False).astype(np.float64)
        status = table["score_status"]
        scored = pc.fill_null(pc.is_in(status, pa.array(["scored", "unparsed"])), fill_value=False)
        self._tables.append((values, _mask(scored), self._length(part, table)))
        _count(self.errors, table["error_kind"])
        self._sort(part, table, values)

    def columns(self) -> tuple[_Array, _Array, _Array]:
        """Values, which of them count, and lengths (nan where unknown)."""
        if not self._tables:
            return np.empty(0), np.empty(0, dtype=bool), np.empty(0)
        values, scored, lengths = (np.concatenate(columns) for columns in zip(*self._tables, strict=True))
        return values, scored, lengths

    def _length(self, part: int, table: pa.Table) -> _Array:
        tokens = table["completion_tokens"]
        if tokens.null_count < table.num_rows and not self.counts_characters:
            return np.asarray(tokens.to_numpy(zero_copy_only=False), dtype=np.float64)
        if self._texts_read >= _MOST_TEXT_PARTS or (self._tables and not self.counts_characters):
            return np.full(table.num_rows, np.nan)
        self.counts_characters = True
        self._texts_read += 1
        answers = read_part(self._task.responses, part, ("answer",))["answer"]
        return np.asarray(pc.utf8_length(answers).to_numpy(zero_copy_only=False), dtype=np.float64)

    def _sort(self, part: int, table: pa.Table, values: _Array) -> None:
        """Give each answer its kind; an answer of several kinds counts under the first."""
        kinds = answer_kinds(table, self._measure, judged=self._judges)
        sign = -1.0 if self._measure is not None and self._measure.scale.higher_is_better is False else 1.0
        ranks = {"wrong": sign * values, "right": -sign * values}
        for kind in pc.unique(kinds).to_pylist():
            mask = _mask(pc.equal(kinds, kind))
            if kind in KINDS:
                self._take(kind, part, table, mask, ranks.get(kind, np.zeros(table.num_rows)))
            elif kind == "scored" and self._measure is not None:
                self._judges = False
                self._take("lowest", part, table, mask, ranks["wrong"])
                self._take("highest", part, table, mask, ranks["right"])

    def _take(self, kind: Kind, part: int, table: pa.Table, mask: _Array, ranks: _Array) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + int(mask.sum())
        self.kept.setdefault(kind, _Shortlist()).add(part, ranks[mask], table.filter(pa.array(mask)))


def _mask(column: pa.ChunkedArray) -> _Array:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=bool)


# --- samples


def _cards(
    task: TaskReader, scan: _Scan, measure: Measure | None
) -> tuple[dict[Kind, list[SampleView]], dict[str, Any]]:
    """The cards of each kind, and the sampling parameters of one of their requests."""
    wanted: dict[int, set[int]] = {}
    for kept in scan.kept.values():
        for _, part, row_index, _ in kept.answers:
            wanted.setdefault(part, set()).add(row_index)
    views: dict[tuple[int, int], SampleView] = {}
    sampling: dict[str, Any] = {}
    for part, indexes in wanted.items():
        rows = list(task.rows_of_part(part, sorted(indexes)))
        bodies = _bodies(task, part, {row.row_index: row.sample_id for row in rows})
        for body in bodies.values():
            sampling = sampling or {name: value for name, value in body.items() if name not in _PROMPT_KEYS}
            break
        for row in rows:
            for replicate in [response["replicate"] for response in row.responses]:
                sent = bodies.get((row.sample_id, replicate))
                calls = [] if sent is None else [ModelCall("infer", "", replicate, sent, None, None, None)]
                view = sample_view(task, row, replicate, measure, "", ShownCalls(calls, ""))
                if view is not None:
                    views[row.row_index, replicate] = _with_media(view, task.store).trimmed()
    cards: dict[Kind, list[SampleView]] = {}
    for kind, kept in scan.kept.items():
        for _, _, row_index, replicate in kept.answers:
            if (view := views.get((row_index, replicate))) is not None:
                cards.setdefault(kind, []).append(replace(view, kind=kind))
    return cards, sampling


def _with_media(view: SampleView, store: Store) -> SampleView:
    """The view with the bytes of what the model made, and of the pictures that it was made from."""
    if view.made is None:
        return view
    pictures = [part for message in view.messages for part in message.parts if part.kind == "image"]
    before = tuple(_inlined(part, store) for part in pictures[:_MOST_BEFORE])
    return replace(view, made=_inlined(view.made, store), before=before)


def _inlined(part: Part, store: Store) -> Part:
    """A stored medium as a data URL; a link where it is too large, gone or not of its kind."""
    try:
        data = store.media.get(media_url(part.text.rpartition("/")[2]))
        if part.kind == "image" and len(data) > _PICTURE_BYTES:
            data = preview(data, _PREVIEW_PIXELS)
    except (StoreError, InputError):
        return Part("link", "")
    kind = media_type(data)
    if len(data) > _RECORDING_BYTES or not kind.startswith(f"{part.kind}/"):
        return Part("link", "")
    shape = ""
    if part.kind == "audio":
        with suppress(RecordRejected):
            shape = data_url(waveform(data), "image/svg+xml")
    return Part(part.kind, data_url(data, kind), shape)


def _bodies(task: TaskReader, part: int, samples: Mapping[int, str]) -> Mapping[tuple[str, int], dict[str, Any]]:
    try:
        return task.requests(part, samples)
    except InputError:  # the config names something that is gone: the samples' messages are shown
        return {}


# --- charts and reasons


def distribution(values: _Array, scale: Scale) -> tuple[Bin, ...]:
    """How many answers have which score; for ratings one bar for each number between them.

    Empty for one or two scores, such as 0 and 1: their distribution says no more than the mean.
    """
    values = values[np.isfinite(values)]
    different = np.unique(values[:100_000])
    if len(different) <= _RIGHT_OR_WRONG and np.isin(values, different).all():
        return ()
    if np.equal(np.mod(different, 1), 0).all() and different[-1] - different[0] <= _MOST_RATINGS:
        different = np.arange(different[0], different[-1] + 1)
    if len(different) <= _BINS and np.isin(values, different).all():
        return tuple(Bin(f"{value:.3g}", int((values == value).sum())) for value in different.tolist())
    low = float(values.min()) if scale.low is None else min(scale.low, float(values.min()))
    high = float(values.max()) if scale.high is None else max(scale.high, float(values.max()))
    counts, edges = np.histogram(values, bins=_BINS, range=(low, high))
    return tuple(Bin(f"{edge:.3g}", int(count)) for edge, count in zip(edges.tolist(), counts.tolist(), strict=False))


def length_bins(lengths: _Array, values: _Array) -> tuple[Bin, ...]:
    """Answers in up to eight groups by length, with the mean score of each; empty where all are of one length."""
    known = np.isfinite(lengths)
    lengths, values = lengths[known], values[known]
    if not len(lengths):
        return ()
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, 9), method="lower"))
    places = np.searchsorted(edges, lengths, side="right") - 1
    places = np.minimum(places, max(len(edges) - 2, 0))
    bins = []
    for place in np.unique(places).tolist():
        mine = places == place
        counted = values[mine][np.isfinite(values[mine])]
        mean = float(counted.mean()) if len(counted) else None
        bins.append(Bin(f"≥{edges[place]:,.0f}", int(mine.sum()), mean))
    return tuple(bins) if len(bins) > 1 else ()


def _reasons(task: TaskReader, scan: _Scan, measure: Measure | None) -> tuple[Reason, ...]:
    """Why rows failed: errors of requests, unscored rows by reason, rejected rows by reason."""
    failures = [Reason("request", kind, count) for kind, count in _most(scan.errors)]
    if measure is not None and (scan.counts.get("unparsed") or scan.counts.get("unscored")):
        reasons: dict[str, int] = {}
        for part in islice(task.parts, _MOST_PARTS):
            scores = read_part(task.scores[measure.metric_id], part, ("filter", "reason"))
            _count(reasons, measure.of_filter(scores)["reason"])
        reasons.pop("unanswered", None)  # The errors of the requests say it.
        failures += [Reason(measure.name, reason.replace("_", " "), count) for reason, count in _most(reasons)]
    for output in ("rejects", "prepare_rejects"):
        rejected: dict[str, int] = {}
        rejects = task.artifact(output)
        for table in rejects.tables(columns=["reason"]) if rejects.rows else ():
            _count(rejected, table["reason"])
        failures += [Reason(f"rejected in {writer_of(output)}", reason, count) for reason, count in _most(rejected)]
    return tuple(failures)


def _count(counts: dict[str, int], column: pa.ChunkedArray) -> None:
    for entry in pc.value_counts(column.drop_null()).to_pylist():
        name = entry["values"][:600]
        # The texts of reasons may differ in every row.
        if name in counts or len(counts) < 1000:
            counts[name] = counts.get(name, 0) + entry["counts"]


def _most(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_REASONS]
