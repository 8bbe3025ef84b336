"""What a run would find in the store and what it would compute: behind `gage plan` and `gage preview`."""

from gage_eval.planning.forecast import (
    Forecast,
    Rendered,
    Use,
    action_key,
    asks_a_model,
    asks_of,
    forecast,
    inputs_of,
    rendered,
    stored_outputs,
)

__all__ = [
    "Forecast",
    "Rendered",
    "Use",
    "action_key",
    "asks_a_model",
    "asks_of",
    "forecast",
    "inputs_of",
    "rendered",
    "stored_outputs",
]
