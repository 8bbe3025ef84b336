"""The viewer's server: on this machine only, with a token."""

import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gage_eval.base.errors import InputError
from gage_eval.base.ports import LOOPBACK, VIEWER_PORT

if TYPE_CHECKING:
    from gage_eval.runs.options import Locations


class ViewerServer:
    """A viewer that listens; `serve` answers until it is stopped.

    Args:
        locations: where the runs are.
        cache: folder of the indexes.
        token: what a browser must show; a new one by default.
        public_url: where a proxy answers for it.
        port: where to listen; 4280, or a free one when that is taken.
        texts: index the texts of a store on S3 too.
        announce: told a sentence when an index was built.
        label_files: files of labels that people fill in.

    Raises:
        InputError: the port is taken, or there is no store.
    """

    def __init__(
        self,
        locations: "Locations",
        cache: Path,
        *,
        token: str | None = None,
        public_url: str | None = None,
        port: int | None = None,
        texts: bool = False,
        announce: Callable[[str], None] = lambda text: None,
        label_files: Sequence[Path] = (),
    ) -> None:
        from gage_eval.viewer.open_runs import OpenRuns

        self.token, self._public_url = token or secrets.token_urlsafe(32), public_url
        self._label_files = tuple(label_files)
        self.open_runs = OpenRuns(locations, cache, texts=texts, announce=announce)
        self._socket = _listening(port)
        self.port = int(self._socket.getsockname()[1])
        self._server: Any = None

    @property
    def url(self) -> str:
        """The address, without the token."""
        return f"http://{LOOPBACK}:{self.port}"

    def link(self, path: str = "/") -> str:
        """An address with the token, for the browser of the user."""
        return f"{self.url}{path}{'&' if '?' in path else '?'}token={self.token}"

    def serve(self) -> None:
        """Answer until Ctrl-C or `stop`."""
        import uvicorn

        from gage_eval.viewer.app import viewer_app

        config = uvicorn.Config(
            viewer_app(self.open_runs, self.token, self._public_url, self._label_files),
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()
            self.open_runs.close()

    def stop(self) -> None:
        """Make `serve` return."""
        if self._server is not None:
            self._server.should_exit = True


def _listening(port: int | None) -> socket.socket:
    for candidate in [VIEWER_PORT, 0] if port is None else [port]:
        with suppress(OSError):
            return socket.create_server((LOOPBACK, candidate), backlog=128)
    raise InputError(f"port {port} is taken: give another --port, or none for a free one.")
