"""Records in the config, one file a record, documents of several files, and files elsewhere."""

import functools
import gzip
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gage_eval.base.errors import InputError
from gage_eval.data.datasets.reading import matching_files, stem
from gage_eval.data.sample.record import RecordRejected, parse_record
from gage_eval.extend import registry


def build(folder: Path, loader: str, **params: Any) -> Any:
    return registry.loaders.get(loader).obj(params, folder)


def rows(folder: Path, loader: str, **params: Any) -> list[dict[str, Any]]:
    return [parse_record(text) for _, text in build(folder, loader, **params).records()]


def refusal(folder: Path, loader: str, **params: Any) -> str:
    with pytest.raises(InputError) as caught:
        list(build(folder, loader, **params).records())
    return str(caught.value)


def test_records_of_the_config_are_their_own_identity(tmp_path: Path) -> None:
    records = [{"question": "a", "answer": 1}, {"question": "b", "answer": 2}]
    assert rows(tmp_path, "inline", records=records) == records
    assert build(tmp_path, "inline", records=records).identity() == {"records": records}
    assert refusal(tmp_path, "inline", records=[]).startswith("loader inline needs params.records")
    assert refusal(tmp_path, "inline").startswith("loader inline needs params.records")


def test_a_record_a_file_has_the_files_name_as_id_and_its_image(tmp_path: Path) -> None:
    for name, total in (("b", "2"), ("a", "1")):
        (tmp_path / f"{name}.json").write_text(json.dumps({"total": total}))
    (tmp_path / "c.json").write_text('{"id": "own", "total": "3"}')
    assert rows(tmp_path, "files", path="*.json", image="img/{stem}.jpg") == [
        {"id": "a", "total": "1", "image": "img/a.jpg"},
        {"id": "b", "total": "2", "image": "img/b.jpg"},
        {"id": "own", "total": "3", "image": "img/c.jpg"},
    ]


@pytest.mark.parametrize("loader", ["files", "jsonl", "json", "csv", "parquet"])
def test_a_pattern_follows_no_link_out_of_its_folder(tmp_path: Path, loader: str) -> None:
    secret, data, kept = tmp_path / "secret", tmp_path / "data", tmp_path / "data" / "kept"
    for folder in (secret, kept):
        folder.mkdir(parents=True)
    (secret / "key.json").write_text('{"key": "do not send"}')
    (kept / "a.json").write_text('{"q": 1}')
    (data / "b.json").symlink_to("kept/a.json")
    assert matching_files("data/**/*.json", tmp_path) == [str(data / "b.json"), str(kept / "a.json")]
    for link, target in (("key.json", secret / "key.json"), ("folder", secret)):
        (data / link).symlink_to(target)
        assert "a link out of its folder" in refusal(tmp_path, loader, path="data/**/*.json")
        (data / link).unlink()


def test_a_file_that_is_named_by_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("hello")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link.txt").symlink_to(tmp_path / "real.txt")
    assert rows(tmp_path, "files", path="data/link.txt") == [{"id": "link", "text": "hello"}]


def test_a_pattern_works_below_a_folder_whose_name_looks_like_one(tmp_path: Path) -> None:
    (tmp_path / "run [1]").mkdir()
    (tmp_path / "run [1]" / "a.txt").write_text("hello")
    assert rows(tmp_path / "run [1]", "files", path="*.txt") == [{"id": "a", "text": "hello"}]


def test_a_text_file_is_a_record_with_its_text(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Hé\n", encoding="utf-8")
    assert rows(tmp_path, "files", path="*.md", text_field="question") == [{"id": "a", "question": "# Hé\n"}]


def test_a_file_that_is_no_record_is_rejected_alone(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_bytes(b'{"x": "\xff"}')
    (tmp_path / "c.json").write_text('{"x": 1}')
    texts = [text for _, text in build(tmp_path, "files", path="*.json").records()]
    for text, name in zip(texts, ("a", "b"), strict=False):
        with pytest.raises(RecordRejected, match=f"'{name}.json' is not json text"):
            parse_record(text)
    assert parse_record(texts[2]) == {"id": "c", "x": 1}


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"parser": "jsn"}, "loader files has no parser 'jsn'. Parsers: json, txt. Did you mean 'json'?"),
        ({"text_field": ["x"]}, "loader files: text_field is a text, not ['x']."),
        ({"image": "img.jpg"}, "loader files: image is a path with {stem} in it, as img/{stem}.jpg."),
    ],
)
def test_what_is_wrong_with_files_is_said(tmp_path: Path, params: dict[str, Any], text: str) -> None:
    (tmp_path / "a.json").write_text("{}")
    assert refusal(tmp_path, "files", path="*.json", **params) == text


def test_the_names_of_files_that_become_ids_are_part_of_the_identity(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    before = build(tmp_path, "files", path="*.json").identity()
    (tmp_path / "a.json").rename(tmp_path / "b.json")
    assert build(tmp_path, "files", path="*.json").identity() != before


@pytest.mark.parametrize("loader", ["json", "jsonl"])
def test_a_record_names_the_file_it_came_from(tmp_path: Path, loader: str) -> None:
    for name in ("x", "y"):
        text = '{"examples": [{"q": 1}]}' if loader == "json" else '{"q": 1}\n'
        (tmp_path / f"{name}.{loader}").write_text(text)
    params = {"records_path": "examples"} if loader == "json" else {}
    made = rows(tmp_path, loader, path=f"*.{loader}", source_field="task", **params)
    assert made == [{"task": "x", "q": 1}, {"task": "y", "q": 1}]


def test_a_field_of_the_records_own_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"task": "own"}\n[1]\n')
    texts = [text for _, text in build(tmp_path, "jsonl", path="x.jsonl", source_field="task").records()]
    assert texts == ['{"task": "own"}', "[1]"]


def test_names_of_files_lose_their_endings() -> None:
    names = ["a/b.csv", "b.jsonl.gz", "s3://bucket/x/b.csv.zst", "https://host/b.json?download=1", "b"]
    assert {stem(name) for name in names} == {"b"}


def test_zstandard_is_read_without_another_package(tmp_path: Path) -> None:
    data = b"".join(b'{"n": %d}\n' % number for number in range(20_000))
    (tmp_path / "d.jsonl.zst").write_bytes(bytes(pa.compress(data, codec="zstd", asbytes=True)))
    assert [row["n"] for row in rows(tmp_path, "jsonl", path="d.jsonl.zst")] == list(range(20_000))
    (tmp_path / "cut.jsonl.zst").write_bytes(b"no zstandard at all")
    assert "'cut.jsonl.zst' cannot be read after line 0" in refusal(tmp_path, "jsonl", path="cut.jsonl.zst")


def test_patterns_are_followed_on_s3(tmp_path: Path, s3_url: str) -> None:
    import s3fs

    system = s3fs.S3FileSystem(skip_instance_cache=True)
    for name, data in (("b", b'{"n": 2}\n'), ("a", b'{"n": 1}\n')):
        system.pipe_file(f"{s3_url}/data/{name}.jsonl", data)
    assert [row["n"] for row in rows(tmp_path, "jsonl", path=f"{s3_url}/data/*.jsonl")] == [1, 2]
    assert build(tmp_path, "jsonl", path=f"{s3_url}/data/a.jsonl").identity() == (
        build(tmp_path, "jsonl", path=_local(tmp_path, b'{"n": 1}\n')).identity()
    )
    assert refusal(tmp_path, "jsonl", path=f"{s3_url}/none/*.jsonl").startswith("no file matches 's3://")


def _local(folder: Path, data: bytes) -> str:
    (folder / "same.jsonl").write_bytes(data)
    return "same.jsonl"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if not self.path.startswith("/cut"):
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b'{"n": 1}\n')
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, the name it is called with
        pass


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """The address under which the folder is served."""
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_packed_files_are_read_over_http(tmp_path: Path, web: str) -> None:
    data = b"".join(b'{"n": %d}\n' % number for number in range(3000))
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(data))
    (tmp_path / "d.jsonl.zst").write_bytes(bytes(pa.compress(data, codec="zstd", asbytes=True)))
    for name in ("d.jsonl.gz", "d.jsonl.zst"):
        assert [row["n"] for row in rows(tmp_path, "jsonl", path=f"{web}/{name}")] == list(range(3000))
        identity = build(tmp_path, "jsonl", path=name).identity()
        assert build(tmp_path, "jsonl", path=f"{web}/{name}").identity() == identity
    assert "/none.jsonl' cannot be read: 404, message" in refusal(tmp_path, "jsonl", path=f"{web}/none.jsonl")


@pytest.mark.parametrize("loader", ["jsonl", "csv", "json"])
def test_a_download_that_is_cut_off_is_an_error_and_never_a_short_set(tmp_path: Path, web: str, loader: str) -> None:
    assert "cannot be read" in refusal(tmp_path, loader, path=f"{web}/cut.{loader}")
    with pytest.raises(InputError, match="cannot be read"):
        build(tmp_path, loader, path=f"{web}/cut.{loader}").identity()


@pytest.mark.parametrize("address", ["s3://bucket/d.jsonl", "s3://bucket/*.jsonl", "s3://bucket/d.jsonl.zst"])
def test_whatever_a_file_system_raises_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    class NoCredentialsError(Exception):
        pass

    def refuse(*args: object, **kwargs: object) -> None:
        raise NoCredentialsError("Unable to locate\ncredentials.")

    monkeypatch.setattr("fsspec.open", refuse)
    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    verb = "listed" if "*" in address else "read"
    assert refusal(tmp_path, "jsonl", path=address) == f"'{address}' cannot be {verb}: Unable to locate credentials."


def test_loaders_and_preprocessors_import_nothing_heavy() -> None:
    code = (
        "import sys; from gage_eval.extend import registry; list(registry.loaders); list(registry.preprocessors);"
        "print([name for name in ('datasets', 'fsspec', 'pandas', 'PIL', 'huggingface_hub') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_text_file_can_hold_several_records(tmp_path: Path) -> None:
    (tmp_path / "sums.txt").write_text("canary\n-----\nAdd.\n\nQ: 1 + 1\nA: It is\n2.\n\nQ: 2 + 2\nA: 4.\n")
    pattern = r"(?ms)^Q: (?P<input>.*?)\nA: (?P<target>.*?)(?=\n\nQ: |\s*\Z)"
    assert rows(tmp_path, "files", path="*.txt", record_pattern=pattern, source_field="task") == [
        {"id": "sums-1", "task": "sums", "input": "1 + 1", "target": "It is\n2."},
        {"id": "sums-2", "task": "sums", "input": "2 + 2", "target": "4."},
    ]
    assert refusal(tmp_path, "files", path="*.txt", record_pattern="(?P<x>nothing)") == (
        "'sums.txt' has no match of record_pattern."
    )
    assert "needs named groups" in refusal(tmp_path, "files", path="*.txt", record_pattern="(Q)")
    assert "is not a regular expression" in refusal(tmp_path, "files", path="*.txt", record_pattern="(Q")
