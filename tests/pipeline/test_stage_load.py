"""load: the records as they are, in parts that are fixed from here on."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipeline.calling import Bench

from gage_eval.base.errors import InputError
from gage_eval.pipeline.load import PART_BYTES, PART_ROWS, parts

RECORDS = ['{"b": 1, "a":  1.0, "a": 2}', '{"n": 123456789012345678901234567890}', '{"t": "\\ud83d\\ude00 é"}']


def test_records_keep_their_text_their_order_and_their_line(bench: Bench) -> None:
    bench.write([RECORDS[0], "", RECORDS[1], RECORDS[2]])
    rows = bench.rows(bench.load(), "raw")
    assert [row["record"] for row in rows] == RECORDS
    assert [(row["row_index"], row["line"]) for row in rows] == [(0, 1), (1, 3), (2, 4)]


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 7), st.integers(1, 40))
def test_parts_hold_every_record_once_within_their_bounds(sizes: list[int], rows: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(parts.__globals__, "PART_ROWS", rows)
        patch.setitem(parts.__globals__, "PART_BYTES", size)
        made = list(parts((line, "x" * length) for line, length in enumerate(sizes)))
    assert [line for lines, _ in made for line in lines] == list(range(len(sizes)))
    assert [len(text) for _, texts in made for text in texts] == sizes
    for lines, texts in made:
        assert 1 <= len(lines) == len(texts) <= rows
        assert len(texts) == 1 or sum(map(len, texts)) <= size


def test_parts_are_of_4096_rows_or_64_mib() -> None:
    assert (PART_ROWS, PART_BYTES) == (4096, 64 * 2**20)


def test_a_part_ends_after_4096_rows(bench: Bench) -> None:
    bench.write([{"question": str(row)} for row in range(PART_ROWS + 5)])
    artifact = bench.artifact(bench.load(), "raw")
    assert [(part.index, part.rows) for part in artifact.parts] == [(0, PART_ROWS), (1, 5)]


def test_the_content_is_the_key_not_the_name(bench: Bench) -> None:
    bench.write(RECORDS)
    first = bench.load()
    bench.data = bench.data.rename(bench.folder / "other.jsonl")
    assert bench.load().cached
    bench.write([*RECORDS[:2], '{"t": "another"}'])
    changed = bench.load()
    assert not changed.cached
    assert changed.outputs != first.outputs


def test_limit_and_seed_choose_rows_and_are_part_of_the_key(bench: Bench) -> None:
    bench.write([{"question": str(row)} for row in range(50)])

    def chosen(**spec: object) -> list[int]:
        return [int(json.loads(row["record"])["question"]) for row in bench.rows(bench.load(**spec), "raw")]

    assert chosen(limit=3) == [0, 1, 2]
    shuffled = chosen(shuffle=True, seed=7)
    assert sorted(shuffled) == list(range(50)) != shuffled
    assert chosen(shuffle=True, seed=7, limit=10) == shuffled[:10]
    assert chosen(shuffle=True, seed=8) != shuffled
    assert bench.load(seed=9).key == bench.load(seed=10).key, "without a shuffle the seed determines nothing"


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "dataset 'd': no file 'data.jsonl'."), ("\n", "dataset 'd': 'data.jsonl' holds no records.")],
)
def test_a_source_that_gives_nothing_is_refused_with_the_name_of_the_dataset(
    bench: Bench, text: str | None, said: str
) -> None:
    if text is not None:
        bench.data.write_text(text)
    with pytest.raises(InputError) as refused:
        bench.load()
    assert str(refused.value) == said
