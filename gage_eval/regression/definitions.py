"""The definition of a task, read from the store, and the differences between two definitions."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import JsonValue, canonical_text, decode
from gage_eval.base.errors import InputError
from gage_eval.base.stages import Stage
from gage_eval.report.console import one_line
from gage_eval.runs.record import StageRecord
from gage_eval.runs.results.reading import TaskReader
from gage_eval.store import Store
from gage_eval.store.content import content_hash

# What must be the same for two scores to be comparable. All other values may differ.
KINDS = ("data", "prompts", "scorer")
_DEFINING = ("load", "standardize", "preprocess", "support", "infer", "judge", "auto_eval")
# Columns of a sample that the prompt determines.
WRITTEN_BY_PROMPTS = ("messages", "few_shot_examples")
_SCHEDULED = ("params", "replicates", "sample_ids", "subset", "look", "quick", "drawn_by")
# Says how old a model's answers may be, not what is measured. So the judge of another night is the same scorer.
_FRESHNESS = "model.config.freshness"
_SHOWN = 60
# The key of a sample's metadata under which `gage import` keeps the scores of another tool.
_OF_ANSWERS = "imported"


Definition: TypeAlias = Mapping[str, JsonValue]
"""What determined a task's score, by kind.

data: where the records come from; the samples themselves are compared row by row. prompts: what turns a sample into a
request. sampling: sampling parameters and replicates. model: the model. scorer: the metric, and the judge where there
is one.
"""


@dataclass(frozen=True)
class Difference:
    """A value that differs.

    Attributes:
        kind: data, prompts, sampling, model, scorer, environment or engine.
        path: its place in the definition.
        a, b: the values as text; None if there is none.
    """

    kind: str
    path: str
    a: str | None
    b: str | None

    @property
    def shown(self) -> tuple[str, str]:
        """Both values, cut short."""
        a, b = ("(none)" if value is None else one_line(value, _SHOWN) for value in (self.a, self.b))
        return a, b

    @property
    def text(self) -> str:
        """The difference in one line."""
        return f"{self.path}: {' → '.join(self.shown)}"


def definition(store: Store, stages: Mapping[Stage, StageRecord], metric_id: str) -> Definition:
    """The definition of a task, read from the actions of its stages.

    Args:
        store: where the actions are.
        stages: the task's stages by name.
        metric_id: the metric of the scorer.

    Raises:
        InputError: the store has lost what one of them computed.
    """
    specs = {name: spec_of(store, name, record) for name, record in stages.items() if name in _DEFINING}
    prepared = dict(specs.get("preprocess") or {})
    infer = dict(specs.get("infer") or {})
    metrics = specs.get("auto_eval")
    own = [metric["identity"] for metric in metrics or [] if metric["metric_id"] == metric_id]
    return {
        "data": _data(specs.get("load"), prepared.get("subset")),
        "prompts": {
            "standardize": specs.get("standardize"),
            "preprocess": {name: value for name, value in prepared.items() if name not in _SCHEDULED},
            "infer": {name: value for name, value in infer.items() if name not in ("params", "model")},
            "support": specs.get("support"),
        },
        "sampling": {
            "params": {**(prepared.get("params") or {}), **(infer.get("params") or {})},
            "replicates": prepared.get("replicates"),
        },
        "model": infer.get("model"),
        "scorer": {"metric": own[0]["scores"] if own else None, "judge": specs.get("judge")},
    }


def _data(load: Any, subset: JsonValue) -> JsonValue:
    # The order of a run that may stop early is not what is measured: its samples are paired by id.
    own = {name: value for name, value in load.items() if name != "looks"} if isinstance(load, dict) else load
    return own if subset is None else {**(own or {}), "subset": subset}


def differences(a: Definition, b: Definition) -> list[Difference]:
    """Every value in which two definitions differ."""
    return [difference for kind in a for difference in _of_kind(kind, a, b)]


def changed_samples(a: TaskReader, b: TaskReader, *, ignored: Collection[str] = ()) -> tuple[int, str | None]:
    """Samples of the same id whose content differs: how many, and the first one's id.

    Args:
        a, b: a task of two runs.
        ignored: columns that may differ.
    """
    if a.samples.id == b.samples.id:
        return 0, None
    where = _index(b)
    count, first = 0, None
    dropped = ["row_index", *ignored]
    for part in a.samples.parts:
        mine = a.samples.read(part.index)
        theirs = _rows_of(b, where, mine["id"])
        mine = mine.filter(pc.is_in(mine["id"], theirs["id"].combine_chunks()))
        theirs = theirs.take(pc.index_in(mine["id"], value_set=theirs["id"].combine_chunks()))
        mine, theirs = (_as_data(table.drop_columns(dropped)) for table in (mine, theirs))
        if content_hash(mine) == content_hash(theirs):
            continue
        for row in range(mine.num_rows):
            if content_hash(mine.slice(row, 1)) != content_hash(theirs.slice(row, 1)):
                count += 1
                first = first or mine["id"][row].as_py()
    return count, first


def is_imported(sample: Mapping[str, Any]) -> bool:
    """Whether a sample comes from a log of another tool."""
    metadata = sample.get("metadata")
    return isinstance(metadata, dict) and _OF_ANSWERS in metadata


def without_imported(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample without what another tool's log says about its answers."""
    if not is_imported(sample):
        return dict(sample)
    return {**sample, "metadata": {name: value for name, value in sample["metadata"].items() if name != _OF_ANSWERS}}


def _as_data(samples: pa.Table) -> pa.Table:
    """Samples without what another tool's log says about their answers: that differs between any two models."""
    texts = samples["metadata"].to_pylist()
    if not any(text is not None and _OF_ANSWERS in text for text in texts):
        return samples
    kept = [
        text if text is None else canonical_text({x: y for x, y in decode(text).items() if x != _OF_ANSWERS})
        for text in texts
    ]
    place = samples.schema.get_field_index("metadata")
    return samples.set_column(place, "metadata", pa.array(kept, pa.string()))


def _index(task: TaskReader) -> dict[str, int]:
    """The part of each sample."""
    where = {}
    for part in task.samples.parts:
        for sample_id in task.samples.read(part.index, columns=["id"])["id"].to_pylist():
            where[sample_id] = part.index
    return where


def _rows_of(task: TaskReader, where: Mapping[str, int], ids: pa.ChunkedArray) -> pa.Table:
    parts = sorted({where[sample_id] for sample_id in ids.to_pylist() if sample_id in where})
    tables = [task.samples.read(part) for part in parts] or [task.samples.read(task.samples.parts[0].index).slice(0, 0)]
    wanted = ids.combine_chunks()
    return pa.concat_tables([table.filter(pc.is_in(table["id"], wanted)) for table in tables])


def spec_of(store: Store, stage: str, record: StageRecord) -> Any:
    """What a finished stage was asked to do; None for a stage without a key.

    Raises:
        InputError: the store has lost what it computed.
    """
    if record.key is None:
        return None
    action = store.actions.find(stage, record.key)
    if action is None:
        raise InputError(
            f"the store has lost what stage {stage} computed (key {record.key[:8]}), so these scores cannot be "
            "compared. Put it back from a copy, or run the config again."
        )
    return action.document.get("spec") if isinstance(action.document, dict) else None


def _of_kind(kind: str, a: Definition, b: Definition) -> Iterator[Difference]:
    mine, other = dict(_leaves(a[kind])), dict(_leaves(b[kind]))
    for path in dict.fromkeys([*mine, *other]):
        if mine.get(path) != other.get(path):
            yield Difference("model" if path.endswith(_FRESHNESS) else kind, path, mine.get(path), other.get(path))


def _leaves(value: JsonValue, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, f"{path}.{name}" if path else name)
    elif value is not None and value not in ({}, []):
        yield path, canonical_text(value) if not isinstance(value, str) else value
