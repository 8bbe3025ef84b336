"""Short forms of config entries, converted to the full form.

A metric may be written as ``exact_match``, as ``regex_match(pattern='[0-9]+')``, as
``numeric_match: {tolerance: 0.1}``, as ``{type: exact_match, name: acc, label_field: gold}`` or in full; and as the
table prints it, with a filter and an aggregation: ``gsm8k,strict-match pass@2``.

Arguments are literals only: the text is parsed, never evaluated.
"""

import ast
import math
import warnings
from collections.abc import Collection, Mapping
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.base.python_syntax import expression_tree

_MAX_SUGAR = 4096


def rename_aliases(data: Mapping[str, Any], aliases: Mapping[str, str]) -> dict[str, Any]:
    """A mapping with older spellings of keys replaced by the model's field names.

    Raises:
        ValueError: a key has a value in both spellings.
    """
    out = dict(data)
    for alias, name in aliases.items():
        if alias not in out:
            continue
        value = out.pop(alias)
        if value is not None and out.get(name) is not None:
            raise ValueError(f"'{name}' and '{alias}' are the same setting; keep '{name}'")
        if out.get(name) is None:
            out[name] = value
    return out


def metric_form(data: Any, fields: Collection[str]) -> Any:
    """The full form of a metric in any form.

    Args:
        data: a string, a mapping with the metric's name as only key, or the full form.
        fields: the field names of the full form.

    Raises:
        ValueError: the string is neither a name nor ``name(key=literal, …)``.
    """
    if isinstance(data, str):
        call, filters, words = _printed(data)
        name, params = parse_call(call)
        aggregation = _aggregation(name, words)
        return {
            **_full(name, params),
            **({} if aggregation is None else {"aggregation": aggregation}),
            **({"filters": filters} if filters else {}),
        }
    if not isinstance(data, Mapping):
        return data
    if len(data) == 1:
        ((key, value),) = data.items()
        if isinstance(key, str) and key not in fields and (value is None or isinstance(value, Mapping)):
            return _full(key, value or {})
    if "type" in data and "type" not in fields and not {"metric_id", "implementation"} & data.keys():
        return _flat(data, fields)
    if "metric_id" in data and "implementation" not in data:
        return {**data, "implementation": data["metric_id"]}
    if "implementation" in data and "metric_id" not in data and isinstance(data["implementation"], str):
        return {**data, "metric_id": short_name(data["implementation"])}
    return data


def _printed(text: str) -> tuple[str, list[str], list[str]]:
    """A metric, the filter after its name, and the words after both, which are a value key and an aggregation."""
    head, bracket, after = text.strip().rpartition(")")
    if bracket:
        return head + bracket, [], after.split()
    name, *words = after.split() or [""]
    # A path may have spaces and commas in it.
    if "(" in after or ":" in after:
        return after, [], []
    name, _, pipeline = name.partition(",")
    return name, [pipeline] if pipeline else [], words


def _aggregation(metric: str, words: list[str]) -> str | None:
    """The aggregation that the words after a metric name; None for a value key alone.

    Raises:
        ValueError: the last word is neither.
    """
    if not words:
        return None
    from gage_eval.extend import registry
    from gage_eval.scoring.metrics.aggregations.base import find_aggregation

    name = words[-1]
    if metric in registry.metrics.names() and name in registry.metrics.get(metric).info["values"]:
        return None
    try:
        find_aggregation(name)
    except InputError as error:
        raise ValueError(str(error)) from error
    return name


def parse_call(text: str) -> tuple[str, dict[str, Any]]:
    """``name`` or ``name(key='literal', …)`` as (name, keyword arguments).

    Raises:
        ValueError: the text has another form; the message says what was expected.
    """
    text = text.strip()
    name, bracket, rest = text.partition("(")
    name = name.strip()
    if not name:
        raise ValueError(f"cannot read {_shown(text)}: write a name, or name(key='value', …)")
    if not bracket:
        return name, {}
    expected = f"cannot read {_shown(text)}: write values as in Python: name(key='text', other=0.5, third=True)"
    if len(text) > _MAX_SUGAR or not rest.endswith(")"):
        raise ValueError(expected)
    try:
        # Parsed with a fixed name, because the real name may be a class path, which is not a Python expression.
        with warnings.catch_warnings():
            # A pattern such as '\\d' is meant literally.
            warnings.simplefilter("ignore")
            call = expression_tree(f"f({rest}")
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError(expected)
        params: dict[str, Any] = {}
        for keyword in call.keywords:
            if keyword.arg is None:
                raise ValueError(expected)
            params[keyword.arg] = _json_like(ast.literal_eval(keyword.value))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(expected) from error
    return name, params


def short_name(implementation: str) -> str:
    """The last name of a class path (``pkg.mod:Exact`` → ``Exact``); a plain name as it is."""
    return implementation.rpartition(":")[2].rpartition(".")[2]


def _full(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"metric_id": short_name(name), "implementation": name, "params": dict(params)}


def _flat(data: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The full form of ``{type: …, name: …}``, where parameters stand next to the metric's other keys.

    ``name`` is the metric's id, and its parameter of that name where it has one.
    """
    rest = {key: value for key, value in data.items() if key not in ("type", "name")}
    kind, name = data["type"], data.get("name")
    entry = {key: rest.pop(key) for key in (*fields,) if key != "params" and key in rest}
    params = {**({"name": name} if name and _takes_name(kind) else {}), **rest}
    return {
        "metric_id": name or (short_name(kind) if isinstance(kind, str) else kind),
        "implementation": kind,
        "params": params,
        **entry,
    }


def _takes_name(implementation: Any) -> bool:
    from gage_eval.extend import registry
    from gage_eval.scoring.metrics.base import define

    if implementation not in registry.metrics.names():
        return False
    try:
        return "name" in define(registry.metrics.get(implementation)).signature.parameters
    except InputError:
        # Said where the metric is bound, with its place in the config.
        return False


def _json_like(value: Any) -> Any:
    if isinstance(value, str):
        value.encode()
        return value
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, list | tuple):
        return [_json_like(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _json_like(item) for key, item in value.items()}
    raise ValueError(f"a {type(value).__name__} is not possible in a config")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")
