"""From a resolved config to specs, keys, asks and requests; and the forecast behind `gage plan`."""

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
