"""Questions × runs: every answer with its verdict, and each run's score above its column."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from gage_eval.base.errors import GageError, InputError
from gage_eval.report.model_run import model_title, under_test
from gage_eval.report.summary import MetricSummary
from gage_eval.runs.results.reading import RunReader
from gage_eval.viewer.list_page import ListPage, fill_texts, score_of
from gage_eval.viewer.listing import ListState, PageState
from gage_eval.viewer.matrix import MIXED, SHOWN, MatrixState
from gage_eval.viewer.open_runs import MOST_COLUMNS, OpenRuns
from gage_eval.viewer.open_task import OpenTask
from gage_eval.viewer.overview import kind_counts
from gage_eval.viewer.pages import rendered


@dataclass(frozen=True)
class MatrixColumn:
    """A run in the matrix, or one of its tasks.

    Attributes:
        name: as the address has it: ``RUN`` or ``RUN/TASK``.
        model, prompt: what tells the columns apart.
        score: its number by the measure; None before the report.
        kinds: its answers by kind.
        problem: why it has no answers here; empty if it has.
    """

    name: str
    run: RunReader
    task: OpenTask | None = None
    file: Path = Path()
    model: str = ""
    prompt: str = ""
    score: MetricSummary | None = None
    kinds: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""

    @property
    def title(self) -> str:
        """The model, without its engine, and the prompt; the run where the model is not known."""
        models = under_test(self.run.stored.record.models, None if self.task is None else self.task.task.task_id)
        name = models[0].name if models else self.name
        return f"{name} · {self.prompt}" if self.prompt else name

    @property
    def place(self) -> str:
        """The run's task."""
        return self.run.run_id if self.task is None else f"{self.run.run_id}/{self.task.task.task_id}"

    def answer_query(self, sample_id: str) -> str:
        """The address of an answer of the run."""
        return urlencode({"task": self.place.partition("/")[2], "id": sample_id})


@dataclass(frozen=True)
class MatrixCell:
    """A run's answer to a question, or its repetitions together.

    Attributes:
        kind: right, wrong, …; ``mixed`` for repetitions of several kinds. Empty if the run does not have the question.
        value: the measure's value; the mean of several repetitions.
        text: what was read out of it, else the end of the answer.
    """

    kind: str
    value: float | None = None
    text: str = ""
    answers: int = 1


@dataclass(frozen=True)
class MatrixRow:
    """A question with the cells of all columns."""

    sample_id: str
    question: str
    expected: str | None
    spread: float | None
    cells: Sequence[MatrixCell]


def matrix_state(params: QueryParams) -> MatrixState:
    """The state in an address; each ``run`` that was ticked is one more column."""
    state = MatrixState.of(params)
    names = [name.strip() for name in (*state.runs.split(","), *params.getlist("run"))]
    return replace(state, runs=",".join(dict.fromkeys(filter(None, names))))


def matrix_page(open_runs: OpenRuns, lists: ListPage, params: QueryParams) -> str:
    """The page.

    Raises:
        InputError: no run or too many are named, a run does not exist, or the page's state cannot be used.
        StillIndexing: an index or the matrix is being made.
    """
    state = matrix_state(params)
    columns, state = open_columns(open_runs, lists, state)
    shown = [column for column in columns if column.task is not None]
    rows: list[MatrixRow] = []
    counts, listed, problem = dict.fromkeys(SHOWN, 0), 0, ""
    if shown:
        measure = shown[0].task.measure if shown[0].task is not None else None
        lists_of = [(column.run, column.task.listing) for column in shown if column.task is not None]
        matrix = open_runs.matrix(lists_of, [column.file for column in shown], measure.name if measure else "")
        counts = matrix.counts
        try:
            positions = matrix.positions(state, lists.noted(ListState(q=state.q)))
            listed = len(positions)
            rows = list(_rows(matrix.rows(state.of_page(positions)), shown, state))
        except InputError as error:
            problem = str(error)
    return rendered(
        "matrix.html",
        title="Side by side",
        state=state,
        columns=columns,
        shown=shown,
        rows=rows,
        counts=counts,
        headings={name: SHOWN[name][0] for name in SHOWN if name in ("", "differ") or _judges(shown)},
        measures=_measures(shown),
        tasks=_tasks(columns),
        problem=problem,
        listed_count=listed,
        mixed=MIXED,
        live=any(column.run.stored.state == "running" for column in columns),
    )


def open_columns(open_runs: OpenRuns, lists: ListPage, state: MatrixState) -> tuple[list[MatrixColumn], MatrixState]:
    """The columns, and the state with the task and the metric that they show.

    Raises:
        InputError: no run or too many are named, or a run does not exist.
        StillIndexing: an index is being made.
    """
    names = [name for name in state.runs.split(",") if name]
    if not names:
        raise InputError("name the runs to show side by side: /matrix?runs=RUN,RUN, or tick them in the list of runs.")
    if len(names) > MOST_COLUMNS:
        raise InputError(f"at most {MOST_COLUMNS} runs are shown side by side.")
    columns: list[MatrixColumn] = []
    for name in names:
        run = open_runs.run(name.partition("/")[0])
        if not state.task:
            own = name.partition("/")[2]
            state = replace(state, task=own or _common_task(open_runs, names) or run.task_ids[0])
        task_id = name.partition("/")[2] or state.task
        # A run of one task has it under whatever name.
        task_id = run.task_ids[0] if task_id not in run.task_ids and len(run.task_ids) == 1 else task_id
        try:
            columns.append(_column(open_runs, lists, name, run, task_id, state))
        except InputError as error:
            columns.append(MatrixColumn(name, run, problem=str(error)))
        task = columns[-1].task
        if not state.metric and task is not None and task.measure is not None:
            state = replace(state, metric=task.measure.name)
    return columns, state


def _column(
    open_runs: OpenRuns, lists: ListPage, name: str, run: RunReader, task_id: str, state: PageState
) -> MatrixColumn:
    task = lists.open(run.run_id, ListState(task=task_id, metric=state.metric))
    return MatrixColumn(
        name,
        run,
        task,
        open_runs.index_file(task.task, run),
        model_title(under_test(run.stored.record.models, task_id)) or "",
        _prompt(run, task_id),
        None if task.measure is None else score_of(task.task, task.measure),
        kind_counts(task.listing, task.measure),
    )


def _prompt(run: RunReader, task_id: str) -> str:
    """The id of the prompt template with which the model was asked; empty without one."""
    record = run.stored.stages.get((task_id, "infer"))
    action = None if record is None or record.key is None else run.store.actions.find("infer", record.key)
    document: Any = None if action is None else action.document
    # Only the plan knows the id, and to make it takes longer than everything else.
    if document and (document.get("spec") or {}).get("prompt"):
        with suppress(GageError):  # the config names something that is gone
            prompt = run.plan.task(task_id).infer.prompt
            return "" if prompt is None else prompt.prompt_id
    return ""


def _common_task(open_runs: OpenRuns, names: Sequence[str]) -> str | None:
    """The first task that all runs have."""
    runs = [open_runs.run(name.partition("/")[0]) for name in names]
    return next((task for task in runs[0].task_ids if all(task in run.task_ids for run in runs)), None)


def _tasks(columns: Sequence[MatrixColumn]) -> list[str]:
    """The tasks that at least two of the runs have."""
    tasks = [task for column in columns for task in column.run.task_ids]
    return [task for task in dict.fromkeys(tasks) if tasks.count(task) > 1]


def _judges(columns: Sequence[MatrixColumn]) -> bool:
    """Whether answers are right or wrong by the measure."""
    return any(column.task.measure.judged for column in columns if column.task and column.task.measure)


def _measures(columns: Sequence[MatrixColumn]) -> list[str]:
    """The measures that all columns have."""
    names = [[measure.name for measure in column.task.listing.about.measures] for column in columns if column.task]
    return [name for name in names[0] if all(name in others for others in names)] if names else []


def _rows(
    records: Sequence[Mapping[str, Any]], columns: Sequence[MatrixColumn], state: MatrixState
) -> Iterator[MatrixRow]:
    lines: list[dict[int, dict[str, Any]]] = []
    for number, column in enumerate(columns):
        assert column.task is not None
        places = [record[f"pos_{number}"] for record in records if record[f"pos_{number}"] is not None]
        read = column.task.listing.at(places, ListState(metric=state.metric))
        if not column.task.listing.about.has_texts:
            fill_texts(column.task.task, read)
        lines.append({line["pos"]: line for line in read})
    for record in records:
        own = [lines[number].get(record[f"pos_{number}"]) for number in range(len(columns))]
        first = next(line for line in own if line is not None)
        cells = [
            MatrixCell("")
            if line is None
            else MatrixCell(
                record[f"kind_{number}"],
                record[f"value_{number}"],
                (record[f"kind_{number}"] != "scored" and line["read"]) or line["answer"] or "",
                record[f"answers_{number}"],
            )
            for number, line in enumerate(own)
        ]
        yield MatrixRow(record["sample_id"], first["asked"] or "", first["expected"], record["spread"], cells)
