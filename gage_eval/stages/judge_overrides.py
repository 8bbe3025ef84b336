"""What a sample sets for its judge, in its ``eval_config``:

    {"eval_config": {"judge": {"prompt_id": "strict", "prompt_params": {"scale": 5}, "params": {"temperature": 0}}}}

``prompt_id`` names another prompt of the config, ``prompt_params`` and ``params`` (sampling) go over the judge's own.
A sample whose settings cannot be used is not judged, and its judgment says why.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gage_eval.canonical import JsonValue, decode
from gage_eval.errors import closest

COLUMN = "eval_config"
_PLACE = "eval_config.judge"
_KEYS = ("prompt_id", "prompt_params", "params")


@dataclass(frozen=True)
class JudgeOverride:
    """How a sample's judge is asked otherwise; ``refused`` says why it cannot be asked."""

    prompt_id: str | None = None
    prompt_params: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    refused: str | None = None


def judge_override(config: JsonValue, prompts: Iterable[str]) -> JudgeOverride | None:
    """What an ``eval_config`` sets for the judge, None for nothing; ``prompts`` are the ids of the config's."""
    given = config.get("judge") if isinstance(config, Mapping) else None
    if given is None:
        return None
    if not isinstance(given, Mapping):
        return JudgeOverride(refused=f"{_PLACE} is no mapping")
    for name, value in given.items():
        if name not in _KEYS:
            return JudgeOverride(refused=f"{_PLACE} has no '{name}': {', '.join(_KEYS)}.{closest(name, _KEYS)}")
        if name != "prompt_id" and not isinstance(value, Mapping):
            return JudgeOverride(refused=f"{_PLACE}.{name} is no mapping")
    override = JudgeOverride(**given)
    known = list(prompts)
    if override.prompt_id is not None and override.prompt_id not in known:
        near = closest(str(override.prompt_id), known)
        return JudgeOverride(refused=f"{_PLACE}.prompt_id: no prompt '{override.prompt_id}' in the config.{near}")
    return override


def named_prompts(configs: Iterable[str | None]) -> set[str]:
    """The prompts that samples name for their judge; ``configs`` are their ``eval_config`` as JSON."""
    judges = [decode(text).get("judge") for text in configs if text is not None]
    return {str(judge["prompt_id"]) for judge in judges if isinstance(judge, Mapping) and judge.get("prompt_id")}
