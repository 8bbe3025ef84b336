"""Resume an earlier run."""

import os
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.runs.folder import RUN_FILE, RunFolder
from gage_eval.runs.options import BUNDLE_PREFIX, SUITE_PREFIX, Locations, RunOptions
from gage_eval.runs.record import RunRecord


def resumed(
    run_id: str,
    *,
    store: str | None = None,
    output_dir: str | None = None,
    only_errors: bool = False,
    verify: bool = False,
) -> RunOptions:
    """The options that resume an earlier run.

    Args:
        run_id: the run's name.
        store: where its artifacts are; by default the store of the options.
        output_dir: where its folder is.
        only_errors: ask again only for rows that ended in an error.
        verify: check the hashes of every stored result that is used again, as the earlier run may have done.

    Raises:
        InputError: the run does not exist, or cannot be resumed.
    """
    folder = RunFolder.open(Locations.at(store, output_dir), run_id)
    record = folder.record()
    if record.rescored is not None:
        raise InputError(
            f"run {run_id} holds other scores of the responses of run {record.rescored.run_id}: resume that one."
        )
    kept = options_here(record)
    if store is not None:
        kept["store"] = store
    if output_dir is not None:
        kept["output_dir"] = output_dir
    try:
        again = {"run_id": run_id, "resume": True, "only_errors": only_errors, "verify": verify or kept.get("verify")}
        return RunOptions.of({**kept, **again})
    except InputError as error:
        raise InputError(f"{folder.location(RUN_FILE)} holds options that cannot be used: {error}") from error


def options_here(record: RunRecord) -> dict[str, Any]:
    """The recorded options of a run for this machine. Where it lacks the config, they name the copy in the store."""
    options = dict(record.options)
    config = str(options.get("config", ""))
    bundle = record.prefect.bundle if record.prefect is not None else None
    if bundle is not None and not config.startswith((SUITE_PREFIX, BUNDLE_PREFIX)) and not os.path.exists(config):
        options |= {"config": f"{BUNDLE_PREFIX}{bundle}", "text": None}
    return options
