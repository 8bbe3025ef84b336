"""The mistakes of a first hour: one sentence that says what, where and what to do, and no traceback."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from support.command import Command
from support.workspace import write_config, write_rows

from gage_eval.cli.main import COMMANDS, app


@dataclass(frozen=True)
class Mistake:
    """A command that cannot work.

    Attributes:
        command: what is typed.
        said: all that is said.
    """

    command: str
    said: str


SUITE = "suite gsm8k --model my-model --endpoint"
NEW = "new --model my-model --endpoint http://127.0.0.1:8000/v1"

MISTAKES = {
    "data in the place of a config": Mistake(
        "run rows.jsonl",
        "'rows.jsonl' is data, not a config. To write a config for it: gage new --data rows.jsonl",
    ),
    "endpoint without http": Mistake(
        f"{SUITE} 127.0.0.1:8000",
        "suite gsm8k v1 has 1 problem:\n"
        "  the endpoint '127.0.0.1:8000' is not a URL; write it as http://127.0.0.1:8000/v1.",
    ),
    "endpoint that is not a host": Mistake(
        f"{SUITE} my~server",
        "suite gsm8k v1 has 1 problem:\n  the endpoint 'my~server' is not a URL; write it as http://127.0.0.1:8000/v1.",
    ),
    "endpoint of a new config": Mistake(
        "new --data rows.jsonl --model my-model --endpoint localhost:8000/v1 --out new.yaml",
        "the endpoint 'localhost:8000/v1' is not a URL; write it as http://localhost:8000/v1.",
    ),
    "folder of data that cannot be one": Mistake(
        f"{SUITE} http://127.0.0.1:8000/v1 --data {'d' * 300}", f"--data: there is no folder '{'d' * 300}'."
    ),
    "folder of data that is not there": Mistake(
        f"{SUITE} http://127.0.0.1:8000/v1 --data downloads", "--data: there is no folder 'downloads'."
    ),
    "empty data for a new config": Mistake(
        f"{NEW} --data empty.jsonl --out new.yaml", "'empty.jsonl' holds no records."
    ),
    "name of a suite that cannot be one": Mistake(
        "distill mine.yaml --name ../mine",
        "'../mine' cannot be the name of a suite: use letters, digits and . _ -.",
    ),
    "name of a suite that looks like a version": Mistake(
        "distill mine.yaml --name mine@v1",
        "'mine@v1' cannot be the name of a suite: use letters, digits and . _ -.",
    ),
    "age without a unit": Mistake(
        "cache gc --min-age 7",
        "--min-age '7' is not an age: give a number with a unit, such as 90s, 30m, 12h, 7d or 4w.",
    ),
    "task without a choice of answers": Mistake(
        "show first --task sums",
        "--task needs a choice of answers: gage show first --task sums --wrong (or --sample ID).",
    ),
    "matrix that is not there": Mistake("matrix models.yaml", "no matrix file 'models.yaml'."),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_rows(tmp_path)
    write_config(tmp_path)
    (tmp_path / "empty.jsonl").touch()
    return tmp_path


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_with_one_sentence(name: str, gage: Command, folder: Path) -> None:
    mistake = MISTAKES[name]
    ended = gage(*mistake.command.split())
    assert ended.code == 2
    assert ended.sentence == mistake.said
    assert not (folder / "new.yaml").exists()


def test_gage_help_has_a_whole_sentence_for_each_command() -> None:
    for module in COMMANDS:
        __import__(f"gage_eval.cli.{module}")
    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        # On 80 columns, 65 are left next to the longest name.
        short = command.get_short_help_str(65)
        assert not short.endswith("..."), f"{name}: {short}"


def test_gage_new_speaks_of_the_row_that_it_has_seen(gage: Command, folder: Path) -> None:
    write_rows(folder, 1)
    ended = gage(*NEW.split(), "--data", "rows.jsonl", "--out", "new.yaml")
    assert ended.code == 0
    assert "the reference is 'answer' (first row)." in ended.out


def test_validate_finds_a_field_that_no_record_has(gage: Command, folder: Path) -> None:
    params = {"path": "rows.jsonl", "preprocess_kwargs": {"question_field": "questoin"}}
    write_config(folder, datasets=[{"dataset_id": "sums", "params": params}])
    checked = gage("validate", "mine.yaml")
    assert checked.code == 2
    assert checked.sentence == (
        "mine.yaml has 1 problem:\n"
        "  dataset 'sums': all of the first 6 records are rejected (line 1: questoin: there is no question. "
        "Fields here: id, question, answer. Set question_field to one of them)."
    )
    ran = gage("run", "mine.yaml")
    assert ran.code == 2
    assert ran.sentence.count("there is no question") == 1, "a reason is said once"
    assert "Set question_field to one of them; and 3 more)." in ran.sentence


def test_validate_leaves_a_single_broken_record_to_the_run(gage: Command, folder: Path) -> None:
    with (folder / "rows.jsonl").open("a", encoding="utf-8") as rows:
        rows.write("{}\n")
    assert gage("validate", "mine.yaml").code == 0
    assert "1 of 7 records were rejected (line 7: " in gage("run", "mine.yaml").sentence
