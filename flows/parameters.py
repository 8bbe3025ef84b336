"""Parameters of the flows: the options of a run, in groups that the Prefect UI shows as cards."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gage_eval.runs.options import (
    GROUPS,
    ChangeOptions,
    DataOptions,
    ExecutionOptions,
    ModelOptions,
    OutputOptions,
    RunOptions,
    SourceOptions,
)

# Defaults of the groups.
OUTPUT, DATA, MODELS, CHANGES, EXECUTION = (
    OutputOptions(),
    DataOptions(),
    ModelOptions(),
    ChangeOptions(),
    ExecutionOptions(),
)

Function = TypeVar("Function", bound=Callable[..., Any])


def described(function: Function) -> Function:
    """Add an ``Args:`` section with the options' own texts to the docstring, which the form shows.

    Groups have their own texts.
    """
    lines = [f"    {name}: {field.description}" for name, field in SourceOptions.model_fields.items()]
    function.__doc__ = "\n".join([f"{inspect.getdoc(function)}\n", "Args:", *lines])
    return function


def parameters_of(options: RunOptions) -> dict[str, Any]:
    """The parameters of a flow run for some options."""
    given = options.model_dump(mode="json")
    groups = {name: {field: given[field] for field in group.model_fields} for name, group in GROUPS.items()}
    return {**{field: given[field] for field in SourceOptions.model_fields}, **groups}


def options_of(parameters: Mapping[str, Any]) -> RunOptions:
    """The options from the parameters of a flow run.

    Raises:
        InputError: a value does not fit.
    """
    flat = {name: value for name, value in parameters.items() if name not in GROUPS}
    for name, group in GROUPS.items():
        flat |= group.model_validate(parameters.get(name, {})).model_dump()
    return RunOptions.of(flat)
