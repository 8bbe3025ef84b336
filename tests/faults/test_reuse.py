"""Nothing is computed twice, nothing is reused wrongly."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults.results import answer_to, answers, artifact, prompt, score
from support.command import Command
from support.endpoint import MockEndpoint, mock_endpoint
from support.runs import score_ids, stage_outputs, write_config

ROWS = 500
ALL = {"load", "standardize", "preprocess", "infer", "judge", "auto_eval", "report"}
Records = list[dict[str, Any]]


def computed(folder: Path, run_id: str) -> set[str]:
    """The stages a run did not find in the store."""
    stages = json.loads((folder / ".gage" / "runs" / run_id / "run.json").read_text())["stages"]
    return {name.partition("/")[2] for name, entry in stages.items() if entry["state"] == "finished"}


def change(folder: Path, edit: Callable[[Records], None]) -> None:
    """Edit the records of the dataset."""
    file = folder / "sums.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    edit(records)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))


class Runs:
    """Runs of one config, each counted by the endpoint."""

    def __init__(self, folder: Path, gage: Command, endpoint: MockEndpoint) -> None:
        self.folder = folder
        self.endpoint = endpoint
        self._gage = gage
        write_config(folder, endpoint.url, rows=ROWS)
        assert self("first") == ROWS

    def __call__(self, run_id: str, *arguments: str) -> int:
        """The requests that a run of that name sends."""
        self.endpoint.phase(run_id)
        ended = self._gage("run", "sums.yaml", "--run-id", run_id, *arguments)
        assert ended.code == 0, ended.err
        return int(self.endpoint.stats()["phases"].get(run_id, {}).get("requests", 0))

    def config(self, **changes: Any) -> None:
        write_config(self.folder, self.endpoint.url, rows=ROWS, **changes)


def test_what_changed_is_computed_and_nothing_else(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint(accuracy=0.5) as endpoint:
        runs = Runs(tmp_path, gage, endpoint)

        # Again, as it is.
        assert runs("again") == 0
        assert computed(tmp_path, "again") == set()
        assert stage_outputs(tmp_path, "again") == stage_outputs(tmp_path, "first")

        # Another metric beside it.
        runs.config(metrics=["numeric_match", "text_length"])
        assert runs("metric") == 0
        assert computed(tmp_path, "metric") == {"auto_eval", "report"}
        assert set(score_ids(tmp_path, "first")) < set(score_ids(tmp_path, "metric"))
        runs.config()

        # Where and how fast it runs.
        runs.config(backend={"max_concurrency": 3, "timeout": 7, "max_attempts": 2})
        assert runs("slower", "--concurrency", "5") == 0
        assert computed(tmp_path, "slower") == set()
        runs.config()

        # A label: the model is not asked, the score moves.
        def relabel(records: Records) -> None:
            records[7]["answer"] = answer_to(prompt(7), 0.5).split()[-1]
            records[8]["answer"] = "-1"

        change(tmp_path, relabel)
        assert runs("label") == 0
        assert computed(tmp_path, "label") == {"load", "standardize", "preprocess", "judge", "auto_eval", "report"}
        scored = artifact(tmp_path, "label", "infer", "responses").id
        assert scored == artifact(tmp_path, "first", "infer", "responses").id
        assert score(tmp_path, "label")["value"] != score(tmp_path, "first")["value"]

        # Ten rows of five hundred.
        def ask_another(records: Records) -> None:
            for record in records[100:200:10]:
                record["question"] = "Now: " + record["question"]

        change(tmp_path, ask_another)
        assert runs("rows") == 10
        rows = answers(tmp_path, "rows")
        assert [row["answer"] for row in rows] == [
            answer_to(("Now: " if row in range(100, 200, 10) else "") + prompt(row), 0.5) for row in range(ROWS)
        ]

        # A row less, and the order.
        change(tmp_path, lambda records: records.pop(3) and records.reverse())
        assert runs("order") == 0
        assert answers(tmp_path, "order")[0]["answer"] == answer_to(prompt(ROWS - 1), 0.5)

        # The sampling: another request for every row.
        runs.config(tasks=[{"task_id": "sums", "dataset_id": "sums", "sampling_params": {"temperature": 0.7}}])
        assert runs("sampling") == ROWS - 1
        assert endpoint.stats()["requests"] == ROWS + 10 + ROWS - 1


def test_a_refresh_asks_everything_again_and_no_score_is_stale(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint(accuracy=1.0) as endpoint:
        port = endpoint.root.rpartition(":")[2]
        Runs(tmp_path, gage, endpoint)
    assert score(tmp_path, "first")["value"] == 1.0
    # The model behind the same address is a worse one now.
    with mock_endpoint(accuracy=0.0, port=port) as endpoint:
        assert gage("run", "sums.yaml", "--run-id", "cached").code == 0
        assert endpoint.stats()["requests"] == 0
        assert gage("run", "sums.yaml", "--run-id", "refreshed", "--refresh", "infer").code == 0
        assert endpoint.stats()["requests"] == ROWS
        assert computed(tmp_path, "refreshed") == {"infer", "judge", "auto_eval", "report"}
        assert score(tmp_path, "cached")["value"] == 1.0
        assert score(tmp_path, "refreshed")["value"] == 0.0

        # What comes after it takes the new answers, not those they replaced.
        assert gage("run", "sums.yaml", "--run-id", "after").code == 0
        change(tmp_path, lambda records: records.append({"question": "What is 1 + 1?", "answer": "2"}))
        assert gage("run", "sums.yaml", "--run-id", "longer").code == 0
        assert endpoint.stats()["requests"] == ROWS + 1
    assert (computed(tmp_path, "after"), score(tmp_path, "after")["value"]) == (set(), 0.0)
    assert (score(tmp_path, "longer")["value"], score(tmp_path, "longer")["n"]) == (0.0, ROWS + 1)


def test_replicates_are_requests_of_their_own_and_more_of_them_ask_for_the_rest_only(
    tmp_path: Path, gage: Command
) -> None:
    with mock_endpoint() as endpoint:
        for epochs, sent in ((3, 300), (5, 500)):
            task = {"task_id": "sums", "dataset_id": "sums", "epochs": epochs}
            write_config(tmp_path, endpoint.url, rows=100, tasks=[task])
            assert gage("run", "sums.yaml", "--run-id", f"epochs-{epochs}").code == 0
            assert endpoint.stats()["requests"] == sent
            rows = answers(tmp_path, f"epochs-{epochs}")
            assert [row["replicate"] for row in rows] == list(range(epochs)) * 100
            assert len({row["response_key"] for row in rows}) == 100 * epochs
    assert (score(tmp_path, "epochs-5")["rows"], score(tmp_path, "epochs-5")["n"]) == (500, 100)


def test_two_endpoints_share_no_answer(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint() as first, mock_endpoint() as second:
        write_config(tmp_path, first.url, rows=20)
        assert gage("run", "sums.yaml").code == 0
        write_config(tmp_path, second.url, rows=20)
        assert gage("run", "sums.yaml").code == 0
        assert (first.stats()["requests"], second.stats()["requests"]) == (20, 20)


def test_tasks_on_one_dataset_with_the_same_requests_ask_once(tmp_path: Path, gage: Command) -> None:
    tasks = [{"task_id": f"task-{k}", "dataset_id": "sums"} for k in range(3)]
    with mock_endpoint(latency_ms=5) as endpoint:
        write_config(tmp_path, endpoint.url, rows=100, tasks=tasks)
        assert gage("run", "sums.yaml", "--run-id", "three").code == 0
        assert endpoint.stats()["requests"] == 100
    ids = {artifact(tmp_path, "three", "infer", "responses", task=f"task-{k}").id for k in range(3)}
    assert len(ids) == 1
