"""How answers look, and how they differ from those that a judge compared them with."""

import re
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from gage_eval.base.errors import GageError
from gage_eval.base.field_paths import compile_path
from gage_eval.data.sample.table import rows_of
from gage_eval.pipeline.outputs import responses_of
from gage_eval.pipeline.pairs import OtherAnswers, Pairs
from gage_eval.regression.definitions import spec_of
from gage_eval.regression.scored_task import ScoredTask
from gage_eval.stats import style_difference

_ELEMENTS = (
    re.compile(r"^#{1,6}\s", re.MULTILINE),
    re.compile(r"^[ \t]*(?:\d+\.|[-*+])\s", re.MULTILINE),
    re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__"),
)
_CODE = "```"


def style_of(answer: str) -> tuple[int, ...]:
    """The length of an answer in characters, and how many headers, list items and bold texts of Markdown it has.

    As in Arena-Hard, what is in blocks of code does not count; Arena-Hard measures the length in tokens.
    """
    outside = answer.split(_CODE)[::2]
    text = " ".join(outside)
    return len(answer), *(len(element.findall(text)) for element in _ELEMENTS)


def style_differences(task: ScoredTask) -> Mapping[str, tuple[float, ...]]:
    """How the style of a task's answers differs from that of the others, by sample (`stats.style_difference`).

    Repeated answers are averaged. Empty where the prompt makes the pairs by itself, or the others are gone.
    """
    try:
        return _differences(task)
    except GageError:  # a run that they came from was deleted
        return {}


def _differences(task: ScoredTask) -> Mapping[str, tuple[float, ...]]:
    reader, judge = task.reader, task.stages.get("judge")
    spec = None if judge is None else spec_of(reader.store, "judge", judge)
    material = ((spec or {}).get("generate") or {}).get("pairs")
    if material is None:
        return {}
    field = None if material["field"] is None else compile_path(material["field"])
    pairs = Pairs(field, responses=material["responses"])
    others = None
    if field is None:
        name = material["responses"]
        others = OtherAnswers(reader.artifact(responses_of("support")) if name is None else reader.store.artifact(name))
    columns = {"id"} | (frozenset() if field is None else field.sample_columns)
    responses, by_sample = reader.artifact("responses"), defaultdict(list)
    for part in responses.parts:
        samples = {row["id"]: row for row in rows_of(reader.samples.read(part.index, columns=sorted(columns)), columns)}
        answers = {} if others is None else others.of(samples)
        for row in responses.read(part.index, columns=["sample_id", "replicate", "answer"]).to_pylist():
            name = row["sample_id"]
            other = pairs.other(samples[name], answers.get(name, {}), row["replicate"])
            if other is not None and row["answer"] is not None:
                by_sample[name].append(style_difference(style_of(row["answer"]), style_of(other["answer"])))
    return {name: tuple(np.mean(own, axis=0).tolist()) for name, own in by_sample.items()}
