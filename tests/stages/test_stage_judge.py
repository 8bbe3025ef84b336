"""judge: a verdict is read from the judge's last word, and an unreadable one is nobody's fault."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stages.calling import Bench

from gage_eval.stages.judge import judgment

ROW = {"row_index": 3, "sample_id": "s", "replicate": 1, "response_key": "k"}
RECORDS = [{"id": f"s{row}", "question": f"Q{row}", "answer": f"A{row}"} for row in range(4)]


def read(text: str | None, status: str = "ok") -> dict[str, Any]:
    return judgment({**ROW, "status": status, "answer": text})


@pytest.mark.parametrize(
    ("text", "answer", "score"),
    [
        ("CORRECT: A\nSCORE: 1.0", "A", 1.0),
        ("I think so.\n  verdict :  partly right  \nrating:-2.5", "partly right", -2.5),
        ("SCORE: 1\nOn second thought\nSCORE: 0", None, 0.0),
        ("ANSWER: B\r\nANSWER: C\r\n", "C", None),
        ("**Score**: 1", None, None),
        ("SCORE: 1/10", None, None),
        ("SCORE: nan", None, None),
        ("SCORE: 1" + "0" * 400, None, None),
        ("the SCORE: 1", None, None),
        ("CORRECT:", None, None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_the_last_verdict_line_and_the_last_score_line_count(
    text: str | None, answer: str | None, score: float | None
) -> None:
    found = read(text)
    assert (found["answer"], found["score"]) == (answer, score)
    assert found["status"] == ("unparsed" if answer is None and score is None else "ok")
    assert found["text"] == text
    assert {name: found[name] for name in ROW} == ROW


@pytest.mark.parametrize("status", ["truncated", "refused"])
def test_a_verdict_that_broke_off_counts_as_it_stands(status: str) -> None:
    assert read("SCORE: 1", status)["status"] == "ok"
    assert read("I cannot", status)["status"] == "unparsed"


@pytest.mark.parametrize("status", ["error", "skipped"])
def test_a_judge_that_did_not_answer_keeps_its_status(status: str) -> None:
    assert read(None, status)["status"] == status


@given(st.text(max_size=200), st.sampled_from(["", "SCORE: ", "ANSWER:", "\n"]))
def test_any_text_is_read(text: str, before: str) -> None:
    found = read(before + text)
    assert found["status"] in {"ok", "unparsed"}


@pytest.mark.parametrize("unit", ["\n", " \n", " ", "ANSWER: a ", "SCORE: 1 ", "1", "ANSWER\n:"])
def test_reading_takes_time_in_proportion_to_the_length(unit: str) -> None:
    def seconds(length: int) -> float:
        text = "ANSWER: a" + unit * (length // len(unit)) + "x"
        started = time.process_time()
        read(text)
        return time.process_time() - started

    seconds(20_000)
    short, long = (min(seconds(length) for _ in range(3)) for length in (20_000, 640_000))
    # 32 times the text: a square would take 1024 times as long.
    assert long < 200 * max(short, 1e-4)


def test_judgments_stand_beside_the_responses_row_by_row(bench: Bench) -> None:
    samples = bench.samples(RECORDS)
    prepared = bench.preprocess(samples, replicates=2)
    responses = bench.infer(prepared, bench.model(mode="echo"))
    judge = bench.model("judge_model", prompt="Is {{ model_answer }} right?\nSCORE: 1", mode="echo")
    result = bench.judge(judge, prepared=prepared, samples=samples, responses=responses)
    rows = bench.rows(result, "judgments")
    assert [(row["row_index"], row["replicate"], row["score"]) for row in rows] == [
        (row, replicate, 1.0) for row in range(4) for replicate in range(2)
    ]
    assert set(result.outputs) == {"judgments", "judge_responses", "judge_response_telemetry"}


def test_an_error_of_the_judge_leaves_its_judgments_incomplete(bench: Bench) -> None:
    samples = bench.samples(RECORDS)
    prepared = bench.preprocess(samples)
    responses = bench.infer(prepared, bench.model(mode="echo"))
    judge = bench.model("judge_model", prompt="{{ model_answer }}", fail_sample_ids=["s2"], max_error_share=1.0)
    result = bench.judge(judge, prepared=prepared, samples=samples, responses=responses)
    assert not result.complete
    assert not bench.artifact(result, "judgments").complete
    assert [row["status"] for row in bench.rows(result, "judgments")] == ["unparsed", "unparsed", "error", "unparsed"]


def test_without_a_judge_the_judgments_are_empty(bench: Bench) -> None:
    samples = bench.samples(RECORDS)
    prepared = bench.preprocess(samples)
    responses = bench.infer(prepared, bench.model())
    result = bench.judge(None, prepared=prepared, samples=samples, responses=responses)
    assert bench.artifact(result, "judgments").rows == 0
    assert list(result.outputs) == ["judgments"]
