"""What a run would find in the store and what it would compute: behind `gage plan` and `gage preview`."""

from gage_eval.planning.forecast import (
    Forecast,
    Rendered,
    Use,
    action_key,
    asks_a_model,
    forecast,
    inputs_of,
    rendered,
    standing,
    who_is_asked,
)

__all__ = [
    "Forecast",
    "Rendered",
    "Use",
    "action_key",
    "asks_a_model",
    "forecast",
    "inputs_of",
    "rendered",
    "standing",
    "who_is_asked",
]
