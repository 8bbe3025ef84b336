"""Why two runs differ: every recorded value that is not the same."""

from collections.abc import Iterator

from gage_eval.regression.compare import shared_tasks
from gage_eval.regression.definitions import Difference, differences
from gage_eval.regression.scored_task import ScoredTask
from gage_eval.runs.results.reading import RunReader, TaskReader


def run_differences(a: RunReader, b: RunReader, *, task_id: str | None = None) -> list[tuple[str, Difference]]:
    """Differences by task; those of the run as a whole are under an empty task id.

    Args:
        a, b: scored runs.
        task_id: only this task.

    Raises:
        InputError: the runs share no task.
    """
    differing = [("", difference) for difference in _of_runs(a, b)]
    for name in shared_tasks(a, b, task_id):
        mine, other = ScoredTask.of_run(a, name), ScoredTask.of_run(b, name)
        for measure in {metric.metric_id: metric for metric in mine.reader.measures}:
            differing += [
                (name, difference)
                for difference in differences(mine.definition(measure), other.definition(measure))
                if (name, difference) not in differing
            ]
        differing += [(name, difference) for difference in _of_engines(mine.reader, other.reader)]
    return differing


def _of_runs(a: RunReader, b: RunReader) -> Iterator[Difference]:
    mine, other = a.stored.record, b.stored.record
    for path, left, right in (
        ("gage-eval", mine.gage_eval, other.gage_eval),
        ("name", mine.name, other.name),
        ("tasks", ", ".join(mine.tasks), ", ".join(other.tasks)),
        ("host", mine.process.host if mine.process else None, other.process.host if other.process else None),
        *(
            (f"packages.{name}", mine.packages.get(name), other.packages.get(name))
            for name in sorted({*mine.packages, *other.packages})
        ),
    ):
        if left != right:
            yield Difference("environment", path, left, right)


def _of_engines(a: TaskReader, b: TaskReader) -> Iterator[Difference]:
    mine, other = _fingerprints(a), _fingerprints(b)
    if mine != other:
        yield Difference("engine", "model_fingerprint", mine, other)


def _fingerprints(task: TaskReader) -> str | None:
    """The names that the endpoint gave itself, over all answers."""
    column = task.artifact("response_telemetry").table(columns=["model_fingerprint"])["model_fingerprint"]
    return ", ".join(sorted(column.drop_null().unique().to_pylist())) or None
