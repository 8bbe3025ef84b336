"""judge: a verdict is read from the judge's last word, and an unreadable one is nobody's fault."""

import re
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipeline.calling import Bench

from gage_eval.base.errors import RunFailed
from gage_eval.base.stages import StageResult
from gage_eval.extend.registry import Plugin
from gage_eval.pipeline import stages
from gage_eval.pipeline.generate_spec import GenerateSpec, PromptBinding
from gage_eval.pipeline.judge_overrides import judge_override
from gage_eval.pipeline.judge_spec import JudgeSpec
from gage_eval.pipeline.judgments import judgment
from gage_eval.pipeline.source import RoleSource
from gage_eval.pipeline.specs import ScoreSpec
from gage_eval.scoring.metrics import bind
from gage_eval.scoring.metrics.verdicts import Verdict, VerdictParser, read_parser

ROW = {"row_index": 3, "sample_id": "s", "replicate": 1, "response_key": "k"}
ASK = {"judge": None, "slot": 0, "draw": 0, "binding": "b"}
REASONS = {"error": "judge_failed", "skipped": "not_asked"}
RECORDS = [{"id": f"s{row}", "question": f"Q{row}", "answer": f"A{row}"} for row in range(4)]


def read(text: str | None, status: str = "ok") -> dict[str, Any]:
    return judgment({**ROW, "status": status, "answer": text, "error_kind": None}, read_parser(), ASK)


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
        ("[[-8]]", None, None),
        ("[[" + "9" * 400 + "]]", None, None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_the_last_verdict_line_and_the_last_score_line_count(
    text: str | None, answer: str | None, score: float | None
) -> None:
    judgment = read(text)
    assert (judgment["answer"], judgment["score"]) == (answer, score)
    assert judgment["status"] == ("unparsed" if answer is None and score is None else "ok")
    assert judgment["text"] == text
    assert {name: judgment[name] for name in (*ROW, *ASK)} == {**ROW, **ASK}


@pytest.mark.parametrize("status", ["truncated", "refused"])
def test_a_verdict_that_broke_off_counts_as_it_stands(status: str) -> None:
    assert (read("SCORE: 1", status)["status"], read("SCORE: 1", status)["reason"]) == ("ok", None)
    reason = "judge_refused" if status == "refused" else "no_verdict"
    assert (read("I cannot", status)["status"], read("I cannot", status)["reason"]) == ("unparsed", reason)


@pytest.mark.parametrize("status", ["error", "skipped"])
def test_a_judge_that_did_not_answer_keeps_its_status(status: str) -> None:
    assert (read(None, status)["status"], read(None, status)["reason"]) == (status, REASONS[status])


@given(st.text(max_size=200), st.sampled_from(["", "SCORE: ", "ANSWER:", "\n"]))
def test_any_text_is_read(text: str, before: str) -> None:
    judgment = read(before + text)
    assert judgment["status"] in {"ok", "unparsed"}


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


def test_another_parser_reads_the_stored_answers_and_asks_the_judge_nothing(bench: Bench) -> None:
    samples = bench.samples(RECORDS)
    prepared = bench.preprocess(samples)
    inputs = {"prepared": prepared, "samples": samples, "responses": bench.infer(prepared, bench.model(mode="echo"))}
    judge = bench.model("judge_model", prompt="Grade: 7 of {{ model_answer }}", mode="echo")
    first = bench.judge(judge, **inputs)
    assert {row["status"] for row in bench.rows(first, "judgments")} == {"unparsed"}
    again = bench.judge(judge, parsers={"a": {"filters": {"score": "first_number"}}}, **inputs)
    assert (first.counts["sent"], again.counts["sent"]) == (4, 0)
    assert {row["score"] for row in bench.rows(again, "judgments")} == {7.0}
    assert again.outputs["judge_responses"] == first.outputs["judge_responses"]
    assert bench.judge(judge, parsers={"a": {"filters": {"score": ["first_number"]}}}, **inputs).cached


def test_a_parser_that_raises_costs_its_rows_and_says_why(bench: Bench) -> None:
    def broken(text: str) -> Verdict:
        return Verdict(score=float(text))

    parser = VerdictParser(Plugin("verdict_parsers", "broken", broken, 1, "", "sha256:0"), {})
    response = {**ROW, "status": "ok", "error_kind": None}
    assert judgment({**response, "answer": "0.5"}, parser, ASK)["score"] == 0.5
    row = judgment({**response, "answer": "half"}, parser, ASK)
    assert (row["status"], row["reason"], row["text"]) == ("unparsed", "parser_failed", "half")
    assert row["explanation"].startswith(
        "verdict parser broken failed: test_stage_judge.py:test_a_parser_that_raises_costs_its_rows_and_says_why."
        "<locals>.broken() raised ValueError: could not convert string to float: 'half' (test_stage_judge.py, "
        "line "
    )
    assert judgment({**response, "answer": "nan"}, parser, ASK)["reason"] == "parser_failed"


OWN_RULES = [
    {},
    {"eval_config": {"judge": {"prompt_params": {"scale": 5}}}},
    {"eval_config": {"judge": {"prompt_id": "strict", "params": {"temperature": 0.5}}}},
    {"eval_config": {"judge": {"prompt_id": "strickt"}}},
]


def judged_by_own_rules(bench: Bench, **rules: Any) -> tuple[StageResult, dict[str, StageResult]]:
    """Judgments of four samples that set their judge's prompt, its parameters, or a prompt that is not there."""
    records = [
        {"id": f"s{row}", "messages": [{"role": "user", "content": "Q"}], "label": "A", **own}
        for row, own in enumerate(OWN_RULES)
    ]
    samples = bench.samples(records)
    prepared = bench.preprocess(samples, params={"max_new_tokens": 3})
    responses = bench.infer(prepared, bench.model(mode="echo"))
    plain = bench.model("judge_model", prompt="RATING: {{ prompt_params.scale | default(1) }}", mode="echo")
    strict = PromptBinding("strict", rules.get("strict", "RATING: 0"), None, {})
    inputs = {"samples": samples, "responses": responses}
    spec = JudgeSpec("t", plain, prompts={"a": {"strict": strict}})
    return stages.judge(bench.env, spec, prepared=prepared, **inputs), inputs


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
    told = bench.store.artifact(number["scores"]).table().to_pylist()[3]
    assert told["reason"] == rows[3]["reason"] == "invalid_override"
    assert told["explanation"] == (
        "eval_config.judge.prompt_id: no prompt 'strickt' in the config. Did you mean 'strict'?"
    )


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
    stage_inputs = {**inputs, "prepared": prepared}
    ids = {name: result.outputs[name] for name, result in stage_inputs.items()}
    spec = JudgeSpec("t", model, prompts={"a": {"strict": PromptBinding("strict", "x", None, {})}})
    (asks,) = spec.asks(spec.explicit_asks(bench.store, ids))
    requests = RoleSource.of(asks, bench.store, ids).open(0).render(0, 3)
    assert [request.params for request in requests] == [{"temperature": 0}] * 2 + [{"temperature": 0.5}]


OWN_JUDGES: list[dict[str, Any]] = [
    {},
    {"eval_config": {"judge": {"adapter_id": "expert"}}},
    {"eval_config": {"judge": {"adapter_id": "a"}}},
    {"eval_config": {"judge": {"adapter_id": "expert", "prompt_params": {"scale": 7}, "prompt_id": "wide"}}},
    {"eval_config": {"judge": {"adapter_id": "exprt"}}},
    {"eval_config": {"judge": {"adapter_id": "idle", "prompt_id": "gone"}}},
]


class Judges:
    """The task's judge, one that samples name and one that nobody names; the texts of their prompts can change."""

    def __init__(self, bench: Bench, share: float = 0.01, **expert: Any) -> None:
        self.bench = bench
        self.share = share
        records = [
            {"id": f"s{row}", "messages": [{"role": "user", "content": "Q"}], "label": "A", **own}
            for row, own in enumerate(OWN_JUDGES)
        ]
        self.samples = bench.samples(records)
        self.prepared = bench.preprocess(self.samples, replicates=2)
        self.responses = bench.infer(self.prepared, bench.model(mode="echo"))
        self.expert = self._judge("expert", expert.pop("template", "RATING: 2"), **expert)

    def _judge(self, name: str, template: str, **config: Any) -> GenerateSpec:
        model = self.bench.model("judge_model", prompt=template, mode="echo", max_error_share=self.share, **config)
        return replace(model, adapter_id=name)

    @property
    def spec(self) -> JudgeSpec:
        own, idle = self._judge("a", "RATING: 1"), self._judge("idle", "RATING: 9")
        wide = PromptBinding("wide", "RATING: {{ prompt_params.scale }}", None, {"scale": 1})
        prompts = {name: {"wide": wide} for name in ("a", self.expert.adapter_id, "idle")}
        return JudgeSpec("t", own, (self.expert, idle), prompts)

    @property
    def inputs(self) -> dict[str, StageResult]:
        return {"prepared": self.prepared, "samples": self.samples, "responses": self.responses}

    def ask(self, **parsers: Any) -> StageResult:
        read = {name: read_parser(entry) for name, entry in parsers.items()}
        return stages.judge(self.bench.env, replace(self.spec, parsers=read), **self.inputs)


def test_a_sample_names_another_judge(bench: Bench) -> None:
    result = Judges(bench).ask()
    rows = bench.rows(result, "judgments")
    assert [(row["row_index"], row["replicate"]) for row in rows] == [
        (row, turn) for row in range(6) for turn in (0, 1)
    ]
    assert (
        [row["score"] for row in rows[::2]] == [row["score"] for row in rows[1::2]] == [1.0, 2.0, 1.0, 7.0, None, None]
    )
    assert [row["row_index"] for row in bench.rows(result, "judge_expert_responses")[::2]] == [1, 3]
    assert "judge_idle_responses" not in result.outputs
    assert [row["reason"] for row in rows[::2]] == [None] * 4 + ["invalid_override"] * 2
    assert [row["explanation"] for row in rows[8::2]] == [
        "eval_config.judge.adapter_id: no judge 'exprt' in the config. Did you mean 'expert'?",
        "eval_config.judge.prompt_id: no prompt 'gone' in the config.",
    ]
    own, wide, strict = rows[0]["binding"], rows[6]["binding"], rows[2]["binding"]
    assert len({own, wide, strict}) == 3, "a judgment says which judge gave it, and under which prompt"
    assert [row["binding"] for row in rows[::2]] == [own, strict, own, wide, None, None]
    asks = bench.rows(result, "asks")
    assert [row["binding"] for row in asks] == [row["binding"] for row in rows]
    assert [row["why"] for row in asks[:8:2]] == [None, *["eval_config.judge"] * 3]
    assert result.counts["sent"] == 3, "two rows ask the task's judge the same, and so do the replicates of each row"
    assert (result.counts["ok"], result.counts["skipped"]) == (8, 4)


def test_a_judge_that_samples_name_counts_in_the_key_and_one_that_nobody_names_does_not(bench: Bench) -> None:
    first = Judges(bench).ask()
    assert Judges(bench).ask().cached
    again = Judges(bench, template="RATING: 3").ask()
    assert not again.cached
    assert again.counts["sent"] == 1, "the row under the prompt that it names is asked the same as before"
    assert [row["score"] for row in bench.rows(again, "judgments")[::2]] == [1.0, 3.0, 1.0, 7.0, None, None]
    judges = Judges(bench)
    judges.expert = replace(judges.expert, adapter_id="renamed")
    assert judges.ask().key not in (first.key, again.key)


def test_each_judge_has_its_own_parser(bench: Bench) -> None:
    judges = Judges(bench)
    first = judges.ask(expert={"filters": {"answer": "last_number"}})
    rows = bench.rows(first, "judgments")[::2]
    assert [row["score"] for row in rows] == [1.0, None, 1.0, None, None, None]
    assert [row["answer"] for row in rows] == [None, "2", None, "7", None, None]
    assert judges.ask(expert={"filters": {"answer": "last_number"}}).cached
    again = judges.ask()
    assert (again.cached, again.counts["sent"]) == (False, 0)


def test_an_error_of_a_named_judge_leaves_the_judgments_incomplete_and_only_its_rows_are_asked_again(
    bench: Bench,
) -> None:
    judges = Judges(bench, share=1.0, fail_sample_ids=["s3"])
    result = judges.ask()
    assert not result.complete
    assert (result.counts["ok"], result.counts["error"]) == (6, 2)
    assert [row["status"] for row in bench.rows(result, "judgments")[::2]] == [
        "ok", "ok", "ok", "error", "skipped", "skipped",
    ]  # fmt: skip
    again = judges.ask()
    assert again.key == result.key
    assert again.counts["sent"] == 1, "both replicates ask the same"


def test_too_many_errors_of_a_named_judge_end_the_run_and_name_their_cause(bench: Bench) -> None:
    judges = Judges(bench, fail_sample_ids=["s3"])
    with pytest.raises(RunFailed, match=r"judge: 2 of 12 rows of task 't' ended in an error .*: 2 "):
        judges.ask()


@pytest.mark.parametrize(
    ("judge", "refused"),
    [
        ("x", "is not a mapping"),
        ({"prompt": "x"}, "has no 'prompt'.*Did you mean 'prompt_id'"),
        ({"params": 3}, "params is not a mapping"),
        ({"params": {"n": 2}}, "params.n is set by gage-eval itself"),
        ({"prompt_id": 3}, "no prompt '3'"),
        ({"adapter_id": ["x"]}, "no judge"),
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
