"""The viewer in the background, next to the Prefect server of a folder.

It shows the runs of the folder's store. Its token is GAGE_EVAL_VIEWER_TOKEN, or one that is made at the first start
and kept in a file that only its owner can read, so that links and browsers' cookies outlive a restart.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from gage_eval.base.ports import LOOPBACK, VIEWER_PORT, chosen_port
from gage_eval.local.background import Server, Service, kept_token
from gage_eval.models.client.health import answers

if TYPE_CHECKING:
    from gage_eval.runs.options import Locations

_TOKEN = "GAGE_EVAL_VIEWER_TOKEN"  # noqa: S105 - the name of a variable


class Viewer(Server):
    """A viewer in the background.

    Attributes:
        runs: the root of the runs that it shows, absolute.
        own_token: whether the token is the one that is kept; else the variable held it.
    """

    runs: str
    own_token: bool

    def link(self, home: Path) -> str:
        """The address for the user's own browser: with the token, unless the user's variable holds it."""
        return f"{self.url}/?token={_kept_token(home)}" if self.own_token else self.url

    def page_of(self, locations: "Locations", run_id: str) -> str | None:
        """The address of a run's page, without the token; None if the viewer shows other runs."""
        return run_address(self.url, run_id) if _absolute(locations.runs) == self.runs else None


def run_address(viewer: str, run_id: str) -> str:
    """The address of a run's page in a viewer, whose own address has no slash at its end."""
    return f"{viewer}/runs/{quote(run_id)}"


VIEWER = Service("the viewer", "viewer", Viewer, 60.0)


def start(home: Path, port: int | None = None) -> tuple[Viewer, bool]:
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

    running = VIEWER.find(home)
    if running is not None:
        return running, False
    port = chosen_port(port, VIEWER_PORT, "--viewer-port")
    locations = Locations.at()
    # The viewer only reads. Before the first run of a folder there is no store yet.
    Store.open(locations.store)
    configured_token = load_settings().viewer_token
    # Without -P a module of the folder could take the place of one that the viewer imports.
    command = [sys.executable, "-P", "-m", "gage_eval", "view", "--no-open", "--port", str(port)]
    environment = {**os.environ, _TOKEN: configured_token or _kept_token(home)}
    values = {"port": port, "runs": _absolute(locations.runs), "own_token": not configured_token}
    health = f"http://{LOOPBACK}:{port}/ok"
    return VIEWER.start(home, command, environment, lambda: answers(health), **values), True


def _kept_token(home: Path) -> str:
    return kept_token(home / "viewer.token")


def _absolute(root: str) -> str:
    from gage_eval.base.files import local_path

    return root if "://" in root else str(local_path(root, Path()).absolute())
