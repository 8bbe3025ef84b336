"""The settings of a Prefect client for one API."""

from typing import Any

from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL

from gage_eval.local import server


def settings_at(api_url: str) -> dict[Any, Any]:
    """The settings, for `prefect.settings.temporary_settings`: the URL, and the login of this folder's own server."""
    login = server.login_at(api_url)
    return {PREFECT_API_URL: api_url} | ({} if login is None else {PREFECT_API_AUTH_STRING: login})
