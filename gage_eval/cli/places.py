"""Where runs are, and the runs themselves, for commands: imported when a command asks for them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gage_eval.runs.options import Locations
    from gage_eval.runs.results.reading import RunReader


def located(store: str | None = None, output_dir: str | None = None) -> "Locations":
    """The locations that the options ``--store`` and ``--output-dir`` name."""
    from gage_eval.runs.options import Locations

    return Locations.at(store, output_dir)


def open_run(locations: "Locations", run_id: str) -> "RunReader":
    """A stored run.

    Raises:
        InputError: there is no such run.
    """
    from gage_eval.runs.results.reading import RunReader

    return RunReader.open(locations, run_id)
