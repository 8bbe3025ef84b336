"""Start a run in this process, or as a flow at the configured Prefect API.

The one module of the domain that starts flows; it imports them when a run goes to Prefect, and not before.
"""

import os
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gage_eval.base.errors import GageError, InputError
from gage_eval.base.liveness import LOST_AFTER_S
from gage_eval.base.packaged import packages_beside
from gage_eval.config.secrets import scrub
from gage_eval.local import server

if TYPE_CHECKING:
    from gage_eval.engine.host import SharedEngines
    from gage_eval.local.deployments import DeploymentChange
    from gage_eval.models.backends.base import Blocks
    from gage_eval.runs import RunOptions, RunOutcome
    from gage_eval.runs.bundling import Submission
    from gage_eval.runs.deployed import DeploymentRecord
    from gage_eval.runs.options import Locations
    from gage_eval.runs.results.stored import StoredRun

# Timeout for the check of the API; and how many runs are searched for killed ones.
_ANSWER_S = 3.0
_NEWEST = 50
_LOGIN = "PREFECT_API_AUTH_STRING"


def launch_run(
    options: "RunOptions",
    *,
    inline: bool = False,
    prefect: bool = False,
    quiet: bool = False,
    host: "SharedEngines | None" = None,
) -> "RunOutcome":
    """Run the options and print the progress.

    Args:
        options: what to run.
        inline: run in this process, whatever API is configured.
        prefect: insist on a Prefect API.
        quiet: print nothing.
        host: keeps engines running for other runs; by default the engines of this run stop at its end.

    Raises:
        InputError: the options or the config cannot be used, or the API does not answer.
        GageError: what stopped the run; everything computed is kept.
    """
    from gage_eval.runs.options import Locations
    from gage_eval.runs.progress import ConsoleObserver
    from gage_eval.runs.results.stored import StoredRun

    api_url = choose_api(inline=inline, prefect=prefect)
    options, named_store = _with_store(options, api_url)
    if options.resume and options.run_id is not None:
        report_ended_runs([StoredRun.open(Locations.at(options.store, options.output_dir), options.run_id)])
    elif api_url is not None:
        report_newest_ended_runs(Locations.at(options.store, options.output_dir))
    with ConsoleObserver(quiet=quiet, inline=api_url is None) as console:
        if api_url is None:
            from gage_eval.runs import run_inline

            return run_inline(options, [console], host=host)
        with packages_beside():
            from flows.launch import launch

        return launch(options, api_url, [console], named_store=named_store, host=host)


def submit_run(options: "RunOptions", *, tell: Callable[[str], None]) -> "Submission":
    """Have a worker of the configured Prefect API carry out a run.

    Args:
        options: what to run.
        tell: receives a sentence for each thing that the worker must have itself, before the run is submitted.

    Raises:
        InputError: the options or the config cannot be used, something that the run needs cannot travel, no API is
            configured, or it does not answer.
    """
    api_url = _required_api()
    options, named_store = _with_store(options, api_url)
    with packages_beside():
        from flows.launch import submit

    return submit(options, api_url, named_store=named_store, tell=tell)


def _with_store(options: "RunOptions", api_url: str | None) -> "tuple[RunOptions, str | None]":
    """The options with the URL of their store; and the store as they name it, if that is by a block."""
    from gage_eval.runs.options import BLOCK_PREFIX

    named = options.store
    if named is None or not named.startswith(BLOCK_PREFIX) or api_url is None:
        return options, None
    with packages_beside():
        from flows.launch import store_of_block

    return options.model_copy(update={"store": store_of_block(api_url, named)}), named


def report_ended_runs(runs: "Iterable[StoredRun]") -> None:
    """Report to Prefect the end of runs whose own process could not: it was killed, or the API was gone then.

    Where an API does not answer now, the next command tries again.
    """
    waiting: dict[str, list[StoredRun]] = {}
    for run in runs:
        with suppress(GageError):
            if run.unreported_at is not None:
                waiting.setdefault(run.unreported_at, []).append(run)
    if not waiting:
        return
    from gage_eval.models.client.health import answers

    configured = None
    with suppress(GageError):
        configured = choose_api()
    for recorded, left in waiting.items():
        # The record holds no password that the URL may have.
        url = configured if configured is not None and scrub(configured) == recorded else recorded
        if answers(f"{url}/health", timeout=_ANSWER_S):
            with packages_beside():
                from flows.launch import report_ended_runs as report_at
            with suppress(GageError):
                report_at(url, left)


def report_newest_ended_runs(locations: "Locations") -> None:
    """`report_ended_runs` for the newest runs of a place on this machine."""
    from gage_eval.runs.results.stored import stored_runs
    from gage_eval.store import local_folder

    if local_folder(locations.runs) is not None:
        report_ended_runs(islice(stored_runs(locations), _NEWEST))


def deploy(
    api_url: str | None = None,
    *,
    pool: str | None = None,
    gpu_pools: Sequence[str] = (),
    box_pools: Sequence[str] = (),
    store: str | None = None,
    nightly: Path | None = None,
    lost_after_s: int = LOST_AFTER_S,
    dry_run: bool = False,
    tell: Callable[[str], None] = lambda note: None,
) -> "list[DeploymentChange]":
    """Bring the deployments of all flows to an API. What is there already stays untouched.

    Args:
        api_url: the API; the configured one by default.
        pool: the work pool of the runs; `local` by default, which is created if it is not there.
        gpu_pools: the work pools of engines that need a GPU. Forms propose the first one.
        box_pools: the work pools that run programs in boxes.
        store: the store of the runs, unless a form names another one. Without it GAGE_EVAL_STORE; for the local server
            of this folder, the folder's store.
        nightly: a file of nightly runs, which gets a deployment with its schedule, and automations. The files that its
            configs need go into the store.
        lost_after_s: a run that has sent no heartbeat for so long is lost.
        dry_run: change nothing.
        tell: receives a sentence for each thing that the workers of nightly runs must have themselves.

    Raises:
        InputError: no API is configured, it does not answer, it has no such pool, no store is named, or something that
            a nightly run needs cannot travel.
    """
    from gage_eval.local.deployments import POOL, DeployOptions

    api_url = api_url or _required_api()
    is_local = api_url == server.running_url()
    with packages_beside():
        from flows.launch import deploy as deploy_at

    options = DeployOptions(
        pool=pool or POOL,
        gpu_pools=gpu_pools,
        box_pools=box_pools,
        store=_shared_store(store, is_local=is_local),
        working_dir=str(Path.cwd()) if is_local else None,
        nightly=nightly,
        lost_after_s=lost_after_s,
        dry_run=dry_run,
    )
    return deploy_at(api_url, options, tell)


def deleted_deployments(records: Sequence["DeploymentRecord"]) -> Collection["DeploymentRecord"]:
    """The recorded deployments that were deleted at the server of the configured API. None without an API.

    Raises:
        InputError: the API does not answer, or refuses.
    """
    api_url = choose_api()
    if api_url is None:
        return ()
    with packages_beside():
        from flows.launch import deleted_deployments as deleted_at

    return deleted_at(api_url, records)


def automations() -> list[dict[str, Any]]:
    """The automations of every server, as ``prefect automation create --from-file`` reads them."""
    with packages_beside():
        from flows.launch import automations as all_automations

    return all_automations()


class _BlocksOfApi:
    """The blocks of an API. Prefect is imported when the first one is read."""

    def __init__(self, api_url: str) -> None:
        self._api_url = api_url

    def secret(self, name: str) -> str:
        return self._read().secret(name)

    def backend(self, name: str) -> Mapping[str, Any]:
        return self._read().backend(name)

    def _read(self) -> "Blocks":
        with packages_beside():
            from flows.launch import blocks_at

        return blocks_at(self._api_url)


def known_blocks() -> "Blocks | None":
    """The blocks of the configured API, for commands that read a config without running it; None without an API."""
    api_url = choose_api()
    return None if api_url is None else _BlocksOfApi(api_url)


def register_blocks(api_url: str | None = None) -> list[str]:
    """Bring the types of our blocks to an API; the configured one by default. Returns their names.

    Raises:
        InputError: no API is configured, it does not answer, or refuses.
    """
    with packages_beside():
        from flows.launch import register_blocks as register_at

    return register_at(api_url or _required_api())


def _required_api() -> str:
    api_url = choose_api()
    if api_url is None:
        raise InputError(
            "no Prefect API is configured: set PREFECT_API_URL, or start a local server: gage server start."
        )
    return api_url


def _shared_store(store: str | None, *, is_local: bool) -> str:
    """The store that all workers use, absolute."""
    from gage_eval.base.files import local_path
    from gage_eval.config.settings import load_settings
    from gage_eval.runs.options import BLOCK_PREFIX, Locations

    if store is not None and store.startswith(BLOCK_PREFIX):
        return store

    settings = load_settings()
    if not (store or is_local or "store" in settings.values_set()):
        raise InputError(
            "the workers of the server need one store: give --store with a folder that all of them see, or "
            "s3://bucket/prefix, or set GAGE_EVAL_STORE."
        )
    url = Locations.at(store).store
    return url if "://" in url else str(local_path(url, Path()).absolute())


def choose_api(*, inline: bool = False, prefect: bool = False) -> str | None:
    """The URL of the configured API, or None to run inline.

    The order: PREFECT_API_URL, the local server of this folder (`gage server start`), the active Prefect profile.

    Raises:
        InputError: --inline and --prefect together, --prefect without an API, or an API that is not a URL.
    """
    if inline and prefect:
        raise InputError("--inline and --prefect exclude each other.")
    if inline:
        return None
    url = os.environ.get("PREFECT_API_URL") or server.running_url() or _of_profile("PREFECT_API_URL")
    if prefect and not url:
        raise InputError("--prefect needs an API: set PREFECT_API_URL, or start a local one by gage server start.")
    if url and not url.startswith(("http://", "https://")):
        raise InputError(f"PREFECT_API_URL is '{scrub(url)}': it starts with http:// or https://, or is not set.")
    return url or None


def login_at(api_url: str) -> str | None:
    """The login of an API, ``user:password``: that of this folder's own server, PREFECT_API_AUTH_STRING, or none."""
    return server.login_at(api_url) or os.environ.get(_LOGIN) or _of_profile(_LOGIN)


def _of_profile(setting: str) -> str | None:
    """A setting of the active Prefect profile."""
    file = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect") / "profiles.toml"
    try:
        content = tomllib.loads(file.read_text())
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{file} cannot be read ({error}); fix it, or run with --inline.") from error
    active = os.environ.get("PREFECT_PROFILE") or content.get("active")
    profile = content.get("profiles", {}).get(active, {})
    value = profile.get(setting)
    return value if isinstance(value, str) else None
