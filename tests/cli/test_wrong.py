"""gage show RUN --wrong and gage export RUN: why answers are wrong, and all of them in a file."""

import re
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Gage
from tests.support.workspace import ROWS, write_config

TALKATIVE = "I was told to think about it step by step, so I did, and then once more. So the answer is 2."


def answering(answer: str, **changes: Any) -> dict[str, Any]:
    """A config whose model says this to everything, and whose metric looks for a number."""
    backend = {"backend_id": "model", "type": "dummy", "config": {"answer": answer, **changes}}
    metric = {"metric_id": "exact", "implementation": "exact_match", "filters": ["last_number"]}
    return {"backends": [backend], "metrics": [metric, "contains"]}


def test_wrong_answers_say_what_was_expected_and_what_was_read_from_where(gage: Gage, workspace: Path) -> None:
    write_config(workspace, **answering(TALKATIVE))
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    lines = gage("show", "first", "--wrong", "-n", "2").out.splitlines()
    assert lines[0] == f"sums · {ROWS - 1} of {ROWS} answers wrong by exact,last_number"
    assert lines[1].startswith("s0  expected 1   read 2 from ")
    assert lines[1].endswith('So the answer is 2."')
    assert lines[2].startswith("s2  expected 3   read 2 from ")
    assert lines[3] == "2 of 5 shown; more with -n 5"
    assert lines[4] == "show one: gage show first --sample s0"
    said = gage("show", "first", "--sample", "s0").out
    for words in ("0 + 1 = ?", TALKATIVE, "expected\n  1\n", "exact,last_number: scored score=0 · read '2'"):
        assert words in said


def test_wrong_answers_as_json_have_question_request_answer_reference_and_score(gage: Gage, workspace: Path) -> None:
    write_config(workspace, **answering(TALKATIVE))
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    (task,) = gage("show", "first", "--wrong", "--json").json
    assert (task["task_id"], task["metric"], task["matching"], task["answers"]) == (
        "sums",
        "exact,last_number",
        5,
        ROWS,
    )
    first = task["shown"][0]
    assert (first["question"], first["expected"], first["answer"]) == ("0 + 1 = ?", "1", TALKATIVE)
    assert (first["extracted"], first["score_status"], first["value"]) == ("2", "scored", 0)
    assert first["sent"][0]["messages"][0]["content"] == "0 + 1 = ?"


def test_a_wrong_tool_call_is_shown_beside_the_expected_one(gage: Gage, workspace: Path) -> None:
    def call(city: str) -> dict[str, Any]:
        function = {"name": "weather", "arguments": orjson.dumps({"city": city}).decode()}
        return {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}

    record = {
        "id": "a",
        "messages": [{"role": "user", "content": "How is it in Rome?"}],
        "tools": [{"type": "function", "function": {"name": "weather"}}],
        "golden_trajectories": [[call("Rome")]],
    }
    (workspace / "rows.jsonl").write_bytes(orjson.dumps(record))
    answer = {"tool_calls": call("Oslo")["tool_calls"]}
    (workspace / "models.py").write_text(f"class Model:\n    def generate(self, request):\n        return {answer}\n")
    backend = {"file_path": "models.py", "class_name": "Model"}
    write_config(
        workspace,
        datasets=[{"dataset_id": "trips", "params": {"path": "rows.jsonl", "preprocess": "agent"}}],
        backends=[{"backend_id": "model", "type": "custom_script", "config": backend}],
        metrics=["tool_call_match"],
    )
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    line = gage("show", "first", "--wrong").out.splitlines()[1]
    assert line.startswith('a  expected weather {"city":"Rome"} ')
    assert line.endswith('from "weather {"city":"Oslo"}"')
    assert 'expected\n  weather {"city":"Rome"}\n' in gage("show", "first", "--sample", "a").out


def test_another_metric_may_decide(gage: Gage, workspace: Path) -> None:
    write_config(workspace, **answering("1 2 3 4 5"))
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    assert gage("show", "first", "--wrong").out.startswith("sums · 5 of 6 answers wrong by exact")
    by_other = gage("show", "first", "--wrong", "--metric", "contains").out
    assert by_other.startswith("sums · 1 of 6 answers wrong by contains\ns5  expected 6   answered ")
    said = gage("show", "first", "--wrong", "--metric", "contians")
    assert (said.code, said.out) == (2, "")
    assert "no metric 'contians'. Metrics: exact,last_number, contains. Did you mean 'contains'?" in said.err


def test_unparsed_answers_say_why_and_count_among_the_wrong(gage: Gage, workspace: Path) -> None:
    write_config(workspace, **answering("I cannot help with that."))
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    said = gage("show", "first", "--unparsed", "-n", "1").out
    assert said.startswith(f"sums · {ROWS} of {ROWS} answers unparsed\n")
    assert 's0  expected 1   read nothing from "I cannot help with that."' in said
    reason = gage("show", "first", "--unparsed", "--json").json[0]["shown"][0]["explanation"]
    assert reason
    assert reason in said
    assert "answers wrong by exact,last_number (6 unparsed)" in gage("show", "first", "--wrong").out


def test_errors_say_what_the_last_attempt_was_told(gage: Gage, workspace: Path) -> None:
    write_config(workspace, **answering("2", fail_sample_ids=["s1", "s4"]))
    assert gage("run", "mine.yaml", "--inline", "--run-id", "first").code == 1
    lines = gage("show", "first", "--error").out.splitlines()
    assert lines[0] == f"sums · 2 of {ROWS} answers in error"
    assert [line.split()[0] for line in lines[1:3]] == ["s1", "s4"]
    assert lines[1].endswith("the dummy was told to fail")
    said = gage("show", "first", "--wrong")
    assert said.code == 2
    assert (
        "auto_eval of task 'sums' has not finished in run first (the run is failed); resume it: gage resume first"
        in said.err
    )


def test_nothing_wrong_is_said_in_one_line(gage: Gage) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    assert gage("show", "first", "--truncated").out == f"sums · 0 of {ROWS} answers truncated\n"
    both = gage("show", "first", "--truncated", "--refused").out
    assert both == f"sums · 0 of {ROWS} answers truncated or refused\n"


def test_answers_without_a_score_are_not_taken_for_right_ones(gage: Gage, workspace: Path) -> None:
    metric = {
        "metric_id": "two",
        "implementation": "numeric_match",
        "params": {"label_field": "sample.messages.0.role"},
    }
    task = {"task_id": "sums", "dataset_id": "sums", "max_unscored_share": 1.0}
    write_config(workspace, **{**answering("2"), "metrics": [metric], "tasks": [task]})
    said = gage("run", "mine.yaml", "--inline", "--run-id", "first")
    assert said.code == 0, said.err
    assert gage("show", "first", "--wrong").out == f"sums · 0 of {ROWS} answers wrong by two ({ROWS} without a score)\n"


def test_a_metric_without_right_and_wrong_is_refused_with_a_remedy(gage: Gage, workspace: Path) -> None:
    metric = {"metric_id": "length", "implementation": "text_length"}
    write_config(workspace, **{**answering("a long answer"), "metrics": [metric]})
    assert gage("run", "mine.yaml", "--inline", "--run-id", "first").code == 0
    said = gage("show", "first", "--wrong")
    assert said.code == 2
    assert said.err == "no answer is right or wrong by metric 'length'. Name another metric with --metric.\n"
    own = workspace / "own.py"
    own.write_text("def points(prediction: str) -> float:\n    return float(len(prediction))\n")
    write_config(workspace, **{**answering("a long answer"), "metrics": ["own.py:points"]})
    gage("run", "mine.yaml", "--inline", "--run-id", "second")
    said = gage("show", "second", "--wrong")
    assert said.code == 2
    assert "declares no bounds and has values outside 0..1 (up to 13, down to 13)" in said.err
    assert "@metric(bounds=…)" in said.err


def test_canonical_answers_are_refused_where_no_task_has_an_answer_type(gage: Gage, workspace: Path) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    said = gage("export", "first", "--format", "canonical_answers", "--format", "jsonl", "--to", "out")
    assert (said.code, said.out) == (2, "")
    assert "no task of run first has an answer type, so there are no canonical answers" in said.err
    assert not list((workspace / "out").glob("*"))


def test_where_lower_is_better_the_answers_above_zero_are_wrong(gage: Gage, workspace: Path) -> None:
    write_config(workspace, **{**answering("2"), "metrics": ["ter"]})
    ran = gage("run", "mine.yaml", "--inline", "--run-id", "first")
    assert "ter ↓" in ran.out
    assert "↓ lower is better" in ran.out
    lines = gage("show", "first", "--wrong").out.splitlines()
    assert lines[0] == f"sums · {ROWS - 1} of {ROWS} answers wrong by ter"
    assert [line.split()[0] for line in lines[1:ROWS]] == ["s0", "s2", "s3", "s4", "s5"]
    (metric,) = orjson.loads((workspace / ".gage/runs/first/summary.json").read_bytes())["metrics"]
    assert (metric["higher_is_better"], metric["bound_low"], metric["bound_high"]) == (False, 0, None)
    page = (workspace / ".gage/runs/first/report.html").read_text(encoding="utf-8")
    assert "ter ↓" in page
    assert "↓ lower is better" in page


@pytest.mark.parametrize("name", ["latency", "text_length"])
def test_nothing_is_wrong_by_a_number_that_no_answer_can_get_right(gage: Gage, workspace: Path, name: str) -> None:
    write_config(workspace, **{**answering("2"), "metrics": [name, "exact_match"]})
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    said = gage("show", "first", "--wrong", "--metric", name)
    assert (said.code, said.err) == (
        2,
        f"no answer is right or wrong by metric '{name}'. Name another metric with --metric.\n",
    )


def test_what_an_answer_holds_cannot_act_on_the_terminal(gage: Gage, workspace: Path) -> None:
    write_config(workspace, **answering("\x1b[2J gone 7"))
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    assert "\x1b" not in gage("show", "first", "--wrong").out
    assert "\x1b" not in gage("show", "first", "--sample", "s0").out


def test_a_long_id_is_shown_whole_and_moves_no_other_answer(gage: Gage, workspace: Path) -> None:
    rows = [{"id": name, "question": "?", "answer": "1"} for name in ("i" * 3_000, "short")]
    (workspace / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    write_config(workspace, **answering("2"))
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    said = gage("show", "first", "--wrong").out
    assert "i" * 3_000 in said
    assert next(line for line in said.splitlines() if line.startswith("short")).index("expected") < 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--wrong",), "need a run: gage show RUN --wrong"),
        (("first", "--wrong", "--sample", "s1"), "--sample and --wrong exclude each other"),
        (("first", "--metric", "contains"), "gage show first --wrong --metric contains"),
        (("first", "--wrong", "--task", "sum"), "Did you mean 'sums'?"),
    ],
)
def test_options_that_do_not_go_together_are_refused(gage: Gage, arguments: tuple[str, ...], message: str) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    said = gage("show", *arguments)
    assert said.code == 2
    assert message in said.err


def test_a_run_is_exported_afterwards_as_it_would_have_been_by_its_config(gage: Gage, workspace: Path) -> None:
    write_config(workspace, export=["jsonl"])
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    folder = workspace / ".gage" / "runs" / "first"
    before = (folder / "samples.jsonl").read_bytes()
    (folder / "samples.jsonl").unlink()
    said = gage("export", "first")
    assert (said.code, said.out) == (0, ".gage/runs/first/samples.jsonl\n")
    assert (folder / "samples.jsonl").read_bytes() == before
    assert len(before.splitlines()) == ROWS


def test_an_export_goes_to_another_folder_in_several_formats(gage: Gage, workspace: Path) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    said = gage("export", "first", "--to", "out/here", "--format", "parquet", "--format", "per_sample_json")
    assert said.out.splitlines() == ["out/here/samples.parquet", "out/here/samples"]
    assert pq.read_table(workspace / "out/here/samples.parquet").num_rows == ROWS
    sample = orjson.loads((workspace / "out/here/samples/sums/s1.json").read_bytes())
    assert sample["predict_result"][0]["answer"] == "2"
    assert not re.search(r"samples\.", " ".join(path.name for path in (workspace / ".gage/runs/first").iterdir()))


def test_an_export_of_what_is_not_there_is_refused(gage: Gage, workspace: Path) -> None:
    write_config(workspace, **answering("2", fail_sample_ids=["s1"]))
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    said = gage("export", "first")
    assert said.code == 2
    assert "auto_eval of task 'sums' has not finished" in said.err
    assert "gage resume first" in said.err
    assert "Did you mean 'jsonl'?" in gage("export", "first", "--format", "jsonll").err
    (workspace / "file").write_text("")
    assert "cannot be created" in gage("export", "first", "--to", "file/below").err
