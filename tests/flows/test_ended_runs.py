"""A run that was killed leaves no task run that looks as if it were running."""

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from prefect.states import Completed, Failed, Running

from flows.ended_runs import end_task_runs, open_task_runs

PAGE = 200


class Server:
    """The part of the API that is asked. It gives at most as many task runs as Prefect does."""

    def __init__(self, task_runs: list[Any]) -> None:
        self.task_runs = {run.id: run for run in task_runs}

    def read_task_runs(self, *, offset: int = 0, **_: object) -> list[Any]:
        return list(self.task_runs.values())[offset : offset + PAGE]

    def set_task_run_state(self, id_: object, state: Any, **_: object) -> None:
        self.task_runs[id_].state = state


def test_all_task_runs_of_a_large_run_end() -> None:
    ended = SimpleNamespace(id=uuid4(), state=Completed())
    server = Server([*(SimpleNamespace(id=uuid4(), state=Running()) for _ in range(2 * PAGE + 10)), ended])

    left = open_task_runs(server, uuid4())  # type: ignore[arg-type]
    end_task_runs(server, left, Failed())  # type: ignore[arg-type]

    states = [run.state for run in server.task_runs.values()]
    assert [state.is_failed() for state in states] == [True] * (2 * PAGE + 10) + [False]
