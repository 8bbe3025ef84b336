"""From the options of a run to its plan: the config, the store and the specs of every stage."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.config.load import LoadedConfig
from gage_eval.config.models import PipelineConfig
from gage_eval.config.problems import unknown
from gage_eval.models.backends.base import BackendContext, Blocks
from gage_eval.models.backends.engines import Engines
from gage_eval.models.backends.placement import HERE
from gage_eval.observability.observer import Observer
from gage_eval.pipeline.plan import make_plan
from gage_eval.pipeline.specs import Plan
from gage_eval.runs.baseline_files import baseline_scores
from gage_eval.runs.fetching import data_cache, fetch_data
from gage_eval.runs.options import Locations, RunOptions, bundle_of, load
from gage_eval.runs.results.stored import StoredRun
from gage_eval.runs.resume import options_here
from gage_eval.store import Store


class PlannedRun:
    """Config, store and plan of some options. Created by `planned`.

    Attributes:
        options: the options of the run.
        locations: where artifacts and run folders are stored.
        loaded: the config.
        data: where the files of pinned origins lie.
        plan: the specs of all tasks.
    """

    def __init__(
        self,
        options: RunOptions,
        source: str | None,
        blocks: Blocks | None,
        engines: Engines | None = None,
        *,
        read_only: bool,
    ) -> None:
        self.options = options
        self.locations = Locations.at(options.store, options.output_dir)
        self._read_only = read_only
        # Backends are built while the config is checked, but they may read media only during the run.
        context = BackendContext(
            media=lambda url: self.store.media.get(url),
            media_file=lambda url: self.store.media.path(url),
            media_link=lambda url, media_type: self.store.media.link(url, media_type),
            keep=lambda data: self.store.media.put(data),
            job_ids=lambda endpoint: self.store.job_ids(endpoint),
            blocks=blocks,
            engines=engines or Engines(),
        )
        self.loaded: LoadedConfig = load(options, source, context)
        self.data = data_cache(options.data_dir)
        self.plan: Plan = make_plan(
            self.loaded,
            options.sample_ids,
            self.data,
            options.work_pool,
            quick=options.quick,
            task_ids=options.task_ids,
            answers_of=self._answers_of,
            baseline_of=self._baseline_of,
        )

    def fetch_data(self, observer: Observer) -> None:
        """Bring the data files that are missing into the data cache.

        Raises:
            InputError: a file cannot be fetched, or is not the pinned one.
        """
        fetch_data(self.plan.origin_files, self.data, observer)

    def _answers_of(self, run_id: str, task_id: str) -> str:
        """The artifact with the answers of a task of a stored run.

        Raises:
            InputError: there is no such run or task, or the run has not asked its model yet.
        """
        stored = StoredRun.open(self.locations, run_id)
        known = {name for name, _ in stored.stages}
        if task_id not in known:
            raise InputError(
                f"against: {unknown('task', task_id, dict.fromkeys(sorted(known)))} Name one of run {run_id} with "
                "against.task."
            )
        outputs = stored.outputs.get((task_id, "infer"))
        if outputs is None:
            raise stored.unfinished(task_id, "infer")
        return outputs["responses"]

    def _baseline_of(self, baseline: str, task_id: str, metric_id: str) -> tuple[str, ...]:
        """The artifacts of a metric's scores in a baseline of this config or suite."""
        suite = self.loaded.config.metadata.name or Path(self.loaded.source).stem
        return baseline_scores(self.store, suite, baseline, task_id, metric_id)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user must know before models are asked, in sentences."""
        no_effect = self.options.work_pool not in (None, HERE) and not any(task.placed for task in self.plan.tasks)
        pool = ["the work pool has no effect: no model of this run needs an engine."] if no_effect else []
        return (*self.loaded.warnings, *pool)

    @cached_property
    def store(self) -> Store:
        """The store, opened on first use, because validating a config needs none."""
        return Store.open(self.locations.store, read_only=self._read_only)


def planned(
    options: RunOptions, *, blocks: Blocks | None = None, engines: Engines | None = None, read_only: bool = False
) -> PlannedRun:
    """Load the config that the options name and make its plan.

    Args:
        options: what is asked.
        blocks: the blocks of the Prefect API, if there is one.
        engines: those that several runs share; by default the run has its own.
        read_only: open the store for reading only.

    Raises:
        InputError: the config or the options cannot be used.
    """
    return PlannedRun(options, None, blocks, engines, read_only=read_only)


def planned_before(stored: StoredRun) -> PlannedRun:
    """The plan of an earlier run, from the config that the run stored. The file may have changed since.

    The store is opened read-only.

    Raises:
        InputError: the config can no longer be used.
    """
    options = options_before(stored)
    return PlannedRun(
        options, f"the config of run {stored.run_id}", _RecordedBlocks(stored.record.config.blocks), read_only=True
    )


def config_before(stored: StoredRun) -> PipelineConfig:
    """The config of an earlier run, without a look at its data.

    Raises:
        InputError: it can no longer be used.
    """
    context = BackendContext(blocks=_RecordedBlocks(stored.record.config.blocks))
    return load(options_before(stored), f"the config of run {stored.run_id}", context).config


class _RecordedBlocks:
    """The blocks of an earlier run, as it recorded them. They may have changed since."""

    def __init__(self, backends: Mapping[str, Mapping[str, Any]]) -> None:
        self._backends = backends

    def secret(self, name: str) -> str:
        raise InputError(f"the record of a run holds no secrets, so block '{name}' cannot be read from it.")

    def backend(self, name: str) -> Mapping[str, Any]:
        if name not in self._backends:
            raise InputError(f"the record of the run does not hold block '{name}': run the config again.")
        return self._backends[name]


def options_before(stored: StoredRun) -> RunOptions:
    """The options of an earlier run, with the config as the run kept it."""
    locations = stored.folder.locations
    here = {"store": locations.store, "output_dir": locations.runs}
    options = RunOptions.of({**options_here(stored.record), **here})
    if bundle_of(options.config) is not None:
        return options
    update: dict[str, Any] = {"config": str(options.base_dir), "text": stored.record.config.text}
    # A config without a name is called like its file, and a text has no file.
    if stored.record.suite is None and stored.record.name == Path(options.config).stem:
        update["overrides"] = (*options.overrides, f"metadata.name={stored.record.name}")
    return options.model_copy(update=update)
