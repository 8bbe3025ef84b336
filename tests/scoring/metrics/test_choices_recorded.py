"""Recorded answers of models are read as a person reads them (docs/choices.md)."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gage_eval.scoring.metrics.choices import choose

_LETTER = re.compile(r"[^\w]*([A-Z])[^\w]*")
# The answers of the MMMU replay that are more than a letter, read by a person; one lists all options.
_BY_HAND = {
    "validation_Architecture_and_Engineering_12": "A",
    "validation_Architecture_and_Engineering_30": "A",
    "validation_Design_4": "A",
    "validation_Economics_3": "B",
    "validation_History_13": "A",
    "validation_Math_19": "A",
    "validation_Mechanical_Engineering_22": "A",
    "validation_Pharmacy_16": "A",
    "validation_Pharmacy_27": None,
    "validation_Pharmacy_30": "A",
    "validation_Psychology_4": "C",
}


def letter_of(text: str) -> str | None:
    match = _LETTER.fullmatch(text)
    return match[1] if match else None


@pytest.fixture
def replays(shared: Path) -> Path:
    folder = shared / "data" / "replays"
    if not folder.is_dir():
        pytest.skip("needs the recorded answers (../shared/data/replays)")
    return folder


def bbh(replays: Path, task: str) -> Iterator[tuple[str, str]]:
    """The options' lines and the answer of each question."""
    for row in json.loads((replays / "bbh_codex" / f"{task}.json").read_bytes())["outputs"]:
        yield row["input"].rpartition("Options:")[2], row["prediction"]


def test_answers_to_mmmu(replays: Path) -> None:
    rows: list[dict[str, Any]] = []
    for file in sorted((replays / "mmmu_llava15_13b" / "llava1.5_13b").glob("*/output.json")):
        rows += [row for row in json.loads(file.read_bytes()) if row["question_type"] == "multiple-choice"]
    assert len(rows) == 847
    expected = {row["id"]: letter_of(row["response"]) or _BY_HAND[row["id"]] for row in rows}
    assert {row["id"]: choose(row["response"], row["index2ans"]) for row in rows} == expected


def test_answers_to_bbh(replays: Path) -> None:
    read = []
    for options, text in bbh(replays, "direct/date_understanding"):
        named = dict(re.findall(r"^\(([A-Z])\) (.+)$", options, re.MULTILINE))
        read.append((text, choose(text, named), letter_of(text)))
    for _, text in bbh(replays, "cot/sports_understanding"):
        thought = text.strip().partition("\n\n")[0]
        verdict = thought.rpartition("the answer is")[2].strip().removesuffix(".")
        read.append((text, choose(thought, {"A": "yes", "B": "no"}), {"yes": "A", "no": "B"}.get(verdict)))
    for _, text in bbh(replays, "direct/boolean_expressions"):
        read.append((text, choose(text, {"A": "True", "B": "False"}), {"True": "A", "False": "B"}.get(text.strip())))
    assert len(read) == 750
    assert [text for text, chosen, expected in read if chosen != expected] == []
