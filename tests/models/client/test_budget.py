"""What a run may take is counted, and it ends cleanly: what was under way is kept, and a resumed run goes on."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.command import Command, command
from support.endpoint import mock_endpoint
from support.runs import write_config

from gage_eval.models.client.budget import Budget
from gage_eval.models.client.episode_limits import Price
from gage_eval.models.client.types import Response

ROWS = 400


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return command(tmp_path, capsys, monkeypatch)


def test_tokens_and_cost_are_counted_by_their_price() -> None:
    budget = Budget(tokens=1_000_000, cost=100.0)
    budget.spend(Response("ok", prompt_tokens=1000, completion_tokens=200), Price(input=2.0, output=10.0))
    budget.spend(Response("error"), Price(input=2.0, output=10.0))
    assert (budget.tokens, budget.cost) == (1200, pytest.approx(0.004))
    assert budget.spent() is None


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"tokens": 10}, "limits.tokens (10) is reached: 12 tokens were used"),
        ({"cost": 0.01}, "limits.cost (0.01) is reached: the answers cost 0.012"),
    ],
)
def test_a_limit_that_is_reached_is_named(limits: dict[str, Any], words: str) -> None:
    budget = Budget(**limits)
    budget.spend(Response("ok", prompt_tokens=12), Price(input=1000.0))
    assert budget.spent() == words


def test_time_runs_from_the_start() -> None:
    times = iter([0.0, 59.0, 61.0])
    budget = Budget(wall_s=60, now=lambda: next(times))
    assert [budget.spent(), budget.spent()] == [None, "limits.wall_s (60) is reached: 61 s have passed"]


def test_a_cost_is_counted_without_limits_too() -> None:
    budget = Budget()
    budget.spend(Response("ok", prompt_tokens=1000, completion_tokens=200), Price(input=2.0, output=10.0))
    assert budget.cost == pytest.approx(0.004)
    assert budget.spent() is None


def test_a_run_without_limits_and_prices_counts_its_tokens_and_never_stops() -> None:
    budget = Budget()
    budget.spend(Response("ok", prompt_tokens=10**12, completion_tokens=7), Price())
    assert (budget.prompt_tokens, budget.completion_tokens, budget.cost, budget.spent()) == (10**12, 7, 0.0, None)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"tokens": 1000}, "limits.tokens (1,000) is reached"),
        ({"cost": 0.001}, "limits.cost (0.001) is reached"),
    ],
)
def test_a_run_stops_at_its_limit_keeps_all_it_paid_for_and_goes_on_when_told(
    limits: dict[str, Any], said: str, tmp_path: Path, gage: Command
) -> None:
    with mock_endpoint(latency_ms=5) as endpoint:
        price = {"input_price": 1.0, "output_price": 1.0}
        write_config(tmp_path, endpoint.url, rows=ROWS, limits=limits, backend={"max_concurrency": 8, **price})
        stopped = gage("run", "sums.yaml", "--run-id", "thrifty")
        first = endpoint.stats()
        assert stopped.code == 1
        assert stopped.sentence.startswith(f"infer stopped: {said}")
        assert stopped.sentence.endswith("To resume with the same limits again: gage resume thrifty")
        # Seven tokens a row: 1,000 are 143 rows, and what was under way.
        assert 143 <= first["answered"] <= 143 + 8
        assert f"{first['answered']} of {ROWS} responses are kept" in stopped.sentence
        codes = [gage("resume", "thrifty").code for _ in range(2)]
        last = endpoint.stats()
    assert codes == [1, 0]
    assert (last["requests"], last["resent_after_answer"]) == (ROWS, 0)


@pytest.mark.parametrize("why", ["refused", "paced"])
def test_a_run_at_its_limit_waits_for_no_row_that_is_to_be_sent_again(
    why: str, tmp_path: Path, gage: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting rows would be tried for an hour: only a prompt end comes before the test's timeout."""
    slow = {"requests_per_minute": 1} if why == "paced" else {}
    fault = {"429": 0.5} if why == "refused" else {}
    with mock_endpoint(fault=fault, retry_after=3600) as endpoint:
        limits = {"tokens": 350, "wall_s": 5.0}
        backend = {"max_concurrency": 16, "max_elapsed_s": 7200, **slow}
        write_config(tmp_path, endpoint.url, rows=ROWS, limits=limits, backend=backend)
        # The time is over as soon as there is an answer.
        clock = partial(Budget, now=lambda: 60.0 if endpoint.stats()["answered"] else 0.0)
        with monkeypatch.context() as patch:
            patch.setattr("gage_eval.runs.session.Budget", clock)
            stopped = gage("run", "sums.yaml", "--run-id", "thrifty")
        answered = endpoint.stats()["answered"]
    assert stopped.code == 1
    assert stopped.sentence.startswith("infer stopped: limits.")
    assert 0 < answered < ROWS
    assert f"{answered} of {ROWS} responses are kept" in stopped.sentence
    with mock_endpoint(port=int(endpoint.root.rpartition(":")[2])) as recovered:
        write_config(tmp_path, recovered.url, rows=ROWS)
        assert gage("run", "sums.yaml").code == 0
        assert recovered.stats()["requests"] == ROWS - answered


def test_answers_that_are_there_cost_nothing(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint() as endpoint:
        write_config(tmp_path, endpoint.url, rows=50)
        assert gage("run", "sums.yaml").code == 0
        write_config(tmp_path, endpoint.url, limits={"tokens": 1}, metrics=["contains"])
        assert gage("run", "sums.yaml").code == 0


def test_a_limit_holds_for_all_tasks_together(tmp_path: Path, gage: Command) -> None:
    tasks = [{"task_id": f"t{k}", "dataset_id": "sums", "sampling_params": {"seed": k}} for k in range(3)]
    with mock_endpoint(latency_ms=5) as endpoint:
        write_config(
            tmp_path, endpoint.url, rows=200, tasks=tasks, limits={"tokens": 700}, backend={"max_concurrency": 4}
        )
        assert gage("run", "sums.yaml").code == 1
        assert endpoint.stats()["answered"] <= 100 + 4
