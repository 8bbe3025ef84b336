"""Promises of the viewer's matrix: questions × runs, where they differ, and plots."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import orjson
import pytest
from starlette.testclient import TestClient
from viewer_client import HOSTILE, ROWS, answers, page, run, viewer, write_questions

from gage_eval.base.statuses import DIVERGES_AT
from gage_eval.report.messages import shown_messages
from gage_eval.report.sample_view import SampleView
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from gage_eval.runs.results.sample_view import sample_view
from gage_eval.viewer import open_task

COUNTING = """
class Model:
    def generate(self, request):
        return str(request["draw"] + 1)
"""
TALK = """
class Model:
    def generate(self, request):
        return "turn three is answered" if len(request['messages']) > 1 else "turn one is answered"


class Judge:
    def generate(self, request):
        return f"Rating: [[{len(str(request)) % 7 + 1}]]"
"""


def script(file: str, name: str = "Model") -> dict[str, Any]:
    config = {"file_path": file, "class_name": name}
    return {"backend_id": name.lower(), "type": "custom_script", "config": config}


def talks(folder: Path) -> None:
    """Conversations of two turns that a judge rates."""
    (folder / "talk.py").write_text(TALK, encoding="utf-8")
    rows = [
        {"question_id": i, "category": "writing", "turns": [f"Write about {'x' * i}.", "Again!"]} for i in range(ROWS)
    ]
    (folder / "talks.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    run(
        folder,
        "talks",
        datasets=[{"dataset_id": "talks", "params": {"path": "talks.jsonl", "preprocess": "mt_bench"}}],
        backends=[script("talk.py"), script("talk.py", "Judge")],
        prompts=[{"prompt_id": "rate", "template": "Rate {{ model_answer }} to {{ sample.messages[0].content }}"}],
        role_adapters=[
            {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"},
            {"adapter_id": "judge", "role_type": "judge_model", "backend_id": "judge", "prompt_id": "rate"},
        ],
        metrics=["judge_rating"],
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that always say 2 and 3, one that says 1 and 2 to each question, one of fewer rows, and one of two tasks."""
    folder = tmp_path_factory.mktemp("matrix")
    write_questions(folder)
    (folder / "counting.py").write_text(COUNTING, encoding="utf-8")
    run(folder, "first", backends=answers("2"))
    run(folder, "second", backends=answers("3"))
    run(folder, "fewer", backends=answers("2"), tasks=[{"task_id": "sums", "dataset_id": "sums", "max_samples": 5}])
    run(
        folder,
        "repeated",
        backends=[script("counting.py")],
        tasks=[{"task_id": "sums", "dataset_id": "sums", "replicates": 2}],
    )
    backends = [*answers("2"), {"backend_id": "other", "type": "dummy", "config": {"mode": "fixed", "answer": "1"}}]
    tasks = [{"task_id": name, "dataset_id": "sums", "adapter_id": name} for name in ("model", "other")]
    run(folder, "both", backends=backends, tasks=tasks)
    talks(folder)
    return folder


@pytest.fixture
def client(folder: Path) -> TestClient:  # type: ignore[misc]
    with viewer(folder) as client:
        yield client


def rows(text: str) -> dict[str, list[str]]:
    """The verdicts of each question of a matrix, in its order."""
    body = text.split("<tbody>")[1].split("</tbody>")[0]
    verdicts = {}
    for row in body.split("<tr>")[1:]:
        sample = re.search(r'data-row href="[^"]*" title="([^"]*)"', row)
        if sample is not None:
            cells = re.findall(r"<td data-label.*?</td>", row, re.DOTALL)
            kinds = [re.sub(r"<[^>]*>", " ", cell).split()[0] for cell in cells]
            verdicts[unescape(sample[1])] = kinds
    return verdicts


def matrix(client: TestClient, runs: str = "first,second", **query: str) -> dict[str, list[str]]:
    address = f"/matrix?runs={runs}&" + "&".join(f"{name}={quote(value)}" for name, value in query.items())
    return rows(page(client, address))


def test_each_question_has_the_verdict_of_each_run_and_each_run_its_score_above(
    client: TestClient, folder: Path
) -> None:
    expected = {f"s{i}": ["right" if i % 3 == 1 else "wrong", "right" if i % 3 == 2 else "wrong"] for i in range(ROWS)}
    assert matrix(client) == expected
    text = page(client, "/matrix?runs=first,second")
    reader = RunReader.open(Locations.at(str(folder / "store"), None), "first")
    assert f"{reader.summary.tasks[0].metrics[0].value:.3f} [" in text.split("<tbody>")[0]
    assert "n 12" in text.split("<tbody>")[0]


@pytest.mark.parametrize(
    ("show", "kept"), [("differ", {1, 2}), ("wrong", {0}), ("right", set()), ("nonsense", {0, 1, 2})]
)
def test_questions_are_filtered_by_what_the_runs_make_of_them(client: TestClient, show: str, kept: set[int]) -> None:
    expected = [f"s{i}" for i in range(ROWS) if i % 3 in kept]
    assert list(matrix(client, show=show)) == expected
    heading = {"differ": "where they differ", "wrong": "none right", "right": "all right"}.get(show, "all")
    assert f"{heading} <b>{len(expected)}</b>" in page(client, "/matrix?runs=first,second")


def test_questions_are_sorted_by_spread_and_by_each_run(client: TestClient) -> None:
    by_spread = list(matrix(client, sort="spread", desc="1"))
    assert [int(name[1:]) % 3 for name in by_spread] == [1, 2] * 4 + [0] * 4
    first = [int(name[1:]) % 3 == 1 for name in matrix(client, sort="0", desc="1")]
    assert first == [True] * 4 + [False] * 8
    assert next(iter(matrix(client, sort="row", desc="1"))) == f"s{ROWS - 1}"


def test_a_search_lists_the_questions_that_match_in_any_run(client: TestClient) -> None:
    assert list(matrix(client, q="id:s7")) == ["s7"]
    assert list(matrix(client, q="status:right")) == [f"s{i}" for i in range(ROWS) if i % 3]
    assert list(matrix(client, q="topic:even status:right", show="differ")) == ["s2", "s4", "s8", "s10"]


def test_repetitions_of_a_question_are_one_cell_and_are_found_all(client: TestClient) -> None:
    shown = matrix(client, "first,repeated")
    assert [shown[f"s{i}"][1] for i in range(3)] == ["mixed", "mixed", "wrong"]
    assert "mixed 0.500 of 2" in page(client, "/matrix?runs=first,repeated")
    assert list(matrix(client, "repeated,first", q="replicate:1 status:right"))[:2] == ["s1", "s4"]


def test_a_question_that_a_run_does_not_have_is_no_difference(client: TestClient) -> None:
    shown = matrix(client, "first,fewer")
    assert [kinds[1] for kinds in shown.values()].count("not") == ROWS - 5
    assert matrix(client, "first,fewer", show="differ") == {}
    assert list(matrix(client, "fewer,first")) == list(shown), "the rows are those of all runs"


def test_the_tasks_of_one_run_are_columns_too(client: TestClient) -> None:
    text = page(client, "/runs/both")
    address = re.search(r'href="(/matrix\?[^"]*)">the tasks of sums', text)
    assert address is not None
    text = page(client, unescape(address[1]))
    assert rows(text)["s0"] == ["wrong", "right"]
    beside = re.search(r'data-row href="([^"]*)"', text)
    assert beside is not None
    assert "in 2 runs" in page(client, unescape(beside[1]))


def test_runs_are_ticked_in_the_list_and_compared(client: TestClient) -> None:
    assert 'name="run" value="second"' in page(client, "/")
    assert rows(page(client, "/matrix?run=second&run=first"))["s1"] == ["wrong", "right"]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/matrix", "Name the runs"),
        (f"/matrix?runs={','.join(f'run-{i}' for i in range(9))}", "At most 8"),
        ("/matrix?runs=first,nothing", "nothing"),
        ("/matrix/plots", "Name the runs"),
    ],
)
def test_what_cannot_be_shown_is_said(client: TestClient, address: str, said: str) -> None:
    response = client.get(address)
    assert response.status_code == 400
    assert said in unescape(response.text)


def test_a_run_without_the_task_or_the_metric_says_so_in_its_column(client: TestClient) -> None:
    page(client, "/matrix?runs=first")
    text = unescape(page(client, "/matrix?runs=first,both"))
    assert rows(text)["s1"] == ["right"]
    assert "both" in text.split("<tbody>")[0]
    assert "there is no metric" in unescape(page(client, "/matrix?runs=first,talks"))
    assert 'role="alert"' in page(client, "/matrix?runs=first,second&sort=nonsense")
    assert 'role="alert"' in page(client, "/matrix?runs=first,second&q=nonsense:1")


def test_hostile_questions_and_answers_stay_texts(tmp_path: Path) -> None:
    write_questions(tmp_path, hostile=True)
    for name in ("first", "second"):
        run(tmp_path, name, backends=answers(HOSTILE))
    with viewer(tmp_path) as client:
        for address in (
            "/matrix?runs=first,second",
            "/matrix/plots?runs=first,second",
            f"/matrix?runs=first&q={quote(HOSTILE)}",
        ):
            text = client.get(address).text if "q=" in address else page(client, address)
            assert "<script>alert" not in text
            assert "<img src=x" not in text
            assert ">49<" not in text


def test_plots_show_scores_slices_ratings_and_score_against_length(client: TestClient) -> None:
    text = page(client, "/matrix/plots?runs=first,second")
    assert text.count('class="interval"') >= 2
    assert "By topic" in text
    assert 'aria-label="exact_match against characters of an answer' in text
    assert "Distribution" not in text, "answers are right or wrong"
    assert "Distribution of judge_rating" in page(client, "/matrix/plots?runs=talks")
    assert 'class="columns"' in page(client, "/runs/talks")


def test_a_conversation_is_interleaved_and_listed_by_its_first_question(client: TestClient) -> None:
    assert "Write about xx." in page(client, "/runs/talks/samples")
    text = page(client, "/runs/talks/sample?id=2")
    places = [
        text.index(said) for said in ("Write about xx.", "turn one is answered", ">Again!", "turn three is answered")
    ]
    assert places == sorted(places)
    assert text.split("what the judge was asked")[0].count("turn three is answered") == 1


def test_the_steps_of_an_answer_are_a_part_of_its_page(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 'id="step-2"' in page(client, "/runs/talks/sample?id=2")
    part = page(client, "/runs/talks/steps?id=2&step=1")
    assert 'class="step on" id="step-1"' in part
    assert "turn one is answered" in part
    assert 'class="step on"' not in page(client, "/runs/talks/steps?id=2&step=<b>")
    assert client.get("/runs/talks/steps?id=nobody&step=1").status_code == 400

    def diverged(*arguments: Any) -> SampleView:
        attempt = shown_messages([{"role": "tool", "name": "look_up", "content": "<i>found</i>"}])
        divergences = [(f"{DIVERGES_AT}3, of tool '<b>'", attempt)]
        return replace(cast(SampleView, sample_view(*arguments)), divergences=divergences)

    monkeypatch.setattr(open_task, "sample_view", diverged)
    text = page(client, "/runs/talks/sample?id=2")
    assert f"{DIVERGES_AT}3, of tool &#39;&lt;b&gt;" in text
    assert "that attempt: 1 messages" in text
    assert "&lt;i&gt;found&lt;/i&gt;" in text
