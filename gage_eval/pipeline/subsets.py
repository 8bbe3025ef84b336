"""Some of a task's samples, chosen by the subjects that groups and slices name: ``mmlu[anatomy,high_school_*]``."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

import pyarrow as pa

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError, closest
from gage_eval.base.field_paths import MISSING, compile_path
from gage_eval.config.load import LoadedConfig
from gage_eval.config.resolve import ResolvedTask
from gage_eval.data.sample.table import rows_of
from gage_eval.scoring.metrics.grouping import labels_of

_CHOICE = re.compile(r"(?P<tasks>[^\[\]]+?)(?:\[(?P<names>[^\[\]]*)\])?\s*")
_SHOWN = 12
_LONGEST = 60


@dataclass(frozen=True)
class Subset:
    """Which samples of a task are prepared: those with one of the names in one of the fields.

    Attributes:
        fields: paths of the sample, such as ``data_tag.subject``.
        names: names and patterns with ``*`` and ``?``; upper and lower case are the same.
        limit: at most this many of the samples, the first.
    """

    fields: tuple[str, ...]
    names: tuple[str, ...]
    limit: int | None = None

    def material(self) -> JsonValue:
        return {"fields": list(self.fields), "names": sorted(self.names), "limit": self.limit}


@dataclass
class SubsetFilter:
    """Chooses the rows of a subset from tables of samples, one after the other."""

    subset: Subset
    _left: int = field(init=False)
    _seen: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._left = -1 if self.subset.limit is None else self.subset.limit
        self._paths = [compile_path(text) for text in self.subset.fields]

    @property
    def columns(self) -> frozenset[str]:
        """The columns of samples that it reads."""
        return frozenset[str]().union(*(path.sample_columns for path in self._paths))

    def of(self, samples: pa.Table) -> pa.Table:
        """The rows of the subset."""
        kept = []
        for place, row in enumerate(rows_of(samples, self.columns)):
            values = [path.get(row) for path in self._paths]
            subjects = [name for value in values if value is not MISSING for name in labels_of(value)]
            self._seen.update(dict.fromkeys(subjects))
            if self._left and any(_fits(subject, name) for subject in subjects for name in self.subset.names):
                self._left -= 1
                kept.append(place)
        return samples.take(pa.array(kept, pa.int64()))

    def check(self, task_id: str) -> None:
        """Refuse names that no sample has.

        Raises:
            InputError: there is one; the message names close ones.
        """
        for name in self.subset.names:
            if not any(_fits(subject, name) for subject in self._seen):
                raise _unknown(f"task '{task_id}'", name, self._seen)


def chosen_tasks(loaded: LoadedConfig, choices: Sequence[str]) -> list[tuple[ResolvedTask, Subset | None]]:
    """The tasks that ``--task`` names, in the config's order, each with the subset of its samples; None for all.

    Args:
        loaded: the config.
        choices: each a task's id, a pattern of ids, or the name of a group or of the suite, and in brackets the
            subjects of it: ``mmlu[anatomy,high_school_*]``. No choice is all tasks.

    Raises:
        InputError: no task or subject is called so.
    """
    if not choices:
        return [(task, None) for task in loaded.tasks]
    wanted: dict[str, list[str] | None] = {}
    for text in choices:
        read = _CHOICE.fullmatch(text)
        if read is None:
            raise InputError(f"--task '{text}': write a task's name, or task[subject,subject].")
        tasks = _tasks_called(loaded, read["tasks"].strip())
        if read["names"] is None:
            wanted.update(dict.fromkeys((task.task.task_id for task in tasks), None))
        else:
            for task_id, names in _by_subject(loaded, tasks, read["names"], text):
                before = wanted.get(task_id, [])
                wanted[task_id] = None if before is None or names is None else [*dict.fromkeys([*before, *names])]
    chosen: list[tuple[ResolvedTask, Subset | None]] = []
    for task in loaded.tasks:
        if task.task.task_id in wanted:
            names = wanted[task.task.task_id]
            subset = (
                None if names is None else Subset(subject_fields(loaded, task), tuple(names), task.task.max_samples)
            )
            chosen.append((task, subset))
    return chosen


def _tasks_called(loaded: LoadedConfig, name: str) -> Sequence[ResolvedTask]:
    if tasks := [task for task in loaded.tasks if fnmatchcase(task.task.task_id, name)]:
        return tasks
    groups = {group.group_id: group.tasks for group in loaded.config.groups}
    if name in groups:
        return [task for task in loaded.tasks if task.task.task_id in groups[name]]
    if loaded.suite is not None and name == loaded.suite.name:
        return loaded.tasks
    known = [task.task.task_id for task in loaded.tasks]
    hint = closest(name, [*known, *groups])
    for task in loaded.tasks if not hint else ():
        subjects = _known(loaded, task)
        if subject_fields(loaded, task) and (subjects is None or _any_fits(subjects, name)):
            hint = f" A subject is named in brackets: --task '{task.task.task_id}[{name}]'."
            break
    raise InputError(f"no task '{name}' in {loaded.source}. Tasks: {', '.join(known)}.{hint}")


def _by_subject(
    loaded: LoadedConfig, tasks: Sequence[ResolvedTask], listed: str, text: str
) -> Iterator[tuple[str, list[str] | None]]:
    """The tasks that have subjects of these names, each with the names; None for the whole of a task."""
    groups = {group.group_id: group.values for group in loaded.config.groups if group.values}
    written = [name for part in listed.split(",") if (name := part.strip())]
    names = [value for name in written for value in groups.get(name, [name])]
    if not names:
        raise InputError(f"--task '{text}': name the subjects in the brackets, as in task[subject,subject].")
    whole = [task.task.task_id for task in tasks if len(tasks) > 1]
    parts = {task.task.task_id: task for task in tasks if subject_fields(loaded, task)}
    subjects = {task_id: _known(loaded, task) for task_id, task in parts.items()}
    for name in names:
        called = [task_id for task_id in whole if _fits(task_id, name)]
        having = [task_id for task_id, known in subjects.items() if known is None or _any_fits(known, name)]
        if not called and not having:
            if not parts and not whole:
                raise InputError(
                    f"task '{tasks[0].task.task_id}' has no subjects to choose from: no group has a field 'by', and no "
                    "metric has slices. Give a metric slices, such as [metadata.topic]."
                )
            having_files = (subject for known in subjects.values() for subject in known or ())
            raise _unknown(f"'{text.partition('[')[0]}'", name, [*whole, *having_files])
        yield from ((task_id, None) for task_id in called)
        yield from ((task_id, [name]) for task_id in having if not called)


def subject_fields(loaded: LoadedConfig, task: ResolvedTask) -> tuple[str, ...]:
    """The fields of a task's samples that groups and slices go by."""
    task_id = task.task.task_id
    by = [group.by for group in loaded.config.groups if group.by is not None and task_id in group.tasks]
    slices = [path.text for metric in loaded.metrics[task_id] for path in metric.grouping.slices]
    return tuple(text for text in dict.fromkeys([*by, *slices]) if compile_path(text).root == "sample")


def _known(loaded: LoadedConfig, task: ResolvedTask) -> list[str] | None:
    """The subjects of a task whose data have a file for each; None where only the samples tell them."""
    params = task.dataset.params
    source = (params.model_extra or {}).get("source_field")
    if params.origin is None or not any(text == f"data_tag.{source}" for text in subject_fields(loaded, task)):
        return None
    from gage_eval.config.data_origins import load_origin
    from gage_eval.config.models import origin_patterns
    from gage_eval.data.datasets.origins import origin_paths
    from gage_eval.data.standardize.subjects import SPLIT

    files = origin_paths(load_origin(params.origin, loaded.base_dir), origin_patterns(params)["path"])
    return [SPLIT.sub("", PurePosixPath(file.path).name.partition(".")[0]) for file in files]


def _fits(subject: str, name: str) -> bool:
    return fnmatchcase(subject.casefold(), name.casefold())


def _any_fits(subjects: Iterable[str], name: str) -> bool:
    return any(_fits(subject, name) for subject in subjects)


def _unknown(where: str, name: str, known: Iterable[str]) -> InputError:
    names = sorted({" ".join(subject.split())[:_LONGEST] for subject in known})
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    hint = closest(name, names) or f" Subjects: {', '.join(names[:_SHOWN]) or 'none'}{more}."
    return InputError(f"{where} has no subject '{name}'.{hint}")
