"""What report.html shows besides the summary, read from the run: few samples, a few small columns of all answers."""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import chain, islice
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
from gage_eval.runs.results.sent_requests import ShownCalls, answers_of_part
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
_NO_ANSWERS = pa.schema(
    [
        *((name, pa.int64()) for name in ("part", "row_index", "replicate", "completion_tokens")),
        *((name, pa.string()) for name in ("status", "error_kind", "score_status")),
        ("value", pa.float64()),
    ]
)


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
    answers = _answers(task, measure)
    lengths, unit = _lengths(task, answers)
    values = answers["value"].to_numpy(zero_copy_only=False).astype(np.float64)
    scored = _mask(pc.is_in(answers["score_status"], pa.array(["scored", "unparsed"])))
    by_kind = _by_kind(answers, measure)
    counts = {kind: len(places) for kind, places in by_kind.items()}
    cards, sampling = _cards(task, answers, _shown(answers, by_kind, values, measure), measure)
    return TaskDetails(
        measure=None if measure is None else measure.name,
        answers=answers.num_rows,
        complete=len(task.parts) <= _MOST_PARTS,
        kinds=tuple(KindOfAnswer(kind, counts[kind], tuple(cards.get(kind, ()))) for kind in KINDS if kind in counts),
        distribution=distribution(values[scored], measure.scale) if measure is not None else (),
        lengths=length_bins(lengths, np.where(scored, values, np.nan)),
        length_unit=unit,
        reasons=_reasons(task, answers, measure, is_scored="unparsed" not in counts and "unscored" not in counts),
        sampling=sampling,
    )


def _answers(task: TaskReader, measure: Measure | None) -> pa.Table:
    """The small columns of the answers, with their parts."""
    tables = [
        table.append_column("part", pa.repeat(pa.scalar(part, pa.int64()), table.num_rows))
        for part in islice(task.parts, _MOST_PARTS)
        for table in [task.answers(part, measure).drop_columns("sample_id")]
    ]
    return pa.concat_tables(tables) if tables else _NO_ANSWERS.empty_table()


def _lengths(task: TaskReader, answers: pa.Table) -> tuple[_Array, str]:
    """The length of each answer, NaN where unknown, and the unit: tokens, or characters where no tokens are known."""
    tokens = answers["completion_tokens"]
    if tokens.null_count < len(tokens):
        return np.asarray(tokens.to_numpy(zero_copy_only=False), dtype=np.float64), "tokens"
    texts = [read_part(task.responses, part, ("answer",))["answer"] for part in task.parts[:_MOST_TEXT_PARTS]]
    known = [np.asarray(pc.utf8_length(text).to_numpy(zero_copy_only=False), dtype=np.float64) for text in texts]
    rest = np.full(len(tokens) - sum(map(len, known)), np.nan)
    return np.concatenate([*known, rest]), "characters"


def _by_kind(answers: pa.Table, measure: Measure | None) -> dict[Kind, _Array]:
    """The places of the answers of each kind; an answer of several kinds counts under the first."""
    kinds = answer_kinds(answers, measure)
    places = {kind: np.flatnonzero(_mask(pc.equal(kinds, kind))) for kind in pc.unique(kinds).to_pylist()}
    # Where nothing is right or wrong, both ends are shown.
    if measure is not None and "scored" in places:
        places |= {"lowest": places["scored"], "highest": places["scored"]}
    return {kind: places[kind] for kind in KINDS if kind in places}


def _shown(
    answers: pa.Table, by_kind: Mapping[Kind, _Array], values: _Array, measure: Measure | None
) -> dict[Kind, _Array]:
    """The places of the answers of each kind that are shown: those of the first parts, the most telling first."""
    sign = -1.0 if measure is not None and measure.scale.higher_is_better is False else 1.0
    rank: dict[Kind, float] = {"wrong": sign, "lowest": sign, "right": -sign, "highest": -sign}
    parts = answers["part"].to_numpy()
    shown = {}
    for kind, places in by_kind.items():
        if kind in rank:
            places = places[np.lexsort((rank[kind] * values[places], parts[places]))]
        shown[kind] = places[:CARDS]
    return shown


def _mask(column: pa.ChunkedArray) -> _Array:
    return np.asarray(pc.fill_null(column, fill_value=False).to_numpy(zero_copy_only=False), dtype=bool)


# --- samples


def _cards(
    task: TaskReader, answers: pa.Table, shown: Mapping[Kind, _Array], measure: Measure | None
) -> tuple[dict[Kind, list[SampleView]], dict[str, Any]]:
    """The cards of each kind, and the sampling parameters of one of their requests."""
    own = {kind: answers.take(pa.array(places)).to_pylist() for kind, places in shown.items()}
    wanted: dict[int, set[int]] = {}
    for answer in chain.from_iterable(own.values()):
        wanted.setdefault(answer["part"], set()).add(answer["row_index"])
    views: dict[tuple[int, int], SampleView] = {}
    sampling: dict[str, Any] = {}
    for part, indexes in wanted.items():
        for row, replicate, request, _, _ in answers_of_part(task, part, sorted(indexes)):
            sampling = sampling or {name: value for name, value in request.items() if name not in _PROMPT_KEYS}
            calls = [ModelCall("infer", "", replicate, request, None, None, None)] if request else []
            view = sample_view(task, row, replicate, measure, "", ShownCalls(calls, ""))
            if view is not None:
                views[row.row_index, replicate] = _with_media(view, task.store).trimmed()
    cards = {
        kind: [
            replace(view, kind=kind)
            for answer in kept
            if (view := views.get((answer["row_index"], answer["replicate"]))) is not None
        ]
        for kind, kept in own.items()
    }
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


def _reasons(task: TaskReader, answers: pa.Table, measure: Measure | None, *, is_scored: bool) -> tuple[Reason, ...]:
    """Why rows failed: errors of requests, unscored rows by reason, rejected rows by reason."""
    failures = [Reason("request", kind, count) for kind, count in _most([answers["error_kind"]])]
    if measure is not None and not is_scored:
        parts = (
            read_part(task.scores[measure.metric_id], part, ("filter", "reason"))
            for part in islice(task.parts, _MOST_PARTS)
        )
        reasons = (measure.of_filter(scores)["reason"] for scores in parts)
        # The errors of the requests say who is unanswered.
        told = (reason.filter(pc.not_equal(reason, "unanswered")) for reason in reasons)
        failures += [Reason(measure.name, reason.replace("_", " "), count) for reason, count in _most(told)]
    for output in ("rejects", "prepare_rejects"):
        rejects = task.artifact(output)
        rejected = _most(table["reason"] for table in (rejects.tables(columns=["reason"]) if rejects.rows else ()))
        failures += [Reason(f"rejected in {writer_of(output)}", reason, count) for reason, count in rejected]
    return tuple(failures)


def _most(columns: Iterable[pa.ChunkedArray]) -> list[tuple[str, int]]:
    """The texts that some columns hold most often, each with its count."""
    counts: Counter[str] = Counter()
    for column in columns:
        for entry in pc.value_counts(column.drop_null()).to_pylist():
            name = entry["values"][:600]
            # The texts of reasons may differ in every row.
            if name in counts or len(counts) < 1000:
                counts[name] += entry["counts"]
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_REASONS]
