"""Who may look: browsers of this machine or behind a team's proxy, with the token. Nothing that a page shows can run.

Rules: the Host header names this machine or the proxy (against DNS rebinding); every page but the one that asks for it
needs the token, from the link once and from a cookie afterwards; a post comes from our own pages; and a strict content
policy.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

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
    """What a token lets a browser prove.

    Args:
        token: what a browser must show once.
        public_url: where a proxy answers for this server, such as ``https://runs.example.org``.
    """

    def __init__(self, token: str, public_url: str | None = None) -> None:
        self._token, self._public_url = token.encode(), public_url
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

    def origin(self, request: Request) -> str | None:
        """The origin of our pages in the browser that sent the request; None if the Host header is not ours."""
        host = request.headers.get("host", "").lower()
        if self._public_url is not None and host == urlsplit(self._public_url).netloc.lower():
            return self._public_url.lower()
        match = _HOST.fullmatch(host)
        return f"http://{host}" if match is not None and match["name"] in _HOSTS else None

    def open(self, response: Response, request: Request) -> Response:
        """The response with the cookie."""
        is_secure = (self.origin(request) or "").startswith("https:")
        response.set_cookie(
            self.cookie, self._session, max_age=_MONTH_S, httponly=True, samesite="lax", secure=is_secure
        )
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
        origin = self._session.origin(request)
        if origin is None:
            return PlainTextResponse("This page is for the browser on this machine: open http://127.0.0.1.", 421)
        if not request.scope["query_string"].isascii():
            return PlainTextResponse("This is not an address.", 400)
        if request.method not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("Only GET and POST.", 405)
        if request.method == "POST" and not _is_from_here(request.headers, origin):
            return PlainTextResponse("This form was not sent by gage view.", 403)
        return None

    def _login(self, request: Request) -> Response | None:
        """For a link with the token: the same address without it, and the cookie."""
        token = request.query_params.get("token")
        if request.method != "GET" or token is None or not self._session.is_token(token):
            return None
        rest = request.url.remove_query_params("token").query
        path = safe_address(request.url.path)
        return self._session.open(RedirectResponse(f"{path}?{rest}" if rest else path, 303), request)


def safe_address(text: str) -> str:
    """An address on this server; ``/`` for anything that leads elsewhere."""
    return text if re.fullmatch(r"/(?![/\\])[^\x00-\x1f\\]*", text) else "/"


def _is_from_here(headers: Headers, ours: str) -> bool:
    origin = headers.get("origin")
    if origin is not None:
        return hmac.compare_digest(origin.encode(), ours.encode())
    return headers.get("sec-fetch-site") in (None, "same-origin")
