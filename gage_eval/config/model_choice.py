"""The pass that puts the model of the command line into a config: the model under test, and the judges.

A suite does not name a model. ``--model`` with ``--endpoint`` names one behind a server; without an endpoint the
engine that fits the model is started here.
"""

import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gage_eval.base.errors import InputError, closest
from gage_eval.config.document import Document, Origin
from gage_eval.config.environment import local_model
from gage_eval.config.models import ROLE_SPELLINGS, RoleType
from gage_eval.config.problems import Loc
from gage_eval.config.suites.card import Need
from gage_eval.extend import registry

DUT = "dut"
JUDGE = "judge"
# What backends call their model; the first that a backend knows is set.
MODEL_FIELDS = ("model_path", "model_name_or_path", "model")
# Tokens of prompt and answer together: a prompt with examples and a solution fit into it.
_GGUF_CONTEXT = 8192
# The options that name the model under test, the telling ones first.
_OPTIONS = ("model_block", "model", "endpoint", "engine", "api_key_env", "api_key_block")
# In the place of a model that was refused.
_STAND_IN: Mapping[str, Any] = {"type": "transformers", "config": {"model_path": "model"}}


@dataclass(frozen=True)
class ModelChoice:
    """The models that the command line names.

    Attributes:
        model: the model under test: its name at the endpoint, a folder, a ``.gguf`` file, or a name on the hub.
        endpoint: URL of an OpenAI-compatible server, up to and with ``/v1``.
        engine: type of the backend.
        api_key_env: the variable that holds the endpoint's key.
        api_key_block: the Prefect Secret block that holds it.
        model_block: the Prefect block that describes the model under test.
        judges: models of the judges.
        judge_endpoint: URL of the judges' server; the model's unless given.
        judge_api_key_env: the variable that holds its key.
        judge_api_key_block: the Prefect Secret block that holds it.
    """

    model: str | None = None
    endpoint: str | None = None
    engine: str | None = None
    api_key_env: str | None = None
    api_key_block: str | None = None
    model_block: str | None = None
    judges: tuple[str, ...] = ()
    judge_endpoint: str | None = None
    judge_api_key_env: str | None = None
    judge_api_key_block: str | None = None

    @property
    def names_a_model(self) -> bool:
        return any((self.model, self.endpoint, self.engine, self.api_key, self.model_block))

    @property
    def api_key(self) -> str | None:
        """The reference to the endpoint's key, as a config has it."""
        return key_reference(self.api_key_env, self.api_key_block)

    @property
    def judge_api_key(self) -> str | None:
        """The reference to the key of the judges' endpoint."""
        own = key_reference(self.judge_api_key_env, self.judge_api_key_block)
        return own or (self.api_key if self.judge_endpoint is None else None)


def choose_models(document: Document, choice: ModelChoice, needs: Collection[Need] | None) -> None:
    """Put the chosen models into the config.

    Args:
        document: the config, its template merged.
        choice: what the command line names.
        needs: what the suite needs; None for a config that is not a suite.
    """
    own = needs or ()
    if choice.names_a_model:
        _put_model(document, choice, own)
    elif (
        needs is not None
        and not any(_has_backend(adapter) for _, adapter in adapters_of(document, "dut_model"))
        and not document.value(("backends",))
    ):
        message = (
            "the suite needs a model: name it with --model, and its server with --endpoint URL, or give a folder or a "
            "name on the hub."
        )
        document.refuse(message)
        # What depends on the model cannot be checked; that there is none is not said again.
        _add_model(document, _STAND_IN, Origin("rule", "no model was named"), own)
    if choice.judges or (needs is not None and "judge" in needs):
        _put_judges(document, choice)


def _put_model(document: Document, choice: ModelChoice, needs: Collection[Need]) -> None:
    loc, before = _backend_of(document)
    try:
        made = _chosen(choice, needs)
    except InputError as error:
        document.refuse(str(error))
        made = dict(_STAND_IN)
    option = next(name for name in _OPTIONS if getattr(choice, name))
    origin = Origin("command line", f"--{option.replace('_', '-')}")
    if before is not None:
        config = before.get("config")
        kept = config.get("default_params") if isinstance(config, dict) else None
        if kept:
            made["config"] = {**made.get("config", {}), "default_params": kept}
        for key in ("type", "block"):
            document.take((*loc, key))
        for key, value in made.items():
            document.put((*loc, key), value, origin)
        return
    _add_model(document, made, origin, needs)


def _chosen(choice: ModelChoice, needs: Collection[Need]) -> dict[str, Any]:
    if choice.model_block is None:
        return backend_for(choice.model, choice.endpoint, choice.engine, choice.api_key, needs)
    for name in ("endpoint", "engine", "api_key_env", "api_key_block"):
        if getattr(choice, name) is not None:
            option = name.replace("_", "-")
            raise InputError(f"the block '{choice.model_block}' says it: leave out --{option}, or --model-block.")
    named: dict[str, Any] = {} if choice.model is None else {"config": {"model": choice.model}}
    return {"block": choice.model_block, **named}


def _add_model(document: Document, made: Mapping[str, Any], origin: Origin, needs: Collection[Need]) -> None:
    """A backend and an adapter for it, where the config has none."""
    _append(document, "backends", {"backend_id": DUT, **made}, origin)
    waiting = [index for index, adapter in adapters_of(document, "dut_model") if not _has_backend(adapter)]
    for index in waiting:
        document.put(("role_adapters", index, "backend_id"), DUT, origin)
    if not waiting:
        adapter: dict[str, Any] = {"adapter_id": DUT, "role_type": "dut_model", "backend_id": DUT}
        _append(
            document, "role_adapters", {**adapter, "capabilities": ["images"]} if "images" in needs else adapter, origin
        )


def _put_judges(document: Document, choice: ModelChoice) -> None:
    waiting = [index for index, adapter in adapters_of(document, "judge_model") if not _has_backend(adapter)]
    judges = choice.judges
    if not judges:
        if waiting:
            message = "a judge scores the suite: name its model with --judge, and its server with --judge-endpoint."
            document.refuse(message)
        return
    places = _places(document, judges, waiting) if waiting else None
    if places is None:
        document.refuse(_judges_do_not_fit(document, judges, waiting))
        return
    endpoint = choice.judge_endpoint or choice.endpoint
    origin = Origin("command line", "--judge")
    for place, (judge, own) in enumerate(zip(judges, places, strict=True)):
        name = JUDGE if len(judges) == 1 else f"{JUDGE}_{place + 1}"
        try:
            made = backend_for(judge, endpoint, None, choice.judge_api_key, ())
        except InputError as error:
            document.refuse(str(error))
            return
        _append(document, "backends", {"backend_id": name, **made}, origin)
        for index in own:
            document.put(("role_adapters", index, "backend_id"), name, origin)


def _places(document: Document, judges: Sequence[str], waiting: Sequence[int]) -> list[list[int]] | None:
    """The adapters that each judge is for: one for all, one each, or each its seat of the panels; None for others."""
    if len(judges) == 1:
        return [list(waiting)]
    if len(judges) == len(waiting):
        return [[index] for index in waiting]
    seats = _seats(document, waiting)
    if {*seats.values()} != {*range(len(judges))}:
        return None
    return [[index for index in waiting if seats[index] == place] for place in range(len(judges))]


def _seats(document: Document, waiting: Collection[int]) -> dict[int, int]:
    """The seat of each adapter in the panels of all tasks; empty where one has none, or several."""
    panels = [task.get("judges") for _, task in document.mappings("tasks")]
    seats: dict[str, set[int]] = {}
    for panel in panels:
        for place, name in enumerate(panel if isinstance(panel, list) else []):
            seats.setdefault(str(name), set()).add(place)
    taken = {
        index: seats.get(str(adapter.get("adapter_id")), set())
        for index, adapter in adapters_of(document, "judge_model")
    }
    if any(len(taken[index]) != 1 for index in waiting):
        return {}
    return {index: min(taken[index]) for index in waiting}


def _judges_do_not_fit(document: Document, judges: Sequence[str], waiting: Collection[int]) -> str:
    """Why the config cannot take these judges; names those that it has."""
    adapters = adapters_of(document, "judge_model")
    if not adapters:
        return "nothing here is judged: leave out --judge."
    if not waiting:
        names = ", ".join(f"'{adapter.get('adapter_id')}'" for _, adapter in adapters)
        return f"the config sets the model of its judge {names}: leave out --judge, or change it with --set."
    names = ", ".join(f"'{adapter.get('adapter_id')}'" for index, adapter in adapters if index in waiting)
    there = "there is" if len(waiting) == 1 else "there are"
    expected = "one judge" if len(waiting) == 1 else f"{len(waiting)} judges"
    seats = {*_seats(document, waiting).values()}
    each = "" if len(waiting) == 1 else f" or {len(waiting)} times, in their order"
    each = f", {len(seats)} times, one for each seat of the panel," + each if len(seats) > 1 else each
    return (
        f"--judge is given {len(judges)} times, and {there} {expected} ({names}): give it once{each}. "
        "To compare judges, run once with each; the answers are kept, so only the judge is asked again."
    )


def key_reference(variable: str | None, block: str | None) -> str | None:
    """The reference to a key, as a config has it: ``env:NAME``, ``block:name`` or None.

    Raises:
        InputError: both are given.
    """
    if variable is not None and block is not None:
        raise InputError(f"the key is named twice, by the variable {variable} and by the block '{block}': name one.")
    if block is not None:
        return f"block:{block}"
    return None if variable is None else f"env:{variable}"


def backend_for(
    model: str | None, endpoint: str | None, engine: str | None, api_key: str | None, needs: Collection[Need]
) -> dict[str, Any]:
    """Type and config of the backend that serves a model. ``api_key`` is a `key_reference`.

    Raises:
        InputError: the options do not name one.
    """
    config: dict[str, Any] = {}
    if endpoint is not None:
        if model is None:
            raise InputError("--endpoint needs --model, the model's name at that server.")
        if "://" not in endpoint:
            raise InputError(f"the endpoint '{endpoint}' is not a URL; write it as http://{_host(endpoint)}/v1.")
        config = {"base_url": endpoint.rstrip("/").removesuffix("/chat/completions"), "model": model}
        type_ = engine or ("openai_images" if "image_generation" in needs else "openai_http")
    else:
        type_ = engine or _implied_engine(model, needs)
        if model is not None:
            config[_model_field(type_, model)] = local_model(os.path.expanduser(model))
        if type_ == "llama_cpp" and "model_path" in config:
            config["n_ctx"] = _GGUF_CONTEXT
    if api_key is None and endpoint is not None and endpoint.startswith("https://api.openai.com/"):
        api_key = key_reference("OPENAI_API_KEY", None)
    if api_key is not None:
        config["api_key"] = api_key
    return {"type": type_, "config": config}


def _host(endpoint: str) -> str:
    """The host and port of an endpoint that was named without http://; an example where it cannot be one."""
    place = endpoint.partition("/")[0]
    return place if re.fullmatch(r"[\w.-]+(:\d+)?", place) else "127.0.0.1:8000"


def _implied_engine(model: str | None, needs: Collection[Need]) -> str:
    if model is None:
        raise InputError("an API key is about an endpoint: name it with --endpoint, and the model with --model.")
    if model.endswith(".gguf"):
        return "llama_cpp"
    if not os.path.exists(os.path.expanduser(model)) and (model.count("/") != 1 or model.startswith((".", "/", "~"))):
        from gage_eval.models.backends.llama_cpp import PACKAGED

        if model in PACKAGED:
            return "llama_cpp"
        raise InputError(
            f"'{model}' is neither a folder, a name on the hub (owner/name) nor a packaged model "
            f"({', '.join(PACKAGED)}). For a model behind a server, name its URL with --endpoint."
        )
    if _has_gpu() and find_spec("vllm") is not None:
        return "vllm"
    return "vlm_transformers" if "images" in needs else "transformers"


def _has_gpu() -> bool:
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    return Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") is not None


def _model_field(type_: str, model: str) -> str:
    """The field that names the model of a backend."""
    try:
        plugin = registry.backends.get(type_)
    except InputError as error:
        raise InputError(f"--engine {type_}: no such engine.{closest(type_, registry.backends.names())}") from error
    declared = getattr(plugin.info.get("config"), "model_fields", {})
    if type_ == "llama_cpp" and not model.endswith(".gguf"):
        # The name of a packaged model.
        return "model"
    field = next((name for name in MODEL_FIELDS if name in declared), None)
    if field is None:
        raise InputError(f"--engine {type_} takes no model: leave out --model.")
    return field


def _backend_of(document: Document) -> tuple[Loc, dict[str, Any] | None]:
    """The backend under test that the config has, which the chosen model replaces."""
    duts = adapters_of(document, "dut_model")
    named = {adapter.get("backend_id") for _, adapter in duts}
    for index, adapter in duts:
        if isinstance(adapter.get("backend"), dict):
            return ("role_adapters", index, "backend"), adapter["backend"]
    backends = document.mappings("backends")
    candidates = [item for item in backends if not duts or item[1].get("backend_id") in named]
    return (("backends", candidates[0][0]), candidates[0][1]) if candidates else ((), None)


def adapters_of(document: Document, role: RoleType) -> list[tuple[int, dict[str, Any]]]:
    """The adapters of a role, with their indexes."""
    return [
        (index, adapter)
        for index, adapter in document.mappings("role_adapters")
        if ROLE_SPELLINGS.get(str(adapter.get("role_type")), adapter.get("role_type")) == role
    ]


def _has_backend(adapter: dict[str, Any]) -> bool:
    return adapter.get("backend") is not None or adapter.get("backend_id") is not None


def _append(document: Document, section: str, item: dict[str, Any], origin: Origin) -> None:
    if not isinstance(document.value((section,)), list):
        document.put((section,), [], origin)
    items = document.data[section]
    items.append(None)
    document.put((section, len(items) - 1), item, origin)
