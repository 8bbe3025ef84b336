"""judge: a verdict is read from the judge's last word, and an unreadable one is nobody's fault."""

import re
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stages.calling import Bench

from gage_eval import stages
from gage_eval.metrics import bind
from gage_eval.stages import StageResult
from gage_eval.stages.judge import judgment
from gage_eval.stages.judge_overrides import judge_override
from gage_eval.stages.render import RoleSource
from gage_eval.stages.specs import PromptBinding, ScoreSpec

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
        ("Fine. Rating: [[8]]", None, 8.0),
        ("[[6.5]], no: [[8]]", None, 6.5),
        ("[[8]]\nSCORE: 3", None, 3.0),
        ("So [[B]] it is", "B", None),
        ("[[C]]", "tie", None),
        ("[[A]]\nVERDICT: B", "B", None),
        ("as in [1]", None, None),
        ("[[8", None, None),
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


OWN_RULES = [
    {},
    {"eval_config": {"judge": {"prompt_params": {"scale": 5}}}},
    {"eval_config": {"judge": {"prompt_id": "strict", "params": {"temperature": 0.5}}}},
    {"eval_config": {"judge": {"prompt_id": "strickt"}}},
]


def judged_by_own_rules(bench: Bench, **given: Any) -> tuple[StageResult, dict[str, StageResult]]:
    """Judgments of four samples that set their judge's prompt, its parameters, or a prompt that is not there."""
    records = [
        {"id": f"s{row}", "messages": [{"role": "user", "content": "Q"}], "label": "A", **own}
        for row, own in enumerate(OWN_RULES)
    ]
    samples = bench.samples(records)
    prepared = bench.preprocess(samples, params={"max_new_tokens": 3})
    responses = bench.infer(prepared, bench.model(mode="echo"))
    plain = bench.model("judge_model", prompt="RATING: {{ prompt_params.scale | default(1) }}", mode="echo")
    strict = PromptBinding("strict", given.get("strict", "RATING: 0"), None, {})
    inputs = {"samples": samples, "responses": responses}
    return bench.judge(replace(plain, prompts={"strict": strict}), prepared=prepared, **inputs), inputs


def test_a_sample_sets_its_judges_prompt_and_parameters(bench: Bench) -> None:
    result, inputs = judged_by_own_rules(bench)
    rows = bench.rows(result, "judgments")
    assert [row["score"] for row in rows] == [1.0, 5.0, 0.0, None]
    assert [row["status"] for row in rows] == ["ok", "ok", "ok", "skipped"]
    metric = bind("judge_threshold", {"threshold": 1})
    (number,) = bench.rows(
        stages.auto_eval(bench.env, ScoreSpec("t", (metric,), max_unscored_share=1.0), judgments=result, **inputs),
        "metrics",
    )
    assert (number["value"], number["n"], number["overridden"], number["unscored"]) == (pytest.approx(2 / 3), 3, 2, 1)
    told = bench.store.artifact(number["scores"]).table().to_pylist()[3]["explanation"]
    assert told == "eval_config.judge.prompt_id: no prompt 'strickt' in the config. Did you mean 'strict'?"


def test_another_text_of_a_prompt_that_a_sample_names_is_judged_again(bench: Bench) -> None:
    first, _ = judged_by_own_rules(bench)
    assert judged_by_own_rules(bench)[0].cached
    again, _ = judged_by_own_rules(bench, strict="RATING: 3")
    assert not again.cached
    assert bench.rows(again, "judgments")[2]["score"] == 3.0
    assert again.counts["sent"] == 1
    assert first.key != again.key


def test_the_parameters_of_a_sample_are_the_models_and_not_the_judges(bench: Bench) -> None:
    """The task's max_new_tokens would cut the verdict."""
    _, inputs = judged_by_own_rules(bench)
    model = replace(bench.model("judge_model", prompt="{{ model_answer }}"), params={"temperature": 0})
    prepared = bench.preprocess(inputs["samples"], params={"max_new_tokens": 3})
    artifacts = {name: bench.artifact(result, name) for name, result in inputs.items()}
    source = RoleSource(
        replace(model, prompts={"strict": PromptBinding("strict", "x", None, {})}),
        bench.artifact(prepared, "prepared"),
        **artifacts,
    )
    requests = source.render(source.read(0))
    assert [request.params for request in requests] == [{"temperature": 0}] * 2 + [
        {"temperature": 0.5},
        {"temperature": 0},
    ]


@pytest.mark.parametrize(
    ("judge", "refused"),
    [
        ("x", "is no mapping"),
        ({"prompt": "x"}, "has no 'prompt'.*Did you mean 'prompt_id'"),
        ({"params": 3}, "params is no mapping"),
        ({"prompt_id": 3}, "no prompt '3'"),
    ],
)
def test_settings_that_cannot_be_used_say_why(judge: Any, refused: str) -> None:
    override = judge_override({"judge": judge}, ["strict"])
    assert override is not None
    assert re.search(refused, override.refused or "")
    assert judge_override({}, []) is judge_override(None, []) is None


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
