"""A run's config, plug-ins and small data travel through the store; what cannot travel is told before the start."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from gage_eval.base.errors import ConfigError, InputError
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.bundling import RunFiles, lacks, pack
from gage_eval.runs.maintenance import collect_garbage
from gage_eval.runs.options import BUNDLE_PREFIX, Locations
from gage_eval.runs.record import FlowRunRecord
from gage_eval.runs.results.stored import StoredRun
from gage_eval.runs.resume import resumed
from gage_eval.store import Store
from gage_eval.store.bundles import Bundle
from tests.support.runs import stage_states

METRIC = """
from traveller_limits import LIMIT

def long(prediction: str, reference: str, *, words: str = "") -> float:
    return float(len(prediction) > LIMIT)
"""
# Every file of the project that the config needs.
NEEDED = {
    "run.yaml", "parts/data.yaml", "data/a-1.jsonl", "data/a-2.jsonl", "pictures/one.png", "plug/long.py",
    "plug/traveller_limits.py", "plug/words.txt",
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A config with an include, data in two files, pictures, a plug-in with a neighbour, and files it does not name."""
    folder = tmp_path / "project"
    dataset = {"dataset_id": "sums", "params": {"path": "data/a-*.jsonl", "content_root": "pictures"}}
    metric = {"metric_id": "long", "implementation": "plug/long.py:long", "params": {"words": "plug/words.txt"}}
    config = {"include": "parts/data.yaml", "backends": [{"backend_id": "m", "type": "dummy"}], "metrics": [metric]}
    texts = {
        "run.yaml": yaml.safe_dump({"metadata": {"name": "sums"}, **config}),
        "parts/data.yaml": yaml.safe_dump({"datasets": [dataset]}),
        "data/a-1.jsonl": json.dumps({"id": "1", "question": "What is 1?", "answer": "1"}) + "\n",
        "data/a-2.jsonl": json.dumps({"id": "2", "question": "What is 2?", "answer": "2"}) + "\n",
        "data/b.jsonl": "not needed",
        "pictures/one.png": "PNG",
        "pictures/.thumbnails/one.png": "hidden",
        "plug/long.py": METRIC,
        "plug/traveller_limits.py": "LIMIT = 3\n",
        "plug/other.py": "not needed",
        "plug/words.txt": "word\n",
        ".env": "SECRET=1",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def options(project: Path, **changes: Any) -> RunOptions:
    return RunOptions(config=str(project / "run.yaml"), store=str(project.parent / "store"), **changes)


def packed(project: Path, **changes: Any) -> RunFiles:
    files = pack(options(project, **changes), None)
    assert files is not None
    return files


def change(project: Path, **sections: Any) -> None:
    """Give the config other sections."""
    file = project / "run.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **sections}))


def leave(project: Path) -> None:
    """Remove the project, also from this process: what it imported is unknown in another one."""
    shutil.rmtree(project)
    sys.modules.pop("traveller_limits", None)
    sys.path[:] = [place for place in sys.path if not place.startswith(str(project))]


def keys(project: Path, run_id: str) -> dict[str, tuple[str | None, str]]:
    record = StoredRun.open(Locations.at(str(project.parent / "store")), run_id).record
    return {"": (record.config.digest, "")} | {
        name: (stage.key, json.dumps(stage.outputs, sort_keys=True)) for name, stage in record.stages.items()
    }


def test_all_that_a_config_names_travels_and_nothing_else(project: Path) -> None:
    files = packed(project)
    assert set(files.files) == NEEDED
    assert (files.config, files.stays, files.needs) == ("run.yaml", (), ())
    assert files.files["plug/long.py"] == METRIC.encode()


def test_a_run_has_the_same_keys_where_only_the_store_is(project: Path) -> None:
    run_inline(options(project, run_id="here"))
    bundle = packed(project).put(Store.open(str(project.parent / "store")))
    leave(project)
    there = RunOptions(config=f"{BUNDLE_PREFIX}{bundle}", store=str(project.parent / "store"))

    outcome = run_inline(there.model_copy(update={"run_id": "there"}))
    assert stage_states(outcome.folder) == {"cached"}
    assert keys(project, "there") == keys(project, "here")

    run_inline(there.model_copy(update={"run_id": "again", "refresh": ("load", "infer")}))
    assert keys(project, "again")["sums/auto_eval"] == keys(project, "here")["sums/auto_eval"]
    record = (project.parent / "store" / "runs" / "there" / "run.json").read_text()
    assert str(project) not in record, "no folder of the submitter's machine"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("asked.jsonl", '{"question": "What is in a.png?", "image": "pictures/one two.png"}\n{"image": "b.JPG"}\n'),
        ("asked.csv", "question,image\nwhat?,pictures/one two.png\nwhat?,b.JPG\n"),
    ],
)
def test_media_that_records_name_next_to_their_file_travel(project: Path, name: str, text: str) -> None:
    (project / "data").mkdir(exist_ok=True)
    (project / "data" / name).write_text(text)
    (project / "data" / "pictures").mkdir()
    for picture in ("pictures/one two.png", "b.JPG", "pictures/other.png"):
        (project / "data" / picture).write_bytes(b"picture")
    (project / "outside.png").write_bytes(b"picture")
    change(project, datasets=[{"dataset_id": "sums", "params": {"path": f"data/{name}"}}])
    sent = {file for file in packed(project).files if file.startswith("data/")}
    assert sent == {f"data/{name}", "data/pictures/one two.png", "data/b.JPG"}


def sent_beside(project: Path, pictures: list[str], **params: Any) -> set[str]:
    """The files in `data` that travel, of which these are pictures."""
    for picture in pictures:
        (project / "data" / picture).parent.mkdir(parents=True, exist_ok=True)
        (project / "data" / picture).write_bytes(b"picture")
    loader = {"loader": params.pop("loader")}
    change(project, datasets=[{"dataset_id": "sums", **loader, "params": params}])
    return {file for file in packed(project).files if file.startswith("data/")}


def test_media_that_records_of_parquet_name_next_to_their_file_travel(project: Path) -> None:
    turns = [[{"role": "user", "image": "in/two.png"}], [{"role": "user", "image": None}]]
    table = pa.table({"image": ["one.png", "missing.png"], "turns": turns, "bytes": [b"three.png", b""], "n": [1, 2]})
    pq.write_table(table, project / "data" / "rows.parquet")
    sent = sent_beside(project, ["one.png", "in/two.png", "three.png"], loader="parquet", path="data/rows.parquet")
    assert sent == {"data/rows.parquet", "data/one.png", "data/in/two.png"}


def test_images_that_are_named_after_data_files_travel(project: Path) -> None:
    (project / "data" / "key").mkdir()
    for name in ("a", "b"):
        (project / "data" / "key" / f"{name}.json").write_text("{}")
    pictures = ["key/img/a.png", "key/img/b.png", "key/img/a.txt"]
    change(project, include=[])
    sent = sent_beside(project, pictures, loader="files", path="data/key/*.json", image="img/{stem}.png")
    assert sent == {f"data/key/{name}" for name in ("a.json", "b.json", "img/a.png", "img/b.png")}


def test_a_config_given_as_text_travels_too(project: Path) -> None:
    text = (project / "run.yaml").read_text()
    files = pack(RunOptions(config=str(project), text=text), None)
    assert files is not None
    assert files.files[files.config] == text.encode()
    assert set(files.files) - {files.config} == NEEDED - {"run.yaml"}


def test_a_suite_and_a_run_that_has_travelled_need_no_files(tmp_path: Path) -> None:
    assert pack(RunOptions(config="suite:gsm8k"), None) is None
    assert pack(RunOptions(config=f"{BUNDLE_PREFIX}{'0' * 64}"), None) is None


def outside(project: Path) -> None:
    (project.parent / "rows.jsonl").write_text("{}\n")
    change(project, datasets=[{"dataset_id": "sums", "params": {"path": "../rows.jsonl"}}])


def link(project: Path) -> None:
    (project.parent / "one.png").write_text("PNG")
    (project / "pictures" / "two.png").symlink_to(project.parent / "one.png")


def key_file(project: Path) -> None:
    change(project, metrics=[{"metric_id": "long", "implementation": "plug/long.py:long", "params": {"words": ".env"}}])


def model(project: Path) -> None:
    (project / "checkpoint").mkdir()
    (project / "checkpoint" / "config.json").write_text("{}")
    change(project, backends=[{"backend_id": "m", "type": "transformers", "config": {"model_path": "checkpoint"}}])


def program(project: Path) -> None:
    (project / "python").write_text("#!/bin/sh\n")
    config = {"model_path": "hub/model", "python": "./python"}
    change(project, backends=[{"backend_id": "m", "type": "vllm", "config": config}])


def large(project: Path) -> None:
    (project / "data" / "a-3.jsonl").write_bytes(b" " * (2**20 + 1))


def token(project: Path) -> None:
    (project / "plug" / "traveller_limits.py").write_text(f"LIMIT = 3\nKEY = 'sk-{'a1' * 12}'\n")


def value(project: Path) -> None:
    (project / "data" / "a-3.jsonl").write_text('{"id": "3", "question": "correct horse battery"}\n')
    config = {"base_url": "http://127.0.0.1:9/v1", "model": "mock", "api_key": "env:TRAVELLER_KEY"}
    change(project, backends=[{"backend_id": "m", "type": "openai_http", "config": config}])


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (outside, r"datasets\[0\]\.params\.path: '\.\./rows\.jsonl' is outside the config's folder; move it there\."),
        (link, r"'pictures' leads out of the config's folder: 'pictures/two\.png' is a link; put a copy"),
        (key_file, r"'\.env' is a hidden file or a key"),
        (model, r"backends\[0\]\.config\.model_path: 'checkpoint' is a model, and models do not travel"),
        (program, r"'\./python' is a program of this machine"),
        (large, r"1\.0 MiB \('data/a-3\.jsonl' has 1\.0 MiB\), and at most 1\.0 MiB travel \(GAGE_EVAL_TRAVEL_MIB\)"),
        (token, r"'plug/traveller_limits\.py' holds what looks like a key, and secrets never travel"),
        (value, r"'data/a-3\.jsonl' holds the value of TRAVELLER_KEY, and secrets never travel"),
    ],
)
def test_what_cannot_travel_is_told(
    project: Path, monkeypatch: pytest.MonkeyPatch, changed: Callable[[Path], None], told: str
) -> None:
    monkeypatch.setenv("GAGE_EVAL_TRAVEL_MIB", "1")
    monkeypatch.setenv("TRAVELLER_KEY", "correct horse battery")
    changed(project)

    files = packed(project)

    assert len(files.stays) == 1
    with pytest.raises(InputError, match=f"cannot go to a worker on another machine.*{told}"):
        list(lacks(files, "s3://bucket/store", "h100"))
    # Where the store is a folder, a worker on this machine reads the config where it is.
    assert next(lacks(files, "/mnt/store", None)).startswith("only a worker on this machine can carry out the run")


def test_what_the_worker_needs_itself_is_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = project.parent / "rows.jsonl"
    rows.write_text("{}\n")
    monkeypatch.setenv("TRAVELLER_MODEL", "small")
    monkeypatch.setenv("TRAVELLER_KEY", "correct horse battery")
    monkeypatch.setenv("GAGE_EVAL_MAX_SAMPLES", "5")
    config = {"base_url": "http://127.0.0.1:9/v1", "model": "${TRAVELLER_MODEL}", "api_key": "env:TRAVELLER_KEY"}
    change(
        project,
        datasets=[{"dataset_id": "sums", "params": {"path": str(rows)}}],
        backends=[{"backend_id": "m", "type": "openai_http", "config": config}],
    )

    files = packed(project)

    assert files.stays == ()
    assert list(lacks(files, "s3://bucket/store", "h100")) == [
        f"the worker needs '{rows}' at the same path (datasets[0].params.path).",
        "the worker needs values of its own for TRAVELLER_MODEL, TRAVELLER_KEY.",
        "the worker needs the same GAGE_EVAL_MAX_SAMPLES, which changes results.",
    ]
    (note, *_) = lacks(files, "/mnt/store", "h100")
    assert note == "the workers of 'h100' must have the store at the same path, '/mnt/store'; else give --store s3://…"


def test_the_mistakes_of_a_config_are_told_before_it_is_sent(project: Path) -> None:
    change(project, metrics=["exact_mtach"])
    with pytest.raises(ConfigError, match="exact_mtach"):
        pack(options(project), None, strict=True)


def test_a_run_is_resumed_where_its_config_is_not(project: Path) -> None:
    run_inline(options(project, run_id="first"))
    places = Locations.at(str(project.parent / "store"))
    stored = StoredRun.open(places, "first")
    bundle = packed(project).put(Store.open(places.store))
    flow_run = FlowRunRecord(flow_run_id="1", flow_run_name="first", bundle=bundle)
    stored.folder.update(lambda record: record.model_copy(update={"prefect": flow_run}))

    assert resumed("first", store=places.store).config == str(project / "run.yaml")
    leave(project)
    again = resumed("first", store=places.store)
    assert again.config == f"{BUNDLE_PREFIX}{bundle}"
    assert stage_states(run_inline(again).folder) == {"cached"}


def test_a_collection_keeps_the_files_of_an_unfinished_run_and_removes_them_later(project: Path) -> None:
    places = Locations.at(str(project.parent / "store"))
    store = Store.open(places.store)
    bundle = packed(project).put(store)
    run_inline(RunOptions(config=f"{BUNDLE_PREFIX}{bundle}", store=places.store, run_id="first"))
    stored = StoredRun.open(places, "first")

    stored.folder.update(lambda record: record.model_copy(update={"status": "failed"}))
    collect_garbage(places, min_age="0s")
    assert Bundle.find(store.objects, bundle).files

    stored.folder.update(lambda record: record.model_copy(update={"status": "completed"}))
    collect_garbage(places, min_age="0s")
    with pytest.raises(InputError, match="has no bundle"):
        Bundle.find(store.objects, bundle)
