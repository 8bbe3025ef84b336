"""The viewer in the background, next to the Prefect server of a folder.

It shows the runs of the folder's store. Its token is GAGE_EVAL_VIEWER_TOKEN, or one that is made at the first start
and kept in a file that only its owner can read, so that links and browsers' cookies outlive a restart.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from gage_eval.base.errors import InputError
from gage_eval.base.ports import LOOPBACK, VIEWER_PORT, free_port, is_free
from gage_eval.base.processes import born
from gage_eval.local import background
from gage_eval.local.background import Process
from gage_eval.models.client.health import answers

if TYPE_CHECKING:
    from gage_eval.runs.options import Locations

_START_LIMIT_S = 60.0
_TOKEN = "GAGE_EVAL_VIEWER_TOKEN"  # noqa: S105 - the name of a variable
_NAME = "the viewer"


class Serving(Process):
    """A viewer in the background.

    Attributes:
        port: where it listens on loopback.
        runs: the root of the runs that it shows, absolute.
        own_token: whether the token is the one that is kept; else the variable held it.
    """

    port: int
    runs: str
    own_token: bool

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"


def start(home: Path, port: int | None = None) -> tuple[Serving, bool]:
    """Start the viewer of this folder's store and wait until it answers.

    Args:
        home: folder of its record, log and token, which exists.
        port: where to listen; 4280, or any free one when that is taken.

    Returns:
        The viewer, and whether it was started now (False: it was running).

    Raises:
        InputError: the port is taken.
        GageError: the store cannot be opened, or the viewer does not start; the message has the end of its log.
    """
    from gage_eval.config.settings import load_settings
    from gage_eval.runs.options import Locations
    from gage_eval.store import Store

    running = find(home)
    if running is not None:
        return running, False
    if port is not None and not is_free(port):
        raise InputError(f"port {port} is taken: give another --viewer-port, or none for a free one.")
    port = port or (VIEWER_PORT if is_free(VIEWER_PORT) else free_port())
    locations = Locations.at()
    # The viewer only reads. Before the first run of a folder there is no store yet.
    Store.open(locations.store)
    given = load_settings().viewer_token
    log = home / "viewer.log"
    # Without -P a module of the folder could take the place of one that the viewer imports.
    command = [sys.executable, "-P", "-m", "gage_eval", "view", "--no-open", "--port", str(port)]
    process = background.launch(command, log, {**os.environ, _TOKEN: given or _kept_token(home)})
    serving = Serving(
        pid=process.pid, born=born(process.pid), port=port, runs=_absolute(locations.runs), own_token=not given
    )
    background.record(home / "viewer.json", serving)
    try:
        background.wait_until(lambda: answers(f"{serving.url}/ok"), _NAME, process, log, _START_LIMIT_S)
    except BaseException:
        stop(home)
        raise
    return serving, True


def stop(home: Path) -> bool:
    """Stop the viewer of this folder. False: none was running."""
    return background.stop(home / "viewer.json", Serving, _NAME)


def find(home: Path) -> Serving | None:
    """The running viewer of this folder."""
    return background.find(home / "viewer.json", Serving)


def link(home: Path, serving: Serving) -> str:
    """The address for the user's own browser: with the token, unless the user's variable holds it."""
    return f"{serving.url}/?token={_kept_token(home)}" if serving.own_token else serving.url


def page_of(serving: Serving, locations: "Locations", run_id: str) -> str | None:
    """The address of a run's page, without the token; None if the viewer shows other runs."""
    return f"{serving.url}/runs/{quote(run_id)}" if _absolute(locations.runs) == serving.runs else None


def _kept_token(home: Path) -> str:
    return background.kept_token(home / "viewer.token")


def _absolute(root: str) -> str:
    from gage_eval.base.files import local_path

    return root if "://" in root else str(local_path(root, Path()).absolute())
