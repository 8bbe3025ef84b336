"""A run that failed because its judge gave too few verdicts asks the judge again, and only where one is missing."""

import re
from pathlib import Path

import pytest
from support.command import Command, command

from tests.support.workspace import JUDGED, write_config, write_rows

JUDGE = '''
from pathlib import Path


class Judge:
    """Gives no verdict on the samples that silent.txt names."""

    def generate(self, request):
        name = request["messages"][-1]["content"]
        with Path("asked.txt").open("a") as file:
            file.write(name + " ")
        return "Hm." if name in Path("silent.txt").read_text() else "SCORE: 3"
'''


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    write_rows(tmp_path)
    (tmp_path / "judge.py").write_text(JUDGE)
    judge = {
        "backend_id": "strict",
        "type": "custom_script",
        "config": {"file_path": "judge.py", "class_name": "Judge"},
    }
    backends = [JUDGED["backends"][0], {**judge, "config": {**judge["config"], "max_concurrency": 1}}]
    prompts = [{"prompt_id": "verdict", "template": "{{ sample.id }}"}]
    tasks = [{"task_id": "sums", "dataset_id": "sums", "judge_adapter_id": "judge"}]
    metrics = ["judge_threshold"]
    write_config(tmp_path, **{**JUDGED, "backends": backends, "prompts": prompts, "tasks": tasks, "metrics": metrics})
    return command(tmp_path, capsys, monkeypatch)


def asked(folder: Path) -> list[str]:
    """Which samples the judge was asked about since the last call."""
    names = sorted((folder / "asked.txt").read_text().split()) if (folder / "asked.txt").exists() else []
    (folder / "asked.txt").write_text("")
    return names


@pytest.mark.parametrize("silent", [["s1", "s4"], ["s0", "s1", "s2", "s3", "s4", "s5"]], ids=["some", "all"])
def test_the_command_that_the_message_names_asks_for_the_missing_verdicts(
    tmp_path: Path, gage: Command, silent: list[str]
) -> None:
    (tmp_path / "silent.txt").write_text(" ".join(silent))
    ended = gage("run", "mine.yaml", "--inline", "--run-id", "first")
    assert ended.code == 1
    assert "gage judge first --only-failed" in ended.err
    assert re.search(r"asks the judge again where it gave no verdict", ended.err)
    assert asked(tmp_path) == ["s0", "s1", "s2", "s3", "s4", "s5"]
    (tmp_path / "silent.txt").write_text("s4")
    assert gage("resume", "first", "--inline").code == 1
    assert asked(tmp_path) == silent
    (tmp_path / "silent.txt").write_text("")
    assert gage("resume", "first", "--inline").code == 0
    assert asked(tmp_path) == ["s4"]
    assert gage("resume", "first", "--inline").code == 0
    assert asked(tmp_path) == []


def test_a_run_that_accepts_missing_verdicts_does_not_ask_again(tmp_path: Path, gage: Command) -> None:
    (tmp_path / "silent.txt").write_text("s1")
    share = ("--set", "tasks.sums.max_unscored_share=0.5")
    assert gage("run", "mine.yaml", "--inline", "--run-id", "first", *share).code == 0
    assert asked(tmp_path) == ["s0", "s1", "s2", "s3", "s4", "s5"]
    assert gage("resume", "first", "--inline").code == 0
    assert gage("run", "mine.yaml", "--inline", "--run-id", "second", *share).code == 0
    assert asked(tmp_path) == []
