"""Metrics on the cost of a response."""

from gage_eval.scoring.metrics.base import Score, metric


@metric(
    "latency",
    value="latency_ms",
    higher_is_better=False,
    bounds=(0, None),
    version=2,
    fields={"measured": "model_output.latency_ms"},
    set_by={"measured": "target_field"},
)
def latency(measured: float | None = None, *, default_latency: float | None = None) -> Score:
    """Milliseconds from sending a request to its last byte; unscored where it was not measured."""
    if measured is None:
        measured = default_latency
    if measured is None:
        return Score.unscored("no latency was measured", reason="not_measured")
    if isinstance(measured, bool) or not isinstance(measured, int | float) or measured < 0:
        return Score.unscored(f"{measured!r} is not a duration")
    return Score(float(measured))
