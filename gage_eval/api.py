"""The Python API: run a config and look at the results.

    import gage_eval

    run = gage_eval.run("config.yaml", max_samples=100)
    run.scores()            # a DataFrame, one row per metric
    run.samples().to_pandas()

It works in notebooks and scripts: the run has its own event loop and thread.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from gage_eval.base.errors import InputError, closest
from gage_eval.report.model_run import model_title
from gage_eval.report.summary import Summary
from gage_eval.runs.options import Locations, RunOptions
from gage_eval.runs.options_dict import RunOptionsDict
from gage_eval.runs.results.export import EXPORTED, sample_tables
from gage_eval.runs.results.outcomes import Outcome, RowFilter, needs_scores
from gage_eval.runs.results.reading import RunReader
from gage_eval.runs.results.rejects import Reject, rejects_of
from gage_eval.runs.results.rows import SampleRow
from gage_eval.runs.results.stored import StoredRun
from gage_eval.store import Store

if TYPE_CHECKING:
    import pandas as pd

_SCORES = (
    "task_id", "metric_id", "filter", "value_key", "value", "stderr", "ci_low", "ci_high", "n", "truncated",
    "looped", "unparsed", "unscored", "error",
)  # fmt: skip


_FRAME = """
    SELECT run_id, task_id, scores.model, metric_id, scores.sample_id, replicate, filter, r.status AS answer_status,
           answer, s.label AS reference, scores.status AS score_status, value, extracted, scores.reason, explanation
    FROM scores
    JOIN responses r USING (run_id, task_id, row_index, replicate)
    JOIN samples s USING (run_id, task_id, row_index)
"""


class Run:
    """A run and its results.

    Attributes:
        store: where its artifacts are.
        reader: reads its rows.
    """

    def __init__(self, reader: RunReader) -> None:
        self.reader = reader
        self._stored = reader.stored
        self.store = reader.store

    @property
    def _locations(self) -> dict[str, str]:
        locations = self._stored.folder.locations
        return {"store": locations.store, "output_dir": locations.runs}

    def __repr__(self) -> str:
        return f"<Run {self.run_id} {self.status}>"

    def _repr_html_(self) -> str:
        """The run as notebooks show it: its score table."""
        from gage_eval.report.notebook import run_html

        return run_html(self.run_id, self.status, self.summary if self.status == "completed" else None)

    @property
    def run_id(self) -> str:
        """The run's name."""
        return self.reader.run_id

    @property
    def folder(self) -> str:
        """Where its files are: run.json, summary.json, events.jsonl, report.html and exports."""
        return self._stored.folder.url

    @property
    def status(self) -> str:
        """``running``, ``completed``, ``failed`` or ``interrupted``."""
        return self._stored.status

    @property
    def tasks(self) -> tuple[str, ...]:
        """The ids of its tasks."""
        return self.reader.task_ids

    @property
    def summary(self) -> Summary:
        """The content of summary.json.

        Raises:
            InputError: the run has not finished.
        """
        return self.reader.summary

    def scores(self) -> "pd.DataFrame":
        """One row per metric: the model, the value with error and interval, and the number of rows.

        Raises:
            InputError: the run has not finished.
        """
        import pandas as pd

        models = self.summary.models
        rows = [
            {"model": model_title(models, metric.task_id), **{name: getattr(metric, name) for name in _SCORES}}
            for metric in self.summary.metrics
        ]
        return pd.DataFrame(rows, columns=["model", *_SCORES])

    def frame(self, task_id: str | None = None) -> "pd.DataFrame":
        """One row per answer and metric: ids, the question's references, the answer, its status and its score.

        Raises:
            InputError: no such task.
        """
        from gage_eval.runs.results.sql import literal

        where = "" if task_id is None else f" WHERE task_id = {literal(self.reader.task(task_id).task_id)}"
        frame: pd.DataFrame = sql(f"{_FRAME}{where} ORDER BY ALL", runs=[self.run_id], **self._locations).to_pandas()
        return frame

    def samples(self, task_id: str | None = None) -> pa.Table:
        """The samples that were asked, with ``predict_result``, ``eval_result`` and ``score_card`` as JSON text.

        Args:
            task_id: of this task only.

        Returns:
            A table of the schema of ``samples.parquet``: the columns of a Sample, the task's id, and the results.

        Raises:
            InputError: no such task, or it was not scored yet.
        """
        tables = [table for task in self.reader.tasks(task_id) for table in sample_tables(task)]
        return pa.concat_tables(tables) if tables else EXPORTED.empty_table()

    def rows(
        self,
        task_id: str | None = None,
        *,
        outcomes: Iterable[Outcome] = (),
        metric: str | None = None,
        ids: Iterable[str] = (),
        start: int = 0,
        limit: int | None = None,
    ) -> Iterator[SampleRow]:
        """The samples of a task one by one, each with its responses, judgments and scores; also while the run goes on.

        Args:
            task_id: the task; may be left out when there is one.
            outcomes: only samples with an answer that is ``wrong``, ``unparsed``, ``truncated``, ``looped``,
                ``refused``, ``error`` or ``unscored``.
            metric: the metric that wrong, unparsed and unscored are about; the primary one by default.
            ids: only these samples.
            start: skip so many.
            limit: at most so many.

        Raises:
            InputError: no such task or metric, or the task has no rows yet.
        """
        task = self.reader.task(task_id)
        wanted = frozenset(outcomes)
        measure = task.measure(metric) if needs_scores(wanted) or metric else None
        return task.rows(RowFilter(tuple(ids), wanted, measure=measure), start=start, limit=limit)

    def rejects(self, task_id: str | None = None) -> "list[Reject]":
        """The rows that were rejected, each with its file, its line and the reason.

        Args:
            task_id: of this task only.

        Raises:
            InputError: no such task, or standardize has not finished.
        """
        return [reject for task in self.reader.tasks(task_id) for reject in rejects_of(task)]

    def responses(self, task_id: str | None = None) -> pa.Table:
        """The responses of a task, one row per sample and replicate; the task's id may be left out when there is one.

        Raises:
            InputError: no such task, or it has no responses yet.
        """
        return self.reader.task(task_id).response_table()


def run(
    config: str | Path | Mapping[str, Any],
    *,
    inline: bool = True,
    progress: bool = False,
    **options: Unpack[RunOptionsDict],
) -> Run:
    """Run a config and return its results.

    Args:
        config: Path of a config file, suite:NAME or suite:NAME@vN for a built-in suite, or bundle:NAME for a config
            that a submitted run left in the store. Or the config as a mapping, whose relative paths start from the
            working folder.
        inline: Run in this process; False runs it as a flow where a Prefect API is configured.
        progress: Print what `gage run` prints.
        options: as `gage_eval.runs.options_dict.RunOptionsDict` describes them.

    Raises:
        InputError: the config or an argument cannot be used.
        GageError: what stopped the run; everything computed is kept.
    """
    known = RunOptionsDict.__annotations__
    for name in options.keys() - known.keys():
        raise InputError(f"gage_eval.run has no option '{name}'. Options: {', '.join(known)}.{closest(name, known)}")
    from gage_eval.local.launch import launch_run

    outcome = launch_run(RunOptions.of({**options, **_source(config)}), inline=inline, quiet=not progress)
    # A block may have named the store.
    return Run(RunReader(StoredRun(outcome.folder), Store.open(outcome.folder.locations.store)))


run.__doc__ = f"{inspect.getdoc(run)}\n\n{inspect.getdoc(RunOptionsDict)}"


def open_run(run_id: str, *, store: str | None = None, output_dir: str | None = None) -> Run:
    """A finished or running run.

    Raises:
        InputError: no run has this id.
    """
    return Run(RunReader.open(Locations.at(store, output_dir), run_id))


def list_runs(*, store: str | None = None, output_dir: str | None = None) -> "pd.DataFrame":
    """All runs, newest first: model, name, status, headline score, samples, seconds, tokens, cost."""
    import pandas as pd

    from gage_eval.runs.results.listing import listed_runs

    return pd.DataFrame([run.as_record() for run in listed_runs(Locations.at(store, output_dir))])


def sql(query: str, *, runs: Sequence[str] = (), store: str | None = None, output_dir: str | None = None) -> pa.Table:
    """The rows of a SELECT over stored runs; `gage sql` lists the views.

    Args:
        query: one SELECT, in DuckDB's dialect.
        runs: only these runs; all of them by default.
        store: where the artifacts live.
        output_dir: where the run folders live.

    Raises:
        InputError: there is no such run, or DuckDB refuses the query.
    """
    from gage_eval.runs.results.sql import Database

    with Database(Locations.at(store, output_dir), runs) as database:
        return database.query(query)


def compare(
    baseline: str | Run,
    current: str | Run,
    *,
    metric: str | None = None,
    allow_different: Sequence[str] = (),
    store: str | None = None,
    output_dir: str | None = None,
) -> "pd.DataFrame":
    """Two runs, paired sample by sample: one row per task with difference, interval, test and what changed.

    Args:
        baseline: a run, or its name; differences are taken from it.
        current: the other one.
        metric: compare by this number; each task's first by default.
        allow_different: of data, prompts and scorer, what may differ.
        store: where the artifacts live.
        output_dir: where the run folders live.

    Raises:
        InputError: there is no such run, or the runs are not comparable.
    """
    import pandas as pd

    from gage_eval.regression.compare import compare as compared

    a, b = (
        side if isinstance(side, Run) else open_run(side, store=store, output_dir=output_dir)
        for side in (baseline, current)
    )
    comparisons = compared(a.reader, b.reader, metric=metric, allowed=allow_different)
    return pd.DataFrame([comparison.as_record() for comparison in comparisons])


def _source(config: str | Path | Mapping[str, Any]) -> dict[str, str]:
    """The options that name a config, or hold it: a run keeps its text, and can be resumed without a file."""
    if not isinstance(config, Mapping):
        return {"config": str(config)}
    import yaml

    from gage_eval.base.canonical import normalise

    try:
        text = yaml.safe_dump(normalise(config), sort_keys=False, allow_unicode=True)
    except ValueError as error:
        raise InputError(f"the config holds what YAML has no form for: {error}.") from error
    return {"config": str(Path.cwd()), "text": text}
