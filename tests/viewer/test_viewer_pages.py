"""Promises of the viewer's pages: from a score to the reason in three clicks, and texts stay texts."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import orjson
import pytest
from starlette.testclient import TestClient
from viewer_client import HOSTILE, ROWS, answers, ids, page, run, samples, viewer, write_questions

import gage_eval
from gage_eval.base.errors import InputError, RunFailed
from gage_eval.runs.options import Locations
from gage_eval.runs.results.explain import tally
from gage_eval.runs.results.outcomes import RowFilter
from gage_eval.runs.results.reading import RunReader
from gage_eval.runs.results.sent_requests import answers_with_requests
from gage_eval.viewer.list_page import ListPage
from gage_eval.viewer.query import format_term


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of one name: all answers 2, then all 3, then an endpoint that is not there."""
    folder = tmp_path_factory.mktemp("viewer")
    write_questions(folder)
    run(folder, "first", backends=answers("2"))
    run(folder, "second", backends=answers("3"))
    run(
        folder, "unread", backends=answers("The answer is not A"), metrics=["numeric_match"], metadata={"name": "other"}
    )
    return folder


@pytest.fixture
def client(folder: Path) -> TestClient:  # type: ignore[misc]
    with viewer(folder) as client:
        yield client


def link(text: str, *parts: str) -> str:
    """The address of the first link whose markup holds these texts."""
    for match in re.finditer(r'<a\b[^>]*href="([^"]*)"[^>]*>.*?</a>', text, re.DOTALL):
        if all(part in match.group() for part in parts):
            return unescape(match.group(1))
    raise AssertionError(f"no link with {parts}")


def test_three_clicks_lead_from_a_score_to_its_reason(client: TestClient) -> None:
    home = page(client, "/")
    assert "0.333" in home
    first = page(client, link(home, ">first<"))
    wrong = page(client, link(first, f"<b>{ROWS * 2 // 3}</b> wrong"))
    answer = page(client, link(wrong, "s0"))
    assert "Wrong:" in answer
    assert 'answered <b class="said">2</b>, expected <b class="said">1</b>.' in answer
    assert "What is 0 + 1? (0)" in answer
    assert "as sent" in answer


def test_counts_are_those_of_the_report_and_of_show(client: TestClient, folder: Path) -> None:
    links = dict(re.findall(r"<b>([\d,]+)</b> (\w+)</a>", page(client, "/runs/first"))[::-1])
    counts = {kind: int(count) for count, kind in re.findall(r"<b>([\d,]+)</b> (\w+)</a>", page(client, "/runs/first"))}
    task = RunReader.open(Locations.at(str(folder / "store"), None), "first").task()
    where = RowFilter(outcomes=frozenset({"wrong"}), measure=task.measure())
    assert counts["wrong"] == tally(task, where).matching == ROWS * 2 // 3
    assert counts["right"] == ROWS // 3
    assert links


def test_the_run_page_shows_worst_slices_and_flips_and_each_leads_to_its_rows(client: TestClient) -> None:
    second = page(client, "/runs/second")
    assert "Compared with" in second
    worse = samples_at(client, second, "got worse")
    assert worse == [f"s{i}" for i in range(ROWS) if i % 3 == 1]
    assert samples_at(client, second, "got better") == [f"s{i}" for i in range(ROWS) if i % 3 == 2]
    hard = samples_at(client, page(client, "/runs/first"), "level = hard")
    assert hard == [f"s{i}" for i in range(ROWS) if i % 3 != 1]


@pytest.mark.parametrize("key", ["label", "length", "sub-topic", "große Gruppe", HOSTILE])
def test_every_slice_leads_to_its_rows_whatever_its_name(tmp_path: Path, key: str) -> None:
    """Also where a search term has this name, and where the slice is declared."""
    rows = [
        {"id": f"s{i}", "question": f"{i}?", "answer": str(i % 2 + 1), "data_tag": {key: "ab"[i % 2]}}
        for i in range(ROWS)
    ]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    run(tmp_path, "sliced", backends=answers("1"), metrics=[{"metric_id": "exact_match", "slices": ["label"]}])
    with viewer(tmp_path) as client:
        text = page(client, "/runs/sliced")
        assert samples_at(client, text, " = b</a>") == [f"s{i}" for i in range(1, ROWS, 2)]
        assert samples_at(client, text, "sample.label = 2</a>") == [f"s{i}" for i in range(1, ROWS, 2)]


@pytest.mark.parametrize("gone", [False, True], ids=["answers there", "answers gone"])
def test_a_recorded_answer_is_shown_with_its_prompt_and_without_a_request(tmp_path: Path, gone: bool) -> None:
    write_questions(tmp_path)
    recorded = tmp_path / "recorded.jsonl"
    recorded.write_bytes(b"".join(orjson.dumps({"id": f"s{i}", "output": "2"}) + b"\n" for i in range(ROWS)))
    replay = {"path": "recorded.jsonl", "answer_field": "output"}
    run(tmp_path, "replayed", backends=[{"backend_id": "old", "type": "replay", "config": replay}])
    if gone:
        recorded.unlink()
    with viewer(tmp_path) as client:
        text = page(client, "/runs/replayed/sample?task=sums&id=s3")
    for words in ("What is 0 + 1? (3)", "as prepared", "No request was sent: the answer was recorded elsewhere."):
        assert words in text
    for words in ("as sent<", "raw request", "recorded.jsonl"):
        assert words not in text
    (told,) = everything_told(tmp_path, "s3")
    assert told["messages"][-1]["content"] == "What is 0 + 1? (3)"


def test_a_failed_run_says_why_and_shows_the_tasks_that_are_scored(tmp_path: Path) -> None:
    write_questions(tmp_path)
    backends = [*answers("2"), {"backend_id": "gone", "type": "dummy", "config": {"error_rate": 1.0}}]
    tasks = [{"task_id": model, "dataset_id": "sums", "adapter_id": model} for model in ("model", "gone")]
    with pytest.raises(RunFailed):
        run(tmp_path, "half", backends=backends, tasks=tasks)
    with viewer(tmp_path) as client:
        text = page(client, "/runs/half")
        assert "0.333" in text
        assert re.findall(r'<th scope="row">(\w+)</th><td data-label="task">(\w+)', text) == [("infer", "gone")]
        for address in ("/", "/runs/half"):
            assert f"{ROWS} of {ROWS} rows of task &#39;gone&#39; ended in an error" in page(client, address)


def everything_told(folder: Path, sample_id: str) -> list[dict[str, Any]]:
    """The requests that exports show for a sample."""
    task = RunReader.open(Locations.at(str(folder / "store")), "replayed").task()
    return [dict(call.request) for call in answers_with_requests(task) if call.row.sample_id == sample_id]


def samples_at(client: TestClient, text: str, words: str) -> list[str]:
    return ids(page(client, link(text, words)))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("status:right", [1, 4, 7, 10]),
        ("-status:right topic:even", [0, 2, 6, 8]),
        ("id:s11", [11]),
        ('"(7)"', [7]),
        ("expected:3 topic:odd", [5, 11]),
        ("score>0.5", [1, 4, 7, 10]),
        ("row>=10", [10, 11]),
        ("answer:2 row<2", [0, 1]),
        ("asked:WHAT row=3", [3]),
        ("nothing-has-this", []),
    ],
)
def test_the_search_line_filters(client: TestClient, query: str, expected: list[int]) -> None:
    assert ids(samples(client, "first", q=query)) == [f"s{i}" for i in expected]


def test_sql_filters_and_cannot_leave_the_index(client: TestClient) -> None:
    assert ids(samples(client, "first", where="score = 1 AND topic = 'even'")) == ["s4", "s10"]
    assert ids(samples(client, "first", where="answer ILIKE '2%' AND length(asked) > 0 AND \"row\" < 2")) == [
        "s0",
        "s1",
    ]
    for text in (
        "1 = (SELECT count(*) FROM read_csv('/etc/passwd'))",
        "true) UNION SELECT 1; COPY (SELECT 1) TO '/tmp/out' --",
        "(SELECT content FROM read_text('/etc/hostname')) IS NOT NULL",
        "nonsense here",
    ):
        response = client.get("/runs/first/samples", params={"where": text})
        assert response.status_code == 400, text
        assert "root:" not in response.text


def test_sql_with_an_unknown_column_names_the_one_that_was_meant(client: TestClient) -> None:
    shown = client.get("/runs/first/samples", params={"where": "scor < 1"}).text
    assert "SQL: there is no column &#39;scor&#39;. Did you mean &#39;score&#39;?" in shown
    assert "Nothing matches" not in shown


def test_lists_sort_by_any_column_and_have_pages(client: TestClient) -> None:
    assert ids(samples(client, "first", sort="id", desc=1))[:3] == ["s9", "s8", "s7"]
    assert ids(samples(client, "first", sort="score"))[-4:] == ["s1", "s4", "s7", "s10"]
    assert ids(samples(client, "first", sort="s0"))[:2] == ["s1", "s4"]
    pages = [ids(samples(client, "first", size=25, page=number)) for number in (1, 2)]
    assert [len(rows) for rows in pages] == [ROWS, 0]


@pytest.mark.parametrize("filtered", ["", "topic:even"])
def test_every_column_orders_the_same_answers_both_ways_with_missing_values_last(
    client: TestClient, filtered: str
) -> None:
    names = ["id", "asked", "answer", "read", "expected", "status", "score", "tokens", "length", "latency", "reason"]
    expected = {f"s{i}" for i in range(ROWS) if not filtered or i % 2 == 0}
    for name in names:
        for desc in ("0", "1"):
            # Twice: the second time the filter and the order are remembered.
            for _ in range(2):
                query = {"q": filtered, "sort": name, "desc": desc}
                lines = client.get("/runs/first/export.jsonl", params=query).content.splitlines()
                rows = [orjson.loads(line) for line in lines]
                assert {row["sample_id"] for row in rows} == expected, name
                values = [row["sample_id" if name == "id" else name] for row in rows]
                known = [value for value in values if value is not None]
                assert values == sorted(known, reverse=desc == "1") + [None] * (len(values) - len(known)), name


def test_a_task_without_answers_leads_to_no_list(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_answers(*_: object) -> None:
        raise InputError("task 'sums' has no answer yet.")

    monkeypatch.setattr(ListPage, "open", without_answers)
    shown = client.get("/runs/first").text
    assert "Task &#39;sums&#39; has no answer yet." in shown
    assert "/samples?" not in shown


def test_unknown_fields_are_answered_with_the_known_ones(client: TestClient) -> None:
    response = client.get("/runs/first/samples", params={"q": "topik:even"})
    assert response.status_code == 400
    assert "Did you mean &#39;topic&#39;?" in response.text
    assert "No run &#39;thrid&#39;" in client.get("/runs/thrid").text


def test_an_unparsed_answer_says_that_nothing_was_read(client: TestClient) -> None:
    text = page(client, link(page(client, link(page(client, "/runs/unread"), "unparsed")), "s0"))
    assert "nothing could be read out of the answer" in text
    assert "The answer is not A" in text


def test_three_clicks_lead_from_a_published_score_to_an_answer_that_was_misread(
    tmp_path: Path, repo_root: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of docs/viewer.md."""
    monkeypatch.setenv("LOCAL_DATASETS_ROOT", str(shared / "data"))
    config = repo_root / "configs" / "pipelines" / "replays" / "mmmu_llava15_13b.yaml"
    gage_eval.run(str(config), run_id="mmmu_llava15_13b", store=str(tmp_path / "store"), inline=True)
    with viewer(tmp_path) as client:
        home = page(client, "/")
        assert "0.367" in home
        task = page(client, link(home, ">mmmu_llava15_13b<")).split(">raw_responses<")[1]
        answer = page(client, link(page(client, link(task, "<b>2</b> unparsed")), "validation_Design_4"))
    words = " ".join(re.sub(r"<[^>]*>", "", answer).split())
    assert "Unparsed: nothing could be read out of the answer, C was taken instead; expected A." in words
    assert "A) Josef Albers" in words


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    write_questions(tmp_path, hostile=True)
    run(tmp_path, "hostile", backends=answers(HOSTILE), metadata={"name": "hostile"})
    with viewer(tmp_path) as client:
        listed = samples(client, "hostile")
        texts = [page(client, "/"), page(client, "/runs/hostile"), listed, page(client, link(listed, "s1 "))]
        texts.append(samples(client, "hostile", q=format_term("", HOSTILE)))
        for text in texts:
            assert "<img src=x" not in text
            assert "<script>alert" not in text
            assert "49" not in re.findall(r"&gt;(\d\d)&amp;lt;", text)
        assert "&lt;img src=x onerror=alert(1)&gt;" in texts[3]


def test_a_run_of_another_folder_is_not_there(client: TestClient) -> None:
    for address in ("/runs/%2e%2e%2fetc/samples", "/media/../run.json", "/static/../pages.py"):
        assert client.get(address).status_code in (400, 404)


def test_the_score_on_the_page_is_the_summarys(client: TestClient, folder: Path) -> None:
    metric = gage_eval.open_run("first", store=str(folder / "store")).summary.metrics[0]
    assert metric.value == pytest.approx(1 / 3)
    assert f"{metric.value:.3f}" in page(client, "/runs/first")


@pytest.mark.parametrize("digest", ["x", "0" * 64])
def test_media_that_the_store_lacks_are_not_found(client: TestClient, digest: str) -> None:
    response = client.get(f"/media/{digest}")
    assert (response.status_code, "The store has no media" in response.text) == (404, True)
