"""Promises of the command `gage health`: counts, lists, a file for the authors, and sentences where it cannot look."""

from pathlib import Path

import orjson
import pytest

from tests.cli.conftest import Gage
from tests.support.workspace import write_config


@pytest.fixture
def two_models(gage: Gage, workspace: Path) -> Gage:
    for run_id, right in (("a", 5), ("b", 4)):
        rows = [{"id": f"s{n}", "output": str(n + 1) if 0 < n < right else "77"} for n in range(6)]
        (workspace / f"{run_id}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        replay = {"path": f"{run_id}.jsonl", "answer_field": "output"}
        write_config(workspace, backends=[{"backend_id": "model", "type": "replay", "config": replay}])
        assert gage("run", "mine.yaml", "--inline", "--run-id", run_id).code == 0
    return gage


def test_counts_lists_and_the_file_for_the_authors(two_models: Gage, workspace: Path) -> None:
    said = two_models("health", "small").out
    assert said.startswith("sums · exact_match: 6 items, 2 models, effective n 1\n")
    assert "see them: gage health small --kind gold" in said
    listed = two_models("health", "small", "--kind", "dead", "-n", "1").out
    assert "1 of 5 shown; more with -n 5" in listed
    assert two_models("health", "small", "--to", "items.jsonl").out == "items.jsonl\n"
    kinds = [orjson.loads(line)["kind"] for line in (workspace / "items.jsonl").read_bytes().splitlines()]
    assert kinds.count("dead") == 5
    only = two_models("health", "small", "--kind", "dead", "--json").json["datasets"][0]
    assert {finding["kind"] for finding in only["findings"]} == {"dead"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("health", "smal"), "no run of 'smal' can be read. Suites and configs with stored runs: small"),
        (("health", "a"), "'a' is a run of 'small'."),
        (("health", "small", "--kind", "deat"), "Did you mean 'dead'?"),
        (("health", "small", "--to", "items.xls"), "the format is unknown"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_sentence(two_models: Gage, words: tuple[str, ...], said: str) -> None:
    refused = two_models(*words)
    assert refused.code == 2
    assert said in refused.err
    assert "Traceback" not in refused.err
