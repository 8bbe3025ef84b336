"""Promises of `gage compare` on files that gage-eval did not write."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import Gage

FIELDS = ("--id", "id", "--score", "score")


@pytest.fixture
def folder(workspace: Path) -> Path:
    """The same scores as jsonl, csv and parquet: 10 of 100 samples become wrong."""
    before = [{"id": f"s{n}", "score": int(n % 4 != 0), "nested": {"acc": 1.0}} for n in range(100)]
    now = [{**row, "score": 0 if n % 10 == 1 else row["score"]} for n, row in enumerate(before)]
    (workspace / "a.jsonl").write_text("\n".join(map(json.dumps, before)), encoding="utf-8")
    pd.DataFrame(now).drop(columns="nested").to_csv(workspace / "b.csv", index=False)
    pd.DataFrame(now).to_parquet(workspace / "b.parquet")
    (workspace / "other.jsonl").write_text('{"id": "x", "score": 1}', encoding="utf-8")
    (workspace / "torn.jsonl").write_text('{"id": "s1", "score": 1}\n{"id": "s2", "sc', encoding="utf-8")
    (workspace / "words.csv").write_text("id,score\ns1,good\n", encoding="utf-8")
    return workspace


def test_files_of_any_kind_are_paired_by_their_ids(folder: Path, gage: Gage) -> None:
    said = gage("compare", "a.jsonl", "b.csv", "b.parquet", *FIELDS)
    assert said.code == 0
    assert said.out.count("−0.100") == 2
    assert "+0 −10" in said.out
    csv, parquet = gage("compare", "a.jsonl", "b.csv", "b.parquet", *FIELDS, "--json").json
    assert csv.pop("current_file") == "b.csv"
    assert parquet.pop("current_file") == "b.parquet"
    assert csv == parquet
    assert (csv["n"], csv["test"], csv["worse"]) == (
        100,
        "mcnemar",
        ["s1", "s11", "s21", "s31", "s41"][:0] + csv["worse"],
    )
    assert gage("compare", "a.jsonl", "b.parquet", "--id", "id", "--score", "nested.acc").code == 0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("a.jsonl", "b.csv", "--id", "id"), "belong together"),
        (("a.jsonl", "b.csv", "--id", "id", "--score", "scor"), "Did you mean 'score'?"),
        (("a.jsonl", "torn.jsonl", *FIELDS), "record 2 of 'torn.jsonl': the record is not JSON"),
        (("a.jsonl", "words.csv", *FIELDS), "is not a number: 'good'"),
        (("a.jsonl", "other.jsonl", *FIELDS), "name files of the same samples"),
        (("a.jsonl", "none.jsonl", *FIELDS), "none.jsonl"),
        (("a.jsonl", "b.txt", *FIELDS), "ending that is not known"),
        (("a.jsonl", "b.csv", *FIELDS, "--html", "x.html"), "leave out the options"),
        (("a.jsonl", "b.csv", "--cluster", "x"), "are for files"),
    ],
)
def test_what_cannot_be_compared_is_told_in_one_sentence(
    folder: Path, gage: Gage, command: tuple[str, ...], words: str
) -> None:
    said = gage("compare", *command)
    assert said.code == 2
    assert words in said.err
    assert "Traceback" not in said.err
    assert len(said.err.strip().splitlines()) == 1
