"""The verdict of BFCL v4 on the calls of one turn, with functions of Python."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from gage_eval.base.canonical import JsonValue, decode
from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.trajectories import function_of, standard_text

_FIELDS = {"task": "sample.metadata.bfcl", "tool_calls": "model_output.tool_calls"}
_TYPES: Mapping[str, type] = {
    "string": str,
    "any": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
}
_Call: TypeAlias = tuple[str, Mapping[str, Any]]


@metric("bfcl_ast", binary=True, version=1, fields=_FIELDS)
def bfcl_ast(task: JsonValue, tool_calls: JsonValue = None) -> Score:
    """1 where the calls of an answer are those that a task of BFCL's categories of one turn accepts, else 0.

    As many functions are called as published, in any order. Each argument has the type of the function's document,
    where a whole number may stand for a float, and one of the accepted values. Texts, also those in lists and
    objects, compare without case, spaces and the signs ``,./-_*^``, and with ``'`` as ``"``. An empty text among the
    accepted values means that the argument may be left out. Where no function fits, the answer calls none
    (`irrelevance`); where one does, it calls some (`live_relevance`). Needs tasks of the loader `bfcl`.
    """
    check = decode(task) if isinstance(task, str) else None
    if not isinstance(check, dict) or "category" not in check:
        return Score.unscored("the sample does not come from the loader bfcl, or has several turns")
    reason = _fault(check, _calls(tool_calls))
    return Score(float(reason is None), extracted=reason)


def _calls(made: JsonValue) -> list[_Call] | None:
    """The calls of an answer; None where one of them cannot be read."""
    calls = [function_of(call) for call in made] if isinstance(made, list) else []
    read = [call for call in calls if call is not None]
    return read if len(read) == len(calls) else None


def _fault(check: Mapping[str, Any], calls: Sequence[_Call] | None) -> str | None:
    """What is wrong first; None where nothing is."""
    gold = check["ground_truth"]
    if gold is None:
        is_wanted = "irrelevance" not in check["category"]
        return None if bool(calls) == is_wanted else "no call" if is_wanted else "a call"
    if calls is None:
        return "arguments that are not a JSON object"
    if len(calls) != len(gold):
        return "number of calls"
    documents = {document["name"]: document["parameters"] for document in reversed(check["functions"])}
    left = list(calls)
    for published in gold:
        (name, accepted), *_ = published.items()
        faults = [_fault_of_call(documents[name], name.replace(".", "_"), accepted, call) for call in left]
        if None not in faults:
            return faults[0]
        left.pop(faults.index(None))
    return None


def _fault_of_call(
    parameters: Mapping[str, Any], name: str, accepted: Mapping[str, Sequence[Any]], call: _Call
) -> str | None:
    function, arguments = call
    if function != name:
        return f"{name}: not called"
    missing = [required for required in parameters["required"] if required not in arguments]
    missing += [other for other, values in accepted.items() if other not in arguments and "" not in values]
    if missing:
        return f"{name}: no {missing[0]}"
    for argument, value in arguments.items():
        schema = parameters["properties"].get(argument)
        if schema is None or argument not in accepted or not _is_accepted(schema, value, accepted[argument]):
            return f"{name}: {argument}"
    return None


def _is_accepted(schema: Mapping[str, Any], value: Any, options: Sequence[Any]) -> bool:
    kind: Any = _TYPES[schema["type"]]
    inner = _TYPES[schema["items"]["type"]] if kind is list else None
    if kind is float and type(value) is int:
        value = float(value)
    published = _type_of(options)
    if type(value) is not kind:
        # A name of a variable stands for a value: it has the type of the accepted ones, and compares as it is.
        return published is type(value) and value in options
    if inner is not None and not any(_has_items(option, value, inner) for option in options):
        return False
    if published is not None and published is not kind:
        return value in options
    if kind is dict:
        return any(_is_object(option, value) for option in options if option != "")
    if inner is dict:
        return any(_are_objects(option, value) for option in options)
    if kind is str:
        return _plain(value) in [_plain(option) for option in options if isinstance(option, str)]
    if kind is list:
        return list(map(_plain, value)) in [list(map(_plain, option)) for option in options]
    return value in options


def _type_of(options: Sequence[Any]) -> type | None:
    """The type of the accepted values; None where there is none but the sign that it may be left out."""
    return next((type(option) for option in options if option != ""), None)


def _has_items(option: Any, value: Sequence[Any], inner: type) -> bool:
    """Whether all items of a list have the declared type, or that of an accepted list's items."""
    if not isinstance(option, list):
        return True
    return all(type(item) in (inner, _type_of(option)) for item in value)


def _is_object(option: Any, value: Any) -> bool:
    if not isinstance(option, dict) or not isinstance(value, dict) or value.keys() - option.keys():
        return False
    return all(
        _plain(value[key]) in list(map(_plain, options)) if key in value else "" in options
        for key, options in option.items()
    )


def _are_objects(option: Sequence[Any], value: Sequence[Any]) -> bool:
    return len(option) == len(value) and all(_is_object(*pair) for pair in zip(option, value, strict=True))


def _plain(value: Any) -> Any:
    return standard_text(value) if isinstance(value, str) else value
