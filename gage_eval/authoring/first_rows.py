"""The first rows of a dataset, to find before a run the fields that its preprocessor or its metrics cannot read.

Reads only a few records, from local files and from the config, and only with built-in code.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from gage_eval.base.errors import InputError, Problem, closest
from gage_eval.base.field_paths import MISSING, reference_texts, walk
from gage_eval.base.field_paths import Path as FieldPath
from gage_eval.data.datasets.base import Record
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.standardize.compose import build
from gage_eval.extend import registry
from gage_eval.pipeline.specs import LoadSpec, TaskPlan
from gage_eval.pipeline.standardize import to_standard
from gage_eval.scoring.metrics import BoundMetric
from gage_eval.store.media import media_url

_LOADERS = frozenset({"jsonl", "csv", "tsv", "json", "parquet", "xlsx", "inline", "hf_hub"})
_ROWS = 200
_SHOWN = 20
# A JSON file cannot be read in part.
_LONGEST_DOCUMENT = 32 * 1024 * 1024


def lacking_fields(task: TaskPlan) -> list[Problem]:
    """Fields that the preprocessor or the metrics of a task cannot read in its first rows; empty if that is unknown.

    The preprocessor is at fault only if it rejects all of these rows: the run says which single ones are wrong.
    """
    samples: list[dict[str, Any]] = []
    rejected: list[str] = []
    for outcome in first_samples(task):
        if isinstance(outcome, str):
            rejected.append(outcome)
        else:
            samples.append(outcome)
    if not samples:
        return _all_rejected(task, rejected)
    problems = []
    for metric in task.auto_eval.metrics:
        for path, what in _needed(metric):
            if all(path.get(sample) in (None, MISSING) for sample in samples):
                message = (
                    f"{what} is {path.text}, which none of the first {len(samples):,} samples of dataset "
                    f"'{task.load.dataset_id}' has.{_fields_beside(path, samples[0])}"
                )
                problems.append(Problem(f"task '{task.task_id}': metric '{metric.metric_id}'", message))
        if (several := _several_references(metric, samples)) is not None:
            problems.append(Problem(f"task '{task.task_id}': metric '{metric.metric_id}'", several))
    return problems


def _several_references(metric: BoundMetric, samples: Sequence[dict[str, Any]]) -> str | None:
    """The problem of samples with several references if the metric can read only one."""
    if metric.definition.plugin.info.get("alternatives", True):
        return None
    if not any(path.reads_label for path in metric.field_paths):
        return None
    rows = sum(len(reference_texts(sample)) > 1 for sample in samples)
    if not rows:
        return None
    return (
        f"{rows:,} of the first {len(samples):,} samples have several references, and {metric.implementation} reads "
        "one: such samples get no score. Point label_field at the field with the text."
    )


def _needed(metric: BoundMetric) -> Iterator[tuple[FieldPath, str]]:
    """The sample fields that a metric needs for a score or a slice, each with its use."""
    fields = zip(metric.field_paths, metric.definition.fields, strict=True)
    if metric.on_missing_field != "ignore" and metric.default is None:
        for path, field in fields:
            if field.required and path.root == "sample":
                yield path, field.spellings[0]
    by = metric.grouping
    for optional, what in (
        (by.cluster, "cluster_field"),
        (by.weight, "weight_field"),
        *((sliced_by, "a slice") for sliced_by in by.slices),
    ):
        if optional is not None and optional.root == "sample":
            yield optional, what


def first_samples(task: TaskPlan) -> Iterator[dict[str, Any] | str]:
    """The first samples; for a rejected record its line and the reason."""
    spec = task.standardize
    plugin = registry.preprocessors.loaded(spec.preprocess)
    if plugin is None or not plugin.is_builtin or spec.callables or spec.text is not None:
        return
    to_sample = build(plugin, spec.kwargs)
    try:
        if not _is_local(task.load):
            return
        for line, text in islice(raw_records(task.load), _ROWS):
            try:
                yield to_standard(text, to_sample)[0]
            except RecordRejected as error:
                yield f"line {line}: {error}"
    except InputError:
        # The run reports a file that cannot be read; one of a pinned origin may not be here yet.
        return


def _all_rejected(task: TaskPlan, rejected: Sequence[str]) -> list[Problem]:
    """The problem of a preprocessor that can use none of the first records."""
    if not rejected:
        return []
    which = "the first record is" if len(rejected) == 1 else f"all of the first {len(rejected):,} records are"
    return [Problem(f"dataset '{task.load.dataset_id}'", f"{which} rejected ({rejected[0].rstrip('.')}).")]


def _is_local(load: LoadSpec) -> bool:
    if load.loader not in _LOADERS or not registry.loaders.get(load.loader).is_builtin or load.filter is not None:
        return False
    files = getattr(load.source, "files", ())
    if any("://" in file for file in files):
        return False
    return load.loader != "json" or all(Path(file).stat().st_size <= _LONGEST_DOCUMENT for file in files)


def raw_records(load: LoadSpec) -> Iterator[Record]:
    """The records of a dataset. Their media are not stored: only the fields' existence matters."""
    if registry.loaders.get(load.loader).info.get("keeps_media"):
        return iter(load.source.records(lambda *_: media_url("0" * 64)))
    return iter(load.source.records())


def _fields_beside(path: FieldPath, sample: dict[str, Any]) -> str:
    """The existing fields at the path's last step, and the closest name."""
    *before, last = path.parts
    holder = walk(sample, before)
    if not isinstance(holder, dict):
        return ""
    names = [str(name) for name, value in holder.items() if value not in (None, [], {})]
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return f" Fields here: {shown or 'none'}.{closest(str(last), names)}"
