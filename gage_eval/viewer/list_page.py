"""The list of a task's answers, and the page of one answer."""

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gage_eval.base.errors import InputError
from gage_eval.data.sample.table import rows_of
from gage_eval.report.details import ComparedTask
from gage_eval.runs.results.explain import expected_of, question_of
from gage_eval.runs.results.reading import RunReader, TaskReader
from gage_eval.runs.results.rows import SampleRow, of_replicate
from gage_eval.viewer.comparison import compared
from gage_eval.viewer.exporting import exported
from gage_eval.viewer.index import IndexedMeasure
from gage_eval.viewer.listing import (
    COLUMNS,
    RIGHT,
    SIZES,
    ListState,
    measure_of,
    number_in,
    sample_query,
)
from gage_eval.viewer.note_page import NotePages
from gage_eval.viewer.open_runs import OpenRuns, StillIndexing
from gage_eval.viewer.open_task import OpenAnswer, OpenTask
from gage_eval.viewer.overview import flips, kind_counts, mean_of, reasons, usual_rival, worst
from gage_eval.viewer.pages import rendered
from gage_eval.viewer.query import NO_NOTES, Noted, terms, without_term
from gage_eval.viewer.security import Session
from gage_eval.viewer.trajectory import differences, steps_page
from gage_eval.viewer.word_diff import word_diff

# Parts that a page of an index without texts reads.
_MOST_PARTS = 4
_EXCERPT = 160
# Filters of a search line that can be removed one by one: each link repeats the line.
_MOST_CHIPS = 20
# A list does not wait longer for the comparison of its runs; the next page has it.
_CHIP_WAIT_S = 0.3


class ListPage:
    """The pages of answers.

    Args:
        open_runs: the runs.
        notes: what people said.
        session: of this server.
    """

    def __init__(self, open_runs: OpenRuns, notes: NotePages, session: Session) -> None:
        self._open_runs = open_runs
        self._notes = notes
        self._session = session
        self._rivals: dict[str, str | None] = {}

    # --- pages

    def samples(self, request: Request) -> Response:
        """The list."""
        shown, state = self._opened(request)
        problem, positions, rows = "", np.empty(0, dtype=np.int32), []
        try:
            positions = shown.listing.positions(state, self.noted(state))
            rows = shown.listing.at(state.of_page(positions), state)
            if not shown.listing.about.has_texts:
                fill_texts(shown.task, rows)
        except InputError as error:
            problem = str(error)
        page = rendered(
            "samples.html",
            **self._task_context(shown, state),
            title=f"{shown.task.task_id} · {shown.run.run_id}",
            rows=rows,
            problem=problem,
            listed_count=len(positions),
            sizes=SIZES,
            columns=_columns(state, shown),
            choices=_choices(shown),
            right=RIGHT,
            q_terms=[(term, without_term(state.q, term)) for term in islice(terms(state.q), _MOST_CHIPS)],
            worst=worst(shown.listing, shown.measure),
            reasons=reasons(shown.listing, shown.measure),
        )
        return HTMLResponse(page, 400 if problem else 200)

    def sample(self, request: Request) -> Response:
        """One answer; with ``part=1`` only its content, for the pane next to the list."""
        params = request.query_params
        shown, state = self._opened(request)
        sample_id, replicate = params.get("id", ""), number_in(params, "rep")
        view, line, row = _answer(shown, sample_id, replicate, state)
        rows = shown.listing.trajectories.get((sample_id, replicate), lambda: view.trajectory)
        other = self._other_row(state, sample_id, replicate)
        said = None if other is None else of_replicate(other.responses, replicate).get("answer") or ""
        context = {
            **self._task_context(shown, state),
            "title": f"{sample_id} · {shown.task.task_id}",
            "view": view,
            "line": line,
            "sample_id": sample_id,
            "replicate": replicate,
            "replicates": shown.listing.replicates(sample_id),
            "notes": self._notes.of(view.response_key),
            "here": f"/runs/{shown.run.run_id}/sample?{sample_query(state, sample_id, replicate)}",
            "pieces": [] if said is None else word_diff(said, view.answer or ""),
            "steps": steps_page(rows, number_in(params, "step")),
            "differences": [*differences(row, replicate, other, state.against)] if rows else [],
            **self._neighbours(shown, state, line["pos"]),
        }
        return HTMLResponse(rendered("sample_part.html" if params.get("part") else "sample.html", **context))

    def steps(self, request: Request) -> Response:
        """A page of an answer's steps, for the page of the answer."""
        params = request.query_params
        shown, state = self._opened(request)
        sample_id, replicate = params.get("id", ""), number_in(params, "rep")
        rows = shown.listing.trajectories.get(
            (sample_id, replicate), lambda: _answer(shown, sample_id, replicate, state).view.trajectory
        )
        context = {"run": shown.run, "state": state, "sample_id": sample_id, "replicate": replicate}
        return HTMLResponse(rendered("steps.html", **context, steps=steps_page(rows, number_in(params, "step"))))

    def export(self, request: Request) -> Response:
        """The listed answers as a file."""
        shown, state = self._opened(request)
        return exported(shown, state, request.path_params["kind"], self.noted(state))

    # --- parts of pages

    def noted(self, state: ListState) -> Noted:
        """The notes that the search line asks for."""
        return self._notes.noted() if any(term.name == "note" for term in terms(state.q)) else NO_NOTES

    def _other_row(self, state: ListState, sample_id: str, replicate: int) -> SampleRow | None:
        """The sample in the run that the answer's is compared with."""
        if not state.against:
            return None
        return self.open(state.against, ListState(task=state.task)).row(sample_id, replicate)

    def _opened(self, request: Request) -> tuple[OpenTask, ListState]:
        """The task of a list's address, and the list's state. Raises as `open`."""
        state = ListState.of(request.query_params)
        shown = self.open(request.path_params["run"], state)
        return shown, replace(state, task=shown.task.task_id)

    def open(self, run_id: str, state: ListState) -> OpenTask:
        """A task with its index, paired with the run that the state names.

        Raises:
            StillIndexing: the index is being made.
            InputError: the run or the task does not exist, or has no answers yet.
        """
        run = self._open_runs.run(run_id)
        task = run.task(state.task or None)
        pairs = None
        if state.against:
            other = self._open_runs.run(state.against)
            name = state.metric or (task.measures[0].name if task.measures else "")
            pairs = self._open_runs.pairs_file((run, task), (other, other.task(task.task_id)), name)
        listing = self._open_runs.listing(task, run, pairs)
        return OpenTask(run, task, listing, measure_of(listing.about, state.metric))

    def rival(self, run: RunReader) -> str | None:
        """The run that a finished run is usually compared with."""
        if run.stored.status != "completed":
            return None
        if run.run_id not in self._rivals:
            self._rivals[run.run_id] = usual_rival(run)
        return self._rivals[run.run_id]

    def _task_context(self, shown: OpenTask, state: ListState) -> dict[str, Any]:
        measure = shown.measure
        rival = state.against or self.rival(shown.run)
        return {
            "run": shown.run,
            "task_id": shown.task.task_id,
            "about": shown.listing.about,
            "measure": measure,
            "state": state,
            "score": None if measure is None else score_of(shown.task, measure),
            "difference": self._difference(shown, state),
            "mean": None if measure is None else mean_of(shown.listing, measure),
            "kinds": kind_counts(shown.listing, measure),
            "rival": rival,
            "flips": flips(shown.listing) if state.against else None,
            "form": self._session.form,
            "live": shown.run.stored.state == "running",
        }

    def _difference(self, shown: OpenTask, state: ListState) -> ComparedTask | None:
        """The change against the other run. None where there is none, and while it is being computed."""
        if not state.against:
            return None
        try:
            comparison = compared(
                self._open_runs,
                shown.run,
                self._open_runs.run(state.against),
                task_id=shown.task.task_id,
                metric=state.metric or None,
                wait_s=_CHIP_WAIT_S,
            )
        except (InputError, StillIndexing):
            return None  # The page of the comparison says why, or waits for it.
        return next((task for task in comparison.tasks if task.numbers.difference is not None), None)

    def _neighbours(self, shown: OpenTask, state: ListState, position: int) -> dict[str, Any]:
        """Where the answer stands in the list, and the answers before and after it."""
        try:
            positions = shown.listing.positions(state, self.noted(state))
        except InputError:
            positions = np.empty(0, dtype=np.int32)
        places = np.flatnonzero(positions == position)
        if not len(places):
            return {"place": None, "listed_count": len(positions), "previous": None, "next": None}
        place = int(places[0])
        before, after = positions[:place][-1:].tolist(), positions[place + 1 :][:1].tolist()
        beside = shown.listing.at([*before, *after], state)
        return {
            "place": place + 1,
            "listed_count": len(positions),
            "previous": beside[0] if before else None,
            "next": beside[-1] if after else None,
        }


def fill_texts(task: TaskReader, rows: list[dict[str, Any]]) -> None:
    """Add questions, answers and references to rows of an index without texts, from the parts that hold them.

    At most `_MOST_PARTS` parts are read; the other rows stay without texts.
    """
    by_part: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_part.setdefault(row["part"], []).append(row)
    for part, mine in list(by_part.items())[:_MOST_PARTS]:
        wanted = {row["row"]: row for row in mine}
        contents = task.part(part, sorted(wanted), tables=("responses",))
        samples = dict(zip(contents.samples["row_index"].to_pylist(), rows_of(contents.samples), strict=True))
        for row in mine:
            sample, responses = samples[row["row"]], contents.responses.get(row["row"], [])
            row["asked"], row["expected"] = question_of(sample), expected_of(sample)
            response = of_replicate(responses, row["replicate"])
            row["answer"] = (response.get("answer") or "")[-_EXCERPT:] if response else None


def _answer(shown: OpenTask, sample_id: str, replicate: int, state: ListState) -> OpenAnswer:
    answer = shown.answer(sample_id, replicate, state)
    if answer is None:
        raise InputError(
            f"run {shown.run.run_id}, task '{shown.task.task_id}' has no answer to sample '{sample_id}'"
            + (f", repetition {replicate}." if replicate else ".")
        )
    return answer


def score_of(task: TaskReader, measure: IndexedMeasure) -> Any:
    """The measure's number in the task's summary; None before the report."""
    metrics = [] if task.report is None else task.report.metrics
    wanted = (measure.metric_id, measure.filter, measure.value_key)
    return next((metric for metric in metrics if (metric.metric_id, metric.filter, metric.value_key) == wanted), None)


def _columns(state: ListState, shown: OpenTask) -> list[tuple[str, str]]:
    """(name, heading) of the shown columns."""
    known = dict(_choices(shown))
    names = [name for name in state.cols.split(",") if name in known] or _usual_columns(shown)
    return [(name, state.against if name == "other" else known[name]) for name in names]


def _usual_columns(shown: OpenTask) -> list[str]:
    if shown.listing.database.has_pairs:
        return ["id", "asked", "read", "other", "expected", "change"]
    if shown.measure is None:
        return ["id", "asked", "answer", "expected", "status", "tokens"]
    return ["id", "asked", "read", "expected", "status", *([] if shown.measure.judged else ["score"]), "tokens"]


def _choices(shown: OpenTask) -> list[tuple[str, str]]:
    """(name, heading) of every column that can be shown."""
    paired = shown.listing.database.has_pairs
    own = [(name, text) for name, (text, _) in COLUMNS.items() if paired or name not in ("other", "change")]
    own += [(f"m{measure.number}", measure.name) for measure in shown.listing.about.measures]
    return own + [(f"s{field.number}", field.name) for field in shown.listing.about.slices]
