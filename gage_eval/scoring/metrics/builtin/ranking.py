"""Metrics on ranked lists."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from gage_eval.base import canonical
from gage_eval.base.canonical import JsonValue
from gage_eval.scoring.metrics.base import FIRST_VERSION, Score, metric
from gage_eval.scoring.metrics.text_utils import as_text, lowered

_MARK = re.compile(r"^(?:[-*•]|\d{1,6}[.)])\s+")


@metric(
    "ranking",
    presets={FIRST_VERSION: {"metric_type": "mrr"}},
    value=("mrr", "hit@{k}"),
    chosen_by="metric_type",
    binary=("hit@{k}",),
    bounds=(0, 1),
    version=1,
    fields={"targets": "sample.targets"},
)
def ranking(
    prediction: str,
    targets: Sequence[str],
    *,
    k: Annotated[int, Field(ge=1)] = 3,
    candidate_field: str | None = None,
    metric_type: Annotated[Literal["mrr", "hit@k"], BeforeValidator(lowered)] | None = None,
) -> Score:
    """Mean reciprocal rank of the first right candidate, and whether it is among the first ``k``.

    The answer is a JSON list of candidates, best first, or one candidate per line (list marks are dropped). Of an
    object its ``candidate_field`` counts. Candidates and targets are compared as stripped texts. An answer
    without candidates is unparsed. ``metric_type`` selects one of the two numbers.
    """
    wanted = {target.strip() for target in targets}
    if not wanted:
        return Score.unscored("there is no target")
    candidates = read_candidates(prediction, candidate_field)
    rank = next((index for index, candidate in enumerate(candidates, 1) if candidate in wanted), None)
    values = {"mrr": 0.0 if rank is None else 1 / rank, f"hit@{k}": float(rank is not None and rank <= k)}
    if metric_type is not None:
        key = f"hit@{k}" if metric_type == "hit@k" else metric_type
        values = {key: values[key]}
    if not candidates:
        return Score.unparsed("the answer holds no candidates", value=values)
    hit = None if rank is None else candidates[rank - 1]
    return Score(values, extracted=hit, metadata={"hit_rank": rank, "k": k})


def read_candidates(answer: str, candidate_field: str | None) -> list[str]:
    """The candidates of an answer, best first; for an object the value of that field."""
    text = answer.strip()
    if text.startswith(("[", "{")):
        try:
            value = canonical.decode(text)
        except ValueError:
            value = None
        if value is not None:
            items = value if isinstance(value, list) else [value]
            return [as_text(_item(item, candidate_field)).strip() for item in items if item is not None]
    return [_MARK.sub("", line.strip()) for line in text.split("\n") if line.strip()]


def _item(item: JsonValue, candidate_field: str | None) -> JsonValue:
    return item.get(candidate_field) if candidate_field is not None and isinstance(item, Mapping) else item
