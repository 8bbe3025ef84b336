"""Two or more runs: paired statistics, what differs between them, and one sample's answers side by side."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.regression.definitions import KINDS as ALLOWABLE
from gage_eval.regression.definitions import Difference
from gage_eval.regression.run_diff import run_differences
from gage_eval.report.details import Causes, ComparedTask
from gage_eval.report.messages import Message, first_difference
from gage_eval.report.sample_view import SampleView
from gage_eval.runs.results.reading import RunReader
from gage_eval.viewer.comparison import causes_between, compared
from gage_eval.viewer.list_page import ListPage
from gage_eval.viewer.listing import ListLinks, ListState, number_in
from gage_eval.viewer.open_runs import MOST_COLUMNS, OpenRuns
from gage_eval.viewer.pages import rendered
from gage_eval.viewer.trajectory import turns_of
from gage_eval.viewer.word_diff import Piece, word_diff


@dataclass(frozen=True)
class Rival:
    """A run that the current one is compared with, and what came of it.

    Attributes:
        problem: why they are not compared; empty if they are.
        can_allow: whether they could be, with differences allowed.
        causes: why the scores of each task moved.
    """

    run: RunReader
    tasks: tuple[ComparedTask, ...]
    differences: list[tuple[str, Difference]]
    problem: str = ""
    can_allow: bool = False
    causes: tuple[Causes, ...] = ()


@dataclass(frozen=True)
class Column:
    """One run's answer to a sample; ``pieces`` are its words against the first column's."""

    run_id: str
    view: SampleView | None
    pieces: list[Piece]
    problem: str = ""
    task_id: str = ""
    turns: Sequence[Mapping[str, Any]] = ()

    def step(self, number: int) -> Message | None:
        """A step before the answer."""
        steps = () if self.view is None else self.view.trajectory
        return next((message for message in steps if message.step == number), None)


def compare_page(open_runs: OpenRuns, run_id: str, params: Mapping[str, str]) -> str:
    """Paired statistics of a run against others.

    Raises:
        InputError: a run does not exist.
        StillIndexing: the comparison is being computed.
    """
    run = open_runs.run(run_id)
    names = _names(params)
    task_id, metric = params.get("task") or None, params.get("metric") or None
    allowed = tuple(name for name in params.get("allow", "").split(",") if name in ALLOWABLE)
    rivals = [_rival(open_runs, run, open_runs.run(name), task_id, metric, allowed) for name in names]
    return rendered(
        "compare.html",
        title=f"{run_id} against {', '.join(names)}",
        run=run,
        rivals=rivals,
        names=names,
        task_id=task_id,
        metric=metric,
        allowed=allowed,
        allowable=ALLOWABLE,
        links=ListLinks(run_id),
    )


def side_by_side_page(open_runs: OpenRuns, lists: ListPage, run_id: str, params: Mapping[str, str]) -> str:
    """One sample in several runs.

    Raises:
        InputError: a run, the task or the sample does not exist.
        StillIndexing: an index is being made.
    """
    state = ListState.of(params)
    sample_id, replicate = params.get("id", ""), number_in(params, "rep")
    columns: list[Column] = []
    for name in [*_names(params), run_id]:
        column = _column(lists, name, state, sample_id, replicate)
        first = next((earlier.view.answer for earlier in columns if earlier.view is not None), None)
        if column.view is not None and first is not None:
            column = replace(column, pieces=word_diff(first, column.view.answer or ""))
        columns.append(column)
    shown = next((column.view for column in columns if column.view is not None), None)
    if shown is None:
        raise InputError(f"no run has an answer to sample '{sample_id}': {columns[0].problem}")
    run = open_runs.run(run_id)
    # An answer of one call has no steps.
    episodes = [column.turns for column in columns if column.view is not None and column.view.answer_step]
    differing = [first_difference(episodes[0], turns) for turns in episodes[1:]]
    return rendered(
        "side_by_side.html",
        title=f"{sample_id} in {len(columns)} runs",
        run=run,
        task_id=run.task(state.task or None).task_id,
        columns=columns,
        step=min((step for step in differing if step is not None), default=None),
        shown=shown,
        sample_id=sample_id,
        replicate=replicate,
        state=state,
        names=_names(params),
    )


def _names(params: Mapping[str, str]) -> list[str]:
    names = [name.strip() for name in (params.get("with") or params.get("against") or "").split(",") if name.strip()]
    if not names:
        raise InputError("name the runs to compare with: ?with=RUN,RUN")
    if len(names) >= MOST_COLUMNS:
        raise InputError(f"at most {MOST_COLUMNS} runs are shown side by side.")
    return names


def _rival(
    open_runs: OpenRuns,
    run: RunReader,
    other: RunReader,
    task_id: str | None,
    metric: str | None,
    allowed: tuple[str, ...],
) -> Rival:
    try:
        comparison = compared(open_runs, run, other, task_id=task_id, metric=metric, allowed=allowed)
        rival = Rival(other, comparison.tasks, run_differences(other, run, task_id=task_id))
    except InputError as error:
        shares_tasks = not set(run.task_ids).isdisjoint(other.task_ids)
        rival = Rival(other, (), [], str(error), can_allow=shares_tasks)
    # Runs that do not compare have causes too: the prompt, or the scorer.
    with suppress(InputError):
        rival = replace(rival, causes=causes_between(open_runs, run, other, task_id=task_id, metric=metric))
    return rival


def _column(lists: ListPage, run_id: str, state: ListState, sample_id: str, replicate: int) -> Column:
    try:
        run_id, _, task_id = run_id.partition("/")
        task = lists.open(run_id, ListState(task=task_id or state.task, metric=state.metric))
    except InputError as error:
        return Column(run_id, None, [], str(error))
    answer = task.answer(sample_id, replicate, ListState(metric=state.metric))
    if answer is None:
        return Column(run_id, None, [], "It has no answer to this sample.")
    turns = turns_of(answer.row, replicate)
    return Column(run_id, answer.view, [], task_id=task.task.task_id, turns=turns)
