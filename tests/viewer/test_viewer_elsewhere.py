"""Promises of the viewer for runs on S3 and for runs that are not finished."""

import contextlib
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from viewer_client import ROWS, answers, ids, page, samples, viewer, write_questions

import gage_eval
from gage_eval.base.errors import ArtifactDamaged, BudgetSpent
from gage_eval.base.tables import RAW
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.folder import RunFolder
from gage_eval.runs.options import Locations
from gage_eval.runs.record import RunRecord
from gage_eval.store import Store
from gage_eval.store.s3 import S3Objects
from gage_eval.viewer import open_runs
from gage_eval.viewer.open_runs import OpenRuns, StillIndexing
from tests.support.waiting import wait_for
from tests.support.workspace import write_config


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_questions(tmp_path)
    return tmp_path


def test_a_run_on_s3_is_listed_with_its_texts_and_leads_to_its_reason(folder: Path, s3_url: str) -> None:
    config = write_config(folder, "remote.yaml", backends=answers("2"), metrics=["exact_match"])
    gage_eval.run(config, run_id="remote", store=s3_url, inline=True)
    with viewer(folder, store=s3_url) as client:
        listed = samples(client, "remote", q="status:wrong")
        assert len(ids(listed)) == ROWS * 2 // 3
        assert "What is 0 + 1? (0)" in listed
        answer = page(client, "/runs/remote/sample?id=s0")
        assert 'answered <b class="said">2</b>, expected <b class="said">1</b>.' in answer
        refused = client.get("/runs/remote/samples", params={"q": "hello"})
        assert refused.status_code == 400
        assert "--texts" in refused.text
        rows = [orjson.loads(line) for line in client.get("/runs/remote/export.jsonl").content.splitlines()]
        assert [row["sample_id"] for row in rows] == [f"s{i}" for i in range(ROWS)]


def test_report_and_pages_of_a_run_on_s3_are_those_of_the_same_run_here(folder: Path, s3_url: str) -> None:
    metrics = [{"metric_id": "exact_match", "slices": ["data_tag.topic"]}]
    rows = [orjson.loads(line) for line in (folder / "rows.jsonl").read_bytes().splitlines()]
    rows[3]["question"] = "Why? " * 100
    (folder / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    # The comparison first: a list shows it when it is made.
    addresses = (
        *("/", "/runs/second", "/runs/second/compare?with=first&task=sums"),
        *("/runs/second/samples?against=first&q=status:wrong", "/runs/second/sample?id=s0", "/runs/second/report"),
    )
    told = []
    for store in (str(folder / "store"), s3_url):
        for run_id, answer in (("first", "2"), ("second", "3")):
            config = write_config(folder, "small.yaml", backends=answers(answer), metrics=metrics)
            gage_eval.run(config, run_id=run_id, store=store, inline=True)
        report = Store.open(store, read_only=True).objects.get("runs/second/report.html").decode()
        assert set(re.findall(r'data-label="stage">(\w+)<', report)) >= {"load", "infer", "auto_eval", "report"}, (
            "the keys of the last stages, too"
        )
        with viewer(folder, store=store) as client:
            pages = [report, *(page(client, address) for address in addresses)]
        told.append([_without_times(text.replace(store, "STORE")) for text in pages])
    for here, there in zip(*told, strict=True):
        assert here == there


def _without_times(text: str) -> list[str]:
    """The lines of a page without what differs from run to run: dates, seconds, rates and the bar of the stages."""
    text = re.sub(r"<script.*?</script>|<svg.*?</svg>|<tr><th scope=\"row\">\w+_(s|per_s|per_sample)</th>.*", "", text,
                  flags=re.DOTALL)  # fmt: skip
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d|[\d.,]+( k)? (s|ms|samples/s|answer tokens/s)\b", "T", text)
    return text.splitlines()


def test_a_running_run_shows_its_progress_and_asks_for_itself_again(folder: Path) -> None:
    config = write_config(folder, "small.yaml", backends=answers("2"), metrics=["exact_match"])
    gage_eval.run(config, run_id="first", store=str(folder / "store"), inline=True)
    run_folder = RunFolder.open(Locations.at(str(folder / "store"), None), "first")

    run_folder.update(_as_if_scoring)
    with viewer(folder) as client:
        text = page(client, "/runs/first")
        assert "Progress" in text
        assert "data-live" in text
        assert f"<b>{ROWS}</b> scored" in text
        assert len(ids(samples(client, "first"))) == ROWS
        (folder / "store" / "runs" / "first" / "report.html").unlink()
        assert client.get("/runs/first/report").status_code == 404


def test_answers_that_are_only_in_the_logs_are_listed(folder: Path) -> None:
    config = write_config(folder, "small.yaml", backends=answers("2"), metrics=["exact_match"], limits={"tokens": 40})
    options = RunOptions(config=str(config), store="store", run_id="first", concurrency=1)
    with pytest.raises(BudgetSpent):
        run_inline(options)
    with viewer(folder) as client:
        listed = ids(samples(client, "first"))
        assert 0 < len(listed) < ROWS
        assert "has not finished" not in page(client, f"/runs/first/sample?id={listed[0]}")


def test_indexes_of_a_running_run_are_gone_with_the_viewer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write_config(folder, "small.yaml", backends=answers("2"), metrics=["exact_match"], limits={"tokens": 40})
    with pytest.raises(BudgetSpent):
        run_inline(RunOptions(config=str(config), store="store", run_id="first", concurrency=1))
    cache, locations = folder / "cache", Locations.at("store", None)
    cache.mkdir()
    left = cache / "live-1-of-a-killed-viewer.duckdb"
    left.touch()
    os.utime(left, (0, 0))
    # Each page says that the index is being made.
    monkeypatch.setattr(open_runs, "WAIT_S", 0.0)
    looked_at = OpenRuns(locations, cache)
    for _ in range(3):
        RunFolder.open(locations, "first").update(lambda record: record)
        reader = looked_at.run("first")
        with contextlib.suppress(StillIndexing):
            looked_at.index_file(reader.task(), reader)
    wait_for(lambda: left not in (files := set(cache.glob("live-*.duckdb"))) and files, "an index")
    looked_at.close()
    wait_for(lambda: not any(cache.iterdir()), "an empty cache")


def _as_if_scoring(record: RunRecord) -> RunRecord:
    """The record of a run whose process scores."""
    stages = {name: stage for name, stage in record.stages.items() if not name.endswith(("auto_eval", "report"))}
    return record.model_copy(update={"status": "running", "stages": stages})


def test_a_page_of_a_run_on_s3_fetches_a_small_share_of_it(
    folder: Path, s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [{"id": f"s{i}", "question": random.Random(i).randbytes(12_000).hex(), "answer": "2"} for i in range(600)]
    (folder / "rows.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    config = write_config(folder, "remote.yaml", backends=answers("2"), metrics=["exact_match"])
    gage_eval.run(config, run_id="remote", store=s3_url, inline=True)
    stored = sum(item.size for item in Store.open(s3_url, read_only=True).objects.list())
    fetched = _fetched(monkeypatch)
    with viewer(folder, store=s3_url) as client:
        assert "remote" in page(client, "/")
        assert records[300]["question"][:100] in page(client, "/runs/remote/sample?id=s300")
        assert 0 < sum(fetched) < 0.2 * stored
        del fetched[:]
        listed = samples(client, "remote")
        assert records[0]["question"][:100] in listed
        assert 0 < sum(fetched) < 0.2 * stored


def test_a_part_on_s3_that_was_changed_is_refused_although_it_is_not_read_whole(folder: Path, s3_url: str) -> None:
    table = pa.Table.from_pylist(
        [{"row_index": i, "record": random.Random(i).randbytes(3_000).hex(), "line": i} for i in range(300)],
        RAW.arrow,
    )
    store = Store.open(s3_url)
    with store.writer(RAW) as writer:
        writer.write(0, table)
        artifact = writer.commit()
    ranged = Store.open(s3_url, read_only=True, ranged=True).artifact(artifact.id)
    assert ranged.read(0, ["row_index"])["row_index"].to_pylist() == list(range(300))
    path = f"artifacts/{artifact.id}/part-00000.parquet"
    data = bytearray(store.objects.get(path))
    data[len(data) // 2] ^= 0xFF
    store.objects.replace(path, bytes(data))
    with pytest.raises(ArtifactDamaged, match="cannot be read"):
        ranged.read(0, ["record"])
    store.objects.replace(path, bytes(data[:-100]))
    with pytest.raises(ArtifactDamaged, match="cannot be read"):
        ranged.read(0, ["row_index"])


def _fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what comes from S3 from now on."""
    sizes: list[int] = []

    def counted(read: Callable[..., bytes]) -> Callable[..., bytes]:
        def counting(*args: Any, **kwargs: Any) -> bytes:
            data = read(*args, **kwargs)
            sizes.append(len(data))
            return data

        return counting

    for name in ("get", "get_range"):
        monkeypatch.setattr(S3Objects, name, counted(getattr(S3Objects, name)))
    return sizes
