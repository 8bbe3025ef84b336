"""Promises of `gage why`: one table, the answers behind each number, and sentences where it cannot be told."""

from pathlib import Path

import pytest

from tests.cli.conftest import Gage
from tests.support.workspace import write_config


@pytest.fixture
def two_runs(gage: Gage, workspace: Path) -> Gage:
    for run_id, answer in (("a", "2"), ("b", "3")):
        backend = {"backend_id": "model", "type": "dummy", "config": {"answer": answer}}
        write_config(workspace, backends=[backend])
        assert gage("run", "mine.yaml", "--inline", "--run-id", run_id).code == 0
    return gage


def test_the_table_and_the_answers_behind_it(two_runs: Gage) -> None:
    said = two_runs("why", "a", "b").out
    assert said.startswith("sums · exact_match: of 2 flips 2 token not known")
    assert "see them: gage why a b --task sums --cause any" in said
    assert "also different: model config.answer: 2 → 3" in said
    listed = two_runs("why", "a", "b", "--cause", "token_not_known").out
    assert "s1" in listed
    assert "s2" in listed
    (record,) = two_runs("why", "a", "b", "--json").json
    assert record["counts"] == {"token_not_known": 2}
    assert [flip["sample_id"] for flip in record["flips"]] == ["s1", "s2"]
    assert two_runs("why", "a", "a").out == "sums · exact_match: no score differs among 6 answers\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("why", "a", "c"), "'c'"),
        (("why", "a", "b", "--cause", "numeric"), "Did you mean 'numerical'?"),
        (("why", "a", "b", "--task", "none"), "has no task 'none'"),
        (("why", "a", "b", "--metric", "none"), "has no metric 'none'"),
    ],
)
def test_what_does_not_exist_is_told_in_one_sentence(two_runs: Gage, words: tuple[str, ...], said: str) -> None:
    refused = two_runs(*words)
    assert refused.code == 2
    assert said in refused.err
    assert "Traceback" not in refused.err
