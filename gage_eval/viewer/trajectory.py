"""The steps of one answer, a page at a time, and where they differ from those of other answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gage_eval.report.messages import Message, first_difference
from gage_eval.runs.results.rows import SampleRow, of_replicate

ROWS = 100
"""Rows of a page."""

MOST_REPETITIONS = 40
"""Repetitions of a sample that are compared with the one that is shown."""


@dataclass(frozen=True)
class StepsPage:
    """Some of the steps of an answer, each in a row, with the user's messages between them.

    Attributes:
        rows: of this page.
        wanted: the step that was asked for; 0 without one.
        last: the last step before the answer.
        before, after, end: the first steps of the page before, of the next and of the last one; 0 where there is none.
    """

    rows: Sequence[Message]
    wanted: int = 0
    last: int = 0
    before: int = 0
    after: int = 0
    end: int = 0

    @property
    def numbers(self) -> tuple[int, int]:
        """The first and the last step of the page."""
        steps = [message.step for message in self.rows if message.step]
        return (steps[0], steps[-1]) if steps else (0, 0)


@dataclass(frozen=True)
class StepDifference:
    """The first step in which an answer differs from another one; None where they are equal."""

    replicate: int
    run_id: str
    step: int | None


def steps_page(rows: Sequence[Message], step: int) -> StepsPage:
    """The page that holds a step; that of the nearest one where there is none of that number."""
    place = next((place for place, message in enumerate(rows) if message.step >= step), len(rows) - 1)
    page, pages = max(place, 0) // ROWS, -(-len(rows) // ROWS)

    def first(number: int) -> int:
        beginning = rows[number * ROWS :] if 0 <= number < pages else ()
        return next((message.step for message in beginning if message.step), 0)

    return StepsPage(
        rows[page * ROWS : (page + 1) * ROWS],
        step,
        max((message.step for message in rows), default=0),
        first(page - 1),
        first(page + 1),
        first(pages - 1) if page + 1 < pages else 0,
    )


def differences(
    row: SampleRow, replicate: int, other: SampleRow | None = None, other_run: str = ""
) -> Iterator[StepDifference]:
    """Where an answer first differs from the same repetition of another run, and from other repetitions of its own."""
    turns = turns_of(row, replicate)
    if other is not None:
        yield StepDifference(replicate, other_run, first_difference(turns, turns_of(other, replicate)))
    numbers = sorted(response["replicate"] for response in row.responses)
    for number in [number for number in numbers if number != replicate][:MOST_REPETITIONS]:
        yield StepDifference(number, "", first_difference(turns, turns_of(row, number)))


def turns_of(row: SampleRow, replicate: int) -> Sequence[Mapping[str, Any]]:
    """The turns of a repetition; an answer of one call is one turn."""
    response = of_replicate(row.responses, replicate)
    return response.get("turns") or [response]
