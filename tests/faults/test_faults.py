"""An endpoint that fails now and then changes no number; one that fails for good loses no answer."""

from pathlib import Path

import pytest
from faults.results import answer_to, answers, artifact, prompt, score, truth
from support.command import Command
from support.endpoint import MockEndpoint, mock_endpoint
from support.runs import summary, write_config

from gage_eval.store import Store

ROWS = 1000
FAULTS = {"429": 0.05, "500": 0.02, "reset": 0.01, "hang": 0.005, "malformed": 0.01}
# One that no attempt gets past, for a part of the prompts.
ALWAYS = {"context": 0.08}


def test_every_row_is_answered_once_and_the_score_is_exact_whatever_the_endpoint_does(
    tmp_path: Path, gage: Command
) -> None:
    with mock_endpoint(fault=FAULTS, accuracy=0.75, retry_after=1, hang_s=5.5) as endpoint:
        write_config(tmp_path, endpoint.url, rows=ROWS, backend={"timeout": 5.0, "max_concurrency": 64})
        assert gage("run", "sums.yaml", "--run-id", "faulty").code == 0
        stats = endpoint.stats()
    rows = answers(tmp_path, "faulty")
    assert [row["status"] for row in rows] == ["ok"] * ROWS
    assert [row["answer"] for row in rows] == [answer_to(prompt(row), 0.75) for row in range(ROWS)]
    result = score(tmp_path, "faulty")
    assert (result["value"], result["n"], result["error"], result["unscored"]) == (truth(ROWS, 0.75), ROWS, 0, 0)
    assert set(stats["faults"]) == set(FAULTS)
    assert (stats["answered"], stats["distinct_answered"], stats["resent_after_answer"]) == (ROWS, ROWS, 0)
    assert stats["max_in_flight"] <= 64


def test_rows_that_never_succeed_fail_the_run_and_are_asked_again_alone(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint(fault=ALWAYS, fault_attempts=1, accuracy=0.75) as endpoint:
        write_config(tmp_path, endpoint.url, rows=300)
        failed = gage("run", "sums.yaml", "--run-id", "ill")
        wrong = endpoint.stats()["faults"]["context"]
        assert failed.code == 1
        assert failed.sentence == (
            f"infer: {wrong} of 300 rows of task 'sums' ended in an error ({wrong / 300:.1%}, more than "
            f"max_error_share 1.0%): {wrong} context_too_long (400 (This model's maximum context length is 8 tokens)). "
            "The other answers are kept; gage resume ill asks again for these rows only."
        )
        standing = Store.open(str(tmp_path / ".gage")).actions.all("infer")
        (before,) = [action.outputs["responses"] for action in standing]
        endpoint.phase("recovered")
        ended = gage("resume", "ill", "--only-errors")
        assert ended.code == 0, ended.err
        phase = endpoint.stats()["phases"]["recovered"]
    assert phase == {"requests": wrong, "answered": wrong}
    after = artifact(tmp_path, "ill", "infer", "responses")
    assert after.id != before
    assert after.complete
    assert after.counts == {"ok": 300, "truncated": 0, "looped": 0, "limit": 0, "refused": 0, "error": 0, "skipped": 0}
    assert score(tmp_path, "ill")["value"] == truth(300, 0.75)


@pytest.mark.parametrize("fault", ["403", "404", "model"])
def test_a_row_that_alone_is_refused_costs_neither_the_run_nor_its_resume(
    fault: str, tmp_path: Path, gage: Command
) -> None:
    tasks = [{"task_id": "sums", "dataset_id": "sums", "max_error_share": 0.1}]
    with mock_endpoint(fault={fault: 0.03}, latency_ms=20) as endpoint:
        write_config(tmp_path, endpoint.url, rows=200, tasks=tasks, backend={"max_concurrency": 4})
        ended = gage("run", "sums.yaml", "--run-id", "walled")
        refused = endpoint.stats()["faults"][fault]
        assert ended.code == 0, ended.err
        assert [row["status"] for row in answers(tmp_path, "walled")].count("error") == refused > 0
        endpoint.reset()
        assert gage("resume", "walled").code == 0
        assert endpoint.stats()["requests"] == refused, "only the refused rows are asked again"


def test_an_endpoint_that_refuses_every_row_ends_the_run_after_few_requests(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint(fault={"403": 1.0}) as endpoint:
        write_config(tmp_path, endpoint.url, rows=500, backend={"max_concurrency": 16})
        ended = gage("run", "sums.yaml", "--run-id", "walled")
        assert endpoint.stats()["requests"] <= 32
    assert ended.code == 1
    assert "answers 403 (blocked by a firewall). Set the key that 'api_key' refers to." in ended.sentence
    assert "gage resume walled" in ended.sentence


def test_error_rows_within_the_allowed_share_are_left_out_of_the_score_and_counted(
    tmp_path: Path, gage: Command
) -> None:
    tasks = [{"task_id": "sums", "dataset_id": "sums", "max_error_share": 0.5}]
    with mock_endpoint(fault=ALWAYS, fault_attempts=1, accuracy=0.75) as endpoint:
        write_config(tmp_path, endpoint.url, rows=300, tasks=tasks)
        assert gage("run", "sums.yaml", "--run-id", "ill").code == 0
        wrong = endpoint.stats()["faults"]["context"]
        rows = answers(tmp_path, "ill")
        first = artifact(tmp_path, "ill", "infer", "responses")
        assert (first.complete, first.counts["error"]) == (False, wrong)
        errors = [row for row in rows if row["status"] == "error"]
        assert {(row["error_kind"], row["answer"]) for row in errors} == {("context_too_long", None)}
        result = score(tmp_path, "ill")
        good = [row["row_index"] for row in rows if row["status"] == "ok"]
        assert (result["n"], result["error"], result["unscored"]) == (300 - wrong, wrong, wrong)
        right = sum(rows[i]["answer"] == f"ANSWER: {3 * i + 1}" for i in good)
        assert result["value"] == pytest.approx(right / len(good), abs=1e-12)
        assert summary(tmp_path, "ill")["tasks"][0]["complete"] is False

        # A fresh run retries them without an option, and the scores follow.
        endpoint.phase("again")
        assert gage("run", "sums.yaml", "--run-id", "well").code == 0
        assert endpoint.stats()["phases"]["again"]["requests"] == wrong
    second = artifact(tmp_path, "well", "infer", "responses")
    assert second.complete
    assert second.id != first.id
    assert (score(tmp_path, "well")["value"], score(tmp_path, "well")["n"]) == (truth(300, 0.75), 300)


def judged(folder: Path, endpoint: MockEndpoint, max_error_share: float) -> None:
    """A config whose answers are judged by a model that never fails."""
    write_config(
        folder,
        endpoint.url,
        rows=100,
        prompts=[{"prompt_id": "verdict", "template": "Is {{ model_answer }} right?"}],
        backends=[
            {"backend_id": "mock", "type": "openai_http", "config": {"base_url": endpoint.url, "model": "mock"}},
            {"backend_id": "fixed", "type": "dummy", "config": {"answer": "SCORE: 1"}},
        ],
        role_adapters=[
            {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "mock"},
            {"adapter_id": "judge", "role_type": "judge_model", "backend_id": "fixed", "prompt_id": "verdict"},
        ],
        tasks=[
            {
                "task_id": "sums",
                "dataset_id": "sums",
                "adapter_id": "dut",
                "judge_adapter_id": "judge",
                "max_error_share": max_error_share,
            }
        ],
    )


def test_only_errors_goes_on_to_the_judge_with_the_mended_answers(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint(fault=ALWAYS, fault_attempts=1) as endpoint:
        judged(tmp_path, endpoint, max_error_share=0.01)
        assert gage("run", "sums.yaml", "--run-id", "ill").code == 1
        wrong = endpoint.stats()["faults"]["context"]
        endpoint.phase("recovered")
        ended = gage("resume", "ill", "--only-errors")
        assert ended.code == 0, ended.err
        assert endpoint.stats()["phases"]["recovered"]["requests"] == wrong
    verdicts = artifact(tmp_path, "ill", "judge", "judgments").table()
    assert verdicts["score"].to_pylist() == [1.0] * 100


def test_a_row_without_an_answer_is_not_judged_and_stops_nobody(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint(fault=ALWAYS, fault_attempts=1) as endpoint:
        judged(tmp_path, endpoint, max_error_share=0.5)
        ended = gage("run", "sums.yaml", "--run-id", "ill")
        assert ended.code == 0, ended.err
        wrong = endpoint.stats()["faults"]["context"]
    verdicts = artifact(tmp_path, "ill", "judge", "judgments").table()
    failed = [row["row_index"] for row in answers(tmp_path, "ill") if row["status"] == "error"]
    assert len(failed) == wrong
    assert [row["row_index"] for row in verdicts.to_pylist() if row["status"] == "skipped"] == failed
    assert verdicts["score"].to_pylist().count(1.0) == 100 - wrong


def test_only_errors_of_a_run_that_never_asked_to_the_end_is_refused(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint(api_key="right") as endpoint:
        write_config(tmp_path, endpoint.url, rows=20)
        assert gage("run", "sums.yaml", "--run-id", "ill").code == 1
        refused = gage("resume", "ill", "--only-errors")
    assert refused.code == 2
    assert refused.sentence == (
        "infer of task 'sums' never finished, so there are no failed rows to ask again. Resume the whole run: "
        "gage resume ill"
    )


def test_a_refresh_that_left_errors_is_mended_with_new_answers_only(tmp_path: Path, gage: Command) -> None:
    tasks = [{"task_id": "sums", "dataset_id": "sums", "max_error_share": 0.5}]
    with mock_endpoint() as old:
        port = old.root.rpartition(":")[2]
        write_config(tmp_path, old.url, rows=100, tasks=tasks)
        assert gage("run", "sums.yaml").code == 0
    with mock_endpoint(port=port, fault=ALWAYS, fault_attempts=1, answer_words=3) as new:
        assert gage("run", "sums.yaml", "--refresh", "infer", "--run-id", "fresh").code == 0
        wrong = new.stats()["faults"]["context"]
        assert gage("resume", "fresh", "--only-errors").code == 0
        assert new.stats()["requests"] == 100 + wrong
    assert [row["answer"] for row in answers(tmp_path, "fresh")] == [
        answer_to(prompt(row), words=3) for row in range(100)
    ]
