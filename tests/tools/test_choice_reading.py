"""The table of precision and recall measures rules on recorded answers."""

from pathlib import Path

import pytest

from tools import choice_reading


def test_the_rule_loses_nothing_on_the_replays_and_reads_every_hard_case(
    shared: Path, repo_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert choice_reading.main([str(shared / "data")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "| multi_choice_accuracy |" in line]
    assert len(lines) == len(choice_reading.SETS)
    assert all(line.endswith("| 1.000 | 1.000 |") for line in lines)
    # The page shows what the tool prints.
    page = (repo_root / "docs" / "choices.md").read_text(encoding="utf-8")
    assert [line for line in lines if line.replace("multi_choice_accuracy", "version 3") not in page] == []


def test_another_version_of_the_rule_is_compared(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.py").write_text("def choose(answer, options):\n    return None\n")
    choice_reading.main([str(shared / "data"), "--against", str(tmp_path / "other.py")])
    assert "| BBH dates, Codex | against | 250 | 0 | 0.000 | 0.000 |" in capsys.readouterr().out
