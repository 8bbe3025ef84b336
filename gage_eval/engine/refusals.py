"""Decides whether a refusal (wrong API key, unknown model) is an error of one row or of the run."""

import asyncio

from gage_eval.models.client.types import RequestRefused, Response

# This many consecutive refusals end a run that had answers before.
MOST_IN_A_ROW = 20


class Refusals:
    """Judges the refusals of one generate step.

    Before the first answer, a refusal waits for the other calls in flight. If one of them is answered, the refusal
    concerns only its row. If all of them are refused too, it concerns the run. A waiting call keeps its permit, so the
    number of requests in flight stays within the endpoint's permits.

    Args:
        answered: whether there are answers already, from the log or from another run.
    """

    def __init__(self, *, answered: bool) -> None:
        self._answered = answered
        self._in_a_row = 0
        self._calls = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._last: RequestRefused | None = None

    def call_begins(self) -> None:
        """Note that a call of the model begins. `call_ends` comes after the decision about its refusal."""
        self._calls += 1

    def call_ends(self) -> None:
        """Note that a call ended, whatever its result."""
        self._calls -= 1
        # The others may have waited only for this call.
        self._end_if_all_wait()

    def answered(self) -> None:
        """Note that a call was answered, now or earlier."""
        self._answered = True
        self._in_a_row = 0
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def judge(self, refusal: RequestRefused) -> Response:
        """The row's error response, if the refusal concerns only this row.

        Raises:
            RequestRefused: the refusal concerns the run.
        """
        self._in_a_row += 1
        self._last = refusal
        if self._in_a_row >= MOST_IN_A_ROW:
            self._end()
            raise refusal
        if self._answered:
            return refusal.response
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._end_if_all_wait()
        try:
            await future
        finally:
            self._waiting.remove(future)
        return refusal.response

    def _end_if_all_wait(self) -> None:
        if self._waiting and not self._answered and len(self._waiting) >= self._calls:
            self._end()

    def _end(self) -> None:
        assert self._last is not None
        for future in self._waiting:
            if not future.done():
                future.set_exception(RequestRefused(str(self._last), self._last.response))
