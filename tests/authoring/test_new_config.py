"""`gage new` writes a config that validates, from what the first rows show, and asks nothing without a terminal."""

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.authoring.data_preview import look
from gage_eval.authoring.new_config import new_config
from gage_eval.authoring.validation import validated
from gage_eval.base.errors import ConfigError, InputError
from gage_eval.runs import RunOptions
from gage_eval.runs.inline import run_inline
from tests.support.runs import gage
from tests.support.waiting import PATIENCE_S


def write(folder: Path, *rows: dict[str, Any], name: str = "mine.jsonl") -> str:
    file = folder / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


CASES: dict[str, tuple[list[dict[str, Any]], str, dict[str, Any]]] = {
    "plain": ([{"question": "a", "answer": "b"}], "exact_match", {}),
    "numbers": ([{"prompt": "1 + 1", "target": 2}, {"prompt": "2 + 2", "target": "4.0"}], "numeric_match", {}),
    "other names": (
        [{"input": "a", "output": "b"}],
        "exact_match",
        {"preprocess": "simple", "question_field": "input", "answer_field": "output"},
    ),
    "options": (
        [{"question": "a", "choices": ["x", "y"], "answer": "B"}],
        "multi_choice_accuracy",
        {"preprocess": "multi_choice"},
    ),
    "options from 1": (
        [{"stem": "a", "options": ["x", "y"], "label": 1}, {"stem": "a", "options": ["x", "y"], "label": 2}],
        "multi_choice_accuracy",
        {
            "preprocess": "multi_choice",
            "question_field": "stem",
            "choices_field": "options",
            "answer_field": "label",
            "answer_index_base": 1,
        },
    ),
    "a field for each option": (
        [{"goal": "a", "sol1": "x", "sol2": "y", "label": 0}],
        "multi_choice_accuracy",
        {
            "preprocess": "multi_choice",
            "question_field": "goal",
            "choices_field": ["sol1", "sol2"],
            "answer_field": "label",
        },
    ),
    "worked solutions": (
        [{"question": "a", "answer": "Two and two.\n#### 1,004"}],
        "numeric_match",
        {"answer_split": "#### ", "answer_strip": ","},
    ),
    "long answers": ([{"question": "a", "answer": "word " * 40}], "rouge", {}),
    "messages": ([{"messages": [{"role": "user", "content": "a"}], "answer": "b"}], "exact_match", {}),
    "messages and another name": (
        [{"id": "1", "messages": [{"role": "user", "content": "a"}], "expected": "b"}],
        "exact_match",
        {"answer_field": "expected"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_rows_say_how_they_are_read_and_scored(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows, metric, expected = CASES[case]
    seen = look(write(tmp_path, *rows))
    file, text, _ = new_config(seen, model=None, engine="dummy")
    assert (str(file), text.splitlines()[0][:22]) == ("mine.yaml", "# yaml-language-server")
    config = yaml.safe_load(text)
    assert config["metrics"] == [metric]
    params = config["datasets"][0]["params"]
    filled = {"preprocess": params.get("preprocess"), **params.get("preprocess_kwargs", {})}
    filled.pop("system_prompt", None)
    assert {key: value for key, value in filled.items() if value is not None} == expected
    # It runs, and every row has a score.
    file.write_text(text)
    summary = run_inline(RunOptions.of({"config": str(file), "store": "store"})).summary
    assert summary.tasks[0].sample_count == len(rows)


def test_an_endpoint_and_its_key_are_written_as_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", "canary4711")
    seen = look(write(tmp_path, {"question": "a", "answer": "b"}))
    _, text, _ = new_config(seen, model="m", endpoint="http://h/v1/", api_key_env="MY_KEY")
    config = yaml.safe_load(text)["backends"][0]["config"]
    assert (config["base_url"], config["model"], config["api_key"]) == ("http://h/v1", "m", "env:MY_KEY")
    assert "canary4711" not in text


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], {}, "holds no records"),
        ([{"a": 1}], {}, r"which field of .* is the question\? Name it with --question. Fields: a."),
        ([{"question;answer": "a;b"}], {}, r"separated by ';'. Save it with commas"),
        ([{"question": "a", "x": 1}], {}, r"which field of .* is the reference\? Name it with --answer."),
        ([{"question": "a", "answer": "b"}], {"question": "qestion"}, "Did you mean 'question'"),
        ([{"question": "a", "answer": "b"}], {"metric": "exact_mach"}, "Did you mean 'exact_match'"),
        ([{"question": "a", "answer": "b"}], {"model": None, "engine": None}, "^name the model with --model"),
    ],
)
def test_what_cannot_be_told_is_asked_for_by_the_option_s_name(
    rows: list[dict[str, Any]], options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fields = {key: options.pop(key) for key in ("question", "answer") if key in options}
    with pytest.raises(InputError, match=message):
        new_config(look(write(tmp_path, *rows), **fields), **{"model": None, "engine": "dummy", **options})


def test_the_command_writes_config_and_schema_and_overwrites_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"question": "a", "answer": "b"})
    said = gage(tmp_path, "new", "--data", "mine.jsonl", "--model", "m", "--endpoint", "http://127.0.0.1:9/v1").stdout
    assert "mine.jsonl: the question is 'question', the reference is 'answer' (first row)." in said
    assert "mine.yaml is written and valid." in said
    schema = json.loads((tmp_path / ".gage/config.schema.json").read_text())
    assert schema["title"] == "PipelineConfig"
    gage(tmp_path, "validate", "mine.yaml")
    again = gage(tmp_path, "new", "--data", "mine.jsonl", "--engine", "dummy", check=False)
    assert (again.returncode, again.stderr) == (2, "'mine.yaml' is there already; choose another name with --out.\n")
    silent = gage(tmp_path, "new", check=False)
    assert (silent.returncode, silent.stderr.startswith("name your data with --data FILE")) == (2, True)


class Terminal:
    """A command on a terminal of its own: what it shows, and answers to what it asks."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        controller, terminal = pty.openpty()
        env = {**os.environ, "COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"}
        command = [sys.executable, "-m", "gage_eval", *arguments]
        self._process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=terminal, stdout=terminal, stderr=terminal, close_fds=True
        )
        os.close(terminal)
        self._controller = controller
        self.shown = ""
        self._looked_at = 0

    def until(self, text: str) -> str:
        """Read until this is shown; returns what was shown up to it since the last call."""
        begin = self._looked_at
        while (place := self.shown.find(text, begin)) < 0:
            piece = self._read()
            assert piece, f"{text!r} was not shown, but: {self.shown[begin:]!r}"
            self.shown += piece
        # What came in the same piece is for the next call.
        self._looked_at = place + len(text)
        return self.shown[begin : self._looked_at]

    def say(self, text: str) -> None:
        os.write(self._controller, text.encode() + b"\n")

    def end(self) -> tuple[int, str]:
        """The exit code, and what was shown last."""
        begin = self._looked_at
        while piece := self._read():
            self.shown += piece
        os.close(self._controller)
        return self._process.wait(PATIENCE_S), self.shown[begin:]

    def _read(self) -> str:
        ready, _, _ = select.select([self._controller], [], [], PATIENCE_S)
        if not ready:
            self._process.kill()
            return ""
        try:
            return os.read(self._controller, 65536).decode().replace("\r\n", "\n")
        except OSError:
            # Linux's sign that nothing holds the terminal any more.
            return ""


def test_on_a_terminal_three_questions_are_asked(tmp_path: Path) -> None:
    write(tmp_path, {"question": "1 + 1", "answer": "2"}, {"question": "2 + 2", "answer": "4"})
    terminal = Terminal(tmp_path, "new")
    terminal.until("1. Which file or folder holds your data? ")
    terminal.say("mine.jsonl")
    assert "the question is 'question', the reference is 'answer'" in terminal.until("2. Which model?")
    terminal.say("my-model")
    terminal.until("The URL of its server [http://127.0.0.1:8000/v1]")
    terminal.say("")
    third = terminal.until("Number, or the name of a metric [3]")
    assert "3. When is an answer right?" in third
    assert "3  the number is the same (numeric_match)" in third
    terminal.say("2")
    code, said = terminal.end()
    assert code == 0, said
    assert "mine.yaml is written and valid." in said
    config = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    backend = config["backends"][0]["config"]
    assert (backend["base_url"], backend["model"]) == ("http://127.0.0.1:8000/v1", "my-model")
    assert config["metrics"] == ["contains"]
    gage(tmp_path, "validate", "mine.yaml")


def test_on_a_terminal_only_what_no_option_names_is_asked(tmp_path: Path) -> None:
    write(tmp_path, {"question": "1 + 1", "answer": "2"})
    terminal = Terminal(tmp_path, "new", "--data", "mine.jsonl", "--engine", "dummy")
    terminal.until("3. When is an answer right?")
    terminal.until("metric [3]")
    terminal.say("exact_mach")
    terminal.until("Did you mean 'exact_match'?")
    terminal.until("metric [3]")
    assert not (tmp_path / "mine.yaml").exists()
    terminal.say("exact_match")
    code, said = terminal.end()
    assert code == 0, said
    (tmp_path / "mine.yaml").unlink()
    code, said = Terminal(tmp_path, "new", "--data", "mine.jsonl", "--engine", "dummy", "--metric", "match").end()
    assert (code, "metric [" in said) == (0, False)


def test_rows_that_are_odd_are_read_or_refused_in_a_sentence(tmp_path: Path) -> None:
    odd = write(tmp_path, {"question": "a", "choices": ["x", "y"], "answer": 1}, {"choices": 5, "answer": 2})
    assert look(odd).index_base == 1
    for text, why in (('{"question":' * 5000, "row 1 cannot be read: the record is nested too deep"), ("[1]", "row 1")):
        (tmp_path / "bad.jsonl").write_text(text)
        with pytest.raises(InputError, match=why):
            look(str(tmp_path / "bad.jsonl"))
    for metric in ("exact_match(", "contains(1)"):
        with pytest.raises(InputError, match="--metric: cannot read"):
            new_config(look(odd), model="m", endpoint="http://127.0.0.1:9/v1", metric=metric, out=tmp_path / "x.yaml")


@pytest.mark.parametrize(
    ("text", "whose"),
    [
        ("task: mine\ndoc_to_text: '{{q}}'\n", "a task of lm-eval"),
        ("group: mine\naggregate_metric_list: [{metric: acc}]\n", "a task of lm-eval"),
        ("prompts: [hi]\nproviders: [openai:x]\ntests: []\n", "a config of promptfoo"),
        ("model_path: x\ntask_name: y\n", "a config of llm-eval"),
    ],
)
def test_a_config_of_another_tool_is_recognised_in_one_sentence(tmp_path: Path, text: str, whose: str) -> None:
    file = tmp_path / "theirs.yaml"
    file.write_text(text)
    for read in (lambda: look(str(file)), lambda: validated(RunOptions(config=str(file)))):
        with pytest.raises(ConfigError) as refused:
            read()
        (problem,) = refused.value.problems
        assert problem.message.startswith(f"this is {whose}.")
        assert ("gage suite lm-eval:" if whose == "a task of lm-eval" else "gage migrate") in problem.message


def test_a_home_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no home folder '~nobody-here'"):
        look("~nobody-here/mine.jsonl")
    seen = look(write(tmp_path, {"question": "a", "answer": "b"}))
    with pytest.raises(InputError, match="neither a folder, a name on the hub"):
        new_config(seen, model="~nobody-here/model", out=tmp_path / "x.yaml")


def test_a_file_whose_name_is_too_long_cannot_be_written(tmp_path: Path) -> None:
    data = write(tmp_path, {"question": "a", "answer": "b"})
    said = gage(tmp_path, "new", "--data", data, "--engine", "dummy", "--out", f"{'a' * 300}.yaml", check=False)
    assert (said.returncode, "cannot be written: File name too long" in said.stderr) == (2, True)


def test_a_config_goes_into_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    write(tmp_path, {"question": "a", "answer": "b"})
    gage(tmp_path, "new", "--data", "mine.jsonl", "--engine", "dummy", "--out", "new/folder/mine.yaml")
    config = tmp_path / "new" / "folder" / "mine.yaml"
    assert yaml.safe_load(config.read_text())["datasets"][0]["params"]["path"] == "../../mine.jsonl"
    assert "is valid" in gage(tmp_path, "validate", str(config)).stdout
    refused = gage(tmp_path, "new", "--data", "mine.jsonl", "--engine", "dummy", "--out", "mine.jsonl/x", check=False)
    assert (refused.returncode, "'mine.jsonl' is a file, not a folder" in refused.stderr) == (2, True)
