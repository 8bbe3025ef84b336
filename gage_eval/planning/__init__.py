"""What a run would find in the store and what it would compute: behind `gage plan` and `gage preview`."""

from gage_eval.planning.forecast import (
    Forecast,
    Rendered,
    Use,
    forecast,
    generate_spec,
    inputs_of,
    rendered,
    standing,
    uses_of,
)

__all__ = [
    "Forecast",
    "Rendered",
    "Use",
    "forecast",
    "generate_spec",
    "inputs_of",
    "rendered",
    "standing",
    "uses_of",
]
