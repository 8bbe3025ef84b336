"""Baselines: scored runs that later runs are compared with, kept in the store.

    <store>/baselines/suite_<suite>/<name>/000001.json, 000002.json, …

An entry is never changed. The first is the anchor: promotion adds entries and does not move it, so that many small
losses add up visibly. Garbage collection keeps every artifact that an entry names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from pydantic import AwareDatetime, Field, ValidationError

from gage_eval.base.canonical import decode
from gage_eval.base.errors import InputError, closest
from gage_eval.base.processes import user_name
from gage_eval.base.stages import Stage
from gage_eval.base.strict_model import StrictModel
from gage_eval.regression.compare import NoiseFloor, noise_floor
from gage_eval.regression.policy import GatePolicy, declared_numbers
from gage_eval.regression.scored_task import ScoredTask
from gage_eval.runs.baseline_files import DIGITS, ENTRY, FOLDER, entries_of, folder_of, suite_of
from gage_eval.runs.names import is_name
from gage_eval.runs.record import ProbeRecord, StageRecord
from gage_eval.runs.results.reading import RunReader, TaskReader
from gage_eval.stats.evidence import REPEATS_ADVISED
from gage_eval.stats.gate_rule import GateRule
from gage_eval.store import Store


class BaselineTask(StrictModel):
    """A task of one run: its stages with their keys and artifacts, and the scores of its metrics."""

    stages: dict[Stage, StageRecord]
    scores: dict[str, str] = Field(description="Scores artifact by metric id; garbage collection keeps them.")
    probe: ProbeRecord | None = Field(None, description="What gage probe knew of its model when the run began.")


class BaselineRun(StrictModel):
    """One repeat."""

    run_id: str
    created: AwareDatetime
    config_digest: str
    tasks: dict[str, BaselineTask]


@dataclass(frozen=True)
class BaselineScore:
    """A task's first number in one repeat."""

    run_id: str
    task_id: str
    metric: str
    value: float | None


class BaselineEntry(StrictModel):
    """One state of a baseline.

    Attributes:
        number: 1 for the anchor.
        why: ``set`` for the first one, ``promoted`` for all later ones.
        runs: the repeats.
        policy: which numbers decide at the gate; None where each task's first one does.
    """

    schema_version: Literal[1] = 1
    suite: str
    name: str
    number: int
    created: AwareDatetime
    by: str
    why: Literal["set", "promoted"]
    runs: list[BaselineRun]
    policy: GatePolicy | None = None

    def tasks(self, store: Store, task_id: str) -> list[ScoredTask]:
        """A task in every repeat.

        Raises:
            InputError: the baseline has no such task.
        """
        tasks = []
        for run in self.runs:
            if task_id not in run.tasks:
                known = ", ".join(run.tasks)
                raise InputError(f"baseline '{self.name}' has no task '{task_id}'. Tasks: {known}.")
            task = run.tasks[task_id]
            outputs: dict[str, dict[str, str]] = {
                stage: record.outputs for stage, record in task.stages.items() if record.outputs
            }
            tasks.append(ScoredTask(run.run_id, TaskReader(store, task_id, outputs), task.stages, task.probe))
        return tasks


class Baselines:
    """The baselines of a store.

    Args:
        store: the store; it must not be read-only to set one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def names(self) -> list[tuple[str, str]]:
        """(suite, name) of every baseline."""
        entries = (ENTRY.fullmatch(item.path) for item in self._store.objects.list(FOLDER))
        return sorted({(suite_of(entry[1]), entry[2]) for entry in entries if entry is not None})

    def history(self, suite: str, name: str, *, run_id: str = "RUN") -> list[BaselineEntry]:
        """All entries of a baseline, the anchor first.

        Args:
            suite, name: which.
            run_id: a run that could become the baseline, for the error if there is none.

        Raises:
            InputError: there is no such baseline, or an entry is damaged.
        """
        items = entries_of(self._store, suite, name)
        if not items:
            names = self.names()
            known = [known_name for of, known_name in names if of == suite]
            others = f"Baselines of '{suite}': {', '.join(known)}." if known else f"'{suite}' has none yet."
            if elsewhere := [of for of, known_name in names if known_name == name]:
                others += (
                    f" A baseline '{name}' is of {elsewhere[0]!r}: runs share baselines if metadata.name is the same."
                )
            where = f" --store {self._store.url}" if "://" in self._store.url else ""
            raise InputError(
                f"no baseline '{name}'. {others}{closest(name, known)} To make one: gage baseline set {name} {run_id} "
                f"--repeats {REPEATS_ADVISED}{where}"
            )
        return [self._read(path) for path in items]

    def suite_of(self, name: str, suite: str | None = None) -> str:
        """The suite of a baseline; it may be left out when only one suite has a baseline of that name.

        Raises:
            InputError: no suite has one, or several have.
        """
        if suite is not None:
            return suite
        suites = [of for of, known_name in self.names() if known_name == name]
        if len(suites) != 1:
            known = sorted({known_name for _, known_name in self.names()})
            if suites:
                raise InputError(
                    f"several suites have a baseline '{name}': name one with --suite: {', '.join(suites)}."
                )
            raise InputError(f"no baseline '{name}'. Baselines: {', '.join(known) or 'none'}.{closest(name, known)}")
        return suites[0]

    def check_new(self, suite: str, name: str, run_id: str) -> None:
        """Refuse a name that a new baseline cannot have.

        Raises:
            InputError: it is taken, or is not a plain name.
        """
        if not is_name(name):
            raise InputError(f"'{name}' cannot be the name of a baseline: use letters, digits, '.', '_' and '-'.")
        if (suite, name) in self.names():
            raise InputError(
                f"baseline '{name}' of '{suite}' exists. To move it: gage baseline promote {name} {run_id}"
            )

    def scores(self, entry: BaselineEntry) -> list["BaselineScore"]:
        """The first number of each task in each repeat."""
        scores = []
        for repeats in zip(*(entry.tasks(self._store, task_id) for task_id in entry.runs[0].tasks), strict=True):
            for task in repeats:
                number = task.reader.number()
                value = task.reader.number_row(number)["value"]
                scores.append(BaselineScore(task.name, task.reader.task_id, number.name, value))
        return scores

    def noise_floors(self, entry: BaselineEntry) -> dict[str, NoiseFloor]:
        """How much the first number of each task moves between the repeats; empty for one run."""
        floors = {task_id: noise_floor(entry.tasks(self._store, task_id)) for task_id in entry.runs[0].tasks}
        return {task_id: floor for task_id, floor in floors.items() if floor is not None}

    def latest(self, suite: str, name: str) -> BaselineEntry:
        """The newest entry, which runs are compared with.

        Raises:
            InputError: there is no such baseline, or it is damaged.
        """
        return self.history(suite, name)[-1]

    def add(
        self, name: str, runs: Sequence[RunReader], *, promote: bool, policy: GatePolicy | None = None
    ) -> BaselineEntry:
        """Add an entry: the first one, or with ``promote`` a later one.

        Args:
            name: of the baseline.
            runs: repeats of one run.
            promote: add an entry to an existing baseline.
            policy: which numbers decide at the gate; with ``promote``, that of the entry before by default.

        Raises:
            ConfigError: the policy does not fit the run.
            InputError: a run cannot be a baseline, or the baseline exists already, or does not exist yet.
        """
        suite = runs[0].stored.record.name
        number = 1
        if promote:
            before = self.latest(suite, name)
            number, policy = before.number + 1, policy or before.policy
        else:
            self.check_new(suite, name, runs[0].run_id)
        declared_numbers(policy, GateRule(), runs[0].task_ids, lambda name, of: runs[0].task(name).number(of))
        entry = BaselineEntry(
            suite=suite,
            name=name,
            number=number,
            created=datetime.now(UTC),
            by=user_name(),
            why="promoted" if promote else "set",
            runs=[_of_run(run) for run in runs],
            policy=policy,
        )
        path = f"{folder_of(suite)}/{name}/{number:0{DIGITS}}.json"
        if not self._store.objects.create(path, entry.model_dump_json(indent=1, exclude_none=True).encode()):
            raise InputError(f"entry {number} of baseline '{name}' has just been set by another process. Try again.")
        return entry

    def _read(self, path: str) -> BaselineEntry:
        try:
            return BaselineEntry.model_validate(decode(self._store.objects.get(path)))
        except (ValueError, ValidationError) as error:
            raise InputError(f"{path} in the store is damaged ({str(error).splitlines()[0]}). Restore it.") from error


def check_usable(run: RunReader) -> None:
    """Refuse a run that cannot be a baseline.

    Raises:
        InputError: it has not finished, lacks answers, or cannot be repeated: its data are not pinned, or the logic of
            a suite was modified.
    """
    if run.stored.status != "completed":
        raise InputError(
            f"run {run.run_id} is {run.stored.state}, so it cannot be a baseline. Finish it first: "
            f"{run.stored.folder.again}"
        )
    record = run.stored.record
    if not record.pinned:
        raise InputError(
            f"run {run.run_id} cannot be a baseline: some of its data are on the Hugging Face hub without a fixed "
            f"commit. Pin them (gage pin {record.name}), then run again."
        )
    if record.suite is not None and record.suite.modified:
        raise InputError(
            f"run {run.run_id} cannot be a baseline: the logic of suite '{record.suite.name}' was modified "
            f"({', '.join(record.suite.modified)}). Run it as it is, or make it a config of your own."
        )
    for (task_id, stage), stage_record in run.stored.stages.items():
        if not stage_record.complete:
            raise InputError(
                f"run {run.run_id} cannot be a baseline: {stage} of task '{task_id}' has rows that ended in error. "
                f"Ask them again: gage resume {run.run_id} --only-errors"
            )


def _of_run(run: RunReader) -> BaselineRun:
    check_usable(run)
    record = run.stored.record
    tasks = {
        task_id: BaselineTask(
            stages=run.stored.stages_of(task_id),
            scores={metric_id: artifact.id for metric_id, artifact in run.task(task_id).scores.items()},
            probe=record.probe_of(task_id),
        )
        for task_id in run.task_ids
    }
    return BaselineRun(run_id=run.run_id, created=record.created, config_digest=record.config.digest, tasks=tasks)
