"""Settings for the judge in a sample's ``eval_config``:

    {"eval_config": {"judge": {"adapter_id": "expert", "prompt_id": "strict",
                               "prompt_params": {"scale": 5}, "params": {"temperature": 0}}}}

``adapter_id`` names another judge of the config and ``prompt_id`` another prompt. ``prompt_params`` and ``params``
(sampling) replace single values of that judge. A sample with wrong settings is not judged, and its judgment says why.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import closest
from gage_eval.data.sample.rules import RESERVED_PARAMS

_PLACE = "eval_config.judge"
# Settings that refer to a section of the config, and what they name.
_REFERENCES = {"adapter_id": "judge", "prompt_id": "prompt"}
_KEYS = (*_REFERENCES, "prompt_params", "params")


@dataclass(frozen=True)
class JudgeOverride:
    """A sample's changes to its judge. ``refused`` says why wrong settings cannot be used."""

    adapter_id: str | None = None
    prompt_id: str | None = None
    prompt_params: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    refused: str | None = None


def judge_override(config: JsonValue, prompts: Iterable[str], adapters: Iterable[str] = ()) -> JudgeOverride | None:
    """The judge settings of an ``eval_config``; None without any.

    Args:
        config: the sample's ``eval_config``.
        prompts: ids of the config's prompts.
        adapters: ids of the config's judges.
    """
    override = config.get("judge") if isinstance(config, Mapping) else None
    if override is None:
        return None
    if not isinstance(override, Mapping):
        return JudgeOverride(refused=f"{_PLACE} is not a mapping")
    for name, value in override.items():
        if name not in _KEYS:
            return JudgeOverride(refused=f"{_PLACE} has no '{name}': {', '.join(_KEYS)}.{closest(name, _KEYS)}")
        if name not in _REFERENCES and not isinstance(value, Mapping):
            return JudgeOverride(refused=f"{_PLACE}.{name} is not a mapping")
    for name in RESERVED_PARAMS:
        if name in override.get("params", ()):
            return JudgeOverride(refused=f"{_PLACE}.params.{name} is set by gage-eval itself")
    for name, known in (("adapter_id", list(adapters)), ("prompt_id", list(prompts))):
        wanted = override.get(name)
        if wanted is not None and wanted not in known:
            what = f"no {_REFERENCES[name]} '{wanted}' in the config"
            return JudgeOverride(refused=f"{_PLACE}.{name}: {what}.{closest(str(wanted), known)}")
    return JudgeOverride(**override)
