"""A judge of the config that a sample names is planned, previewed, asked, shown and resumed like the task's own."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from support.endpoint import mock_endpoint

from tests.cli.conftest import Gage
from tests.support.workspace import write_config

NAMED = {1: "expert", 3: "expert", 4: "exprt"}
JUDGES: dict[str, Any] = {
    "backends": [
        {"backend_id": "model", "type": "dummy", "config": {"answer": "2"}},
        {"backend_id": "small", "type": "dummy", "config": {"mode": "echo"}},
        {"backend_id": "large", "type": "dummy", "config": {"mode": "echo"}},
    ],
    "prompts": [
        {"prompt_id": "rate", "template": "{{ sample.id }} RATING: [[1]]"},
        {"prompt_id": "weigh", "template": "{{ sample.id }} RATING: [[5]]"},
    ],
    "role_adapters": [
        {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"},
        {"adapter_id": "judge", "role_type": "judge_model", "backend_id": "small", "prompt_id": "rate"},
        {"adapter_id": "expert", "role_type": "judge_model", "backend_id": "large", "prompt_id": "weigh"},
    ],
    "tasks": [{"task_id": "sums", "dataset_id": "sums", "judge_adapter_id": "judge", "max_unscored_share": 1.0}],
    "metrics": ["judge_rating"],
}


@pytest.fixture(autouse=True)
def judged(workspace: Path) -> Path:
    """Six samples, two of which name another judge and one a judge that is not there."""
    records: list[dict[str, Any]] = [
        {"id": f"s{row}", "messages": [{"role": "user", "content": f"{row} + 1 = ?"}], "label": str(row + 1)}
        for row in range(6)
    ]
    for row, name in NAMED.items():
        records[row]["eval_config"] = {"judge": {"adapter_id": name}}
    (workspace / "rows.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    write_config(workspace, **JUDGES)
    return workspace


def rating(gage: Gage, run_id: str) -> dict[str, Any]:
    """The line of the one metric of a run."""
    (line,) = gage("show", run_id, "--json").json["summary"]["metrics"]
    assert isinstance(line, dict)
    return line


def test_rows_are_judged_by_whom_they_name(gage: Gage) -> None:
    assert gage("run", "mine.yaml", "--inline", "--run-id", "r").code == 0
    line = rating(gage, "r")
    assert line["raw_values"] == pytest.approx({"rating": (1 + 5 + 1 + 5 + 1) / 5})
    assert (line["n"], line["overridden"], line["unscored"]) == (5, 2, 1)


def test_a_preview_and_a_sample_show_the_request_to_its_judge(gage: Gage) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "r")
    requests = gage("preview", "mine.yaml", "-n", "6", "--json").json
    messages_of = {
        request["sample_id"]: request["body"]["messages"]
        for request in requests["requests"]
        if request["stage"] == "judge"
    }
    assert {name: messages[0]["content"][-5:] for name, messages in messages_of.items() if messages} == {
        "s0": "[[1]]", "s1": "[[5]]", "s2": "[[1]]", "s3": "[[5]]", "s5": "[[1]]",
    }  # fmt: skip
    (shown,) = gage("show", "r", "--sample", "s3", "--json").json
    call = shown["calls"][-1]
    assert (call["stage"], call["as_sent"], call["response"]["answer"]) == ("judge", True, "s3 RATING: [[5]]")


def test_a_judge_that_is_not_there_is_told_beside_the_score(gage: Gage) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "r")
    (shown,) = gage("show", "r", "--sample", "s4", "--json").json
    assert shown["scores"][0]["explanation"] == (
        "eval_config.judge.adapter_id: no judge 'exprt' in the config. Did you mean 'expert'?"
    )


def test_another_prompt_of_a_named_judge_is_what_the_plan_names(gage: Gage, judged: Path) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "r")
    prompts = [JUDGES["prompts"][0], {"prompt_id": "weigh", "template": "{{ sample.id }} RATING: [[3]]"}]
    write_config(judged, **{**JUDGES, "prompts": prompts})
    (judge,) = (stage for stage in gage("plan", "mine.yaml", "--json").json["stages"] if stage["stage"] == "judge")
    assert (judge["state"], judge["responses"], judge["to_send"]) == ("partial", 5, 2)
    gage("run", "mine.yaml", "--inline", "--run-id", "again")
    assert rating(gage, "again")["raw_values"] == pytest.approx({"rating": (1 + 3 + 1 + 3 + 1) / 5})


def test_the_plan_has_the_notes_that_a_run_prints(gage: Gage, judged: Path) -> None:
    """A work pool without an engine to serve there is such a note."""
    noted = "note: the work pool has no effect"
    assert noted in gage("plan", "mine.yaml", "--work-pool", "gpus").out
    notes = gage("plan", "mine.yaml", "--work-pool", "gpus", "--json").json["notes"]
    out = gage("run", "mine.yaml", "--inline", "--work-pool", "gpus").out
    assert all(f"note: {note}" in out for note in notes)
    assert noted not in gage("plan", "mine.yaml").out


def test_a_judge_nobody_names_changes_nothing(gage: Gage, judged: Path) -> None:
    gage("run", "mine.yaml", "--inline", "--run-id", "r")
    idle = {"adapter_id": "idle", "role_type": "judge_model", "backend_id": "large", "prompt_id": "rate"}
    write_config(judged, **{**JUDGES, "role_adapters": [*JUDGES["role_adapters"], idle]})
    assert {stage["state"] for stage in gage("plan", "mine.yaml", "--json").json["stages"]} == {"cached"}


def test_when_a_named_judge_cannot_go_on_the_others_answers_are_kept(gage: Gage, judged: Path) -> None:
    with mock_endpoint() as own, mock_endpoint() as others:
        endpoints = {"small": own.url, "large": "http://127.0.0.1:9/v1"}
        client = {"model": "mock", "retries": 0, "give_up_after": 0.5}

        def write() -> None:
            served = [
                {"backend_id": name, "type": "openai_http", "config": {"base_url": url, **client}}
                for name, url in endpoints.items()
            ]
            write_config(judged, **{**JUDGES, "backends": [JUDGES["backends"][0], *served]})

        write()
        stopped = gage("run", "mine.yaml", "--inline", "--run-id", "r")
        assert stopped.code != 0
        assert own.stats()["requests"] == 3
        endpoints["large"] = others.url
        write()
        assert gage("run", "mine.yaml", "--inline", "--run-id", "again").code == 0
        assert (own.stats()["requests"], others.stats()["requests"]) == (3, 2)
