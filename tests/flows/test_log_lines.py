"""Log lines outlast a server that is away."""

from typing import Any

import httpx
import pytest
from prefect.exceptions import PrefectHTTPStatusError

from flows import log_lines
from flows.log_lines import _LogWorker

LINES = [{"message": "sums infer: 600 rows"}, {"message": "sums judge: 600 rows"}]


class Api:
    """An API that does not take what it receives for a number of times."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error = error
        self.left = times
        self.taken: list[list[dict[str, Any]]] = []

    async def create_logs(self, lines: list[dict[str, Any]]) -> None:
        if self.left:
            self.left -= 1
            raise self.error
        self.taken.append(lines)


def worker(api: Api, *, stopped: bool = False) -> _LogWorker:
    made = _LogWorker()
    made._client = api  # type: ignore[assignment]
    made._stopped = stopped
    return made


def refused(status: int) -> PrefectHTTPStatusError:
    request = httpx.Request("POST", "http://127.0.0.1/api/logs/")
    return PrefectHTTPStatusError("refused", request=request, response=httpx.Response(status, request=request))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "_AGAIN_S", 0.0)


@pytest.mark.parametrize("error", [httpx.ConnectError("gone"), httpx.ReadTimeout("hangs"), refused(503)])
async def test_lines_wait_for_a_server_that_is_away(error: Exception) -> None:
    api = Api(error, 40)
    await worker(api)._handle_batch(LINES)
    assert api.taken == [LINES]


async def test_the_last_lines_are_given_up_when_the_server_stays_away() -> None:
    api = Api(httpx.ConnectError("gone"), 40)
    await worker(api, stopped=True)._handle_batch(LINES)
    assert api.left == 40 - log_lines._LAST_TRIES
    assert not api.taken


async def test_lines_that_the_server_refuses_are_not_sent_again() -> None:
    api = Api(refused(422), 40)
    await worker(api)._handle_batch(LINES)
    assert api.left == 39
