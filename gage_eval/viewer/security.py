"""Who may look: only this machine's browser, only with the token, and nothing that a page shows can run.

Rules: the Host header names this machine (against DNS rebinding); every page but the one that asks for it needs the
token, from the link once and from a cookie afterwards; a post comes from our own pages; and a strict content policy.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self' data:; "
    "connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:]+\]|[^:]+)(?::\d+)?")
_MONTH_S = 30 * 86_400
MOST_POSTED = 64 * 1024


class Session:
    """What a token lets a browser prove."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self.cookie = f"gage_view_{hashlib.sha256(self._token).hexdigest()[:10]}"
        self._session, self.form = self._derived(b"session"), self._derived(b"form")

    def is_token(self, text: str) -> bool:
        """Whether a text is the token, in constant time."""
        return hmac.compare_digest(text.encode(), self._token)

    def is_open(self, cookies: Mapping[str, str]) -> bool:
        """Whether a browser showed the token before."""
        return hmac.compare_digest(cookies.get(self.cookie, "").encode(), self._session.encode())

    def is_ours(self, form: Mapping[str, str]) -> bool:
        """Whether one of our pages made the form."""
        return hmac.compare_digest(form.get("form", "").encode(), self.form.encode())

    def open(self, response: Response) -> Response:
        """The response with the cookie."""
        response.set_cookie(self.cookie, self._session, max_age=_MONTH_S, httponly=True, samesite="lax")
        return response

    def _derived(self, purpose: bytes) -> str:
        return hmac.new(self._token, purpose, hashlib.sha256).hexdigest()


class Guard:
    """Checks every request before the pages see it, and gives every response the headers.

    Args:
        app: the pages. It is asked without a session only below ``/static/`` and for ``/token``.
        session: of this server.
    """

    def __init__(self, app: ASGIApp, session: Session) -> None:
        self._app, self._session = app, session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope, receive)
        answer = self._refusal(request) or self._login(request)
        if answer is not None:
            await answer(scope, receive, with_headers)
            return
        scope["gage_open"] = self._session.is_open(request.cookies)
        await self._app(scope, receive, with_headers)

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        match = _HOST.fullmatch(host)
        if match is None or match["name"].lower() not in _HOSTS:
            return PlainTextResponse("This page is for the browser on this machine: open http://127.0.0.1.", 421)
        if not request.scope["query_string"].isascii():
            return PlainTextResponse("This is not an address.", 400)
        if request.method not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("Only GET and POST.", 405)
        if request.method == "POST" and not _is_from_here(request.headers, host):
            return PlainTextResponse("This form was not sent by gage view.", 403)
        return None

    def _login(self, request: Request) -> Response | None:
        """For a link with the token: the same address without it, and the cookie."""
        params = parse_qsl(request.url.query, keep_blank_values=True)
        token = next((value for name, value in params if name == "token"), None)
        if request.method != "GET" or token is None or not self._session.is_token(token):
            return None
        rest = urlencode([(name, value) for name, value in params if name != "token"])
        path = safe_address(request.url.path)
        return self._session.open(RedirectResponse(f"{path}?{rest}" if rest else path, 303))


def safe_address(text: str) -> str:
    """An address on this server; ``/`` for anything that leads elsewhere."""
    return text if re.fullmatch(r"/(?![/\\])[^\x00-\x1f\\]*", text) else "/"


def _is_from_here(headers: Headers, host: str) -> bool:
    origin = headers.get("origin")
    if origin is not None:
        return hmac.compare_digest(origin.encode(), f"http://{host}".encode())
    return headers.get("sec-fetch-site") in (None, "same-origin")
