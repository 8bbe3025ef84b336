"""No upload of a file that grows loses lines that it had before."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gage_eval.base.errors import StoreError
from gage_eval.runs import appended
from gage_eval.runs.appended import LocalFile, UploadedFile

NAME = "first/events.jsonl"


def test_a_write_that_takes_a_part_of_the_lines_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(appended.os, "write", lambda file, data: write(file, data[:3]))
    file = LocalFile(tmp_path / "events.jsonl")
    file.append(b'{"a": 1}\n{"b": 2}\n')
    file.close()
    assert (tmp_path / "events.jsonl").read_bytes() == b'{"a": 1}\n{"b": 2}\n'


class Bucket:
    """Objects of which some requests fail."""

    url = "s3://bucket/runs"

    def __init__(self, **objects: bytes) -> None:
        self.objects = dict(objects)
        self.failing: set[str] = set()

    def get(self, name: str) -> bytes:
        if "get" in self.failing:
            raise StoreError("the store does not answer.")
        if name not in self.objects:
            raise FileNotFoundError(name)
        return self.objects[name]

    def replace(self, name: str, data: bytes) -> None:
        if "replace" in self.failing:
            raise StoreError("the store does not answer.")
        self.objects[name] = data


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the local copies are, which are uploaded at once."""
    monkeypatch.setattr(appended, "tempfile", SimpleNamespace(mkdtemp=lambda prefix: str(tmp_path)))
    monkeypatch.setattr(appended, "UPLOAD_EVERY_S", 0.0)
    return tmp_path


def file_in(bucket: Any) -> UploadedFile:
    return UploadedFile(bucket, NAME)


def append(file: UploadedFile, lines: bytes) -> None:
    file.append(lines)
    if (running := file._uploading) is not None:
        running.join()


def test_lines_follow_those_that_are_there(folder: Path) -> None:
    bucket = Bucket(**{NAME: b"1\n"})
    file = file_in(bucket)
    append(file, b"2\n")
    assert bucket.objects[NAME] == b"1\n2\n"
    append(file, b"3\n")
    file.close()
    assert bucket.objects[NAME] == b"1\n2\n3\n"
    assert not folder.exists()


@pytest.mark.parametrize("request_", ["get", "replace"])
def test_after_an_outage_all_lines_are_there(folder: Path, request_: str) -> None:
    bucket = Bucket(**{NAME: b"1\n"})
    bucket.failing = {request_}
    file = file_in(bucket)
    append(file, b"2\n")
    assert bucket.objects[NAME] == b"1\n", "an upload replaces the file"
    bucket.failing = set()
    file.close()
    assert bucket.objects[NAME] == b"1\n2\n"


def test_lines_that_cannot_be_uploaded_stay_here(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    bucket = Bucket(**{NAME: b"1\n"})
    bucket.failing = {"get"}
    file = file_in(bucket)
    append(file, b"2\n")
    file.close()
    assert (bucket.objects[NAME], (folder / "events.jsonl").read_bytes()) == (b"1\n", b"2\n")
    assert f"the lines of s3://bucket/runs/{NAME} are only in {folder / 'events.jsonl'}" in caplog.text
