"""An answer that looped is told wherever a truncated one is told."""

from pathlib import Path

from tests.cli.conftest import Gage
from tests.support.workspace import ROWS, write_config

MODEL = """
class Model:
    def generate(self, request):
        if request["messages"][-1]["content"].startswith("0 + 1"):
            return {"answer": "I am not sure. " * 30, "finish_reason": "length", "completion_tokens": 150}
        return {"answer": "2, and then", "finish_reason": "length"}
"""


def test_a_loop_is_counted_shown_found_and_exported(gage: Gage, workspace: Path) -> None:
    (workspace / "models.py").write_text(MODEL)
    backend = {"file_path": "models.py", "class_name": "Model"}
    write_config(workspace, backends=[{"backend_id": "model", "type": "custom_script", "config": backend}])
    ran = gage("run", "mine.yaml", "--inline", "--run-id", "first")
    percent = f"{100 / ROWS:.1f} %"
    assert f"{100 * (ROWS - 1) / ROWS:.1f} % + {percent} looped" in ran.out
    assert f"sums: 1 of {ROWS} ({percent}) answers ended in a loop and are scored like any other answer." in ran.out

    shown = gage("show", "first", "--looped").out
    assert shown.splitlines()[0] == f"sums · 1 of {ROWS} answers looped"
    assert "in a loop after 150 tokens" in shown
    assert "s0" not in gage("show", "first", "--truncated").out

    def asked(query: str) -> object:
        return gage("sql", query, "--run", "first", "--json").json

    assert asked("select sample_id from responses where status = 'looped'") == [{"sample_id": "s0"}]
    assert asked("select distinct looped, truncated from metrics") == [{"looped": 1, "truncated": ROWS - 1}]
    gage("show", "first", "--to", "scores.csv")
    assert "looped" in (workspace / "scores.csv").read_text().splitlines()[0]
    gage("export", "first", "--to", "answers")
    (exported,) = (workspace / "answers").glob("*.jsonl")
    assert '"looped"' in exported.read_text()
    page = (workspace / ".gage" / "runs" / "first" / "report.html").read_text()
    assert "Repeated itself until it was cut." in page
