"""What fits a terminal of 80 columns, and that a run says the same while it goes on and afterwards."""

import logging
import re
import sys
import time
from pathlib import Path

import pytest

from gage_eval.cli.output import print_matrix, print_table
from gage_eval.observability.events import FetchProgress, RunStarted, StageProgress
from gage_eval.runs.progress import ConsoleObserver
from gage_eval.runs.results.formatting import progress_text, result_text
from tests.cli.conftest import Gage
from tests.support.workspace import ROWS, write_config, write_rows


def test_the_help_says_each_command_in_one_whole_line(gage: Gage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = gage("-h")
    assert said.code == 0
    assert "..." not in said.out.partition("Commands:")[2]
    assert "<" not in gage("run", "-h").out.partition("Options:")[2].replace("<store>/runs", "")


def test_the_last_column_is_folded_below_itself_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table(("metric", "summary"), [("exact_match", "right " * 20), ("f1", "words")])
    lines = capsys.readouterr().out.splitlines()
    assert [len(line) <= 80 for line in lines] == [True] * 4
    assert lines[2] == " " * 13 + " ".join(["right"] * 9)
    assert lines[3] == "f1           words"


def test_names_that_take_two_columns_a_letter_keep_the_columns_in_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table(("metric", "summary"), [("准确率", "正确 " * 9), ("f1", "words")])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "metric  summary",
        "准确率  " + " ".join(["正确"] * 6),
        " " * 8 + " ".join(["正确"] * 3),
        "f1      words",
    ]


def test_rows_that_do_not_fit_are_blocks_where_a_command_asks_for_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table(("task", "metric"), [("sums", "f1")], right=("task",), stack=True)
    print_table(("task", "metric"), [("sums", "a_long_name_of_one"), ("x", "f1")], right=("task",), stack=True)
    assert capsys.readouterr().out.splitlines() == [
        *("task  metric", "sums  f1"),
        *("task    sums", "metric  a_long_name_of_one", "", "task    x", "metric  f1"),
    ]


def test_spare_columns_make_room_for_the_last_one_and_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(columns: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        print_table(header, [("gsm8k", "MIT", "v1", "Sums and more sums, with words")], spare=("licence", "version"))
        return capsys.readouterr().out.splitlines()

    header = ("suite", "licence", "version", "summary")
    assert len(shown(40)) == 2, "a pipe has every column"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert shown(60)[0].split() == ["suite", "licence", "version", "summary"]
    assert shown(50) == [
        "suite  version  summary",
        "gsm8k  v1       Sums and more sums, with words",
        "not shown on a terminal of this width, but with --json: licence",
    ]
    assert shown(30)[0] == "suite  summary"
    assert shown(30)[-1].endswith(": licence, version")


def test_a_matrix_of_three_models_keeps_its_form_at_120_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    header = ("task", "metric", "n", "small", "middle", "large")
    score = "0.000 [0.00, 0.28] (1–3)"
    rows = [
        ("gsm8k", "gsm8k,flexible-extract exact_match", "1,319", score, score, score),
        (),
        ("average of 2 tasks", "", "", score, score, score),
    ]

    def shown(columns: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        print_matrix(header, rows, first=3, cut=1)
        return capsys.readouterr().out.splitlines()

    assert "gsm8k,flexible-extract exact_match" in shown(100)[1], "a pipe has every name"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = shown(120)
    assert lines[0].split() == list(header)
    assert max(map(len, lines)) <= 120
    assert "…" in lines[1]
    assert lines[1].count(score) == 3
    narrow = shown(80)
    assert max(map(len, narrow)) <= 80
    assert [line.split()[3:] for line in narrow if line.startswith("task")] == [["small"], ["middle"], ["large"]]


def test_a_table_that_is_piped_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("metric", "summary"), [("exact_match", "right " * 20)])
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_what_a_starting_engine_says_is_shown_unless_the_answer_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    engine = logging.getLogger("gage_eval.models.backends.child")
    for quiet in (False, True):
        with ConsoleObserver(quiet=quiet):
            engine.info("loading\x1b[2J for %d s", 10)
            engine.warning("Python shows this on standard error, once")
    engine.info("nobody watches")
    assert capsys.readouterr().out == "  loading\ufffd[2J for 10 s\n"


def test_an_error_shows_nothing_that_a_terminal_acts_on(gage: Gage, workspace: Path) -> None:
    (workspace / "hostile.yaml").write_text('"a\\e[2Jb\\nc": 1\n', encoding="utf-8")
    in_a_file, as_an_argument = gage("validate", "hostile.yaml"), gage("validate", "no\x1b[2J.yaml")
    assert "a\\x1b[2Jb\\nc" in in_a_file.out + in_a_file.err
    for said in (in_a_file, as_an_argument):
        assert said.code == 2
        assert "\x1b" not in said.out + said.err


def test_a_stage_says_what_it_came_to() -> None:
    assert result_text("load", {"raw": 1}, seconds=0.1) == "1 row"
    assert result_text("preprocess", {"requests": 48, "prepared": 48}) == "48 requests"
    assert result_text("judge", {"judgments": 0}) == "–"
    counts = {"responses": 1319, "sent": 1051, "reused": 268, "retried": 3, "error": 2}
    assert result_text("infer", counts) == "1,319 rows · 2 in error"
    said = result_text("infer", counts, seconds=4.0)
    assert said == "1,319 rows · 268 reused · 3 retried · 263 requests/s · 2 in error"
    assert result_text("infer", {"responses": 48, "sent": 48}, seconds=377.0) == "48 rows · 0.13 requests/s"
    under_way = {"rows_per_s": 212.4, "in_flight": 64, "errors": 0, "retried": 3}
    assert progress_text(under_way) == "212 rows/s · 64 in flight · 3 retried"
    assert progress_text(under_way, moving=False) == "3 retried"


def test_elsewhere_than_on_a_terminal_a_running_stage_has_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    figures = {"rows_per_s": 10.0, "in_flight": 64, "errors": 2}
    for quiet in (False, True):
        with ConsoleObserver(quiet=quiet) as console:
            for done in range(0, 800, 10):
                console.emit(StageProgress("sums", "infer", done, 1000, figures))
                console.emit(FetchProgress(done * 2**20, 2**30))
                now[0] += 1.0
    assert capsys.readouterr().out.splitlines() == [
        "  infer                  300 of 1,000 · 10 rows/s · 64 in flight · 2 in error · about 70 s left",
        "  data                   300.0 MiB of 1.0 GiB",
        "  infer                  600 of 1,000 · 10 rows/s · 64 in flight · 2 in error · about 40 s left",
        "  data                   600.0 MiB of 1.0 GiB",
    ]


def test_a_quiet_run_prints_its_scores_and_a_json_one_its_summary(gage: Gage) -> None:
    quiet = gage("run", "mine.yaml", "--inline", "--run-id", "first", "--quiet").out.splitlines()
    assert [line.split()[0] for line in quiet[:3]] == ["model", "task", "sums"]
    assert quiet[-1].startswith("report ")
    assert gage("resume", "first", "--inline", "-q").out.splitlines()[:3] == quiet[:3]
    summary = gage("run", "mine.yaml", "--inline", "--run-id", "second", "--json").json
    assert summary["run"]["run_id"] == "second"


def test_the_only_task_is_not_named_before_its_stages(gage: Gage) -> None:
    said = gage("run", "mine.yaml", "--inline", "--run-id", "first").out
    assert re.search(rf"^  preprocess +[0-9.]+ s   {ROWS} requests$", said, re.MULTILINE)
    shown = gage("show", "first").out
    assert re.search(rf"^preprocess +finished +{ROWS} requests +prepared [0-9a-f]{{8}}$", shown, re.MULTILINE)
    assert "report  .gage/runs/first/report.html" in said


def test_stages_of_few_shot_examples_say_so(gage: Gage, workspace: Path) -> None:
    write_rows(workspace, 2, name="pool.jsonl", first=40)
    datasets = [{"dataset_id": name, "params": {"path": f"{name}.jsonl"}} for name in ("rows", "pool")]
    few = {"k": 1, "dataset_id": "pool"}
    write_config(workspace, datasets=datasets, tasks=[{"task_id": "sums", "dataset_id": "rows", "few_shot": few}])
    said = gage("run", "mine.yaml", "--inline", "--run-id", "first").out
    assert re.search(r"^  load +[0-9.]+ s   2 rows · few-shot examples$", said, re.MULTILINE)
    shown = gage("show", "first").out
    stages = [line.split()[0] for line in shown.partition("stage ")[2].splitlines()[1:]]
    assert stages[:5] == ["load", "load", "standardize", "standardize", "preprocess"]
    assert re.search(r"^standardize +finished +2 rows · few-shot examples ", shown, re.MULTILINE)


def test_runs_are_listed_as_they_are_shown(gage: Gage) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    assert gage("list", "runs").out == gage("show").out


def test_an_interruption_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    console = ConsoleObserver()
    console.emit(RunStarted("first", "small", ("sums",), "gage resume first"))
    console.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert capsys.readouterr().out.splitlines() == [
        "small · 1 task · inline · run first",
        "Resume it: gage resume first",
    ]


def test_the_way_back_is_a_command_that_works(gage: Gage) -> None:
    """Of a run in another store, with the options that lead there."""
    flags = ("--store", "other store", "--inline")
    broken = ("--set", "backends[0].config.fail_sample_ids=[s1]")
    said = gage("run", "mine.yaml", *flags, *broken, "--run-id", "first")
    assert "gage resume first --store 'other store'" in said.err
    assert "gage resume first --store 'other store'" in gage("show", "first", "--store", "other store").out
    assert gage("resume", "first", *flags).code == 1, "the dummy still fails"
