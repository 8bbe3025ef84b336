"""An endpoint that takes 16 at a time, met with 256: no row is lost, and little time."""

import re
from pathlib import Path

import pytest
from faults.results import answers, score
from support.command import Command
from support.endpoint import mock_endpoint
from support.runs import write_config
from support.waiting import Stopwatch

ROWS = 2000


def test_an_overloaded_endpoint_is_met_with_what_it_takes(tmp_path: Path, gage: Command) -> None:
    took = {}
    with mock_endpoint(latency_ms=20, max_concurrency=16, retry_after=0) as endpoint:
        for name, backend in {
            "fixed": {"max_concurrency": 16, "adaptive": False},
            "free": {"max_concurrency": 256},
        }.items():
            write_config(tmp_path, endpoint.url, rows=ROWS, backend=backend)
            with Stopwatch() as watch:
                assert gage("run", "sums.yaml", "--run-id", name, "--refresh", "infer").code == 0
            took[name] = watch.seconds
        refused = endpoint.stats()["overloaded"]
    assert {row["status"] for row in answers(tmp_path, "free")} == {"ok"}
    assert score(tmp_path, "free")["value"] == 1.0
    # Without adapting, some ten thousand are refused.
    assert refused < ROWS
    assert took["free"] < 2 * took["fixed"]


def test_an_endpoint_that_dies_for_good_ends_the_run_and_keeps_its_answers(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint(latency_ms=20, die_after=200) as endpoint:
        port = int(endpoint.root.rpartition(":")[2])
        backend = {"give_up_after": 0.5, "max_concurrency": 8}
        write_config(tmp_path, endpoint.url, rows=ROWS, backend=backend)
        ended = gage("run", "sums.yaml", "--run-id", "cut")
    assert ended.code == 1
    assert "cannot be reached: every attempt failed for" in ended.sentence
    assert ended.sentence.endswith("After you have fixed it: gage resume cut")
    with mock_endpoint(port=port) as endpoint:
        assert gage("resume", "cut").code == 0
        assert ROWS - 200 <= endpoint.stats()["requests"] <= ROWS - 180


@pytest.mark.parametrize(
    ("fault", "backend", "sentence"),
    [
        (
            "429",
            {"max_elapsed_s": 1},
            r"refuses all requests: every attempt failed for \d+ s \(429",
        ),
        ("500", {"give_up_after": 1}, r"fails: every attempt failed for \d+ s \(500"),
    ],
)
def test_an_endpoint_that_answers_nothing_ends_the_run_in_place_of_each_row(
    fault: str, backend: dict[str, int], sentence: str, tmp_path: Path, gage: Command
) -> None:
    with mock_endpoint(fault={fault: 1.0}, retry_after=0) as endpoint:
        port = int(endpoint.root.rpartition(":")[2])
        write_config(tmp_path, endpoint.url, rows=ROWS, backend={"max_attempts": 1000, "max_concurrency": 8, **backend})
        ended = gage("run", "sums.yaml", "--run-id", "vain")
    assert ended.code == 1
    assert re.search(sentence, ended.sentence)
    assert ended.sentence.endswith("After you have fixed it: gage resume vain")
    with mock_endpoint(port=port) as endpoint:
        assert gage("resume", "vain").code == 0
        assert endpoint.stats()["requests"] == ROWS
