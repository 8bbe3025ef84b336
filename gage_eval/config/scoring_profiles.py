"""Scoring profiles: for each answer type the metrics, the primary one and the score that passes, from one YAML file."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from gage_eval.base.errors import InputError, closest
from gage_eval.base.packaged import configs_dir
from gage_eval.config.bound_metric import try_bound
from gage_eval.config.files import read_beside
from gage_eval.config.model_of import model_of
from gage_eval.config.models import MetricConfig
from gage_eval.config.problems import ConfigProblem
from gage_eval.config.yaml.lines import parse
from gage_eval.scoring.metrics.normalization import NormalizationConfig
from gage_eval.scoring.scorecards.answer import ANSWER_TYPES
from gage_eval.scoring.scorecards.card import Preset

_DEFAULT = "default"
_SUFFIXES = (".yaml", ".yml")


class ScorerPreset(Preset):
    """How answers of one type are scored."""

    metrics: tuple[MetricConfig, ...] = Field(min_length=1)


class ScoringProfile(BaseModel):
    """A whole profile.

    Attributes:
        version: goes into canonical answers.
        normalization: what is done to both sides before they are compared.
        scorers: the preset of each answer type.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    version: str = "v1"
    normalization: NormalizationConfig = NormalizationConfig()
    scorers: dict[str, ScorerPreset] = {}


def load_profile(name: str | None = None, base_dir: Path | None = None) -> ScoringProfile:
    """A scoring profile, read once for as long as its file stays as it is.

    Args:
        name: a YAML file, or the name of a profile under ``configs/scoring_profiles``; ``default`` unless given.
        base_dir: where a relative file starts from, the working folder by default.

    Raises:
        ConfigError: the file is not a profile; all its mistakes at once.
        InputError: the file or profile does not exist.
    """
    name = name or _DEFAULT
    file = (base_dir or Path()) / name if name.endswith(_SUFFIXES) else _shipped(name)
    return parse_profile(read_beside(file, name, "scoring profile"), name)


@lru_cache(maxsize=16)
def parse_profile(text: str, source: str) -> ScoringProfile:
    """`load_profile` for the text of a file, which errors call ``source``."""
    profile, document = model_of(parse(text, source), source, ScoringProfile)
    if not document.whole:
        document.refuse("it is empty; a scoring profile has version, normalization and scorers.")
    document.add(_problems(profile))
    if document.problems:
        raise document.error()
    return profile


def _problems(profile: ScoringProfile) -> Iterator[ConfigProblem]:
    for answer_type, preset in profile.scorers.items():
        if answer_type not in ANSWER_TYPES:
            known = ", ".join(ANSWER_TYPES)
            message = f"no answer type '{answer_type}'. Known: {known}.{closest(answer_type, ANSWER_TYPES)}"
            yield ConfigProblem(("scorers", answer_type), message)
        for index, metric in enumerate(preset.metrics):
            result = try_bound(metric, normalization=profile.normalization)
            if isinstance(result, ConfigProblem):
                # A parameter may stand next to ``type`` or under ``params``, so the problem is located at the metric.
                yield ConfigProblem(("scorers", answer_type, "metrics", index), result.message, result.cause)


def _shipped(name: str) -> Path:
    folder = configs_dir() / "scoring_profiles"
    known = sorted(file.stem for file in folder.glob("*.yaml"))
    if name not in known:
        raise InputError(
            f"no scoring profile '{name}'. Known: {', '.join(known)}; or name a .yaml file.{closest(name, known)}"
        )
    return folder / f"{name}.yaml"
