"""BFCL's simulated classes for conversations of several turns, from the package bfcl-eval that the user installed.

Only methods that its function documents list are called, with arguments as data: no text of a model is run.
"""

import ast
import copy
import decimal
import hashlib
import importlib
import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import decode
from gage_eval.base.errors import InputError, NotInstalled
from gage_eval.base.python_syntax import expression_tree
from gage_eval.extend.extras import install

_MODULES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "TwitterAPI": "posting_api",
    "VehicleControlAPI": "vehicle_control",
}
_STATELESS = "MathAPI"
_SOURCES = "eval_checker/multi_turn_eval/func_source_code"
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "list": "array", "bool": "boolean", "any": "string"}
# A larger one takes minutes in a single step of the interpreter.
_LARGEST = {"exponent": 10_000, "precision": 1_000}


@cache
def package_folder() -> Path:
    """The folder of the installed package.

    Raises:
        NotInstalled: it is not there.
    """
    spec = importlib.util.find_spec("bfcl_eval")
    if spec is None or spec.origin is None:
        raise NotInstalled(
            f"BFCL's tasks and functions are those of the package bfcl-eval, which is missing: {_install()}."
        )
    return Path(spec.origin).parent


def _install() -> str:
    """The command that installs the package; what it needs fits few environments."""
    return install("--no-deps", "bfcl-eval", "mpmath")


@cache
def functions() -> Mapping[str, tuple[str, Mapping[str, Any]]]:
    """By name of each function: its class, and its document.

    Raises:
        InputError: the package is missing, or has another form.
    """
    return {
        document["name"]: (name, document)
        for name, module in _MODULES.items()
        for document in lines_of(f"data/multi_turn_func_doc/{module}.json")
    }


def lines_of(path: str) -> list[dict[str, Any]]:
    """The JSON lines of a file of the package.

    Raises:
        InputError: it is not there, or has another form.
    """
    try:
        return [decode(line) for line in (package_folder() / path).read_text("utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(
            f"bfcl-eval: '{path}' cannot be read ({error}); install another version: {_install()}."
        ) from None


def definition(document: Mapping[str, Any], note: str = "") -> dict[str, Any]:
    """A function's document in OpenAI's form, with BFCL's rules for types and names, and a note in its description."""
    function = {
        "name": document["name"].replace(".", "_"),
        "description": document["description"] + note,
        "parameters": {**_typed(document["parameters"]), "type": "object"},
    }
    return {"type": "function", "function": function}


@cache
def identity() -> str:
    """Hash of all that determines what the functions do."""
    digest = hashlib.sha256()
    for module in (*_MODULES.values(), "long_context"):
        digest.update((package_folder() / _SOURCES / f"{module}.py").read_bytes())
    return digest.hexdigest()


class Simulation:
    """The classes of a task, with their state.

    Args:
        task: ``metadata.bfcl`` of a sample: ``classes``, ``initial_config`` as JSON text, and perhaps ``long_context``.

    Raises:
        InputError: a class is unknown, or cannot be loaded.
    """

    def __init__(self, task: Mapping[str, Any]) -> None:
        config, long_context = json.loads(task["initial_config"]), bool(task.get("long_context"))
        self._objects = {name: _made(name, config.get(name, {}), long_context) for name in task["classes"]}

    def call(self, name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[str, bool]:
        """What a function returns as text, and whether it is an error; by the rules of BFCL."""
        owner = functions().get(name, ("", {}))[0]
        if owner not in self._objects:
            return f"Error during execution: name '{name}' is not defined", True
        for limited, largest in _LARGEST.items():
            value = keywords.get(limited, 0)
            if isinstance(value, int | float) and abs(value) > largest:
                return f"Error during execution: {limited} is at most {largest:,}", True
        try:
            with decimal.localcontext():
                returned = getattr(self._objects[owner], name)(*arguments, **keywords)
        except Exception as error:  # noqa: BLE001 - what it is called with is up to a model
            return f"Error during execution: {error}", True
        if isinstance(returned, dict):
            try:
                return json.dumps(returned), False
            except (TypeError, ValueError):
                return str(returned), False
        return str(returned), False

    def equals(self, other: "Simulation") -> bool:
        """Whether all public attributes of all objects are equal."""
        return all(
            all(getattr(self._objects[name], key) == value for key, value in vars(mine).items() if key[:1] != "_")
            for name, mine in other._objects.items()
        )


def gold_call(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """A call of a published answer, as ``cd(folder='document')``: name, arguments, keywords.

    Raises:
        ValueError: it is not one call with data.
    """
    call = expression_tree(text.strip())
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"not a call: {text}")
    keywords = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    return call.func.id, [ast.literal_eval(argument) for argument in call.args], keywords


def tool_names(classes: Sequence[str], held_out: Sequence[str] = ()) -> Iterator[str]:
    """The functions of some classes, in the order of the classes, without some of them."""
    for wanted in classes:
        yield from (name for name, (owner, _) in functions().items() if owner == wanted and name not in held_out)


def _made(name: str, config: Mapping[str, Any], long_context: bool) -> Any:
    made = _class(name)()
    if name != _STATELESS:
        made._load_scenario(copy.deepcopy(config), long_context=long_context)
    # Of a long context, all objects hold the same records: a booking of one task would be in the others.
    return copy.deepcopy(made) if long_context else made


@cache
def _class(name: str) -> Any:
    if name not in _MODULES:
        raise InputError(f"BFCL: there is no simulated class '{name}' here.")
    package_folder()
    module = f"bfcl_eval.{_SOURCES.replace('/', '.')}.{_MODULES[name]}"
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"bfcl-eval: the class {name} cannot be loaded ({error}): {_install()}.") from None


def _typed(schema: dict[str, Any], *, is_item: bool = False) -> dict[str, Any]:
    """A schema with the types of JSON Schema; what is said of floats is not said of items."""
    kind = schema.get("type", "string")
    typed = {**schema, "type": _TYPES.get(kind, kind)}
    if kind == "float" and not is_item:
        typed |= {"format": "float", "description": f"{schema.get('description', '')} This is a float type value."}
    if "properties" in schema:
        typed["properties"] = {name: _typed(inner) for name, inner in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        typed["items"] = _typed(schema["items"], is_item=True)
    return typed
