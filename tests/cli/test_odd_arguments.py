"""Whatever the arguments are, a command ends by itself, says why it refuses, and shows no traceback."""

import random
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

import gage_eval
from gage_eval.cli.main import COMMANDS, app
from tests.cli.conftest import Gage

ROUNDS = 12
ODD = (
    *("", "x", "~nobody/x", "../x", "/", ".", "=", "'", "[", "{}", "*", "%s", "a" * 300, "\x1b[31m", "é\u202e"),
    *("-1", "0", "1e9", "nan", "100000000000000000000", "2026-01-01", "1h", "5GB", "a=b", "a.b.c=", "env:HOME"),
    *("http://[::1", "http://x y/", "block:NOPE", "builtin/gsm8k", "gsm8k@v9", "suite:x", "tasks[0].max_samples=2"),
    *("rows.jsonl", "mine.yaml", "nothere.yaml", "done", "done/mine", "latest", "exact_match", "infer", "x/y.csv"),
)
# They serve until they are stopped, or change a Prefect server.
SERVING = {"view", "start", "stop", "deploy", "doctor", "register"}


def _commands(command: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield names, command
        return
    for name, subcommand in inner.items():
        yield from _commands(subcommand, (*names, name))


def _all() -> dict[tuple[str, ...], Any]:
    for module in COMMANDS:
        import_module(f"gage_eval.cli.{module}")
    return {names: command for names, command in _commands(typer.main.get_command(app)) if names[-1] not in SERVING}


ALL = _all()


def _arguments(names: tuple[str, ...], command: Any, chance: random.Random) -> list[str]:
    arguments = list(names)
    for parameter in command.params:
        option = parameter.opts[-1]
        if not option.startswith("-"):
            several = 1 if parameter.nargs == 1 else chance.randrange(3)
            arguments += [chance.choice(("done", "mine.yaml", chance.choice(ODD))) for _ in range(several)]
        elif option not in ("--help", "--submit", "--store", "--inline") and chance.random() < 0.25:
            arguments += [option] if parameter.is_flag else [option, chance.choice(ODD)]
    options = {option for parameter in command.params for option in parameter.opts}
    arguments += ["--store", "store"] if "--store" in options else []
    return arguments + (["--inline"] if "--inline" in options else [])


@pytest.mark.parametrize("names", ALL, ids=" ".join)
def test_odd_arguments_end_in_a_sentence(gage: Gage, workspace: Path, names: tuple[str, ...]) -> None:
    gage_eval.run("mine.yaml", run_id="done", store="store")
    for number in range(ROUNDS):
        arguments = _arguments(names, ALL[names], random.Random(f"{names} {number}"))
        # Anything but SystemExit, as a traceback would be, fails in `gage`.
        said = gage(*arguments)
        assert said.code in (0, 1, 2), arguments
        assert said.code == 0 or said.err.strip() or "--json" in arguments, arguments


def test_an_argument_that_is_not_utf_8_is_refused(gage: Gage) -> None:
    said = gage("sql", "SELECT '\udcff'", "--store", "store")
    assert (said.code, said.err) == (2, "the argument 'SELECT '\\udcff'' is not UTF-8 text; write it as UTF-8.\n")
