"""Promises of comparing, notes and exporting in the viewer."""

import csv
import io
import re
from html import unescape
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient
from viewer_client import ROWS, answers, ids, page, run, samples, viewer, write_questions

import gage_eval
from gage_eval.regression.compare import compare
from gage_eval.report.summary import signed_text
from gage_eval.runs.options import Locations
from gage_eval.runs.results.notes import Note, add_note, notes_of
from gage_eval.runs.results.reading import RunReader
from gage_eval.store import Store
from gage_eval.viewer.word_diff import word_diff

ORIGIN = {"origin": "http://127.0.0.1:4280"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("comparing")
    write_questions(folder)
    for run_id, answer in (("first", "2"), ("second", "3"), ("third", "1")):
        run(folder, run_id, backends=answers(answer))
    prompt = {"prompt_id": "ask", "template": "Say: {{ sample.messages[0].content[0].text }}"}
    adapter = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model", "prompt_id": "ask"}
    run(folder, "prompted", backends=answers("3"), prompts=[prompt], role_adapters=[adapter])
    return folder


@pytest.fixture
def client(folder: Path) -> TestClient:  # type: ignore[misc]
    with viewer(folder) as client:
        yield client


def hidden(text: str) -> dict[str, str]:
    """The hidden fields of the form that adds a note."""
    form = text.split('action="/notes"')[-1]
    return fields(form)


def fields(form: str) -> dict[str, str]:
    """The hidden fields of a form."""
    hidden_fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form.split("</form>")[0])
    return {name: unescape(value) for name, value in hidden_fields}


def test_the_statistics_are_those_of_gage_compare(client: TestClient, folder: Path) -> None:
    text = page(client, "/runs/second/compare?with=first")
    locations = Locations.at(str(folder / "store"), None)
    (comparison,) = compare(RunReader.open(locations, "first"), RunReader.open(locations, "second"))
    assert f"p {comparison.p:.3f}" in text
    assert f"<b>{len(comparison.task.worse)}</b> worse" in text
    assert f"<b>{len(comparison.task.better)}</b> better" in text


def test_each_score_that_moved_is_one_click_away_from_its_cause(client: TestClient) -> None:
    text = page(client, "/runs/second/compare?with=first")
    assert "Why sums moved" in text
    links = [unescape(link) for link in re.findall(r'href="(/runs/second/side-by-side[^"]+)"', text)]
    assert len(links) == len(set(links)) > 1
    assert "token not known" in text
    assert 'aria-label="first"' in page(client, links[0])
    # Runs that do not compare have a cause too.
    assert re.search(r"of \d+ flips \d+ prompt", page(client, "/runs/prompted/compare?with=first"))


def test_the_list_shows_the_difference_that_gage_compare_finds(client: TestClient, folder: Path) -> None:
    locations = Locations.at(str(folder / "store"), None)
    (comparison,) = compare(RunReader.open(locations, "first"), RunReader.open(locations, "second"))
    assert comparison.evidence.difference is not None
    text = unescape(page(client, "/runs/second/samples?against=first"))
    chip = re.search(r'<a class="chip (\w+)" href="(/runs/second/compare\?[^"]+)" title="([^"]+)">([^<]+)</a>', text)
    assert chip is not None
    tone, link, title, shown = chip.groups()
    assert shown == f"{signed_text(comparison.evidence.difference)} against first"
    assert f"paired on {ROWS}" in title
    assert tone == ("plain" if comparison.evidence.low <= 0 <= comparison.evidence.high else "bad")
    assert "Paired by sample" in page(client, link)
    assert "against first</a>" in page(client, "/runs/second/sample?id=s1&against=first"), "an answer shows it, too"


def test_the_list_shows_no_difference_of_runs_that_are_not_comparable(client: TestClient) -> None:
    text = page(client, "/runs/prompted/samples?against=first")
    assert re.search(r'class="chip \w+" href="/runs/prompted/compare', text) is None
    assert "/runs/prompted/compare?with=first" in text, "the page that says why"


def test_runs_that_ask_otherwise_are_refused_with_a_way_to_compare_all_the_same(client: TestClient) -> None:
    text = page(client, "/runs/prompted/compare?with=first")
    assert "different prompts" in text
    allowed = page(client, "/runs/prompted/compare?with=first&allow=prompts")
    assert "Not the same prompts, as allowed" in allowed


def test_three_runs_stand_side_by_side_with_their_words_marked(client: TestClient) -> None:
    text = page(client, "/runs/third/side-by-side?with=first,second&id=s0")
    assert [word for word in ("first", "second", "third") if f'aria-label="{word}"' in text] == [
        "first",
        "second",
        "third",
    ]
    assert "<del>2</del><ins>3</ins>" in text
    assert "<del>2</del><ins>1</ins>" in text


def test_a_word_diff_gives_both_texts_back() -> None:
    before, after = "So 9 × 2 = 18.\n#### 18", "So 9 × 2 = 18.\nRounded it is 17"
    pieces = word_diff(before, after)
    assert "".join(piece.text for piece in pieces if piece.kind != "gone") == after
    assert [piece.text.strip() for piece in pieces if piece.kind == "gone"] == ["#### 18"]


def test_an_answer_says_what_it_was_in_the_other_run(client: TestClient) -> None:
    text = page(client, "/runs/second/sample?id=s1&against=first")
    assert "In first:" in text
    assert "right." in text
    assert "<del>2</del>" in text


def test_a_note_is_kept_by_response_and_metric_with_who_and_when(client: TestClient, folder: Path) -> None:
    answer = page(client, "/runs/first/sample?id=s1")
    form = {**hidden(answer), "verdict": "score_wrong", "text": "<b>two</b> is meant"}
    back = client.post("/notes", data=form, headers=ORIGIN)
    assert back.status_code == 200
    assert "&lt;b&gt;two&lt;/b&gt; is meant" in back.text
    (note,) = notes_of(Store.open(str(folder / "store"), read_only=True))
    assert (note.verdict, note.metric, note.sample_id, note.run_id) == ("score_wrong", "exact_match", "s1", "first")
    assert note.by
    assert note.at.tzinfo is not None
    assert ids(samples(client, "first", q="note:any")) == ["s1"]
    assert ids(samples(client, "first", q="note:question_wrong")) == []
    assert "s1" in page(client, "/notes")

    # A run that uses the same response has the note too.
    run(folder, "again", backends=answers("2"))
    assert "&lt;b&gt;two&lt;/b&gt; is meant" in page(client, "/runs/again/sample?id=s1")


def test_a_note_can_be_taken_back(tmp_path: Path) -> None:
    write_questions(tmp_path)
    run(tmp_path, "first", backends=answers("2"))
    with viewer(tmp_path) as client:
        form = {**hidden(page(client, "/runs/first/sample?id=s1")), "verdict": "comment", "text": "remark"}
        text = client.post("/notes", data=form, headers=ORIGIN).text
        back = fields(text.split('action="/notes"')[1])
        assert "remark" not in client.post("/notes", data=back, headers=ORIGIN).text
        assert notes_of(Store.open(str(tmp_path / "store"))) == []


def test_the_list_of_answers_with_notes_is_that_of_now(tmp_path: Path) -> None:
    """Also where as many answers as before have notes, and however the term is written."""
    write_questions(tmp_path)
    run(tmp_path, "first", backends=answers("2"))
    with viewer(tmp_path) as client:
        form, other = (hidden(page(client, f"/runs/first/sample?id={name}")) for name in ("s1", "s2"))
        text = client.post("/notes", data={**form, "verdict": "score_wrong"}, headers=ORIGIN).text
        assert ids(samples(client, "first", q="note:any")) == ["s1"]
        client.post("/notes", data=fields(text.split('action="/notes"')[1]), headers=ORIGIN)
        client.post("/notes", data={**other, "verdict": "score_wrong"}, headers=ORIGIN)
        for term in ("note:any", "note=score_wrong", '"note":any'):
            assert ids(samples(client, "first", q=term)) == ["s2"]


@pytest.mark.parametrize(
    "change", [{"form": "made-up"}, {"form": ""}, {"verdict": "nonsense"}, {"response_key": "../x"}]
)
def test_a_form_that_is_not_ours_or_makes_no_sense_keeps_nothing(client: TestClient, change: dict[str, str]) -> None:
    form = {**hidden(page(client, "/runs/second/sample?id=s2")), "verdict": "score_wrong", **change}
    assert client.post("/notes", data=form, headers=ORIGIN).status_code == 400
    assert ids(samples(client, "second", q="note:any")) == []


def test_the_listed_answers_are_exported_in_their_order(client: TestClient, tmp_path: Path) -> None:
    query = {"q": "status:wrong", "sort": "id", "desc": "1"}
    expected = ids(samples(client, "third", **query, size=200))
    assert len(expected) == ROWS * 2 // 3
    table = list(csv.DictReader(io.StringIO(client.get("/runs/third/export.csv", params=query).text)))
    lines = [orjson.loads(line) for line in client.get("/runs/third/export.jsonl", params=query).content.splitlines()]
    parquet = pq.read_table(io.BytesIO(client.get("/runs/third/export.parquet", params=query).content)).to_pylist()
    for rows in (table, lines, parquet):
        assert [row["sample_id"] for row in rows] == expected
        assert {row["answer"] for row in rows} == {"1"}
        assert {row["topic"] for row in rows} == {"even", "odd"}
    assert [float(row["exact_match"]) for row in table] == [row["exact_match"] for row in parquet]
    assert client.get("/runs/third/export.csv", params={"q": "nothing-has-this"}).text.startswith("sample_id,")


def test_an_exported_formula_is_a_text(tmp_path: Path) -> None:
    write_questions(tmp_path)
    run(tmp_path, "first", backends=answers('=HYPERLINK("http://evil.example")'))
    with viewer(tmp_path) as client:
        rows = list(csv.DictReader(io.StringIO(page(client, "/runs/first/export.csv"))))
    assert {row["answer"][:2] for row in rows} == {"'="}


def test_notes_are_not_in_the_way_of_a_check_of_the_store(folder: Path) -> None:
    store = Store.open(str(folder / "store"))
    note = Note(response_key="0" * 64, verdict="comment", text="x", run_id="first", task_id="sums", sample_id="s1")
    add_note(store, note)
    assert gage_eval.open_run("second", store=str(folder / "store")).summary.metrics
    assert [finding for finding in store.verify() if "notes" in str(finding)] == []


def test_a_collection_leaves_notes_alone(tmp_path: Path) -> None:
    write_questions(tmp_path)
    run(tmp_path, "first", backends=answers("2"))
    store = Store.open(str(tmp_path / "store"))
    note = Note(response_key="0" * 64, verdict="score_wrong", run_id="first", task_id="sums", sample_id="s1")
    add_note(store, note)
    assert store.gc((), min_age_s=-1.0).objects > 0, "everything else goes"
    assert notes_of(store) == [note]
