"""The loaders of files: every record once, in order, with the line it came from."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gage_eval.base.errors import InputError
from gage_eval.data.datasets.json_file import JsonLoader
from gage_eval.data.datasets.jsonl import JsonlLoader
from gage_eval.data.sample.record import RecordRejected, parse_record


def write(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def load(folder: Path, **params: Any) -> list[tuple[int, str]]:
    return list(JsonlLoader(params, folder).records())


def message(folder: Path, **params: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(folder, **params)
    return str(caught.value)


def test_records_keep_their_text_and_line(tmp_path: Path) -> None:
    write(tmp_path, "d.jsonl", '\ufeff{"a": 1.0}\n\n  \n{"b":2}\r\nbroken\n\ufeff{"c": 3}')
    assert load(tmp_path, path="d.jsonl") == [
        (1, '{"a": 1.0}'),
        (4, '{"b":2}'),
        (5, "broken"),
        (6, '{"c": 3}'),
    ]


def test_text_that_is_not_utf8_is_rejected_later_with_its_reason(tmp_path: Path) -> None:
    write(tmp_path, "d.jsonl", b'{"a": "\xff"}\n{"a": 1}\n')
    (_, broken), (_, good) = load(tmp_path, path="d.jsonl")
    with pytest.raises(RecordRejected) as caught:
        parse_record(broken)
    assert caught.value.reason == "the record is not UTF-8: invalid start byte at byte 7."
    assert parse_record(good) == {"a": 1}


@settings(deadline=None)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_records_or_a_clear_error(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("any")
    write(folder, "d.jsonl", data)
    try:
        records = load(folder, path="d.jsonl")
    except InputError:
        assert not data.strip(b"\n\r \t\x0b\x0c\xef\xbb\xbf")
        return
    for line, text in records:
        assert line >= 1
        text.encode()
        try:
            parse_record(text)
        except RecordRejected:
            continue


@pytest.mark.parametrize("name", ["d.jsonl.gz", "d.gz"])
def test_compressed_files_are_unpacked(tmp_path: Path, name: str) -> None:
    write(tmp_path, name, gzip.compress(b'{"a": 1}\n{"a": 2}\n'))
    assert [text for _, text in load(tmp_path, path=name)] == ['{"a": 1}', '{"a": 2}']


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_compressed_file_is_an_error_not_a_short_set(tmp_path: Path, damage: str) -> None:
    packed = bytearray(gzip.compress(b"\n".join(b'{"a": %d}' % number for number in range(5000))))
    if damage == "flipped":
        packed[len(packed) // 2] ^= 0xFF
    write(tmp_path, "d.jsonl.gz", bytes(packed[:-20] if damage == "cut" else packed))
    assert "'d.jsonl.gz' cannot be read after line" in message(tmp_path, path="d.jsonl.gz")


@pytest.mark.parametrize("name", ["d.jsonl.xz", "d.jsonl.bz2", "d.jsonl.zst", "d.jsonl.gz"])
def test_a_file_that_is_not_packed_as_its_name_says_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, name, b'{"a": 1}\n' * 100)
    assert message(tmp_path, path=name).startswith(f"'{name}' cannot be read after line 0: ")


@pytest.mark.parametrize("place", range(60, 600, 60))
def test_damage_anywhere_in_a_packed_file_is_said(tmp_path: Path, place: int) -> None:
    packed = bytearray(gzip.compress(b"\n".join(b'{"a": %d}' % number for number in range(5000))))
    packed[place : place + 8] = b"\xff" * 8
    write(tmp_path, "d.jsonl.gz", bytes(packed))
    assert "'d.jsonl.gz' cannot be read after line" in message(tmp_path, path="d.jsonl.gz")


def test_records_are_streamed(tmp_path: Path) -> None:
    packed = gzip.compress(b"\n".join(b'{"a": %d}' % number for number in range(200_000)))
    write(tmp_path, "d.jsonl.gz", packed[: len(packed) // 2])
    records = JsonlLoader({"path": "d.jsonl.gz"}, tmp_path).records()
    assert next(records) == (1, '{"a": 0}')


def test_a_glob_reads_its_files_in_sorted_order_and_counts_lines_on(tmp_path: Path) -> None:
    write(tmp_path, "part/b.jsonl", '{"n": 3}\n')
    write(tmp_path, "part/a.jsonl", '{"n": 1}\n{"n": 2}\n')
    write(tmp_path, "part/c.txt", "no")
    assert load(tmp_path, path="part/*.jsonl") == [(1, '{"n": 1}'), (2, '{"n": 2}'), (3, '{"n": 3}')]


def test_other_file_systems_are_read_by_address(tmp_path: Path) -> None:
    path = write(tmp_path, "d.jsonl", '{"a": 1}\n')
    loader = JsonlLoader({"path": f"file://{path}"}, tmp_path)
    assert list(loader.records()) == [(1, '{"a": 1}')]
    assert loader.identity() == JsonlLoader({"path": "d.jsonl"}, tmp_path).identity()


def test_identity_is_the_content_and_nothing_else(tmp_path: Path) -> None:
    data = b'{"a": 1}\n'
    write(tmp_path, "d.jsonl", data)
    write(tmp_path, "elsewhere/other.jsonl", data)
    identity = JsonlLoader({"path": "d.jsonl"}, tmp_path).identity()
    assert identity == {"files": [hashlib.sha256(data).hexdigest()]}
    assert JsonlLoader({"path": "other.jsonl"}, tmp_path / "elsewhere").identity() == identity
    write(tmp_path, "d.jsonl", data + b" ")
    assert JsonlLoader({"path": "d.jsonl"}, tmp_path).identity() != identity


def test_labels_of_a_second_file_are_merged_line_by_line(tmp_path: Path) -> None:
    write(tmp_path, "d.jsonl", '{"q": "x"}\n{}\nbroken\n[1]\n')
    write(tmp_path, "d.lst", "1\nyes \n0\n0\n")
    assert load(tmp_path, path="d.jsonl", labels_path="d.lst", labels_field="gold") == [
        (1, '{"q": "x","gold":1}'),
        (2, '{"gold":"yes"}'),
        (3, "broken"),
        (4, "[1]"),
    ]


@pytest.mark.parametrize(
    ("records", "labels", "text"),
    [
        ('{"q": 1}\n{"q": 2}\n', "0\n", "'d.lst' has no label for line 2 of 'd.jsonl'."),
        ('{"q": 1}\n', "0\n1\n", "'d.lst' has more lines than there are records in 'd.jsonl' (line 1)."),
        ('{"q": 1}\n\n{"q": 2}\n', "0\n1\n", "'d.lst' has no label for line 3 of 'd.jsonl'."),
        (
            '{"label": 1}\n',
            "0\n",
            "line 1 of 'd.jsonl' already has a 'label'; name another labels_field for 'd.lst'.",
        ),
    ],
)
def test_labels_that_do_not_fit_are_refused(tmp_path: Path, records: str, labels: str, text: str) -> None:
    write(tmp_path, "d.jsonl", records)
    write(tmp_path, "d.lst", labels)
    assert message(tmp_path, path="d.jsonl", labels_path="d.lst") == text


def test_what_cannot_be_loaded_is_said_with_a_way_out(tmp_path: Path) -> None:
    write(tmp_path, "data/piqa_val.jsonl", "\n \n")
    assert message(tmp_path, path="data/piqa_vall.jsonl") == (
        "no file 'data/piqa_vall.jsonl'. Did you mean 'piqa_val.jsonl'?"
    )
    assert message(tmp_path, path="nowhere/x.jsonl") == "no file 'nowhere/x.jsonl'."
    assert message(tmp_path, path="data/*.json") == "no file matches 'data/*.json'."
    assert message(tmp_path, path="data") == "'data' is a folder; name its files, as 'data/*.jsonl'."
    assert message(tmp_path, path="data/piqa_val.jsonl") == "'data/piqa_val.jsonl' holds no records."
    assert message(tmp_path) == "loader jsonl needs params.path, the file to read, or a list of files."
    assert message(tmp_path, path="~nobody-here/x") == "'~nobody-here/x': there is no home folder '~nobody-here'."
    assert message(tmp_path, path="x" * 300) == (
        f"'{'x' * 60}…' cannot be a path: it has a null byte, or a name over 255 bytes."
    )
    for name in ("labels_path", "labels_field"):
        assert message(tmp_path, path="data/piqa_val.jsonl", **{name: 5}) == f"loader jsonl: {name} is a text, not 5."
    assert message(tmp_path, path="data/piqa_val.jsonl", label_path="x") == (
        "loader jsonl has no parameter 'label_path'. It takes: path, labels_path, labels_field, labels_key, "
        "source_field, constants. Did you mean 'labels_path'?"
    )


def test_an_endless_line_does_not_fill_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gage_eval.data.datasets.reading.MAX_BYTES", 1 << 20)
    write(tmp_path, "d.jsonl", b"x" * (1 << 21))
    assert message(tmp_path, path="d.jsonl") == "'d.jsonl' line 1 is longer than 1 MiB."


def test_a_json_document_of_records_is_loaded(tmp_path: Path) -> None:
    write(tmp_path, "d.json", json.dumps({"examples": [{"input": "a"}, "broken"], "by": {"x": {"q": 1}}}))
    records = list(JsonLoader({"path": "d.json", "records_path": "examples"}, tmp_path).records())
    assert records == [(1, '{"input":"a"}'), (2, '"broken"')]
    by_id = list(JsonLoader({"path": "d.json", "records_path": "by"}, tmp_path).records())
    assert by_id == [(1, '{"id":"x","q":1}')]


@pytest.mark.parametrize(
    ("data", "params", "text"),
    [
        ("{", {}, "'d.json' is not JSON"),
        ("[]", {}, "'d.json' holds no records."),
        ("3", {}, "'d.json' holds no list of records as its top level."),
        ("{}", {"records_path": "rows"}, "'d.json' holds no list of records at 'rows'."),
        ('{"data": [{"q": 1}]}', {}, "Keys at the top level: data. Set records_path."),
        ('{"n": 1, "data": {"rows": [{"q": 1}]}}', {"records_path": "data"}, "Keys at 'data': rows. Set records_path."),
    ],
)
def test_a_json_document_without_records_is_refused(
    tmp_path: Path, data: str, params: dict[str, str], text: str
) -> None:
    write(tmp_path, "d.json", data)
    with pytest.raises(InputError, match=text.replace(".", r"\.")):
        list(JsonLoader({"path": "d.json", **params}, tmp_path).records())


def test_a_record_of_a_document_that_has_no_text_form_is_rejected_alone(tmp_path: Path) -> None:
    write(tmp_path, "d.json", '[{"a": "\\ud800"}, {"a": 1}]')
    (_, broken), (_, good) = JsonLoader({"path": "d.json"}, tmp_path).records()
    with pytest.raises(RecordRejected, match="no JSON form"):
        parse_record(broken)
    assert parse_record(good) == {"a": 1}


def test_constants_that_python_writes_are_read_as_their_names_where_asked_for(tmp_path: Path) -> None:
    lines = ['{"a": [-Infinity, 1e22, 99999999999999999999]}', '{"a": "NaN"}', '{"a": NaN, "b": }', '{"a": 1}']
    write(tmp_path, "d.jsonl", "\n".join(lines))
    named = [text for _, text in load(tmp_path, path="d.jsonl", constants="text")]
    assert parse_record(named[0]) == {"a": ["-Infinity", 1e22, 99999999999999999999]}
    assert named[1:] == lines[1:]
    assert [text for _, text in load(tmp_path, path="d.jsonl")] == lines
    with pytest.raises(RecordRejected, match="Infinity is not JSON"):
        parse_record(lines[0])
    identities = [JsonlLoader({"path": "d.jsonl", **more}, tmp_path).identity() for more in ({}, {"constants": "text"})]
    assert identities[0] != identities[1]
    said = "loader jsonl: constants is 'text' or left out, not 'numbers'."
    assert message(tmp_path, path="d.jsonl", constants="numbers") == said


def test_labels_with_a_key_belong_to_the_records_of_the_same_key(tmp_path: Path) -> None:
    write(tmp_path, "d.jsonl", '{"n": 2}\n{"n": 1}\n{"n": 3}\n{"m": 1}\n')
    write(tmp_path, "gold.jsonl", '{"n": 1, "turns": ["a"]}\n{"n": 2, "turns": ["b"]}\n')
    params = {"path": "d.jsonl", "labels_path": "gold.jsonl", "labels_key": "n", "labels_field": "gold"}
    assert [json.loads(text) for _, text in load(tmp_path, **params)] == [
        {"n": 2, "gold": {"n": 2, "turns": ["b"]}},
        {"n": 1, "gold": {"n": 1, "turns": ["a"]}},
        {"n": 3},
        {"m": 1},
    ]
    write(tmp_path, "gold.jsonl", '{"n": 1, "x": 1}\n{"n": 2}\n{"n": 1, "x": 1}\n{"n": 1, "x": 2}\n')
    assert message(tmp_path, **params) == "line 4 of 'gold.jsonl' is another label for the 'n' 1; keep one of them."
    write(tmp_path, "gold.jsonl", '{"n": "1"}\n{"n": "2"}\n')
    assert message(tmp_path, **params) == (
        "no record of 'd.jsonl' has the 'n' of a line of 'gold.jsonl'; name a field of both with labels_key."
    )
    write(tmp_path, "gold.jsonl", '{"n": 1}\n{"m": 2}\n')
    assert message(tmp_path, **params) == "line 2 of 'gold.jsonl' is not an object with a field 'n'."
