"""mmmu_pro_accuracy reads and scores answers as MMMU-Pro's official evaluate.py does."""

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_tables import answers, responses, sample, samples
from vectors import references, score_one

from gage_eval.scoring.metrics import bind
from gage_eval.scoring.metrics.mmmu_rules import read_pro_choice

BRANCHES = {"marker", "brackets", "space", "stop", "text", "option_with_letters", "none", "ends", "not_text", "prompt"}
TEXTS = {"A": "north", "B": "south", "C": "east", "D": "west"}
OPTIONS = [{"id": letter, "content": text} for letter, text in TEXTS.items()]


@pytest.fixture(scope="module")
def vectors(repo_root: Path) -> list[dict[str, Any]]:
    lines = (repo_root / "docs" / "vectors" / "mmmu_pro.jsonl").read_bytes().splitlines()
    return [orjson.loads(line) for line in lines]


def _options(row: dict[str, Any]) -> list[dict[str, str]]:
    return [{"id": letter, "content": text} for letter, text in zip("ABCDEFGHIJ", row["options"], strict=False)]


def test_every_vector_is_read_and_scored_as_officially(vectors: list[dict[str, Any]]) -> None:
    for row in vectors:
        fields = {"options": _options(row), "references": references(row["answer"])}
        response = row["response"] if isinstance(row["response"], str) else None
        scored = score_one("mmmu_pro_accuracy", fields, {"answer": response})
        if row["random_draw"]:
            assert scored["status"] == "unparsed", row["id"]
        else:
            read = (scored["status"], scored["extracted"], scored["values"])
            assert read == ("scored", row["expected_parsed"], {"acc": float(row["expected_correct"])}), row["id"]


def test_the_vectors_cover_every_branch_of_the_rule(vectors: list[dict[str, Any]]) -> None:
    counts = Counter(row["group"].partition(":")[0] for row in vectors)
    assert set(counts) == BRANCHES
    assert len({row["id"] for row in vectors}) == len(vectors) == 383


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ("A. James", "A"),
        ("J. A dramatic increase", "A"),
        ("Answer: Delta", "D"),
        ("Answer: A\nAnswer: B", "B"),
        ("xB xA", "A"),
        ("they went to the south, then north again", "A"),
        ("they went to the south", None),
    ],
)
def test_what_the_rule_is_known_for(answer: str, chosen: str | None) -> None:
    assert read_pro_choice(answer, TEXTS) == chosen


def test_an_unread_answer_draws_an_option_by_its_sample_and_is_counted() -> None:
    metric = bind("mmmu_pro_accuracy")
    questions = samples([sample(i, "B", options=OPTIONS) for i in range(200)])
    first = metric.score_table({"samples": questions, "responses": answers(["unclear"] * 200)})
    again = metric.score_table({"samples": questions, "responses": answers(["?"] * 200)})

    assert first.column("extracted").to_pylist() == again.column("extracted").to_pylist()
    assert set(first.column("extracted").to_pylist()) == set("ABCD")
    (total,) = metric.aggregate([first], {"ok": 200})
    assert (total["unparsed"], total["n"]) == (200, 200)
    assert 0.1 < total["value"] < 0.4


def test_an_unread_answer_is_wrong_when_asked_for() -> None:
    fields = {"options": OPTIONS, "references": references("B")}
    scored = score_one("mmmu_pro_accuracy", fields, {"answer": "unclear"}, {"on_unparsed": "wrong"})
    assert (scored["status"], scored["values"], scored["extracted"]) == ("unparsed", {"acc": 0.0}, None)


def test_a_response_without_text_is_an_empty_one_and_an_error_is_not_scored() -> None:
    metric = bind("mmmu_pro_accuracy")
    table = metric.score_table(
        {
            "samples": samples([sample(i, "B", options=OPTIONS) for i in range(2)]),
            "responses": responses([{"answer": None}, {"answer": None, "status": "error"}]),
        }
    )
    assert table.column("status").to_pylist() == ["unparsed", "unscored"]


def test_letters_are_known_without_options() -> None:
    fields = {"references": references("J")}
    assert score_one("mmmu_pro_accuracy", fields, {"answer": "Answer: J"})["values"] == {"acc": 1.0}
    # An option whose text nobody knows does not occur in every longer answer.
    assert score_one("mmmu_pro_accuracy", fields, {"answer": "well it is one of those things"})["status"] == "unparsed"


@given(st.text(alphabet="ABC ().Answer:\nnorth", max_size=60))
def test_any_answer_is_read(text: str) -> None:
    assert read_pro_choice(text, TEXTS) in {*TEXTS, None}


@pytest.mark.parametrize("piece", ["Answer: ", "(A", "(A)", "A ", "A.", "north ", "'.", "\n"])
def test_a_megabyte_of_anything_takes_linear_time(piece: str) -> None:
    # Quadratic work on a megabyte would outlast the test's time limit many times over.
    assert read_pro_choice(piece * (1_000_000 // len(piece)), TEXTS) in {*TEXTS, None}
