"""Scoring profiles: for each answer type the metrics, the primary one and the score that passes, from one YAML file."""

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gage_eval import registry
from gage_eval.canonical import JsonValue
from gage_eval.errors import ConfigError, InputError, Problem, closest
from gage_eval.foreign import NotImported
from gage_eval.metrics.base import define
from gage_eval.metrics.bind import bind
from gage_eval.metrics.normalization import NormalizationConfig
from gage_eval.packaged import configs_dir
from gage_eval.plain_yaml import plain_values, read_bounded
from gage_eval.scorecards.answer import ANSWER_TYPES

MetricsMode: TypeAlias = Literal["replace", "extend"]
T = TypeVar("T")

DEFAULT_PROFILE = "default"
_SUFFIXES = (".yaml", ".yml")
# What a rule says about its metric's entry; everything else is a parameter of the metric.
ENTRY_KEYS = frozenset(
    {"aggregation", "filters", "on_missing_field", "slices", "cluster_field", "weight_field", "description"}
)

_log = logging.getLogger(__name__)


class _Model(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class MetricRule(BaseModel):
    """One metric of a preset: its type, the name of its result, and its parameters."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True, defer_build=True)

    type: str = Field(min_length=1, description="A registered metric or its class path.")
    name: str = Field(default="", description="The name of the result; the type's by default.")

    @property
    def extras(self) -> dict[str, JsonValue]:
        """The parameters."""
        return dict(self.model_extra or {})

    def to_rule_dict(self) -> dict[str, JsonValue]:
        """The rule as one flat mapping, as it is written in a profile."""
        named = {"name": self.name} if self.name else {}
        return {"type": self.type, **named, **self.extras}


class ScorerPreset(_Model):
    """How answers of one type are scored."""

    primary_metric: str = Field(min_length=1, description="Key, suffix of a key, or type of the metric that counts.")
    pass_threshold: float = Field(default=0.5, description="Primary score from which an answer passes.")
    metrics: tuple[MetricRule, ...] = Field(min_length=1, description="The metrics.")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ScorerPreset":
        """A preset from plain values, which are left as they are.

        Raises:
            pydantic.ValidationError: they are not a preset.
        """
        return cls.model_validate(dict(data))


class ScoringProfile(_Model):
    """A whole profile."""

    version: str = Field(default="v1", description="Version of the profile; goes into canonical answers.")
    normalization: NormalizationConfig = Field(
        default=NormalizationConfig(), description="What is done to both sides before they are compared."
    )
    scorers: dict[str, ScorerPreset] = Field(default={}, description="The preset of each answer type.")

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], *, source: str = "scoring profile") -> "ScoringProfile":
        """A profile from plain values.

        Raises:
            ConfigError: they are not a profile, or name metrics or parameters that are not there; all mistakes at once.
        """
        try:
            profile = cls.model_validate(dict(raw))
        except ValidationError as error:
            raise ConfigError(source, [_problem(item) for item in error.errors(include_url=False)]) from error
        problems = list(profile._unknown())
        if problems:
            raise ConfigError(source, problems)
        return profile

    def get_preset(self, answer_type: str) -> ScorerPreset | None:
        """The preset of an answer type, None without one."""
        return self.scorers.get(answer_type)

    def _unknown(self) -> list[Problem]:
        problems = []
        for answer_type, preset in self.scorers.items():
            location = f"scorers.{answer_type}"
            if answer_type not in ANSWER_TYPES:
                known = ", ".join(ANSWER_TYPES)
                message = f"no answer type '{answer_type}'. Known: {known}.{closest(answer_type, ANSWER_TYPES)}"
                problems.append(Problem(location, message))
            for index, rule in enumerate(preset.metrics):
                try:
                    _bind(rule)
                except NotImported:
                    raise
                except InputError as error:
                    problems.append(Problem(f"{location}.metrics[{index}]", str(error)))
        return problems


def load_profile(path: str | Path | None = None, *, base_dir: Path | None = None) -> ScoringProfile:
    """A scoring profile, read once for as long as its file stays as it is.

    Args:
        path: a YAML file, or the name of a profile under ``configs/scoring_profiles``; ``default`` unless given.
        base_dir: where a relative file starts from, the working folder by default.

    Raises:
        ConfigError: the file is not a profile; all its mistakes at once.
        InputError: the file or profile does not exist.
    """
    name = str(path or DEFAULT_PROFILE)
    file = (base_dir or Path()) / name if name.endswith(_SUFFIXES) else _shipped(name)
    try:
        data = read_bounded(file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read the scoring profile '{name}': {reason}.") from error
    return _read(data, name)


def resolve_metrics(
    answer_type: str | None,
    task_metrics: Sequence[T],
    profile: ScoringProfile | str | Path | None = None,
    *,
    mode: MetricsMode = "replace",
) -> list[T | dict[str, JsonValue]]:
    """The metrics that count for a task.

    Without an answer type they are the task's own. With one, the task's own win where it has any, and the preset's
    are used if it has none; ``mode: extend`` takes the preset's and then the task's. An answer type without a
    preset leaves the task's own, with a warning.

    Args:
        answer_type: of the task.
        task_metrics: its own metrics, in any form; they are passed through.
        profile: a profile, its name or its file; the default one unless given.
        mode: whether the task's metrics replace the preset's or are added to them.

    Returns:
        The task's metrics as they were given, and rules of the preset as `MetricRule.to_rule_dict` writes them.
    """
    if answer_type is None:
        return list(task_metrics)
    known = profile if isinstance(profile, ScoringProfile) else load_profile(profile)
    preset = known.get_preset(answer_type)
    if preset is None:
        _log.warning("%s; the task's own metrics count.", no_preset(answer_type, known))
        return list(task_metrics)
    if task_metrics and mode == "replace":
        return list(task_metrics)
    return [*(rule.to_rule_dict() for rule in preset.metrics), *task_metrics]


def no_preset(answer_type: str, profile: ScoringProfile) -> str:
    """The sentence for an answer type that a profile does not know."""
    known = ", ".join(profile.scorers) or "none"
    return (
        f"the scoring profile has no preset for answer_type '{answer_type}' (it has: {known})"
        f"{closest(answer_type, profile.scorers)}"
    )


def metric_entry(rule: Mapping[str, Any]) -> dict[str, Any]:
    """A rule ``{type, name, …}`` as an entry of ``metrics:``.

    ``name`` is the metric's id, and its parameter of that name where it has one.
    """
    rest = {key: value for key, value in rule.items() if key not in ("type", "name")}
    name, kind = rule.get("name"), rule["type"]
    entry = {key: rest.pop(key) for key in ENTRY_KEYS & rest.keys()}
    params = {**({"name": name} if name and _takes_name(kind) else {}), **rest}
    short = kind.rpartition(":")[2].rpartition(".")[2] if isinstance(kind, str) else kind
    return {"metric_id": name or short, "implementation": kind, "params": params, **entry}


def compares(implementation: str) -> bool:
    """Whether a metric compares an answer with a reference by a plain rule (`gage_eval.metrics.metric`)."""
    return bool(registry.metrics.get(implementation).info.get("normalized"))


def _takes_name(implementation: Any) -> bool:
    if implementation not in registry.metrics.names():
        return False
    try:
        return "name" in define(registry.metrics.get(implementation)).signature.parameters
    except InputError:
        # Said where the metric is bound, with its place in the config.
        return False


def _bind(rule: MetricRule) -> None:
    entry = metric_entry(rule.to_rule_dict())
    bind(
        entry["implementation"],
        entry["params"],
        metric_id=entry["metric_id"],
        aggregation=entry.get("aggregation"),
        filters=entry.get("filters"),
        on_missing_field=entry.get("on_missing_field", "warn"),
        cluster_field=entry.get("cluster_field"),
        weight_field=entry.get("weight_field"),
        slices=entry.get("slices", ()),
    )


def _shipped(name: str) -> Path:
    folder = configs_dir() / "scoring_profiles"
    known = sorted(file.stem for file in folder.glob("*.yaml"))
    if name not in known:
        raise InputError(
            f"no scoring profile '{name}'. Known: {', '.join(known)}; or name a .yaml file.{closest(name, known)}"
        )
    return folder / f"{name}.yaml"


@lru_cache(maxsize=16)
def _read(data: bytes, source: str) -> ScoringProfile:
    try:
        raw = plain_values(data)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        reason = str(error) if mark is None else "it is not YAML"
        raise ConfigError(source, [Problem("", f"{reason}.", line)]) from error
    if not isinstance(raw, Mapping):
        raise ConfigError(
            source, [Problem("", "a scoring profile is a mapping of version, normalization and scorers.")]
        )
    return ScoringProfile.from_dict(raw, source=source)


def _problem(item: Mapping[str, Any]) -> Problem:
    path = ""
    for part in item["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    message = item["msg"].removeprefix("Value error, ")
    return Problem(path, message[:1].lower() + message[1:] + ".")
