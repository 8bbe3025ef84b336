"""Programs can rely on what --json prints: it has a schema, which is on file, complete, and kept by every command."""

import importlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from jsonschema import Draft202012Validator

from gage_eval.cli.main import COMMANDS, app
from gage_eval.cli.outputs import OUTPUTS, json_schema
from tests.cli.conftest import Gage
from tests.support.workspace import write_config


def with_json(words: tuple[str, ...], command: Any) -> Iterator[str]:
    for name, inner in getattr(command, "commands", {}).items():
        yield from with_json((*words, name), inner)
    if any("--json" in parameter.opts for parameter in command.params):
        yield " ".join(words)


def test_the_schema_on_file_is_fresh_and_has_every_command(repo_root: Path) -> None:
    published = (repo_root / "docs" / "outputs.schema.json").read_text(encoding="utf-8")
    assert json.loads(published) == json_schema(), "write it: gage schema outputs --output docs/outputs.schema.json"
    for name in COMMANDS:
        importlib.import_module(f"gage_eval.cli.{name}")
    commands = set(with_json((), typer.main.get_command(app)))
    assert {name for name in commands if name not in OUTPUTS} == set()
    assert [name for name in OUTPUTS if name != "error" and not any(name.startswith(x) for x in commands)] == []


@pytest.fixture
def runs(gage: Gage, workspace: Path) -> Path:
    """Two runs, a baseline, a matrix and a run with rejects."""
    for name, answer in (("a", "2"), ("b", "3")):
        backend = {"backend_id": "model", "type": "dummy", "config": {"answer": answer}}
        write_config(workspace, f"{name}.yaml", backends=[backend])
        assert gage("run", f"{name}.yaml", "--inline", "--run-id", name).code == 0
    (workspace / "bad.jsonl").write_text('{"id": "x", "question": "?", "answer": "1"}\n{"id": "y"}\n')
    dataset = {"dataset_id": "sums", "params": {"path": "bad.jsonl", "on_reject": "skip"}}
    write_config(workspace, "bad.yaml", datasets=[dataset])
    assert gage("run", "bad.yaml", "--inline", "--run-id", "bad").code == 0
    models = [{"name": name, "options": {"max_samples": 4}} for name in ("m", "n")]
    (workspace / "matrix.yaml").write_text(yaml.safe_dump({"rows": [{"config": "mine.yaml"}], "models": models}))
    assert gage("baseline", "set", "base", "a", "--repeats", "1").code == 0
    return workspace


def test_what_commands_print_is_what_the_schema_says(runs: Path, gage: Gage) -> None:
    schema = json_schema()
    lines = {
        "show": "show",
        "show RUN": "show a",
        "show RUN --wrong": "show a --wrong",
        "show RUN --sample ID": "show a --sample s0",
        "show RUN --rejects": "show bad --rejects",
        "list": "list",
        "list KIND": "list suites",
        "list runs": "list runs",
        "compare": "compare a b",
        "diff": "diff a b",
        "why": "why a b",
        "health": "health small",
        "matrix": "matrix matrix.yaml",
        "gate": "gate a --baseline base",
        "baseline list": "baseline list",
        "baseline history": "baseline history base",
        "baseline show": "baseline show base",
        "baseline trend": "baseline trend base",
        "run": "run a.yaml --inline",
        "plan": "plan b.yaml",
        "sql": "sql 'SELECT 1'",
        "cache ls": "cache ls",
        "cache verify": "cache verify",
        "doctor": "doctor",
        "server status": "server status",
        "validate": "validate a.yaml",
    }
    for command, line in lines.items():
        said = gage(*shlex.split(line), "--json")
        printed = json.loads(said.out)
        assert printed or command == "cache verify", f"{line}: {said.err}"
        validator = Draft202012Validator({**schema["properties"][command], "$defs": schema["$defs"]})
        problems = [f"{line}: {error.json_path}: {error.message[:300]}" for error in validator.iter_errors(printed)]
        assert problems == []
    error = json.loads(gage("show", "ghost", "--json").err)
    Draft202012Validator({**schema["properties"]["error"], "$defs": schema["$defs"]}).validate(error)
