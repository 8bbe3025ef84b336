"""mmmu_accuracy reads and scores answers as MMMU's official evaluation does."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_tables import answers, sample, samples
from vectors import number, references, score_one, vector_rows

from gage_eval.scoring.metrics import bind
from gage_eval.scoring.metrics.mmmu_rules import open_is_right, read_choice, read_open

OPTIONS = [
    {"id": letter, "content": text} for letter, text in zip("ABCD", ("one", "two", "three", "four"), strict=True)
]


def _accepted(row: dict[str, Any]) -> list[str]:
    return row["answer"] if isinstance(row["answer"], list) else [row["answer"]]


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    """A sample with a row's gold and options."""
    fields: dict[str, Any] = {"task_type": row["kind"], "references": references(*_accepted(row))}
    if row["kind"] == "multiple-choice":
        fields["options"] = [{"id": letter, "content": text} for letter, text in row["index2ans"].items()]
    return fields


def test_every_open_answer_is_read_and_scored_as_officially(shared: Path) -> None:
    rows = [row for row in vector_rows(shared, "mmmu_official") if row.get("kind") == "open"]
    for row in rows:
        parts = read_open(row["response"])
        assert sorted(map(repr, parts)) == sorted(repr(number(part)) for part in row["expected_parsed"]), row["id"]
        assert open_is_right(parts, _accepted(row)) == row["expected_correct"], row["id"]
        scored = score_one("mmmu_accuracy", _fields(row), {"answer": row["response"]})
        assert scored["values"] == {"acc": float(row["expected_correct"])}, row["id"]
    assert len(rows) == 193


def test_every_multiple_choice_answer_is_read_and_scored_as_officially(shared: Path) -> None:
    rows = [row for row in vector_rows(shared, "mmmu_official") if row.get("kind") == "multiple-choice"]
    for row in rows:
        assert read_choice(row["response"], row["index2ans"]) == row["expected_parsed"], row["id"]
        scored = score_one("mmmu_accuracy", _fields(row), {"answer": row["response"]})
        if row["random_fallback"]:
            assert scored["status"] == "unparsed", row["id"]
        else:
            assert scored["values"] == {"acc": float(row["expected_correct"])}, row["id"]
    assert (len(rows), sum(row["random_fallback"] for row in rows)) == (125, 44)


def test_the_accuracy_of_a_corpus_is_the_official_one(shared: Path) -> None:
    (row,) = [row for row in vector_rows(shared, "mmmu_official") if row["group"] == "corpus"]
    right = []
    for item in row["samples"]:
        read, accepted = item["parsed_pred"], _accepted(item)
        if item["question_type"] == "multiple-choice":
            right.append(read in accepted)
        else:
            right.append(open_is_right([number(part) for part in read], accepted))
        assert right[-1] == (row["expected_judge"][item["id"]] == "Correct"), item["id"]
    assert sum(right) / len(right) == pytest.approx(row["expected_acc"], abs=1e-9)


def test_domains_weigh_by_their_instances_because_samples_weigh_alike(shared: Path) -> None:
    (row,) = [row for row in vector_rows(shared, "mmmu_official") if row["group"] == "corpus_ins_level"]
    right = [
        place < domain["acc"] * domain["num_example"]
        for domain in row["results"].values()
        for place in range(domain["num_example"])
    ]
    metric = bind("mmmu_accuracy")
    table = metric.score_table(
        {
            "samples": samples([sample(i, "B", options=OPTIONS) for i in range(len(right))]),
            "responses": answers(["B" if hit else "A" for hit in right]),
        }
    )
    # The official figure takes shares that no number of instances gives (0.25 of 10).
    (total,) = metric.aggregate([table], {"ok": len(right)})
    official = sum(domain["acc"] * domain["num_example"] for domain in row["results"].values()) / len(right)
    assert official == pytest.approx(row["expected_acc"], abs=1e-9)
    assert total["value"] == pytest.approx(sum(right) / len(right))


def test_an_unread_choice_is_drawn_by_the_sample_and_its_share_is_reported() -> None:
    metric = bind("mmmu_accuracy")
    questions = samples([sample(i, "B", options=OPTIONS) for i in range(200)])
    first = metric.score_table({"samples": questions, "responses": answers(["no idea"] * 200)})
    again = metric.score_table({"samples": questions, "responses": answers(["I cannot tell"] * 200)})

    assert first.column("extracted").to_pylist() == again.column("extracted").to_pylist()
    assert set(first.column("extracted").to_pylist()) == set("ABCD")
    (number_,) = metric.aggregate([first], {"ok": 200})
    assert (number_["unparsed"], number_["n"]) == (200, 200)
    assert 0.1 < number_["value"] < 0.4


def test_an_unread_choice_is_wrong_when_asked_for() -> None:
    metric = bind("mmmu_accuracy", {"on_unparsed": "wrong"})
    table = metric.score_table(
        {
            "samples": samples([sample(i, "B", options=OPTIONS) for i in range(50)]),
            "responses": answers(["no idea"] * 50),
        }
    )
    (number_,) = metric.aggregate([table], {"ok": 50})
    assert (number_["value"], number_["unparsed"]) == (0.0, 50)


def test_letters_are_known_without_options() -> None:
    fields = {"task_type": "multiple-choice", "references": references("C")}
    assert score_one("mmmu_accuracy", fields, {"answer": "C"})["values"] == {"acc": 1.0}
    # An option without a text is not named by every answer of some length.
    assert score_one("mmmu_accuracy", fields, {"answer": "well it is one of those things"})["status"] == "unparsed"


@given(st.text(alphabet="-1234567890.,eE+ abis=:\n(", max_size=60))
def test_any_answer_is_read(text: str) -> None:
    assert read_open(text)
    assert read_choice(text, {"A": "one", "B": "two"}) in ("A", "B", None)


@pytest.mark.parametrize("piece", ["1", "1.", "1,", "so ", "-", "1e", "(A", "is is ", "\n", "=", "9.9e"])
def test_a_megabyte_of_anything_takes_linear_time(piece: str) -> None:
    answer = piece * (1_000_000 // len(piece))
    scored = score_one("mmmu_accuracy", {"task_type": "open", "references": references("5")}, {"answer": answer})
    assert scored["status"] == "scored"
