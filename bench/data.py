"""Datasets for measurements, determined by the number of rows."""

import random
from collections.abc import Iterator
from pathlib import Path

import orjson

_NAMES = ("Ada", "Bela", "Chen", "Dora", "Emeka", "Farah", "Goro", "Hana", "Ivo", "Jun", "Kofi", "Lena")
_THINGS = ("apples", "books", "coins", "marbles", "pencils", "stamps", "shells", "tickets", "cards", "beads")
_PLACES = ("the market", "the library", "the harbour", "a school fair", "the station", "the workshop")
_INSTRUCTION = "Solve the problem step by step. End with a line 'ANSWER: N' where N is the final number."


def records(rows: int, seed: int = 7) -> Iterator[dict[str, str]]:
    """Word problems with their answers. All prompts differ; a record has about 400 characters."""
    chance = random.Random(seed)
    for row in range(rows):
        first, second = chance.sample(_NAMES, 2)
        thing, spot = chance.choice(_THINGS), chance.choice(_PLACES)
        have, get = chance.randint(12, 400), chance.randint(2, 600)
        question = (
            f"{first} goes to {spot} with {have} {thing} and meets {second}, who hands over {get} more. "
            f"On day {row + 1} of a long collection {first} counts them all: how many are {have} + {get} {thing}?"
        )
        yield {
            "id": f"row-{row}",
            "question": f"Question: {question}\n{_INSTRUCTION}\nAnswer:",
            "answer": str(have + get),
        }


def dataset(folder: Path, rows: int) -> Path:
    """The JSON Lines file with that many rows; written once."""
    path = folder / f"rows-{rows}.jsonl"
    if not path.exists():
        unfinished = path.with_suffix(".tmp")
        with unfinished.open("wb") as file:
            for record in records(rows):
                file.write(orjson.dumps(record) + b"\n")
        unfinished.replace(path)
    return path
