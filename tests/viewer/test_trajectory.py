"""Promises of an answer's steps: each is on one page, whatever stands between them."""

import pytest

from gage_eval.report.messages import ANSWER, Message
from gage_eval.viewer.trajectory import ROWS, steps_page


def rows(count: int, every: int = 1) -> list[Message]:
    """Steps, with a message of the user after every so many."""
    made: list[Message] = []
    for step in range(1, count + 1):
        made.append(Message(ANSWER, (), step=step))
        made += [Message.plain("user", "Go on.")] if every > 1 and step % every == 0 else []
    return made


@pytest.mark.parametrize("every", [1, 3])
def test_each_step_is_on_one_page_and_the_pages_lead_to_each_other(every: int) -> None:
    shown = rows(1_000, every)
    page, seen = steps_page(shown, 0), 0
    while True:
        assert len(page.rows) <= ROWS
        seen += len(page.rows)
        if not page.after:
            break
        following = steps_page(shown, page.after)
        assert following.before == page.numbers[0]
        page = following
    assert seen == len(shown)
    assert page.numbers[1] == page.last == 1_000
    assert all(step in [row.step for row in steps_page(shown, step).rows] for step in (1, 500, 999, 1_000))
    assert steps_page(shown, 0).end == page.numbers[0]


@pytest.mark.parametrize("step", [0, 1, 7, 99_999_999])
def test_a_step_that_is_not_there_leads_to_the_nearest_page(step: int) -> None:
    assert steps_page([], step).rows == []
    assert steps_page(rows(3), step).numbers == (1, 3)
