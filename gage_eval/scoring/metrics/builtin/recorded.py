"""The score that another tool gave to an answer."""

from collections.abc import Mapping, Sequence
from typing import Any

from gage_eval.scoring.metrics.base import Score, metric


@metric(
    "recorded_score", version=1, fields={"imported": "sample.metadata.imported", "replicate": "model_output.replicate"}
)
def recorded_score(imported: Any, replicate: Any, *, score: str) -> Score:
    """The number that the tool of an imported log gave to the answer, by its name there (``gage import``).

    Unscored where the log has no such number.
    """
    answers = imported if isinstance(imported, Sequence) else ()
    own = answers[replicate] if isinstance(replicate, int) and replicate < len(answers) else None
    scores = own.get("scores") if isinstance(own, Mapping) else None
    value = scores.get(score) if isinstance(scores, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Score.unscored(f"the log has no score '{score}' of this answer", reason="missing_field")
    return Score(float(value))
