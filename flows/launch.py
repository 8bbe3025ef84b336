"""Start a flow run in this process, and deploy flows, for the command line and the Python API."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from gage_eval.base.errors import ConfigError, GageError, InputError
from gage_eval.base.liveness import LOST_AFTER_S
from gage_eval.base.packaged import packages_beside
from gage_eval.config.overrides import refuse_secrets
from gage_eval.config.secrets import literals, scrub
from gage_eval.engine.host import SharedEngines
from gage_eval.local.deployments import POOL
from gage_eval.local.server import running_url
from gage_eval.models.backends.base import Blocks
from gage_eval.models.backends.placement import HERE
from gage_eval.observability.events import RunWarning
from gage_eval.observability.observer import Observer
from gage_eval.regression.nightly import Nightly
from gage_eval.regression.nightly_files import NightlyFiles, nightly_files
from gage_eval.runs import RunOptions, RunOutcome
from gage_eval.runs.bundling import RunFiles, Submission, lacks, pack
from gage_eval.runs.deployed import DeploymentRecord
from gage_eval.runs.folder import has_run
from gage_eval.runs.names import new_name, slug
from gage_eval.runs.options import BLOCK_PREFIX, Locations
from gage_eval.runs.record import FlowRunRecord, reported
from gage_eval.runs.results.stored import StoredRun
from gage_eval.store import Store, local_folder

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

    from flows.own import OwnRun
    from gage_eval.local.deployments import DeploymentChange, DeployOptions

_NAME_TRIES = 20


def launch(
    options: RunOptions,
    api_url: str,
    observers: Sequence[Observer] = (),
    *,
    named_store: str | None = None,
    host: SharedEngines | None = None,
) -> RunOutcome:
    """Carry out a run in this process, as a flow run at a Prefect API.

    Args:
        options: what is asked.
        api_url: the API, as in PREFECT_API_URL.
        observers: receive the run's events.
        named_store: the store as a retry on a worker shall open it, if it is given by a block.
        host: keeps engines running for other runs; by default the engines of this run stop at its end.

    Raises:
        InputError: the API does not answer at the start.
        GageError: what stopped the run; everything computed is kept.
        RunCancelled: the flow run was cancelled.
    """
    with _prefect():
        from blocks import settings_at
        from flows.own import OwnRun
        from flows.submit import flow_of
    from prefect.settings import temporary_settings

    with temporary_settings(settings_at(api_url)):
        options = options.model_copy(update={"run_id": options.run_id or _free_name(options)})
        flow_run, record, anywhere = _start(options, api_url, named_store, observers)
        own = OwnRun(options, record, observers, host)
        try:
            # Plug-ins may import the user's packages that are called flows, tasks or blocks, too.
            with packages_beside():
                flow, parameters = flow_of(anywhere)
            own.carry_out(flow, parameters, flow_run)
        finally:
            _close(own)
        assert own.outcome is not None, "a run that does not complete raises"
        return own.outcome


def submit(
    options: RunOptions, api_url: str, *, named_store: str | None = None, tell: Callable[[str], None]
) -> Submission:
    """Have a worker carry out a run. The config, its plug-ins and small data go into the store.

    A run with a work pool is carried out there as a whole, next to the engine that it starts.

    Args:
        options: what is asked.
        api_url: the API.
        named_store: the store as the worker shall open it, if it is given by a block.
        tell: receives a sentence for each thing that the worker must have itself, before the run is submitted.

    Raises:
        ConfigError: the mistakes of the config, as far as they can be found without its plug-ins.
        InputError: something that the run needs cannot travel, the name is taken, or the API does not answer.
        StoreError: the files cannot be stored.
    """
    with _prefect():
        from flows.api import patient_client
        from flows.forms import parameters_of
        from flows.submit import deployment_of, for_any_folder
    from prefect.utilities.urls import url_for

    _refuse_secrets(options)
    options = options.model_copy(update={"run_id": options.run_id or _free_name(options)})
    places = Locations.at(options.store, options.output_dir)
    if not options.resume and has_run(places, str(options.run_id)):
        raise InputError(f"run '{options.run_id}' exists already; choose another name, or resume it.")
    whole_on = options.work_pool if options.work_pool != HERE else None
    if whole_on is not None:
        options = options.model_copy(update={"work_pool": HERE})
    packed = pack(options, blocks_at(api_url), strict=True)
    with _asking(api_url, "the run"), patient_client(api_url, tell) as client:
        deployment = deployment_of(client, options, whole_on)
        pool = deployment.work_pool_name or POOL
        for note in lacks(packed, places.store, pool if pool != POOL else None):
            tell(note)
        # The worker of this folder loads code from the folder's own files, and no run names the bundle yet.
        is_here = options.text is None and api_url == running_url()
        portable = for_any_folder(options, None if is_here else _stored(packed, places), named_store)
        _, parameters = parameters_of(portable, as_config=whole_on is not None)
        run = client.create_flow_run_from_deployment(
            deployment.id, name=options.run_id, parameters=parameters, idempotency_key=str(uuid4())
        )
        return Submission(run.name, pool, url_for("flow-run", obj_id=run.id))


def blocks_at(api_url: str) -> Blocks:
    """The blocks of an API."""
    with _prefect():
        from blocks import PrefectBlocks

    return PrefectBlocks(api_url)


def store_of_block(api_url: str, name: str) -> str:
    """The URL of the store that a block names, ``block:NAME``. The block's S3 settings count for this process.

    Raises:
        InputError: the API does not answer, or has no such block.
    """
    with _prefect():
        from blocks import open_store, settings_at
    from prefect.settings import temporary_settings

    with _asking(api_url, "the block"), temporary_settings(settings_at(api_url)):
        return open_store(name) or name


def register_blocks(api_url: str) -> list[str]:
    """Bring the types of our blocks to a server. Returns their names.

    Raises:
        InputError: the API does not answer or refuses.
    """
    with _prefect():
        from blocks import BLOCKS, settings_at
    from prefect.settings import temporary_settings

    with _asking(api_url, "the blocks"), temporary_settings(settings_at(api_url)):
        for block in BLOCKS:
            block.register_type_and_schema(_sync=True)  # type: ignore[call-arg]
    return [block.get_block_type_name() for block in BLOCKS]


def report_ended_runs(api_url: str, runs: Iterable[StoredRun]) -> None:
    """Report to an API the ends of runs whose own process could not. Does nothing if the API does not answer."""
    with _prefect():
        from flows.ended_runs import report_at
    report_at(api_url, runs)


def deploy(api_url: str, options: "DeployOptions", tell: Callable[[str], None]) -> "list[DeploymentChange]":
    """Bring all deployments to the server of an API. Those that are the same already stay untouched.

    Runs that were lost while the server was away are resumed.

    Args:
        api_url: the API.
        options: what is brought.
        tell: receives a sentence for each thing that the workers of nightly runs must have themselves.

    Raises:
        InputError: the API does not answer or refuses, has no such work pool or store block, or something that a
            nightly run needs cannot travel.
        StoreError: the files of nightly runs cannot be stored.
    """
    with _prefect():
        from flows.api import patient_client
        from flows.automations import ensure_automations
        from flows.deploy import deploy_all, nightly_deployment
        from flows.lost_runs import lost_run_automations, resume_lost
        from flows.night_automations import check_addresses, night_automations, remove_unwanted
    from gage_eval.local.deployments import all_deployments

    if options.store.startswith(BLOCK_PREFIX):
        store_of_block(api_url, options.store)
    night = None if options.nightly is None else _read_night(options, options.nightly, api_url, tell)
    deployments = all_deployments(options.gpu_pools, options.box_pools)
    automations = lost_run_automations(options.lost_after_s)
    if night is not None and options.nightly is not None:
        text = options.nightly.read_text(encoding="utf-8")
        deployments.append(nightly_deployment(night.nightly, text, night.configs))
    with _asking(api_url, "the deployments"), patient_client(api_url, tell) as client:
        if night is not None:
            check_addresses(client, night.nightly)
            if not options.dry_run:
                night.put()
        done = deploy_all(client, deployments, options)
        if night is not None:
            if not options.dry_run:
                there = client.read_deployment_by_name(f"nightly/{slug(night.nightly.name)}")
                night.keep(scrub(api_url), deployment_id=str(there.id), flow_id=str(there.flow_id))
            automations |= night_automations(client, night.nightly, dry_run=options.dry_run)
        done += ensure_automations(client, automations, dry_run=options.dry_run)
        if night is not None:
            done += remove_unwanted(client, night.nightly, automations, dry_run=options.dry_run)
        if not options.dry_run:
            resume_lost(client, is_local=options.working_dir is not None)
        return done


def _read_night(options: "DeployOptions", file: Path, api_url: str, tell: Callable[[str], None]) -> NightlyFiles:
    """A file of nightly runs, with what its configs need."""
    with packages_beside():
        from flows.deploy import check_schedule

    store = options.store
    url = store_of_block(api_url, store) if store.startswith(BLOCK_PREFIX) else store
    nightly = Nightly.read(file)
    check_schedule(nightly.schedule)
    night = nightly_files(nightly, file.parent.absolute(), Locations.at(url), blocks_at(api_url))
    for note in night.lacks(options.pool if options.pool != POOL else None):
        tell(note)
    return night


def deleted_deployments(api_url: str, records: Sequence[DeploymentRecord]) -> Collection[DeploymentRecord]:
    """The deployments of nightly runs that were deleted at the server of an API.

    Args:
        api_url: the API.
        records: deployments of this server and of others. Those of others are not returned.

    Raises:
        InputError: the server does not answer, or refuses.
    """
    with _prefect():
        from flows.deleted import deleted_at

    return deleted_at(api_url, records)


def automations() -> list[dict[str, Any]]:
    """The automations of every server, as ``prefect automation create --from-file`` reads them."""
    with _prefect():
        from flows.automations import rendered
        from flows.lost_runs import lost_run_automations

    return [
        rendered(automation) for automation in lost_run_automations(LOST_AFTER_S).values() if automation is not None
    ]


@contextmanager
def _prefect() -> Iterator[None]:
    """Let Prefect and the packages that use it be imported, without a server in this process and without log lines."""
    settings = {
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        # A command prints what its user needs. What the server does not take is said once, in a sentence.
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    }
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    with packages_beside():
        yield


def _start(
    options: RunOptions, api_url: str, named_store: str | None, observers: Sequence[Observer]
) -> "tuple[FlowRun, FlowRunRecord, RunOptions]":
    """Create the flow run, Pending. Returns it, its record, and the options for a worker that retries it."""
    with packages_beside():
        from flows.api import patient_client
        from flows.submit import create_flow_run, for_any_folder
    from prefect.utilities.urls import url_for

    _refuse_secrets(options)
    bundle = _files_for_a_retry(options, api_url, observers)
    anywhere = for_any_folder(options, bundle, named_store)
    with (
        _asking(api_url, "the run", ", or run with --inline"),
        patient_client(api_url, lambda text: _warn(observers, text)) as client,
    ):
        run = create_flow_run(client, anywhere)
    record = FlowRunRecord(
        flow_run_id=str(run.id),
        flow_run_name=run.name,
        url=url_for("flow-run", obj_id=run.id),
        bundle=bundle,
        unreported_at=scrub(api_url),
    )
    return run, record, anywhere


def _close(own: "OwnRun") -> None:
    """Record whether the server knows the end of a run; if not, say so unless that was said."""
    if not own.is_reported:
        if own.page is None or not own.page.is_silent:
            _warn(own.observers, "the Prefect API does not answer; its page of the run may be out of date.")
    elif own.session is not None:
        with suppress(GageError):
            own.session.folder.update(reported)


def _refuse_secrets(options: RunOptions) -> None:
    """Refuse options with a secret: the server would keep them as parameters of the flow run.

    Raises:
        InputError: one holds a secret.
    """
    refuse_secrets(options.overrides)
    # The text of a config is checked with its places.
    for name, value in options.model_dump(mode="json", exclude={"overrides", "text"}).items():
        for problem in literals(value if isinstance(value, list) else [value], {}):
            raise InputError(f"--{name.replace('_', '-')}: {problem.message}")


def _files_for_a_retry(options: RunOptions, api_url: str, observers: Sequence[Observer]) -> str | None:
    """Store what a worker needs to retry a run of this process. Returns the bundle; None if the run cannot travel."""
    places = Locations.at(options.store, options.output_dir)
    try:
        # A config with mistakes is not stored: one may be a literal secret.
        packed = pack(options, blocks_at(api_url), strict=True)
    except ConfigError:
        raise
    except InputError:
        return None  # The run itself reports a config that cannot be used.
    if packed is not None and packed.stays and local_folder(places.store) is None:
        _warn(observers, f"a worker on another machine cannot retry this run. {' '.join(packed.stays)}")
    return _stored(packed, places)


def _warn(observers: Sequence[Observer], text: str) -> None:
    for observer in observers:
        observer.emit(RunWarning(text))


def _stored(packed: RunFiles | None, places: Locations) -> str | None:
    """The bundle of a run's files in the store; None for a run without files, or one that cannot travel."""
    return None if packed is None else packed.put(Store.open(places.store))


@contextmanager
def _asking(api_url: str, what: str, otherwise: str = "") -> Iterator[None]:
    """Say in a sentence that an API does not answer, or refuses what is asked of it inside.

    Raises:
        InputError: it does not answer or refuses.
    """
    try:
        yield
    except GageError:
        raise
    except Exception as problem:
        with packages_beside():
            from flows.api import is_unanswered, lacks_login

        reason = type(problem).__name__
        if lacks_login(problem):
            text = "asks for a login: set PREFECT_API_AUTH_STRING to its user:password"
        elif is_unanswered(problem):
            text = f"does not answer ({reason}). Start it or unset PREFECT_API_URL"
        else:
            text = f"refused {what} ({reason}: {scrub(str(problem).partition(chr(10))[0])}). Read its log"
        raise InputError(f"the Prefect API at {scrub(api_url)} {text}{otherwise}.") from problem


def _free_name(options: RunOptions) -> str:
    """A name that no run in these locations has yet."""
    locations = Locations.at(options.store, options.output_dir)
    names = (new_name() for _ in range(_NAME_TRIES))
    return next((name for name in names if not has_run(locations, name)), new_name())
