"""Suites × models: every cell is a run, and every model gets the range of ranks that chance does not exclude."""

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from gage_eval.base.errors import ConfigError, GageError, InputError, Problem
from gage_eval.base.strict_model import StrictModel
from gage_eval.config.files import read_config
from gage_eval.config.model_of import model_of
from gage_eval.config.yaml.lines import parse
from gage_eval.engine.host import SharedEngines
from gage_eval.models.backends.base import Blocks
from gage_eval.regression.leaderboard import RATINGS_NOTE, Rating, leaderboard
from gage_eval.regression.ranks import significant_pairs
from gage_eval.regression.scored_task import ScoredTask
from gage_eval.report.console import score_text
from gage_eval.report.figures import Mark, interval_figure
from gage_eval.report.groups import macro_score
from gage_eval.report.summary import GroupScore, MetricSummary, metric_summary
from gage_eval.runs.folder import is_there, list_runs
from gage_eval.runs.names import is_name, slug
from gage_eval.runs.options import SUITE_PREFIX, Locations, RunOptions
from gage_eval.runs.results.publication import Publication
from gage_eval.runs.results.reading import RunReader
from gage_eval.runs.sequence import run_all

RANKS_NOTE = "In brackets: the ranks that chance leaves open (paired tests, Holm)."


class MatrixRow(StrictModel):
    """A suite or a config, with its own options."""

    suite: str | None = None
    config: str | None = None
    options: dict[str, Any] = Field(default={})

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return {"suite": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one(self) -> "MatrixRow":
        if (self.suite is None) == (self.config is None):
            raise ValueError("name either a suite or a config")
        return self

    @property
    def name(self) -> str:
        """The name that is shown."""
        return self.suite or self.config or ""

    @property
    def slug(self) -> str:
        """Its part of the name of a run."""
        return slug(self.suite.replace("@", "-") if self.suite is not None else Path(self.config or "").stem)


class MatrixModel(StrictModel):
    """A model: its name in the table, and the options that choose it."""

    name: str = Field(min_length=1)
    options: dict[str, Any] = Field(default={})


class Matrix(StrictModel):
    """What a matrix file holds.

    Attributes:
        name: of the matrix.
        rows: suites and configs.
        models: each runs every row.
        options: of every run. Those of a row override them, and those of a model override both.
    """

    name: str = "matrix"
    rows: list[MatrixRow] = Field(min_length=1)
    models: Sequence[MatrixModel] = Field(min_length=1)
    options: dict[str, Any] = Field(default={})

    @model_validator(mode="after")
    def _different(self) -> Self:
        for what, names in (("model", [model.name for model in self.models]), ("row", [row.name for row in self.rows])):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise ValueError(f"the {what} '{twice}' appears twice")
        return self

    @classmethod
    def read(cls, file: Path) -> Self:
        """The matrix of a YAML file.

        Raises:
            InputError: it cannot be read, has values that are not allowed, or names a suite or a config that does not
                exist; all problems at once.
        """
        return cls.of_text(read_config(file, what="matrix"), str(file), file.parent)

    def _missing_rows(self, folder: Path) -> list[Problem]:
        """The rows whose suite or config does not exist."""
        problems = []
        for number, row in enumerate(self.rows):
            config = f"{SUITE_PREFIX}{row.suite}" if row.suite is not None else str(folder / (row.config or ""))
            try:
                there = os.path.isfile(RunOptions(config=config).file)
            except InputError as error:
                problems.append(Problem(f"rows[{number}]", str(error)))
                continue
            if not there:
                problems.append(Problem(f"rows[{number}]", f"no config file '{config}'."))
        return problems

    @classmethod
    def of_text(cls, text: str, source: str, folder: Path | None = None) -> Self:
        """The matrix of a YAML text.

        Args:
            text: the YAML.
            source: the name in errors.
            folder: that paths of configs start from; without one, nothing checks that suites and configs exist.

        Raises:
            InputError: a value is not allowed; all problems at once.
        """
        matrix, _ = model_of(parse(text, source), source, cls)
        missing = [] if folder is None else matrix._missing_rows(folder)
        if problems := matrix._wrong_options() + missing:
            raise ConfigError(source, problems)
        return matrix

    def _wrong_options(self) -> list[Problem]:
        """Options that do not exist, each once: it may be in every row, or with every model."""
        problems: dict[str, Problem] = {}
        for row in self.rows:
            for model in self.models:
                try:
                    self.options_of(row, model, self.configs_in(Path()))
                except InputError as error:
                    problems.setdefault(str(error), Problem(f"options of {row.name} with {model.name}", str(error)))
        return list(problems.values())

    def configs_in(self, folder: Path) -> dict[str, str]:
        """The files of its configs, by the names that it has for them.

        Args:
            folder: of the matrix file.
        """
        return {row.config: str(folder / row.config) for row in self.rows if row.config is not None}

    def options_of(self, row: MatrixRow, model: MatrixModel, configs: Mapping[str, str]) -> RunOptions:
        """The options of a cell.

        Args:
            row: the suite or config.
            model: the model.
            configs: where each config is: a file, or a bundle in the store.

        Raises:
            InputError: an option does not fit, or nothing says where the config is.
        """
        if row.config is None:
            source = f"{SUITE_PREFIX}{row.suite}"
        elif row.config in configs:
            source = configs[row.config]
        else:
            raise InputError(f"the config '{row.config}' was not deployed with this file: deploy the file again.")
        return RunOptions.of({**self.options, **row.options, **model.options, "config": source})


@dataclass(frozen=True)
class Cell:
    """One model on one row: its run, or the reason why there is none."""

    row: str
    model: str
    run: RunReader | None = None
    error: str | None = None


@dataclass(frozen=True)
class Standing:
    """One model's number on one task, and the ranks that it may have.

    Attributes:
        run: the cell's run.
        number: the score with its 95 % interval.
        best: 1 + number of models that are significantly better.
        worst: K − number of models that are significantly worse.
    """

    row: str
    task_id: str
    model: str
    run: str
    number: MetricSummary
    best: int
    worst: int

    def as_record(self) -> dict[str, Any]:
        """For JSON and CSV."""
        number = self.number
        return {
            "row": self.row,
            "task_id": self.task_id,
            "metric": number.name,
            "model": self.model,
            "run": self.run,
            "value": number.value,
            "low": number.ci_low,
            "high": number.ci_high,
            "n": number.n,
            "best": self.best,
            "worst": self.worst,
        }

    @property
    def ranks(self) -> str:
        """``2`` or ``1–3``."""
        return str(self.best) if self.best == self.worst else f"{self.best}–{self.worst}"


def run_cells(
    matrix: Matrix,
    folder: Path,
    locations: Locations,
    run: Callable[[RunOptions, SharedEngines], RunReader],
    *,
    blocks: Blocks | None = None,
) -> list[Cell]:
    """Run every cell. If one fails, the others still run. An engine starts once for all cells that need it.

    Args:
        matrix: what to run.
        folder: of the matrix file.
        locations: of all runs.
        run: carries out a run.
        blocks: the blocks of the Prefect API, if there is one.
    """
    places = [(row, model) for model in matrix.models for row in matrix.rows]
    configs = matrix.configs_in(folder)
    options = [locations.placed(matrix.options_of(row, model, configs)) for row, model in places]
    existing = list_runs(locations.runs) if is_there(locations.runs) else ()
    run_ids = _run_ids(matrix.name, places, existing)
    options = [
        own.model_copy(update={"run_id": own.run_id or run_id}) for own, run_id in zip(options, run_ids, strict=True)
    ]
    results = run_all(options, run, blocks=blocks)
    return [
        Cell(row.name, model.name, error=str(result))
        if isinstance(result, GageError)
        else Cell(row.name, model.name, result)
        for (row, model), result in zip(places, results, strict=True)
    ]


def _run_ids(
    name: str, places: Sequence[tuple[MatrixRow, MatrixModel]], existing: Collection[str]
) -> Iterator[str | None]:
    """The names of the cells' runs, ``matrix-2-gsm8k-small`` in the second matrix; None for names that cannot be."""
    taken = re.compile(rf"{re.escape(slug(name))}-(\d+)-")
    number = 1 + max((int(match[1]) for run_id in existing if (match := taken.match(run_id))), default=0)
    ids = [f"{slug(name)}-{number}-{row.slug}-{slug(model.name)}" for row, model in places]
    return (run_id if is_name(run_id) and ids.count(run_id) == 1 else None for run_id in ids)


def standings(cells: Sequence[Cell], problems: list[str] | None = None) -> list[Standing]:
    """The numbers of every task in every cell, with ranks among the models of the same task.

    Two models differ if the two-sided paired test is significant, adjusted by Holm over all pairs of the task's
    models.

    Args:
        cells: of the matrix.
        problems: takes the reasons why runs are not comparable; their order then stays open.

    Raises:
        NotComparable: two runs of a task are not comparable, and nothing takes the reason.
    """
    return [standing for row, task_id, runs in _by_task(cells) for standing in _of_task(row, task_id, runs, problems)]


def ratings(cells: Sequence[Cell], problems: list[str] | None = None) -> list[Rating]:
    """The leaderboards of the tasks whose answers are compared in pairs (metric `pairwise_win`), the best model first.

    Args:
        cells: of the matrix.
        problems: takes the reasons why runs are not comparable.

    Raises:
        NotComparable: two runs of a task are not comparable, and nothing takes the reason.
    """
    return [
        rating
        for row, task_id, runs in _by_task(cells)
        for rating in leaderboard(row, _scored(task_id, runs), problems)
    ]


def _by_task(cells: Sequence[Cell]) -> Iterator[tuple[str, str, dict[str, RunReader]]]:
    """Row, task, and the runs that have it, by model."""
    for row in dict.fromkeys(cell.row for cell in cells):
        runs = {cell.model: cell.run for cell in cells if cell.row == row and cell.run is not None}
        for task_id in dict.fromkeys(task for run in runs.values() for task in run.task_ids):
            yield row, task_id, {model: run for model, run in runs.items() if task_id in run.task_ids}


def _scored(task_id: str, runs: Mapping[str, RunReader]) -> dict[str, ScoredTask]:
    return {model: ScoredTask.of_run(run, task_id) for model, run in runs.items()}


def _of_task(row: str, task_id: str, runs: Mapping[str, RunReader], problems: list[str] | None) -> Iterator[Standing]:
    tasks = _scored(task_id, runs)
    pairs = significant_pairs(tasks, problems)
    for model, task in tasks.items():
        won = sum(better == model for better, _ in pairs)
        lost = sum(worse == model for _, worse in pairs)
        yield Standing(
            row,
            task_id,
            model,
            runs[model].run_id,
            metric_summary(task.reader.number_row(task.reader.number())),
            best=1 + lost,
            worst=len(runs) - won,
        )


@dataclass(frozen=True)
class Average:
    """A model's mean over tasks, every task the same.

    Attributes:
        score: with its interval.
        tasks: how many there are in it.
        of: how many the matrix has.
    """

    model: str
    score: GroupScore
    tasks: int
    of: int

    def as_record(self) -> dict[str, Any]:
        """For JSON."""
        score = self.score
        return {
            "model": self.model,
            "value": score.value,
            "low": score.ci_low,
            "high": score.ci_high,
            "tasks": self.tasks,
            "of": self.of,
        }


def averages(results: Sequence[Standing], models: Sequence[str]) -> list[Average]:
    """The mean of each model over the tasks for which every model has a score.

    Empty for fewer than two such tasks, and where the numbers have no common scale: a mean of them says nothing.
    """
    by_task: dict[tuple[str, str], dict[str, MetricSummary]] = {}
    for standing in results:
        by_task.setdefault((standing.row, standing.task_id), {})[standing.model] = standing.number
    whole = [own for own in by_task.values() if all(name in own and own[name].value is not None for name in models)]
    numbers = {name: [own[name] for own in whole] for name in models}
    scales = {(x.higher_is_better, x.bound_low, x.bound_high) for of_model in numbers.values() for x in of_model}
    if len(whole) < 2 or len(scales) != 1 or None in next(iter(scales)):
        return []
    return [Average(name, macro_score(numbers[name]), len(whole), len(by_task)) for name in models]


def matrix_record(
    name: str, cells: Sequence[Cell], results: Sequence[Standing], rated: Sequence[Rating] = ()
) -> dict[str, Any]:
    """For JSON: the run of each cell, each model's number on each task, the averages, and the leaderboards."""
    return {
        "name": name,
        "cells": [{"row": x.row, "model": x.model, "run": x.run and x.run.run_id, "error": x.error} for x in cells],
        "standings": [standing.as_record() for standing in results],
        "averages": [average.as_record() for average in averages(results, _models(cells))],
        "ratings": [rating.as_record() for rating in rated],
    }


def publication(
    name: str, results: Sequence[Standing], cells: Sequence[Cell], rated: Sequence[Rating] = ()
) -> Publication:
    """The matrix as a table, one line per task and one column per model, and as a figure, with ratings."""
    header, rows = table(results, cells)
    runs = [f"{cell.row}, {cell.model}: run {cell.run.run_id}" for cell in cells if cell.run is not None]
    panels: dict[str, list[Mark]] = {}
    for standing in results:
        task = f"{_task_name(standing.row, standing.task_id)}, {standing.number.marked_name}"
        panels.setdefault(task, []).append(Mark.of(standing.model, standing.number))
    for average in averages(results, _models(cells)):
        panels.setdefault(_average_name(average), []).append(Mark.of(average.model, average.score))
    for rating in rated:
        panels.setdefault(f"{_task_name(rating.row, rating.task_id)}, rating", []).append(rating.mark)
    return Publication(
        name,
        header,
        rows,
        [standing.as_record() for standing in results],
        lambda: interval_figure(name, list(panels.items())),
        [RANKS_NOTE, *([RATINGS_NOTE] if rated else []), *runs],
    )


@dataclass(frozen=True)
class Line:
    """A task's line of the matrix.

    Attributes:
        name: the task with its row; the average's, where `runs` is empty.
        task_id, metric, n: what is shown of it.
        texts: one per model.
        runs: one per model; None for a cell that failed.
    """

    name: str
    task_id: str
    metric: str
    n: str
    texts: Sequence[str]
    runs: Sequence[RunReader | None] = ()


def lines(results: Sequence[Standing], cells: Sequence[Cell]) -> tuple[list[str], list[Line]]:
    """The models, and the lines of the matrix: one per task, the average last; a failed cell says so."""
    models = _models(cells)
    table_lines = []
    for row in dict.fromkeys(cell.row for cell in cells):
        of_cells = {cell.model: cell for cell in cells if cell.row == row}
        of_row = [standing for standing in results if standing.row == row]
        for task_id in dict.fromkeys(standing.task_id for standing in of_row) or [row]:
            own = {standing.model: standing for standing in of_row if standing.task_id == task_id}
            metric = next((standing.number.marked_name for standing in own.values()), "")
            sizes = sorted({standing.number.n for standing in own.values()})
            n = " – ".join(f"{size:,}" for size in dict.fromkeys((sizes[0], sizes[-1]))) if sizes else ""
            texts = [_text(own.get(name), of_cells.get(name)) for name in models]
            runs = [of_cells[name].run if name in of_cells else None for name in models]
            table_lines.append(Line(_task_name(row, task_id), task_id, metric, n, texts, runs))
    if means := averages(results, models):
        table_lines.append(Line(_average_name(means[0]), "", "", "", [score_text(mean.score) for mean in means]))
    return models, table_lines


def table(
    results: Sequence[Standing], cells: Sequence[Cell], *, runs: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the matrix; an empty row above the average.

    Args:
        results: the numbers.
        cells: of the matrix.
        runs: name each cell's run on a line below its number.
    """
    models, table_lines = lines(results, cells)
    rows: list[list[str]] = []
    for line in table_lines:
        rows += [] if line.runs else [[]]
        rows.append([line.name, line.metric, line.n, *line.texts])
        if runs and line.runs:
            rows.append(["", "", "", *("" if run is None else run.run_id for run in line.runs)])
    return ["task", "metric", "n", *models], rows


def _models(cells: Sequence[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.model for cell in cells))


def _task_name(row: str, task_id: str) -> str:
    return task_id if row == task_id else f"{row} {task_id}"


def _average_name(average: Average) -> str:
    return f"average of {average.tasks}{'' if average.tasks == average.of else f' of {average.of}'} tasks"


def _text(standing: Standing | None, cell: Cell | None) -> str:
    if standing is None or standing.number.value is None:
        return "failed" if cell is not None and cell.run is None else "–"
    label = "" if cell is None or cell.run is None else cell.run.stored.record.label
    return f"{score_text(standing.number)} ({standing.ranks}){label}"
