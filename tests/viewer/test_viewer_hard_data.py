"""Promises of the viewer for data that are hard to show, and for indexes that cannot be used."""

import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import orjson
import pytest
from starlette.testclient import TestClient
from viewer_client import ROWS, answers, ids, page, run, samples, viewer, write_questions

from gage_eval.base.canonical import canonical_json
from gage_eval.runs.results.notes import Note, add_note
from gage_eval.store import Store
from gage_eval.viewer import open_runs
from gage_eval.viewer.word_diff import word_diff
from tests.support.waiting import PATIENCE_S

HUGE = 10**400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_questions(tmp_path)
    run(tmp_path, "first", backends=answers("2"))
    return tmp_path


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    with viewer(folder) as client:
        yield client


def test_an_answer_whose_sample_has_a_long_integer_is_shown(tmp_path: Path) -> None:
    row = b'{"id": "s0", "question": "?", "answer": "1", "metadata": {"serial": %d}}\n' % HUGE
    (tmp_path / "rows.jsonl").write_bytes(row)
    run(tmp_path, "first", backends=answers("1"))
    with viewer(tmp_path) as client:
        assert str(HUGE) in page(client, "/runs/first/sample?id=s0")


@pytest.mark.parametrize("key", ["", "*", "a/b", "~0", 'a"\\b'])
def test_a_tag_may_have_any_name(tmp_path: Path, key: str) -> None:
    rows = [{"id": f"s{i}", "question": "?", "answer": "1", "data_tag": {key: "ab"[i % 2]}} for i in range(ROWS)]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    run(tmp_path, "first", backends=answers("1"))
    with viewer(tmp_path) as client:
        listed = samples(client, "first", sort="s0", cols="id,s0")
        assert ids(listed) == [f"s{i}" for i in [*range(0, ROWS, 2), *range(1, ROWS, 2)]]


def test_long_texts_are_listed_searched_and_exported(tmp_path: Path) -> None:
    """A part may hold 64 MiB of them, which no query can hold at a time."""
    texts = [f"{random.Random(i).randbytes(60_000).hex()} number {i}." for i in range(260)]
    rows = [{"id": f"s{i}", "question": text, "answer": "1"} for i, text in enumerate(texts)]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    run(tmp_path, "first", backends=answers("1"))
    with viewer(tmp_path) as client:
        assert ids(samples(client, "first", sort="asked", desc=1, size=25)) != []
        assert ids(samples(client, "first", q='"number 217."')) == ["s217"]
        exported = [orjson.loads(line) for line in client.get("/runs/first/export.jsonl").content.splitlines()]
        assert [row["asked"] for row in exported] == texts


def test_a_note_of_no_response_ends_no_list(client: TestClient, folder: Path) -> None:
    store = Store.open(str(folder / "store"))
    note = Note(response_key="0" * 64, verdict="comment", text="x", run_id="first", task_id="sums", sample_id="s1")
    add_note(store, note)
    forged = note.model_copy(update={"id": "1", "response_key": "none"})
    store.objects.create("notes/none/1.json", canonical_json(forged.model_dump(mode="json")))
    assert ids(samples(client, "first", q="note:any")) == []
    assert len(ids(samples(client, "first", q="-note:any"))) == ROWS


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_an_export_of_a_list_that_cannot_be_made_says_why(client: TestClient, kind: str) -> None:
    for query in ({"q": "topik:even"}, {"sort": "nothing"}, {"where": "nothing > 1"}):
        response = client.get(f"/runs/first/export.{kind}", params=query)
        assert response.status_code == 400
        assert "content-disposition" not in response.headers


def test_an_index_that_cannot_be_opened_is_made_again(folder: Path) -> None:
    with viewer(folder) as client:
        page(client, "/runs/first")
    (index,) = (folder / "cache").glob("index-*.duckdb")
    index.write_bytes(index.read_bytes()[:5000])
    with viewer(folder) as client:
        response = client.get("/runs/first/samples")
        assert response.status_code == 400
        assert "made again: load the page again" in response.text
        assert len(ids(samples(client, "first"))) == ROWS


def test_an_index_that_cannot_be_made_says_why_and_is_tried_again(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise duckdb.IOException("No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(open_runs, "build_index", full)
        response = client.get("/runs/first/samples")
        assert response.status_code == 400
        assert "No space left on device" in response.text
    assert len(ids(samples(client, "first"))) == ROWS


def test_an_index_is_given_up_when_the_viewer_ends_and_drafts_of_killed_viewers_go(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def endless(*_: object, progress: Callable[[float], None], **__: object) -> None:
        begun.set()
        while True:
            progress(0.5)

    build = open_runs.build_index
    monkeypatch.setattr(open_runs, "build_index", endless)
    with viewer(folder) as client:
        assert client.request("GET", "/runs/first/samples").status_code == 202
        assert begun.wait(PATIENCE_S)
    for thread in threading.enumerate():
        if thread.name.startswith("index"):
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
    monkeypatch.setattr(open_runs, "build_index", build)
    old, young = (folder / "cache" / f".index-{name}.duckdb.1" for name in ("old", "young"))
    for draft in (old, young):
        draft.touch()
    os.utime(old, (0, 0))
    with viewer(folder) as client:
        assert len(ids(samples(client, "first"))) == ROWS
    assert (old.exists(), young.exists()) == (False, True)


def test_answers_of_a_model_that_repeats_itself_are_compared() -> None:
    """Every pair of equal words would be looked at for every match: minutes."""
    before = " ".join(f"again u{i}" for i in range(2_900))
    after = " ".join(f"again v{i}" for i in range(2_900))
    pieces = word_diff(before, after)
    assert "".join(piece.text for piece in pieces if piece.kind != "gone") == after
    assert [piece.kind for piece in word_diff("again " * 5_000 + "a", "again " * 5_000 + "b")] == [
        "same",
        "gone",
        "new",
    ]
    assert [piece.kind for piece in word_diff(before, before)] == ["same"]
