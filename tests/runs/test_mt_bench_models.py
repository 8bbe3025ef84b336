"""MT-bench's questions with two small judges that are real models: killed, resumed, judged again, and calibrated."""

import json
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from crash.processes import PATIENCE_S, Gage, until
from support.logs import read_logs
from support.runs import gage as gage_in
from support.runs import summary

from gage_eval.base.errors import InputError
from gage_eval.models.backends.llama_cpp import packaged_model

DATA = Path(__file__).parents[3] / "shared" / "data" / "mt_bench"
QUESTIONS = 4
RATED = "Answer: {}\nIs the answer good? Say yes or no."
PAIRED = "Answer A: {}\nAnswer B: {}\nWhich is better? Say A or B."


def by_examples(examples: list[tuple[str, str]], last: str) -> list[dict[str, str]]:
    """A prompt that shows a model of this size how to answer."""
    turns = [("user" if at % 2 == 0 else "assistant", text) for at, text in enumerate(sum(examples, ()))]
    return [{"role": role, "content": text} for role, text in (*turns, ("user", last))]


GOOD, SILENT, EMPTY = "Four.", "I do not know.", "The the the."
ANSWER = "{{ model_answer[:100] | fenced }}"
SIDES = ["{{ pair." + side + ".turns[1].answer[:100] | fenced }}" for side in "ab"]
PROMPTS = {
    "rate": by_examples([(RATED.format(GOOD), "yes"), (RATED.format(SILENT), "no")], RATED.format(ANSWER)),
    "rate_strictly": by_examples(
        [(RATED.format(SILENT), "no"), (RATED.format(EMPTY), "no"), (RATED.format(GOOD), "yes")], RATED.format(ANSWER)
    ),
    "pair": by_examples([(PAIRED.format(GOOD, SILENT), "A"), (PAIRED.format(EMPTY, GOOD), "B")], PAIRED.format(*SIDES)),
}


@pytest.fixture
def gage(tmp_path: Path) -> Gage:
    """Questions with reference answers, and one model that answers them, rates kindly, rates strictly, and compares."""
    pytest.importorskip("xllamacpp")
    try:
        packaged_model("smollm2-135m")
    except InputError as error:
        pytest.skip(str(error))
    if not DATA.is_dir():
        pytest.skip("no questions of MT-bench next to the checkout")
    known = [json.loads(line) for line in (DATA / "reference_answer_gpt-4.jsonl").open()]
    baseline = {row["question_id"]: row["choices"][0]["turns"] for row in known}
    rows = [json.loads(line) for line in (DATA / "question.jsonl").open()]
    rows = [{**row, "baseline": baseline[row["question_id"]]} for row in rows if row["question_id"] in baseline]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:QUESTIONS]))

    def judge(name: str, **fields: Any) -> dict[str, Any]:
        shared = {"role_type": "judge_model", "backend_id": "small", "verdict": "labels"}
        return {"adapter_id": name, "prompt_id": name, **shared, **fields}

    model = {"default_params": {"temperature": 0, "max_new_tokens": 8}}
    config = {
        "metadata": {"name": "mt"},
        "datasets": [
            {
                "dataset_id": "turns",
                "params": {
                    "path": "rows.jsonl",
                    "preprocess": "mt_bench",
                    "preprocess_kwargs": {"fields": {"metadata.baseline": "baseline"}},
                },
            }
        ],
        "backends": [
            {"backend_id": "small", "type": "llama_cpp", "config": {"model": "smollm2-135m", "n_ctx": 2048, **model}}
        ],
        "prompts": [{"prompt_id": name, "template": template} for name, template in PROMPTS.items()],
        "role_adapters": [
            {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "small"},
            judge("rate", verdict_labels={"yes": 1, "no": 0}),
            judge("rate_strictly", verdict_labels={"yes": 1, "no": 0}),
            judge("pair", verdict_labels=["A", "B"]),
        ],
        "tasks": [
            {
                "task_id": "rated",
                "dataset_id": "turns",
                "judge_adapter_id": "rate",
                "second_judge": {"adapter_id": "rate_strictly", "below": 0.7},
                "metric_overrides": ["judge_threshold"],
            },
            {
                "task_id": "pairs",
                "dataset_id": "turns",
                "judge_adapter_id": "pair",
                "both_orders": True,
                "against": {"field": "metadata.baseline"},
                # A judge of this size has no readable verdict now and then.
                "max_unscored_share": 0.5,
                "metric_overrides": ["pairwise_win"],
            },
        ],
    }
    (tmp_path / "mt.yaml").write_text(yaml.safe_dump(config))
    return Gage(tmp_path)


def verdicts_on_disk(gage: Gage) -> int:
    """How many answers with log probabilities, which only judges are asked for, are in logs."""
    count = 0
    for folder in gage.logs():
        # That of a stage which ends meanwhile goes away.
        with suppress(FileNotFoundError):
            count += sum(b"top_logprobs" in payload for _, payload in read_logs(folder))
    return count


def tasks_of(gage: Gage, run_id: str) -> dict[str, Any]:
    return {task["task_id"]: task for task in summary(gage.folder, run_id)["tasks"]}


@pytest.mark.slow
def test_real_judges_are_killed_resumed_asked_again_and_calibrated(gage: Gage) -> None:
    process = gage.start("run", "mt.yaml", "--run-id", "r")
    assert until(lambda: verdicts_on_disk(gage) > 0, process), gage.said()
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE_S)
    kept = verdicts_on_disk(gage)
    gage.finish("resume", "r")

    counts = summary(gage.folder, "r")["run"]
    tasks = tasks_of(gage, "r")
    by_whom = tasks["rated"]["judging"]["decided_by"]
    # Of how many a model of this size is sure may differ from processor to processor.
    second = by_whom.get("rate_strictly", 0)
    assert by_whom.get("rate", 0) + second == QUESTIONS
    judging = tasks["pairs"]["judging"]
    assert judging["verdicts"] + judging["missing"] == 2 * QUESTIONS
    values = {metric["value_key"]: metric for metric in tasks["pairs"]["metrics"]}
    assert set(values) == {"win", "consistent", "first_place"}
    assert values["win"]["n"] >= QUESTIONS / 2
    verdicts = QUESTIONS + second + 2 * QUESTIONS
    assert counts["reused"] >= kept >= 1
    assert counts["sent"] + counts["reused"] == verdicts

    gage.finish("judge", "r", "--run-id", "again")
    assert summary(gage.folder, "again")["run"]["sent"] == verdicts
    assert tasks_of(gage, "again")["rated"]["responses"] == tasks["rated"]["responses"]

    gage_in(gage.folder, "labels", "suggest", "r", "--task", "rated", "-n", str(QUESTIONS))
    file = gage.folder / "labels.jsonl"
    labels = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps({**row, "label": at % 2}) + "\n" for at, row in enumerate(labels)))
    gage.finish("run", "mt.yaml", "--run-id", "corrected", "--set", "tasks.rated.labels={path: labels.jsonl}")
    assert summary(gage.folder, "corrected")["run"]["sent"] == 0
    calibration = tasks_of(gage, "corrected")["rated"]["calibration"]
    # All answers have labels, half of them 1.
    assert (calibration["labels"], calibration["corrected"]) == (QUESTIONS, 0.5)
    assert calibration["ci_low"] < 0.5 < calibration["ci_high"]
