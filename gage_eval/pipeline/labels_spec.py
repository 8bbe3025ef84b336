"""Labels of a task's answers, and the metric that is compared with them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.base.field_paths import MISSING, compile_path
from gage_eval.base.field_paths import Path as FieldPath
from gage_eval.base.files import local_path
from gage_eval.config.labels import LabelsConfig
from gage_eval.data.sample.table import rows_of
from gage_eval.report.calibration import Answer, Calibration, Judged, calibration
from gage_eval.scoring.labels import Label, LabelScale, label_value, read_labels
from gage_eval.scoring.metrics import BoundMetric
from gage_eval.store import Artifact


@dataclass(frozen=True)
class LabelsSpec:
    """Labels, and the metric that is compared with them.

    Attributes:
        metric_id, filter, value_key: which number.
        scale: of a label.
        labels: of the file; empty where they are in a field of the samples.
        file: where they were read; it determines no result.
        field: the field of the samples.
        cluster: the field of the samples' clusters.
    """

    metric_id: str
    filter: str | None
    value_key: str
    scale: LabelScale
    labels: tuple[Label, ...] = ()
    field: FieldPath | None = None
    cluster: FieldPath | None = None
    file: Path | None = None

    def material(self) -> JsonValue:
        return {
            "metric": [self.metric_id, self.filter, self.value_key],
            "scale": [self.scale.low, self.scale.high],
            "labels": [[label.sample_id, label.replicate, label.value, label.probability] for label in self.labels],
            "field": None if self.field is None else self.field.canonical,
            "cluster": None if self.cluster is None else self.cluster.canonical,
        }

    def check(self, samples: Artifact, task_id: str, *, is_whole: bool) -> None:
        """Refuse labels of which none is about one of the samples, and those in a field that are not on the scale.

        Args:
            samples: of the task.
            task_id: its name, for messages.
            is_whole: the samples are all of the task's. Some of them only may have none of those with labels.

        Raises:
            InputError: there is none, or a label of the samples is not on the scale.
        """
        path = self.field
        # Whether labels are on the scale is looked at also where these are only some of the samples.
        if path is not None and not self.labels_of(samples) and is_whole and _is_nowhere(samples, path):
            raise InputError(
                f"task '{task_id}', labels: no sample has '{path.text}'. Give the field that holds the labels, "
                "null where there is none yet."
            )
        if not is_whole:
            return
        wanted = {label.sample_id for label in self.labels}
        if wanted and not any(wanted & {*table["id"].to_pylist()} for table in samples.tables(columns=["id"])):
            raise InputError(
                f"task '{task_id}', labels: none of the {len(self.labels):,} labels in '{self.file}' is about one of "
                f"its samples; the first is about '{self.labels[0].sample_id}'. Give labels of these samples."
            )

    def calibration(self, scores: Artifact, samples: Artifact) -> Calibration:
        """Compare the labels with the scores.

        Raises:
            InputError: a label of the samples is not on the scale.
        """
        return calibration(self.judged(scores, samples), self.labels_of(samples))

    def judged(self, scores: Artifact, samples: Artifact) -> Judged:
        """What the judge said of the answers, and the clusters of these."""
        verdicts = verdicts_of(scores, self.filter, self.value_key)
        of_sample = {} if self.cluster is None else values_of(samples, self.cluster)
        clusters = {answer: str(of_sample[answer[0]]) for answer in verdicts if answer[0] in of_sample}
        return Judged(self.metric_id, verdicts, (self.scale.low, self.scale.high), self.scale.binary, clusters)

    def labels_of(self, samples: Artifact) -> Sequence[Label]:
        """The labels of the file, or of the samples.

        Raises:
            InputError: a label of the samples is not on the scale.
        """
        path = self.field
        if path is None:
            return self.labels
        labels = []
        for name, value in values_of(samples, path).items():
            try:
                labels.append(Label(name, 0, label_value(value, self.scale)))
            except InputError as error:
                raise InputError(f"sample '{name}', {path.text}: {error}") from error
        return labels


def verdicts_of(scores: Artifact, filter_name: str | None, value_key: str) -> dict[Answer, float]:
    """The scored values of a metric by answer."""
    verdicts: dict[Answer, float] = {}
    for table in scores.tables(columns=["sample_id", "replicate", "filter", "status", "values"]):
        for row in table.to_pylist():
            value = dict(row["values"] or []).get(value_key)
            if row["filter"] == filter_name and row["status"] != "unscored" and value is not None:
                verdicts[row["sample_id"], row["replicate"]] = value
    return verdicts


def values_of(samples: Artifact, path: FieldPath) -> dict[str, JsonValue]:
    """A field of the samples by sample id; samples without it are left out."""
    return {name: value for name, value in _fields_of(samples, path) if value is not None and value is not MISSING}


def _is_nowhere(samples: Artifact, path: FieldPath) -> bool:
    return all(value is MISSING for _, value in _fields_of(samples, path))


def _fields_of(samples: Artifact, path: FieldPath) -> Iterator[tuple[str, JsonValue]]:
    """The id of each sample, and what its field holds; `MISSING` where it has none."""
    columns = path.sample_columns | {"id"}
    for table in samples.tables(columns=sorted(columns)):
        yield from ((row["id"], path.get(row)) for row in rows_of(table, columns))


def labels_spec(
    config: LabelsConfig | None, task_id: str, metrics: Sequence[BoundMetric], base_dir: Path
) -> LabelsSpec | None:
    """The labels of a task; None without any.

    Raises:
        InputError: no metric can be compared with them, its scale is not known, or the file is not one of labels.
    """
    if config is None:
        return None
    place = f"task '{task_id}', labels"
    judged = [metric for metric in metrics if "judgments" in metric.inputs]
    metric = next((known for known in judged if config.metric in (None, known.metric_id)), None)
    if metric is None:
        names = ", ".join(known.metric_id for known in judged) or "there is none"
        raise InputError(f"{place}: labels are compared with a metric that reads a judge's verdicts ({names}).")
    key = metric.value_keys[0]
    own = metric.scale(key)
    low, high = (own.low, own.high) if config.scale is None else config.scale
    if low is None or high is None:
        raise InputError(f"{place}: metric '{metric.metric_id}' has no fixed scale; give it, as in scale: [1, 10].")
    if low != (low if own.low is None else own.low) or high != (high if own.high is None else own.high):
        raise InputError(
            f"{place}: the scale of metric '{metric.metric_id}' is {own.low} to {own.high}; leave out 'scale'."
        )
    scale = LabelScale(low, high, own.binary)
    labels: tuple[Label, ...] = ()
    file = None if config.path is None else local_path(config.path, base_dir)
    if config.path is not None and file is not None:
        labels = read_labels(file, config.path, task_id, scale)
    field = None if config.field is None else compile_path(config.field)
    name = metric.filters[0].name
    return LabelsSpec(metric.metric_id, name, key, scale, labels, field, metric.grouping.cluster, file)
