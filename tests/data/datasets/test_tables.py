"""CSV, TSV and Parquet: every row once, as text or JSON, with the line it came from."""

import csv
import datetime
import decimal
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gage_eval.base.canonical import sha256_hex
from gage_eval.base.errors import InputError
from gage_eval.data.sample.record import RecordRejected, parse_record
from gage_eval.extend import registry


def kept(data: bytes) -> str:
    return f"media://sha256/{sha256_hex(data)}"


def load(folder: Path, loader: str, **params: Any) -> list[tuple[int, str]]:
    built = registry.loaders.get(loader).obj(params, folder)
    return list(built.records(kept) if loader == "parquet" else built.records())


def rows(folder: Path, loader: str, **params: Any) -> list[dict[str, Any]]:
    return [parse_record(text) for _, text in load(folder, loader, **params)]


def message(folder: Path, loader: str, **params: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(folder, loader, **params)
    return str(caught.value)


def reason(text: str) -> str:
    with pytest.raises(RecordRejected) as caught:
        parse_record(text)
    return caught.value.reason


def test_a_header_names_the_columns_and_cells_are_text(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text('\ufeff,q,answer\n0,"a, ""b""\nc",1\n\n1,é,\n', encoding="utf-8")
    assert load(tmp_path, "csv", path="d.csv") == [
        (2, '{"answer":"1","column_1":"0","q":"a, \\"b\\"\\nc"}'),
        (5, '{"answer":"","column_1":"1","q":"é"}'),
    ]


def test_columns_name_those_of_a_file_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("x,1\ny,2\n")
    assert rows(tmp_path, "csv", path="d.csv", columns=["q", "n"]) == [{"q": "x", "n": "1"}, {"q": "y", "n": "2"}]


@settings(deadline=None)
@given(
    table=st.lists(
        st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5),
                 min_size=2, max_size=2),
        min_size=1, max_size=6,
    ),
    loader=st.sampled_from(["csv", "tsv"]),
)  # fmt: skip
def test_whatever_is_written_as_csv_is_read_again(
    table: list[list[str]], loader: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("csv")
    out = io.StringIO()
    csv.writer(out, delimiter="\t" if loader == "tsv" else ",", quoting=csv.QUOTE_ALL).writerows(table)
    (folder / "d.txt").write_bytes(out.getvalue().encode())
    assert rows(folder, loader, path="d.txt", columns=["a", "b"]) == [{"a": a, "b": b} for a, b in table]


def test_a_file_with_tabs_is_known_by_its_ending(tmp_path: Path) -> None:
    (tmp_path / "d.tsv").write_text("a\tb\n1,2\t3\n")
    assert rows(tmp_path, "csv", path="d.tsv") == [{"a": "1,2", "b": "3"}]
    (tmp_path / "d.txt").write_text("a;b\n1;2\n")
    assert rows(tmp_path, "csv", path="d.txt", delimiter=";") == [{"a": "1", "b": "2"}]


def test_packed_tables_and_those_of_several_files_are_read_on(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"q\n1\n2\n"))
    (tmp_path / "b.csv.zst").write_bytes(bytes(pa.compress(b"q\n3\n", codec="zstd", asbytes=True)))
    assert load(tmp_path, "csv", path="*.csv.*", source_field="file") == [
        (2, '{"file":"a","q":"1"}'),
        (3, '{"file":"a","q":"2"}'),
        (5, '{"file":"b","q":"3"}'),
    ]


def test_a_row_of_another_length_is_rejected_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b\n1\n1,2,3\n1,2\n")
    (first, short), (_, long), (_, good) = load(tmp_path, "csv", path="d.csv")
    assert first == 2
    assert reason(short) == "the row has 1 cells, but there are 2 columns."
    assert reason(long) == "the row has 3 cells, but there are 2 columns."
    assert parse_record(good) == {"a": "1", "b": "2"}


def test_a_cell_that_is_not_utf8_rejects_its_row_and_an_encoding_reads_it(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes(b"q\n\xe9t\xe9\nok\n")
    (_, broken), (_, good) = load(tmp_path, "csv", path="d.csv")
    assert "not UTF-8" in reason(broken)
    assert "encoding" in reason(broken)
    assert parse_record(good) == {"q": "ok"}
    assert rows(tmp_path, "csv", path="d.csv", encoding="latin-1")[0] == {"q": "été"}


@pytest.mark.parametrize("loader", ["csv", "tsv", "parquet"])
def test_damaged_tables_are_errors_and_never_short_sets(tmp_path: Path, loader: str) -> None:
    packed = gzip.compress(b"".join(b"%d\n" % number for number in range(50_000)))
    (tmp_path / "d.gz").write_bytes(packed[:-2000])
    assert "'d.gz' cannot be read after" in message(tmp_path, loader, path="d.gz")


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"columns": ["a", "a"]}, "loader csv: columns names 'a' twice; say columns: with a name for each."),
        ({"columns": "a"}, "loader csv: columns is a list of names, not 'a'."),
        ({"delimiter": ";;"}, "loader csv: delimiter is one character, no quote or line end, not ';;'."),
        ({"delimiter": ""}, "loader csv: delimiter is one character, no quote or line end, not ''."),
        ({"delimiter": '"'}, "loader csv: delimiter is one character, no quote or line end, not '\"'."),
        ({"delimiter": "\n"}, "loader csv: delimiter is one character, no quote or line end, not '\\n'."),
        ({"encoding": "klingon"}, "loader csv: there is no encoding 'klingon'; try utf-8."),
        ({"collumns": ["a"]}, "It takes: path, columns, delimiter, encoding, source_field. Did you mean 'columns'?"),
        ({"source_field": 3}, "loader csv: source_field is a text, not 3."),
        ({"encoding": "base64"}, "loader csv: there is no encoding 'base64'; try utf-8."),
        ({"encoding": "a\0"}, "loader csv: there is no encoding 'a\\x00'; try utf-8."),
    ],
)
def test_what_is_wrong_with_a_csv_is_said(tmp_path: Path, params: dict[str, Any], text: str) -> None:
    (tmp_path / "d.csv").write_text("1,2\n")
    assert text in message(tmp_path, "csv", path="d.csv", **params)


def test_a_csv_without_rows_or_with_equal_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,a\n1,2\n")
    (tmp_path / "empty.csv").write_text("a,b\n")
    assert "the header of 'd.csv' names 'a' twice" in message(tmp_path, "csv", path="d.csv")
    assert message(tmp_path, "csv", path="empty.csv") == "'empty.csv' holds no records."


def test_a_header_of_very_many_columns_is_read_in_linear_time(tmp_path: Path) -> None:
    count = 200_000
    header, cells = (",".join(f"{letter}{n}" for n in range(count)) for letter in "nc")
    (tmp_path / "d.csv").write_text(f"{header}\n{cells}\n")
    # Quadratic work on so many names would outlast the test's time limit many times over.
    (row,) = rows(tmp_path, "csv", path="d.csv")
    assert (len(row), row["n199999"]) == (count, "c199999")


def test_how_a_table_is_read_is_part_of_its_identity(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a;b\n1;2\n")
    (tmp_path / "copy.csv").write_text("a;b\n1;2\n")
    csv_loader = registry.loaders.get("csv").obj
    plain = csv_loader({"path": "d.csv"}, tmp_path).identity()
    assert csv_loader({"path": "copy.csv"}, tmp_path).identity() == plain
    for params in ({"delimiter": ";"}, {"columns": ["a", "b"]}, {"encoding": "latin-1"}, {"source_field": "f"}):
        assert csv_loader({"path": "d.csv", **params}, tmp_path).identity() != plain


TABLE = pa.table(
    {
        "q": ["a", None],
        "n": pa.array([1, 2**40]),
        "share": [0.5, float("nan")],
        "day": [datetime.date(2024, 5, 1), None],
        "at": pa.array([datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC), None]),
        "price": [decimal.Decimal("1.10"), None],
        "choices": [["x", "y"], []],
        "image": pa.array([{"bytes": b"\x89PNG\r\n\x1a\n", "path": "a.png"}, {"bytes": None, "path": "b.png"}]),
    }
)
ROWS = [
    {
        "q": "a", "n": 1, "share": 0.5, "day": "2024-05-01", "at": "2024-05-01T12:00:00+00:00", "price": "1.10",
        "choices": ["x", "y"], "image": kept(b"\x89PNG\r\n\x1a\n"),
    },
    {
        "q": None, "n": 2**40, "share": None, "day": None, "at": None, "price": None, "choices": [],
        "image": "b.png",
    },
]  # fmt: skip


def test_parquet_rows_become_json(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "d.parquet", row_group_size=1)
    assert rows(tmp_path, "parquet", path="d.parquet") == ROWS
    assert rows(tmp_path, "parquet", path="d.parquet", columns=["n"]) == [{"n": 1}, {"n": 2**40}]
    assert message(tmp_path, "parquet", path="d.parquet", columns=["m"]).startswith("'d.parquet' has no column 'm'.")


def test_a_row_with_an_infinity_is_rejected_alone(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [float("inf"), 1.5]}), tmp_path / "d.parquet")
    (_, broken), (_, good) = load(tmp_path, "parquet", path="d.parquet")
    assert reason(broken) == "the row has no JSON form: inf has no JSON form."
    assert json.loads(good) == {"x": 1.5}


def test_parquet_is_read_row_group_by_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"x": range(3000)}), tmp_path / "d.parquet", row_group_size=1000)
    taken = []
    original = pq.ParquetFile.iter_batches

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        for batch in original(self, *args, **kwargs):
            taken.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watched)
    records = registry.loaders.get("parquet").obj({"path": "d.parquet"}, tmp_path).records(kept)
    assert next(records) == (1, '{"x":0}')
    assert taken == [512]
    assert sum(1 for _ in records) == 2999
