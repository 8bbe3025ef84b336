"""The pages of the viewer, each with its address."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qsl

from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route
from starlette.types import ASGIApp

from gage_eval.base.errors import GageError, InputError, StoreError
from gage_eval.data.prepare.recordings import waveform
from gage_eval.data.sample.record import RecordRejected
from gage_eval.runs.folder import REPORT_FILE
from gage_eval.store.media import media_url
from gage_eval.store.media_types import media_type
from gage_eval.store.objects import is_digest
from gage_eval.viewer.compare_page import compare_page, side_by_side_page
from gage_eval.viewer.label_page import LabelPages
from gage_eval.viewer.list_page import ListPage
from gage_eval.viewer.matrix_page import matrix_page
from gage_eval.viewer.note_page import NotePages
from gage_eval.viewer.open_runs import MOST_COLUMNS, OpenRuns, StillIndexing
from gage_eval.viewer.pages import STATIC, rendered
from gage_eval.viewer.plots_page import plots_page
from gage_eval.viewer.run_page import run_page
from gage_eval.viewer.runs_list import RunsList
from gage_eval.viewer.security import MOST_POSTED, Guard, Session, safe_address

Page: TypeAlias = Callable[[Request], Response | str]
"""Makes the answer to a request, as a text where it is a page without more."""

_SIGNATURE = 64
_MEDIA_HEADERS = {"cache-control": "private, max-age=86400", "content-security-policy": "default-src 'none'; sandbox"}
_SHOWN_MEDIA = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/avif", "audio/", "video/")


def viewer_app(
    open_runs: OpenRuns, token: str, public_url: str | None = None, label_files: Sequence[Path] = ()
) -> ASGIApp:
    """The viewer as an ASGI application.

    Args:
        open_runs: the runs.
        token: what a browser must show.
        public_url: where a proxy answers for it.
        label_files: files that people fill in.
    """
    session = Session(token, public_url)
    viewer = Viewer(open_runs, session, label_files)
    pages = Starlette(routes=list(viewer.routes()), exception_handlers={404: _missing})
    return Guard(pages, session)


async def _missing(request: Request, error: Exception) -> Response:
    """The page for an address that leads nowhere."""
    return _failed("There is no page at this address.", 404, "Not found")


def _failed(message: str, status: int, title: str) -> Response:
    return HTMLResponse(rendered("error.html", title=title, message=message), status)


class Viewer:
    """The pages.

    Args:
        open_runs: the runs.
        session: of this server.
        label_files: files that people fill in.
    """

    def __init__(self, open_runs: OpenRuns, session: Session, label_files: Sequence[Path]) -> None:
        self.open_runs = open_runs
        self.session = session
        self.runs = RunsList(open_runs.locations)
        self.notes = NotePages(open_runs.locations.store, session)
        self.labels = LabelPages(label_files, session)
        self.lists = ListPage(open_runs, self.notes, session)

    def routes(self) -> "list[Route]":
        """Every address."""
        runs, lists = self.open_runs, self.lists
        notes, labels = (lambda _: self.notes.page()), (lambda request: self.labels.page(request.query_params))
        pages: dict[str, Page] = {
            "/": self._home,
            "/matrix": lambda request: matrix_page(runs, lists, request.query_params),
            "/matrix/plots": lambda request: plots_page(runs, lists, request.query_params),
            "/runs/{run}": lambda request: run_page(runs, lists, request.path_params["run"], request.query_params),
            "/runs/{run}/samples": lists.samples,
            "/runs/{run}/sample": lists.sample,
            "/runs/{run}/steps": lists.steps,
            "/runs/{run}/report": self._report,
            "/runs/{run}/compare": lambda request: compare_page(runs, request.path_params["run"], request.query_params),
            "/runs/{run}/side-by-side": lambda request: side_by_side_page(
                runs, lists, request.path_params["run"], request.query_params
            ),
            "/runs/{run}/export.{kind}": lists.export,
            "/media/{digest}": self._media,
            "/media/{digest}/waveform": self._waveform,
        }
        return [
            Route("/token", self._token, methods=["GET", "POST"]),
            Route("/static/{name}", self._static),
            Route("/notes", partial(self._form, notes, self.notes.add), methods=["GET", "POST"]),
            Route("/labels", partial(self._form, labels, self.labels.add), methods=["GET", "POST"]),
            Route("/ok", lambda request: PlainTextResponse("ok")),
            *(Route(path, partial(self._page, page)) for path, page in pages.items()),
        ]

    async def _page(self, page: Page, request: Request) -> Response:
        """A page, made in a worker thread; the form for the token without a session."""
        if not request.scope["gage_open"]:
            return self._ask_token(request, 401)
        return await to_thread.run_sync(partial(self._answer, page, request))

    def _answer(self, page: Page, request: Request) -> Response:
        try:
            answer = page(request)
            return HTMLResponse(answer) if isinstance(answer, str) else answer
        except StillIndexing as work:
            text = rendered("wait.html", work=work, title="One moment")
            return HTMLResponse(text, 202, headers={"refresh": "1"})
        except InputError as error:
            return _failed(str(error), 400, "This cannot be shown")
        except GageError as error:
            return _failed(str(error), 500, "Error")

    # --- getting in

    async def _token(self, request: Request) -> Response:
        if request.method == "GET":
            return self._ask_token(request, 200)
        form = await posted(request)
        if not self.session.is_token(form.get("token", "").strip()):
            return self._ask_token(request, 401, wrong=True, address=form.get("address", "/"))
        return self.session.open(RedirectResponse(safe_address(form.get("address", "/")), 303), request)

    def _ask_token(self, request: Request, status: int, *, wrong: bool = False, address: str | None = None) -> Response:
        if address is None:
            here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            address = "/" if request.url.path == "/token" else here
        page = rendered("token.html", title="Token", address=safe_address(address), wrong=wrong)
        return HTMLResponse(page, status)

    async def _static(self, request: Request) -> Response:
        asset = STATIC.get(request.path_params["name"])
        if asset is None:
            return PlainTextResponse("not found", 404)
        return FileResponse(asset[0], media_type=asset[1], headers={"cache-control": "no-cache"})

    # --- pages

    def _home(self, request: Request) -> str:
        wanted = request.query_params.get("q", "").strip()
        suites = self.runs.suites(wanted)
        live = any(run.status == "running" for suite in suites for run in suite.runs)
        where = self.open_runs.locations.runs
        shown = {"suites": suites, "q": wanted, "live": live, "where": where, "most_columns": MOST_COLUMNS}
        return rendered("runs.html", title="Runs", **shown)

    async def _form(self, page: Page, add: Callable[[Mapping[str, str]], Response], request: Request) -> Response:
        """A page, and what its forms send; a form that is not ours is refused."""
        if request.method == "GET" or not request.scope["gage_open"]:
            return await self._page(page, request)
        form = await posted(request)

        def answer(_: Request) -> Response:
            if not self.session.is_ours(form):
                raise InputError("this form is too old: load the page again.")
            return add(form)

        return await self._page(answer, request)

    def _report(self, request: Request) -> Response:
        data = self.open_runs.run(request.path_params["run"]).stored.folder.read(REPORT_FILE)
        if data is None:
            said = f"run {request.path_params['run']} has no report.html: a run writes it at its end."
            return _failed(said, 404, "Not found")
        # The report's own policy allows its one style sheet and the media in it, and nothing else.
        policy = (
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; frame-ancestors 'none'; "
            "sandbox"
        )
        return Response(data, media_type="text/html", headers={"content-security-policy": policy})

    def _media(self, request: Request) -> Response:
        """Media of the store's samples. What a browser could run as a page is only offered as a file."""
        digest = request.path_params["digest"]
        media = self.open_runs.store.media
        url = media_url(digest)
        try:
            file = media.path(url)
            data = media.get(url) if file is None else _beginning(file)
        except StoreError:
            # Asked only now: of a store on S3 it is a request.
            if is_digest(digest) and media.has(url):
                raise
            said = f"The store has no media '{digest[:80]}'. If a sample has it, run preprocess again with --refresh."
            return _failed(said, 404, "Not found")
        kind = media_type(data)
        headers = dict(_MEDIA_HEADERS)
        if not kind.startswith(_SHOWN_MEDIA):
            headers["content-disposition"] = f'attachment; filename="{digest[:12]}"'
            kind = "application/octet-stream"
        if file is not None:
            return FileResponse(file, media_type=kind, headers=headers)
        return Response(data, media_type=kind, headers=headers)

    def _waveform(self, request: Request) -> Response:
        """The shape of a recording as a picture; pages leave it out where there is none."""
        try:
            picture = waveform(self.open_runs.store.media.get(media_url(request.path_params["digest"])))
        except (StoreError, RecordRejected):
            return PlainTextResponse("There is no waveform.", 404)
        return Response(picture, media_type="image/svg+xml", headers=_MEDIA_HEADERS)


def _beginning(file: Path) -> bytes:
    """What shows the type of media that pages show. Others are offered as files, whatever they are."""
    with file.open("rb") as stream:
        return stream.read(_SIGNATURE)


async def posted(request: Request) -> dict[str, str]:
    """The fields of a form; empty for one that is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_POSTED:
            return {}
    with suppress(UnicodeDecodeError):
        return dict(parse_qsl(body.decode(), keep_blank_values=True))
    return {}
