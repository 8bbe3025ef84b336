"""Clients of a Prefect API that may be gone, busy or slow."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.exceptions import PrefectException, PrefectHTTPStatusError
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from blocks import settings_at
from gage_eval.config.secrets import scrub

# An API that is silent is asked for its health this often, and for so long in all. A server stalls where its database
# is on a slow or busy disk.
_HEALTH_S = 5.0
_PATIENCE_S = 120.0
# Retries of a patient client's request while the server is busy or its database is locked: in all about a minute.
_PATIENT_RETRIES = 5
# Timeout and retries of a request that no work depends on, in seconds.
_REQUEST_S = 5.0
_RETRIES = 2
_BUSY = frozenset({408, 429})


@contextmanager
def api_client(
    url: str | None = None, *, timeout_s: float = _REQUEST_S, retries: int = _RETRIES
) -> Iterator[SyncPrefectClient]:
    """An API client with a timeout. By default, its requests are given up soon: no work depends on them.

    Args:
        url: the API; the configured one by default.
        timeout_s: timeout of a request.
        retries: retries of a request.
    """
    changed: dict[Any, Any] = {PREFECT_CLIENT_MAX_RETRIES: retries}
    if url is not None:
        changed |= settings_at(url)
    with (
        temporary_settings(changed),
        get_client(sync_client=True, httpx_settings={"timeout": timeout_s}) as client,
    ):
        yield client


@contextmanager
def patient_client(url: str, tell: Callable[[str], None]) -> Iterator[SyncPrefectClient]:
    """A client for what a command or a run needs before it can go on. It waits for an API that is silent.

    Args:
        url: the API.
        tell: receives a sentence if the API does not answer at once.

    Raises:
        Exception: the API refuses connections, or stays silent for two minutes (`is_unanswered`).
    """
    _wait_for_answer(url, tell)
    # A second request for the same would do it twice: this one may take as long as the API needs.
    with api_client(url, timeout_s=_PATIENCE_S, retries=_PATIENT_RETRIES) as client:
        yield client


def _wait_for_answer(url: str, tell: Callable[[str], None]) -> None:
    began = last_try = time.monotonic()
    with api_client(url, timeout_s=_HEALTH_S, retries=0) as client:
        while (problem := client.api_healthcheck()) is not None:
            now = time.monotonic()
            if now - last_try < _HEALTH_S or now - began >= _PATIENCE_S:
                raise problem  # It refuses connections, which it does at once, or was silent for too long.
            if last_try == began:
                tell(f"the Prefect API at {scrub(url)} is silent; waiting up to {_PATIENCE_S:.0f} s for its answer.")
            last_try = now


def lacks_login(error: Exception) -> bool:
    """Whether the API refused a request because it has no login, or a wrong one."""
    return isinstance(error, PrefectHTTPStatusError) and error.response.status_code == HTTPStatus.UNAUTHORIZED


def is_unanswered(error: Exception) -> bool:
    """Whether a request failed because the API is gone, hangs or is busy, so that a retry may succeed."""
    if isinstance(error, PrefectHTTPStatusError):
        status = error.response.status_code
        return status in _BUSY or status >= 500
    # Everything else is not a connection failure: the API refused the report, or the report is wrong.
    return not isinstance(
        error, PrefectException | ValueError | TypeError | LookupError | AttributeError | AssertionError
    )
