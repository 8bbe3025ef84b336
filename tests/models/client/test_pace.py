"""Rates a minute are kept, and an endpoint that is gone is told from one that fails now and then."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.models.client.pace import Breaker, Pace, Rates
from gage_eval.models.client.retry import Action, Failure

ERROR = Failure(Action.RETRY, "http_500", "500")
REFUSED = Failure(Action.RETRY, "unreachable", "connection refused")
LOAD = Failure(Action.RETRY, "rate_limited", "429")
WAIT = Failure(Action.RETRY, "http_503", "503", retry_after_s=3600)


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@given(
    st.floats(1, 6000),
    st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 20)), min_size=1, max_size=60),
)
def test_no_minute_gets_more_than_its_share_and_a_seconds_burst(
    per_minute: float, takers: list[tuple[float, float]]
) -> None:
    clock = Clock()
    pace = Pace(per_minute, clock)
    sent: list[tuple[float, float]] = []
    for later, units in takers:
        clock.now += later
        sent.append((clock.now + pace.take(units), units))
    for start, _ in sent:
        window = [units for at, units in sent if start <= at < start + 60]
        # The last taker begins within the minute, whatever it takes.
        assert sum(window[:-1]) <= per_minute * 61 / 60 + max(window) + 1e-6


def test_takers_go_in_their_order_and_the_first_second_at_once() -> None:
    pace = Pace(120, Clock())
    assert [round(pace.take(1), 6) for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]


def test_an_estimate_is_corrected_by_what_was_used() -> None:
    clock = Clock()
    pace = Pace(60, clock)
    pace.take(1)
    pace.correct(10)
    assert pace.take(1) == pytest.approx(10.0)


def test_tokens_are_reserved_by_the_mean_of_the_answers() -> None:
    rates = Rates(None, 6_000_000)
    assert rates.turn(b"x" * 400)[1] == 100
    rates.used(100, 300)
    assert rates.turn(b"")[1] == 300
    rates.used(300, None)
    assert rates.turn(b"")[1] == 300


def test_an_endpoint_nobody_listens_at_is_gone_after_its_time_whoever_asks() -> None:
    clock = Clock()
    breaker = Breaker(30, now=clock)
    breaker.answered()
    assert breaker.opened_by(REFUSED, 1) is None
    assert breaker.soonest(10) == 10
    clock.now += 29
    assert breaker.soonest(10) == 1
    assert breaker.opened_by(REFUSED, 2) is None
    clock.now += 1
    assert breaker.opened_by(REFUSED, 3) == 30


def test_an_endpoint_that_was_never_there_is_given_up_sooner() -> None:
    clock = Clock()
    breaker = Breaker(30, now=clock)
    assert breaker.opened_by(REFUSED, 1) is None
    assert breaker.soonest(10) == 5
    clock.now += 5
    assert breaker.opened_by(REFUSED, 2) == 5


def test_one_row_that_breaks_the_server_does_not_end_the_run() -> None:
    clock = Clock()
    breaker = Breaker(30, now=clock)
    for attempt in range(1, 11):
        clock.now += 10
        assert breaker.opened_by(ERROR, attempt) is None


def test_several_rows_that_fail_without_an_answer_between_do() -> None:
    clock = Clock()
    breaker = Breaker(30, now=clock)
    for _ in range(3):
        breaker.opened_by(ERROR, 1)
    clock.now += 31
    assert breaker.opened_by(ERROR, 2) == 31


@pytest.mark.parametrize("sign", ["answer", "load", "retry_after"])
def test_any_sign_of_life_starts_the_time_again(sign: str) -> None:
    clock = Clock()
    breaker = Breaker(30, now=clock)
    for _ in range(3):
        breaker.opened_by(ERROR, 1)
    clock.now += 31
    if sign == "answer":
        breaker.answered()
    else:
        assert breaker.opened_by(LOAD if sign == "load" else WAIT, 1) is None
    assert breaker.opened_by(ERROR, 1) is None


def test_a_slow_endpoint_that_fails_now_and_then_is_waited_for_as_long_as_it_may_answer() -> None:
    clock = Clock()
    breaker = Breaker(30, now=clock)
    slow = breaker.sent()
    for _ in range(3):
        breaker.opened_by(ERROR, 1)
    clock.now += 31
    late = breaker.sent()
    assert breaker.opened_by(ERROR, 2) is None
    breaker.ended(slow)
    assert breaker.opened_by(ERROR, 2) == 31, "what was sent after its time says nothing"
    breaker.ended(late)


def test_an_endpoint_that_only_ever_refuses_is_gone_after_the_time_a_row_may_take() -> None:
    clock = Clock()
    breaker = Breaker(30, 600, clock)
    for _ in range(600):
        assert breaker.opened_by(LOAD, 1) is None
        clock.now += 1
    assert breaker.opened_by(LOAD, 1) == 600


def test_one_answer_makes_refusals_a_limit_of_rates_for_good() -> None:
    clock = Clock()
    breaker = Breaker(30, 600, clock)
    assert breaker.opened_by(LOAD, 1) is None
    breaker.answered()
    clock.now += 10_000
    assert breaker.opened_by(LOAD, 1) is None


def test_an_endpoint_is_left_alone_for_as_long_as_it_asks() -> None:
    clock = Clock()
    breaker = Breaker(30, 600, clock)
    assert breaker.opened_by(LOAD, 1) is None
    clock.now += 100
    assert breaker.opened_by(WAIT, 1) is None
    clock.now += 3599
    assert breaker.opened_by(WAIT, 2) is None
    clock.now += 2
    assert breaker.opened_by(WAIT, 3) == 3701, "asking again after its time does not move the end"


def test_a_request_that_was_let_in_may_be_answered_yet() -> None:
    clock = Clock()
    breaker = Breaker(30, 600, clock)
    let_in = breaker.sent()
    assert breaker.opened_by(LOAD, 1) is None
    clock.now += 700
    assert breaker.opened_by(LOAD, 2) is None
    breaker.ended(let_in)
    assert breaker.opened_by(LOAD, 2) == 700
