"""A user's own packages named flows, tasks or blocks live beside ours."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.prefect import Prefect
from support.runs import gage, summary

from gage_eval.base.packaged import SIBLINGS

FILTER = """
import blocks
from flows import NAME as flows_name
from tasks.words import last_word as word


def last_word(text: str) -> str | None:
    assert (blocks.NAME, flows_name) == ("blocks", "flows")
    return word(text)
"""
CONFIG = """
datasets:
  - dataset_id: words
    loader: inline
    params:
      records: [{question: "Say: the end", answer: end}]
backends: [{backend_id: parrot, type: dummy, config: {answer: the end}}]
metrics:
  - {metric_id: last, implementation: exact_match, filters: ["own_filter:last_word"]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with packages of all three names, which a plug-in beside them uses."""
    for name in SIBLINGS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"NAME = '{name}'\n")
    (tmp_path / "tasks" / "words.py").write_text("def last_word(text):\n    return text.split()[-1]\n")
    (tmp_path / "own_filter.py").write_text(FILTER)
    (tmp_path / "words.yaml").write_text(CONFIG)
    return tmp_path


def test_an_inline_run_uses_the_users_packages(folder: Path) -> None:
    gage(folder, "run", "words.yaml", "--inline", "--run-id", "mine", env={"PYTHONPATH": "."})
    assert summary(folder, "mine")["tasks"][0]["metrics"][0]["raw_values"] == {"score": 1.0}


def test_a_plug_in_imports_what_lies_beside_the_config_from_any_folder(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "words.py").write_text("def last_word(text):\n    return text.split()[-1]\n")
    (tmp_path / "own_filter.py").write_text("from helpers.words import last_word\n")
    (tmp_path / "words.yaml").write_text(CONFIG)
    program = shutil.which("gage", path=str(Path(sys.executable).parent))
    assert program is not None
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    done = subprocess.run(
        [program, "run", str(tmp_path / "words.yaml"), "--inline"],
        cwd=elsewhere,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.server
def test_a_run_at_a_server_uses_our_flows_and_the_users_packages(folder: Path, prefect: Prefect) -> None:
    gage(folder, "run", "words.yaml", "--run-id", "theirs", env={**prefect.env, "PYTHONPATH": "."})
    assert summary(folder, "theirs")["tasks"][0]["metrics"][0]["raw_values"] == {"score": 1.0}
    assert prefect.flow_state("theirs")[0] == "COMPLETED"
