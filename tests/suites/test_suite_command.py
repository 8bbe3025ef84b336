"""`gage suite` from the command line: data found or fetched, a model behind an endpoint, a score and its label."""

import hashlib
import json
import random
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gage_eval.config.data_origins import load_origin
from gage_eval.runs import RunOptions
from gage_eval.runs.planned import planned
from tests.cli.conftest import Gage, gage, workspace
from tests.support.data_server import serving
from tests.support.endpoint import MockEndpoint, mock_endpoint
from tools import suites

__all__ = ["gage", "workspace"]

ROWS = [{"question": f"What is {n} + 1?", "answer": f"It is {n + 1}.\n#### {n + 1}"} for n in range(20)]
DATA = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
COMMIT = "a" * 40
ORIGIN = f"""\
repository: github.com/owner/sums
commit: {COMMIT}
licence: CC BY-NC 4.0
non_commercial: true
files:
  data/test.jsonl: {{bytes: {len(DATA)}, sha256: {hashlib.sha256(DATA).hexdigest()}}}
"""
TEMPLATE = """\
api_version: gage/v1alpha1
kind: BuiltinTemplate
metadata:
  name: sums
  version: v1
definition:
  datasets:
    - dataset_id: rows
      params: {origin: sums, path: data/test.jsonl, preprocess: gsm8k}
  tasks:
    - {task_id: sums, dataset_id: rows, sampling_params: {temperature: 0, max_new_tokens: 16}}
  metrics: [numeric_match]
"""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[MockEndpoint]:
    with mock_endpoint() as running:
        yield running


@pytest.fixture(autouse=True)
def _suite(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite of a folder of one's own, with its origin beside it."""
    folder = workspace / "suites" / "sums"
    (folder / "origins").mkdir(parents=True)
    (folder / "origins" / "sums.yaml").write_text(ORIGIN)
    (folder / "v1.yaml").write_text(TEMPLATE)
    suites.write(folder / "v1.yaml")
    monkeypatch.setenv("GAGE_EVAL_SUITES", str(workspace / "suites"))
    monkeypatch.setenv("GAGE_EVAL_DATA_CACHE", str(workspace / "cache"))


@pytest.fixture
def downloads(workspace: Path) -> Path:
    folder = workspace / "downloads"
    folder.mkdir()
    (folder / "test.jsonl").write_bytes(DATA)
    return folder


def record(run_id: str) -> Any:
    return json.loads(Path(".gage", "runs", run_id, "run.json").read_text())


def test_one_command_gives_a_score_of_ones_own_endpoint(gage: Gage, downloads: Path, endpoint: MockEndpoint) -> None:
    said = gage(
        *(
            "suite",
            "sums",
            "--model",
            "mock",
            "--endpoint",
            endpoint.url,
            "--data",
            str(downloads),
            "--max-samples",
            "5",
        ),
        *("--run-id", "first"),
    )
    assert said.code == 0, said.err
    assert said.out.startswith("sums v1 · 1 task · inline · run first")
    assert f"data: 1 file, {len(DATA) / 1024:.1f} KiB from {downloads}" in said.out
    assert "numeric_match" in said.out
    assert "modified" not in said.out
    stored = record("first")
    assert stored["suite"]["name"] == "sums"
    assert stored["suite"]["modified"] == []
    assert stored["pinned"] is True


def test_missing_data_are_fetched_with_their_licence_shown(
    gage: Gage, endpoint: MockEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving({f"owner/sums/{COMMIT}/data/test.jsonl": DATA}) as server:
        monkeypatch.setenv("GAGE_EVAL_DATA_URL", server.url)
        said = gage("suite", "sums", "--model", "mock", "--endpoint", endpoint.url, "--max-samples", "2")
        again = gage("suite", "sums", "--model", "mock", "--endpoint", endpoint.url, "--max-samples", "3")
        assert len(server.requests) == 1
    assert said.code == again.code == 0
    assert "from github.com/owner/sums (licence CC BY-NC 4.0: not for commercial use)" in said.out
    assert said.out.index("not for commercial use") < said.out.index("load")
    assert "fetching" not in again.out


class TestPlan:
    """`gage plan` of a suite whose data are not here."""

    ASKED = ("plan", "suite:sums", "--model", "mock", "--endpoint", "http://127.0.0.1:9/v1", "--max-samples", "2")

    def test_it_says_what_would_be_fetched_and_fetches_nothing(
        self, gage: Gage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with serving({f"owner/sums/{COMMIT}/data/test.jsonl": DATA}) as server:
            monkeypatch.setenv("GAGE_EVAL_DATA_URL", server.url)
            said, plan = gage(*self.ASKED), gage(*self.ASKED, "--json").json
            assert server.requests == []
        assert said.code == 0
        first, *rest = said.out.splitlines()
        assert first == (
            f"would start by fetching 1 file, {len(DATA) / 1024:.1f} KiB of sums from github.com/owner/sums "
            "(licence CC BY-NC 4.0: not for commercial use)"
        )
        assert any(
            line.split()[:3] == ["load", "–", "missing"] and "its data are fetched first" in line for line in rest
        )
        assert "--fetch fetches them now" in rest[-1]
        assert [(fetch["origin"], fetch["files"], fetch["size"]) for fetch in plan["fetch"]] == [("sums", 1, len(DATA))]
        assert [(stage["stage"], stage["state"]) for stage in plan["stages"]][:3] == [
            ("load", "missing"), ("standardize", "after"), ("preprocess", "after"),
        ]  # fmt: skip

    def test_with_fetch_it_fetches_and_counts(self, gage: Gage, monkeypatch: pytest.MonkeyPatch) -> None:
        with serving({f"owner/sums/{COMMIT}/data/test.jsonl": DATA}) as server:
            monkeypatch.setenv("GAGE_EVAL_DATA_URL", server.url)
            said = gage(*self.ASKED, "--fetch")
            assert len(server.requests) == 1
        assert "not for commercial use" in said.out
        assert gage(*self.ASKED, "--json").json["fetch"] == []

    def test_a_folder_of_the_user_is_used_without_asking(self, gage: Gage, downloads: Path) -> None:
        said = gage(*self.ASKED, "--data", str(downloads))
        assert "would start by" not in said.out
        assert "no earlier run" in said.out

    def test_other_tasks_are_forecast_as_ever(self, gage: Gage, workspace: Path, downloads: Path) -> None:
        text = TEMPLATE.replace("kind: BuiltinTemplate", "").partition("definition:\n")[2]
        two = textwrap.dedent(text).replace(
            "tasks:\n", "  - {dataset_id: here, params: {path: downloads/test.jsonl, preprocess: gsm8k}}\n"
            "tasks:\n  - {task_id: here, dataset_id: here, sampling_params: {max_new_tokens: 4}}\n"
        ) + "backends: [{backend_id: model, type: dummy}]\n"  # fmt: skip
        (workspace / "two.yaml").write_text(two)
        (workspace / "origins").mkdir()
        (workspace / "origins" / "sums.yaml").write_text(ORIGIN)
        stages = gage("plan", "two.yaml", "--json").json["stages"]
        loads = {stage["task_id"]: (stage["key"] is None, stage["why"]) for stage in stages if stage["stage"] == "load"}
        assert loads == {"sums": (True, "its data are fetched first"), "here": (False, "no earlier run")}


def test_nothing_is_sent_when_the_data_cannot_be_had(
    gage: Gage, endpoint: MockEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAGE_EVAL_DATA_URL", "http://127.0.0.1:9")
    before = endpoint.stats()["requests"]
    monkeypatch.setattr("gage_eval.data.datasets.download.time.sleep", lambda _: None)
    said = gage("suite", "sums", "--model", "mock", "--endpoint", endpoint.url)
    assert said.code != 0
    assert "'data/test.jsonl' of sums cannot be fetched" in said.err
    assert "--data DIR" in said.err
    assert endpoint.stats()["requests"] == before


def test_a_key_that_is_not_set_is_told_before_data_are_fetched(gage: Gage, endpoint: MockEndpoint) -> None:
    with serving({}) as server:
        said = gage("suite", "sums", "--model", "mock", "--endpoint", endpoint.url, "--api-key-env", "NO_SUCH_KEY")
        assert server.requests == []
    assert said.code == 2
    assert "NO_SUCH_KEY is not set" in said.err
    assert "fetching" not in said.out


def test_where_data_come_from_is_in_no_key(workspace: Path, downloads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def key(**options: Any) -> Any:
        prepared = planned(RunOptions(config="suite:sums", model="m", endpoint="http://m/v1", **options))
        missing = prepared.data.missing(prepared.plan.origin_files)
        assert missing
        if options:
            prepared.data.take(missing)
        else:
            prepared.data.fetch(missing)
        return prepared.plan.tasks[0].load.material()

    taken = key(data_dir=str(downloads))
    monkeypatch.setenv("GAGE_EVAL_DATA_CACHE", str(workspace / "another"))
    with serving({f"owner/sums/{COMMIT}/data/test.jsonl": DATA}) as server:
        monkeypatch.setenv("GAGE_EVAL_DATA_URL", server.url)
        assert key() == taken


def test_a_modified_suite_is_labelled_wherever_its_score_is_shown(
    gage: Gage, downloads: Path, endpoint: MockEndpoint
) -> None:
    said = gage(
        *(
            "suite",
            "sums",
            "--model",
            "mock",
            "--endpoint",
            endpoint.url,
            "--data",
            str(downloads),
            "--max-samples",
            "4",
        ),
        *("--run-id", "other", "--set", "tasks.sums.sampling_params.temperature=1"),
    )
    assert said.code == 0, said.err
    assert said.out.startswith("sums v1, modified · ")
    (row,) = [line for line in said.out.splitlines() if line.startswith("sums  numeric_match")]
    assert "(modified)" in row
    assert "Modified: tasks[0].sampling_params.temperature. This is not a score of sums v1." in said.out
    assert record("other")["suite"]["modified"] == ["tasks[0].sampling_params.temperature"]
    folder = Path(".gage", "runs", "other")
    assert json.loads((folder / "summary.json").read_text())["suite"]["modified"]
    html = (folder / "report.html").read_text()
    assert "<h1>sums v1, modified " in html
    assert "</strong> (modified)" in html
    assert "(modified)" in gage("show", "other").out
    assert "(modified)" in gage("list", "runs").out
    assert "other (modified) → other (modified)" in gage("compare", "other", "other").out
    assert "was modified (tasks[0].sampling_params.temperature)" in gage("baseline", "set", "main", "other").err
    from gage_eval.report.console import artifact_rows
    from gage_eval.report.summary import Summary

    summary = Summary.model_validate_json((folder / "summary.json").read_text())
    assert all("(modified)" in row["score"] for row in artifact_rows(summary)), "the table on the page of Prefect"


def test_a_resumed_run_keeps_its_version_and_its_options(gage: Gage, downloads: Path, endpoint: MockEndpoint) -> None:
    gage(
        *(
            "suite",
            "sums",
            "--model",
            "mock",
            "--endpoint",
            endpoint.url,
            "--data",
            str(downloads),
            "--max-samples",
            "3",
        ),
        *("--run-id", "kept"),
    )
    file = Path("suites", "sums", "v1.yaml")
    (file.parent / "v2.yaml").write_text(TEMPLATE.replace("version: v1", "version: v2").replace("[numeric", "[exact"))
    assert record("kept")["options"]["config"] == "suite:sums@v1"
    said = gage("resume", "kept")
    assert said.code == 0, said.err
    assert said.out.startswith("sums v1 · ")


def test_a_run_of_data_that_are_not_pinned_cannot_become_a_baseline(
    gage: Gage, downloads: Path, endpoint: MockEndpoint
) -> None:
    gage(
        *(
            "suite",
            "sums",
            "--model",
            "mock",
            "--endpoint",
            endpoint.url,
            "--data",
            str(downloads),
            "--max-samples",
            "3",
        ),
        *("--run-id", "moving"),
    )
    file = Path(".gage", "runs", "moving", "run.json")
    file.write_text(json.dumps({**record("moving"), "pinned": False}))
    said = gage("baseline", "set", "main", "moving")
    assert said.code == 2
    assert "without a fixed commit" in said.err
    assert "gage pin sums" in said.err
    file.write_text(json.dumps({**record("moving"), "pinned": True}))
    assert gage("baseline", "set", "main", "moving").code == 0


def test_gage_list_suites_shows_what_one_wants_to_know(gage: Gage) -> None:
    said = gage("list", "suites")
    head, *rows = said.out.splitlines()
    assert head.split() == ["suite", "versions", "tasks", "rows", "metric", "needs", "licence", "data", "summary"]
    (gsm8k,) = [row for row in rows if row.startswith("gsm8k ")]
    for fact in ("v1", "1,319", "gsm8k,flexible-extract", "MIT", "732.2 KiB"):
        assert fact in gsm8k
    (piqa,) = [row for row in rows if row.startswith("piqa_likelihood ")]
    assert "likelihood" in piqa
    assert any("not pinned" in row for row in rows)
    (entry,) = [suite for suite in gage("list", "suites", "--json").json if suite["name"] == "cmmlu"]
    assert entry["info"]["non_commercial"] is True
    assert entry["download_bytes"] > 2_000_000


class TestPins:
    """Data on the Hugging Face hub without a fixed commit."""

    HUB = random.Random(1).randbytes(20).hex()

    @pytest.fixture(autouse=True)
    def _suite_on_the_hub(self, workspace: Path) -> None:
        folder = workspace / "suites" / "far"
        folder.mkdir()
        text = TEMPLATE.replace("name: sums", "name: far").replace(
            "params: {origin: sums, path: data/test.jsonl, preprocess: gsm8k}",
            "hub: owner/far\n      params: {preprocess: gsm8k}",
        )
        (folder / "v1.yaml").write_text(text)

    def load(self, **options: Any) -> Any:
        return planned(RunOptions(config="suite:far", model="m", endpoint="http://m/v1", **options))

    def test_a_suite_says_that_its_data_are_not_pinned(self, gage: Gage) -> None:
        loaded = self.load().loaded
        assert loaded.unpinned == ("owner/far",)
        assert any("have no fixed commit" in warning and "gage pin far" in warning for warning in loaded.warnings)

    def test_a_pin_of_the_store_fixes_the_commit(self, gage: Gage) -> None:
        said = gage("pin", "far", "--revision", f"owner/far={self.HUB}")
        assert said.out == f"pinned owner/far at {self.HUB}\n"
        prepared = self.load()
        assert prepared.loaded.unpinned == ()
        assert prepared.plan.tasks[0].load.material()["data"]["commit"] == self.HUB
        assert str(prepared.loaded.origins["datasets[0].hub_params.revision"]) == "gage pin"
        assert prepared.loaded.suite.modified == ()
        assert self.load(store="elsewhere").loaded.unpinned == ("owner/far",)
        assert "is pinned at" in gage("pin", "far").out

    def test_a_copy_in_the_folder_of_the_user_counts_by_its_files(self, gage: Gage, workspace: Path) -> None:
        copy = workspace / "downloads" / "owner" / "far"
        copy.mkdir(parents=True)
        (copy / "test.jsonl").write_bytes(DATA)
        prepared = self.load(data_dir=str(workspace / "downloads"))
        assert prepared.loaded.unpinned == ()
        assert prepared.plan.tasks[0].load.material()["data"]["files"]

    @pytest.mark.parametrize(
        ("revision", "said"),
        [
            ("owner/far=main", "give the full commit hash"),
            ("owner/near=" + "0" * 40, "no unpinned dataset of that name"),
            ("owner/far", "write DATASET=COMMIT"),
        ],
    )
    def test_a_wrong_revision_is_one_sentence(self, gage: Gage, revision: str, said: str) -> None:
        result = gage("pin", "far", "--revision", revision)
        assert result.code == 2
        assert said in result.err

    def test_a_suite_with_fixed_data_has_nothing_to_pin(self, gage: Gage) -> None:
        assert gage("pin", "gsm8k").out == "all data of gsm8k have a fixed version; nothing to pin.\n"


def test_the_mirrored_folder_of_gsm8k_is_used_as_it_lies(gage: Gage, endpoint: MockEndpoint, shared: Path) -> None:
    said = gage(
        *("suite", "gsm8k", "--model", "mock", "--endpoint", endpoint.url, "--max-samples", "3"),
        *("--data", str(shared / "data")),
    )
    assert said.code == 0, said.err
    assert load_origin("gsm8k").files
    assert "gsm8k,flexible-extract" in said.out
