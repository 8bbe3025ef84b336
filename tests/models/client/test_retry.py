from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.models.client.retry import Action, Failure, RetryPolicy, classify, retry_after

FAILURE = Failure(Action.RETRY, "http_500", "500")


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_tried_again(status: int) -> None:
    assert classify(status, b"").action is Action.RETRY


@pytest.mark.parametrize("status", [401, 403, 404, 301, 308, 501, 505])
def test_what_mostly_holds_for_every_row_is_a_refusal(status: int) -> None:
    assert classify(status, b'{"error":{"message":"no"}}').action is Action.REFUSED


@pytest.mark.parametrize("status", [400, 402, 405, 413, 422])
def test_other_refusals_cost_their_row(status: int) -> None:
    failure = classify(status, b'{"error":{"message":"bad parameter"}}')
    assert (failure.action, failure.kind) == (Action.ROW, f"http_{status}")
    assert failure.message == f"{status} (bad parameter)"


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"message":"This model\'s maximum context length is 2048 tokens."}}',
        b'{"error":{"code":"context_length_exceeded","message":"context_length_exceeded"}}',
        b'{"message":"the request exceeds the available context size"}',
        b"The decoder prompt is longer than the maximum context window",
        b'{"detail":"prompt length 9000 > max_model_len 4096"}',
    ],
)
def test_a_prompt_that_is_too_long_is_called_that(body: bytes) -> None:
    assert classify(400, body).kind == "context_too_long"


def test_a_used_up_quota_ends_the_run_though_its_status_says_try_again() -> None:
    body = b'{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}'
    assert classify(429, body).action is Action.FATAL


DEEP = b"[" * 1000 + b"]" * 1000


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\xff\xfe", b"<html>", b"[]", b"3", b'{"error":"text"}', b'{"error":{}}', b'\xef\xbb\xbf{"error":"text"}',
        DEEP, b"[" * 10**5, b'{"error":%s}' % DEEP, b'{"error":{"code":%s}}' % DEEP, b'{"error":{"message":%s}}' % DEEP,
        b'{"error":{"message":"\\ud800"}}', b'{"error":{"message":NaN}}',
    ],
)  # fmt: skip
def test_any_error_body_is_read(body: bytes) -> None:
    for status, kind in ((500, "http_500"), (418, "http_418")):
        failure = classify(status, body)
        assert failure.kind == kind
        failure.message.encode()


def test_an_error_text_is_kept_short_and_on_one_line() -> None:
    failure = classify(500, b"a\n" * 10_000)
    assert len(failure.message) < 350
    assert "\n" not in failure.message


@pytest.mark.parametrize(
    "header", ["9" * 400, "1e9", "Mon, 01 Jan 100000000000000000000 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"]
)
def test_no_retry_after_is_waited_for_longer_than_a_day(header: str) -> None:
    assert (retry_after(header) or 0.0) <= 86_400


def test_retry_after_is_read_as_seconds_and_as_a_date() -> None:
    now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
    assert retry_after("7", now) == 7
    assert retry_after("0.5", now) == 0.5
    assert retry_after("Thu, 01 Jan 2026 12:00:30 GMT", now) == 30
    assert retry_after("Thu, 01 Jan 2026 11:00:00 GMT", now) == 0
    for nothing in (None, "", "soon", "-5", "٣"):
        assert retry_after(nothing, now) is None


def test_the_endpoint_is_never_asked_earlier_than_it_wishes() -> None:
    policy = RetryPolicy()
    refusal = Failure(Action.RETRY, "rate_limited", "429", retry_after_s=20)
    assert policy.wait_s(1, 0.0, refusal, jitter=0.0) == 20
    wait = policy.wait_s(1, 0.0, refusal, jitter=1.0)
    assert wait is not None
    assert 20 < wait < 23


def test_a_wish_beyond_the_time_limit_is_cut_to_it() -> None:
    refusal = Failure(Action.RETRY, "rate_limited", "429", retry_after_s=float("inf"))
    assert RetryPolicy(max_elapsed_s=100).wait_s(1, 40.0, refusal) == 60


@given(st.integers(1, 200), st.floats(0, 5000), st.floats(0, 1))
def test_waits_are_bounded_by_attempts_time_and_cap(attempts: int, elapsed: float, jitter: float) -> None:
    policy = RetryPolicy()
    wait = policy.wait_s(attempts, elapsed, FAILURE, jitter)
    if attempts >= policy.max_attempts or elapsed >= policy.max_elapsed_s:
        assert wait is None
    else:
        assert wait is not None
        assert 0 < wait <= policy.cap_s
        assert elapsed + wait <= policy.max_elapsed_s * (1 + 1e-9)


def test_backoff_doubles_up_to_the_cap() -> None:
    policy = RetryPolicy(max_attempts=20)
    waits = [policy.wait_s(n, 0.0, FAILURE, jitter=1.0) for n in range(1, 9)]
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30]


def test_what_is_not_to_be_tried_again_waits_for_nothing() -> None:
    assert RetryPolicy().wait_s(1, 0.0, Failure(Action.ROW, "http_400", "400")) is None
