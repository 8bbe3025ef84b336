"""What flow runs on a worker may load: only code that the operator of the worker allowed."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prefect import runtime

from gage_eval.base.errors import InputError
from gage_eval.config.settings import load_settings
from gage_eval.extend.allowed_code import OWN, allow_only, allowed_entries
from gage_eval.runs import RunOptions
from gage_eval.runs.deployed import recorded_deployments
from gage_eval.runs.effects import own_code
from gage_eval.runs.folder import record_of
from gage_eval.runs.options import SUITE_PREFIX, Locations, bundle_of
from gage_eval.store import Store, local_folder


def load_only_what_is_allowed() -> None:
    """From now on, load in this process only the code of others that GAGE_EVAL_PLUGINS lists; none unless it is set.

    Without this, all users of the server could run any code on the worker.

    Raises:
        InputError: a setting of the environment is wrong.
    """
    allow_only((load_settings().plugins or "").split(","))


def allow_own_code(configs: Iterable[str], store: str | None, *, run: str | None = None) -> None:
    """Where GAGE_EVAL_PLUGINS has ``.``, allow the code in files that configs of the worker's own folder name.

    A config is its own if it is a file below the working folder, outside the store and hidden folders; or a bundle
    that a record in the worker's own store names: the run.json of the current flow run or of ``run``, or the record of
    the current deployment. What a form gives (a text, ``--set``) allows nothing.

    Args:
        configs: files and bundles, as a run's options name them.
        store: URL of the store that has the bundles.
        run: a run whose config is used again.
    """
    allowed = allowed_entries()
    if allowed is None or OWN not in allowed:
        return
    here = Path.cwd().resolve()
    for config in configs:
        if config.startswith(SUITE_PREFIX):
            continue
        bundle, options = bundle_of(config), RunOptions(config=config, store=store)
        if bundle is None and _is_below(here, Path(config)):
            allowed |= own_code(options, here)
        elif bundle is not None and _is_recorded(bundle, run):
            with suppress(InputError):
                allowed |= own_code(options, options.base_dir)
    allow_only(allowed)


def _is_below(folder: Path, file: Path) -> bool:
    """Whether a file is below the folder, and was not written by a run."""
    places, file = Locations.at(), file.resolve()
    written = [there.resolve() for root in (places.store, places.runs) if (there := local_folder(root)) is not None]
    return (
        file.is_relative_to(folder)
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
        and not any(file.is_relative_to(root) for root in written)
    )


def _is_recorded(bundle: str, run: str | None) -> bool:
    """Whether the worker's own store says that the current flow run is carried out from a bundle."""
    places = Locations.at()
    ours = record_of(places, str(runtime.flow_run.name))
    if ours is not None and ours.prefect is not None and ours.prefect.flow_run_id == str(runtime.flow_run.id):
        return ours.prefect.bundle == bundle
    before = None if run is None else record_of(places, run)
    if before is not None and before.prefect is not None:
        return before.prefect.bundle == bundle
    deployment = str(runtime.deployment.id)
    deployed = recorded_deployments(Store.open(places.store, read_only=True))
    return any(record.deployment_id == deployment and bundle in record.bundles for record in deployed)
