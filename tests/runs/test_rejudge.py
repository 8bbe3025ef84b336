"""gage judge: stored answers are judged again, and the model under test is never asked."""

from pathlib import Path

import pytest
import yaml
from support.command import Command, command

from tests.support.workspace import JUDGED, write_config, write_rows

SCRIPT = '''
from pathlib import Path


class Model:
    def generate(self, request):
        with Path("asked.txt").open("a") as file:
            file.write("model ")
        return "2"


class Judge:
    """Fails while the file is there."""

    name = "judge"

    def generate(self, request):
        with Path("asked.txt").open("a") as file:
            file.write(f"{self.name} ")
        if Path("down.txt").exists() and request["messages"][-1]["content"] in Path("down.txt").read_text():
            raise RuntimeError("out of order")
        return "SCORE: 3"


class Other(Judge):
    name = "other"
'''


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    write_rows(tmp_path)
    (tmp_path / "models.py").write_text(SCRIPT)
    names = ("model", "judge", "other")
    backends = [
        {
            "backend_id": name,
            "type": "custom_script",
            "config": {"file_path": "models.py", "class_name": name.title(), "max_concurrency": 1},
        }
        for name in names
    ]
    adapters = [
        {"adapter_id": name, "role_type": "judge_model", "backend_id": name, "prompt_id": "verdict"}
        for name in names[1:]
    ]
    write_config(
        tmp_path,
        backends=backends,
        role_adapters=[JUDGED["role_adapters"][0], *adapters],
        prompts=[{"prompt_id": "verdict", "template": "{{ sample.id }}"}],
        tasks=[{"task_id": "sums", "dataset_id": "sums", "judge_adapter_id": "judge"}],
        metrics=["judge_score"],
    )
    return command(tmp_path, capsys, monkeypatch)


def _asked(folder: Path) -> dict[str, int]:
    """How often each model was asked since the last call."""
    file = folder / "asked.txt"
    words = file.read_text().split() if file.exists() else []
    file.write_text("")
    return {name: words.count(name) for name in sorted(set(words))}


def test_a_run_whose_judge_failed_names_the_command_that_asks_it_again(tmp_path: Path, gage: Command) -> None:
    (tmp_path / "down.txt").write_text("s1 s2")
    ended = gage("run", "mine.yaml", "--run-id", "first")
    assert ended.code == 1
    assert "gage judge first --only-failed" in ended.err
    _asked(tmp_path)
    (tmp_path / "down.txt").unlink()
    assert gage("judge", "first", "--only-failed", "--inline").code == 0
    assert _asked(tmp_path) == {"judge": 2}
    assert gage("judge", "first", "--only-failed", "--inline").code == 0
    assert _asked(tmp_path) == {}


def test_another_judge_judges_the_stored_answers_as_a_new_run(tmp_path: Path, gage: Command) -> None:
    assert gage("run", "mine.yaml", "--run-id", "first").code == 0
    assert _asked(tmp_path) == {"model": 6, "judge": 6}
    # The config as the run had it counts, not as it is now.
    config = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**config, "datasets": []}))
    assert gage("judge", "first", "--judge", "other", "--run-id", "second", "--inline").code == 0
    assert _asked(tmp_path) == {"other": 6}
    assert gage("judge", "first", "--run-id", "third", "--inline").code == 0
    assert _asked(tmp_path) == {"judge": 6}
    shown = gage("show").out
    assert all(name in shown for name in ("first", "second", "third"))


def test_answers_that_are_not_there_are_not_asked_for(tmp_path: Path, gage: Command) -> None:
    assert gage("run", "mine.yaml", "--run-id", "first").code == 0
    _asked(tmp_path)
    write_rows(tmp_path, 8)
    ended = gage("judge", "first", "--inline")
    assert ended.code == 2
    assert "no stored answers to judge" in ended.err
    assert _asked(tmp_path) == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--only-failed", "--judge", "other"), "leave out --judge"),
        (("--judge", "gpt"), "names no model"),
    ],
)
def test_a_judge_that_cannot_be_put_in_is_refused(
    tmp_path: Path, gage: Command, options: tuple[str, ...], said: str
) -> None:
    assert gage("run", "mine.yaml", "--run-id", "first").code == 0
    _asked(tmp_path)
    ended = gage("judge", "first", *options, "--inline")
    assert ended.code == 2
    assert said in ended.err
    assert _asked(tmp_path) == {}
