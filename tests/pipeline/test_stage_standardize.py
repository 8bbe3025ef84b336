"""standardize: samples of one contract; what is none is kept with the reason, and counted."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipeline.calling import Bench

from gage_eval.base.errors import InputError
from gage_eval.data.sample.record import RecordRejected, content_id
from gage_eval.pipeline.load import PART_ROWS
from gage_eval.pipeline.sample_ids import SampleIds
from gage_eval.pipeline.standardize import to_standard


def question(row: int, **fields: object) -> dict[str, object]:
    return {"question": f"What is {row}?", "answer": str(row), **fields}


def test_a_reject_keeps_its_line_its_reason_and_its_record(bench: Bench) -> None:
    bench.write([question(0), '{"question": ', "", "[1]", question(3)])
    result = bench.standardize(bench.load(), on_reject="skip")
    assert result.counts == {"samples": 2, "rejects": 2}
    rejects = bench.rows(result, "rejects")
    assert [(row["row_index"], row["line"], row["record"]) for row in rejects] == [
        (1, 2, '{"question":'),
        (2, 4, "[1]"),
    ]
    assert all(row["stage"] == "standardize" and row["reason"] for row in rejects)
    assert [row["row_index"] for row in bench.rows(result, "samples")] == [0, 3]


def test_a_reject_whose_reason_holds_half_a_surrogate_pair_costs_its_record_alone(bench: Bench) -> None:
    bench.write([question(0), '{"question": "q", "choices": ["a", "b"], "answer": "\\ud800"}'])
    rejects = bench.rows(bench.standardize(bench.load(), on_reject="skip"), "rejects")
    assert [row["row_index"] for row in rejects] == [1]
    assert "\\ud800" in rejects[0]["reason"]


@pytest.mark.parametrize("field", ["sampling_params", "generation_params"])
def test_a_record_that_sets_what_gage_sets_itself_is_rejected(bench: Bench, field: str) -> None:
    bench.write([question(0), question(1, **{field: {"n": 2}}), question(2, **{field: {"temperature": 1}})])
    result = bench.standardize(bench.load(), on_reject="skip")
    assert [row["row_index"] for row in bench.rows(result, "samples")] == [0, 2]
    assert [row["reason"] for row in bench.rows(result, "rejects")] == [f"{field}.n is set by gage-eval itself."]


def test_rejects_shrink_a_part_and_move_no_boundary(bench: Bench) -> None:
    bench.write([question(row) if row % 3 else "7" for row in range(PART_ROWS + 10)])
    raw = bench.load()
    result = bench.standardize(raw, on_reject="skip")
    samples = bench.artifact(result, "samples")
    assert [part.index for part in samples.parts] == [part.index for part in bench.artifact(raw, "raw").parts] == [0, 1]
    first = samples.read(0, columns=["row_index"])["row_index"].to_pylist()
    second = samples.read(1, columns=["row_index"])["row_index"].to_pylist()
    assert (max(first), min(second)) == (PART_ROWS - 2, PART_ROWS)


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ({}, True),
        ({"max_reject_share": 0.2}, True),
        ({"max_reject_share": 0.25}, False),
        ({"on_reject": "skip"}, False),
    ],
)
def test_the_limit_on_rejects_decides_whether_the_run_goes_on_and_never_what_was_computed(
    bench: Bench, spec: dict[str, object], refused: bool
) -> None:
    bench.write([question(0), question(1), question(2), "7"])
    raw = bench.load()
    bench.standardize(raw, on_reject="skip")
    if refused:
        said = "dataset 'd': 1 of 4 records were rejected (line 4: the record is a number, not a JSON object). Fix them"
        with pytest.raises(InputError, match="^" + re.escape(said)):
            bench.standardize(raw, **spec)
    else:
        assert bench.standardize(raw, **spec).cached


def test_many_rejects_are_counted_and_the_first_shown(bench: Bench) -> None:
    bench.write(["1"] * 10)
    with pytest.raises(InputError, match=r"10 of 10 records .*\(line 1, line 2, line 3: [^;]*; and 7 more\)"):
        bench.standardize(bench.load())


def test_a_record_without_an_id_has_one_of_its_content_also_when_it_comes_again(bench: Bench) -> None:
    result = bench.samples([question(0), question(1), question(0), question(0)])
    ids = [row["id"] for row in bench.rows(result, "samples")]
    first = content_id(b'{"question": "What is 0?", "answer": "0"}')
    assert ids[0] == first
    assert ids[2:] == [f"{first}-2", f"{first}-3"]
    assert ids[1] not in ids[2:]
    # The order of other records changes no id.
    moved = bench.samples([question(1), question(0), question(5)])
    assert [row["id"] for row in bench.rows(moved, "samples")][:2] == [ids[1], ids[0]]


def test_equal_ids_are_refused_by_their_lines_also_far_apart(bench: Bench) -> None:
    records = [question(row, id=f"id-{row}") for row in range(PART_ROWS + 3)]
    records[PART_ROWS + 2]["id"] = "id-1"
    with pytest.raises(InputError, match=rf"^dataset 'd': line 2 and line {PART_ROWS + 3:,} have the same id\."):
        bench.samples(records)


@given(st.lists(st.integers(0, 50), max_size=60))
def test_a_clash_is_found_exactly_when_there_is_one(numbers: list[int]) -> None:
    ids = SampleIds()
    half = len(numbers) // 2
    ids.add([str(n) for n in numbers[:half]], list(range(half)))
    ids.add([str(n) for n in numbers[half:]], list(range(half, len(numbers))))
    clash = ids.clash()
    assert (clash is not None) == (len(set(numbers)) < len(numbers))
    if clash is not None:
        first, second = clash
        assert first < second
        assert numbers[first] == numbers[second]


@given(st.lists(st.lists(st.integers(0, 9), max_size=9), max_size=9))
def test_an_occurrence_is_counted_over_all_parts(parts: list[list[int]]) -> None:
    ids = SampleIds()
    named = [name for part in parts for name in ids.of_contents([f"{n:016x}" for n in part])]
    contents = [f"{n:016x}" for part in parts for n in part]
    counts = [contents[: place + 1].count(content) for place, content in enumerate(contents)]
    assert named == [c if count == 1 else f"{c}-{count}" for c, count in zip(contents, counts, strict=True)]


@given(st.text(max_size=80))
def test_any_text_is_a_sample_or_a_reject_with_a_reason(text: str) -> None:
    reason = "none: it is a sample"
    try:
        to_standard(text, lambda record: record)
    except RecordRejected as error:
        reason = error.reason
    assert reason
