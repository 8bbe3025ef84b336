"""Score cards: one primary score, and whether it passes."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import Field

from gage_eval.base.canonical import JsonValue
from gage_eval.base.strict_model import StrictModel

_log = logging.getLogger(__name__)


class Preset(StrictModel):
    """Which score counts for answers of one type, and what passes.

    Attributes:
        primary_metric: key, end of a key, or type of the metric that counts.
        pass_threshold: the primary score from which an answer passes.
    """

    primary_metric: str = Field(min_length=1)
    pass_threshold: float = 0.5


class ScoreCard(StrictModel):
    """The result of a sample or a task, in one form for all answer types."""

    answer_type: str | None = Field(default=None, description="The kind of answer.")
    primary_metric: str = Field(description="Key of the primary score in sub_scores; empty when there is no score.")
    primary_score: float | None = Field(description="The primary score; null if there is none.")
    pass_threshold: float | None = Field(default=None, description="Primary score that passes; null without a preset.")
    higher_is_better: bool = Field(default=True, description="Whether more of the primary score is better.")
    passed: bool = Field(description="Whether the primary score reaches the threshold; false without a preset.")
    sub_scores: dict[str, float | None] = Field(description="Every score by its key.")
    error_tags: list[str] = Field(
        default=[], description="What went wrong: truncated, looped, refused, error, skipped, unparsed, unscored."
    )
    explain: str = Field(default="", description="Why, in a sentence.")


@dataclass(frozen=True)
class CardRule:
    """How the cards of a task are made.

    Attributes:
        answer_type: of the task.
        primary: key of the primary score; empty: the first.
        threshold: what passes; None: nothing does.
        version: of the scoring profile.
        higher_is_better: False where less of the primary score is better.
    """

    answer_type: str
    primary: str = ""
    threshold: float | None = None
    version: str | None = None
    higher_is_better: bool = True

    def identity(self) -> JsonValue:
        """Its part of keys."""
        return {
            "answer_type": self.answer_type,
            "primary": self.primary,
            "threshold": self.threshold,
            "higher_is_better": self.higher_is_better,
        }

    def passes(self, score: float | None) -> bool:
        """Whether a score reaches the threshold."""
        if score is None or self.threshold is None:
            return False
        return score >= self.threshold if self.higher_is_better else score <= self.threshold

    def card(self, scores: Mapping[str, float | None], error_tags: Iterable[str] = (), explain: str = "") -> ScoreCard:
        """The card of these scores."""
        key = self.primary or next(iter(scores), "")
        score = scores.get(key)
        return ScoreCard(
            answer_type=self.answer_type,
            primary_metric=key,
            primary_score=score,
            pass_threshold=self.threshold,
            higher_is_better=self.higher_is_better,
            passed=self.passes(score),
            sub_scores=dict(scores),
            error_tags=list(dict.fromkeys(error_tags)),
            explain=explain or self._verdict(key, score),
        )

    def _verdict(self, key: str, score: float | None) -> str:
        if not key:
            return "there is no score"
        if score is None:
            return f"{key} has no score"
        if self.threshold is None:
            return f"{key} is {score:.6g}; no preset says what passes"
        at, beyond = ("at least", "below") if self.higher_is_better else ("at most", "above")
        return f"{key} is {score:.6g}, {at if self.passes(score) else beyond} {self.threshold:.6g}"


class Named(Protocol):
    """The fields of an aggregated number that name it (`gage_eval.report.MetricSummary`)."""

    @property
    def metric_id(self) -> str: ...
    @property
    def filter(self) -> str | None: ...
    @property
    def value_key(self) -> str: ...


class Number(Named, Protocol):
    """The fields of an aggregated number that a card reads."""

    @property
    def value(self) -> float | None: ...


def score_key(metric_id: str, filter_name: str | None, value_key: str, n_values: int) -> str:
    """The key of a number among the scores of a card.

    Args:
        metric_id: the metric's name.
        filter_name: its filter, None for none.
        value_key: which of its numbers.
        n_values: the number of its value keys.

    >>> score_key("choice_acc", None, "score", 1), score_key("value", None, "value_within_tol", 3)
    ('choice_acc', 'value_within_tol')
    >>> score_key("squad", "boxed", "f1", 2)
    'squad_f1,boxed'
    """
    own = value_key == metric_id or value_key.startswith(f"{metric_id}_")
    name = metric_id if n_values == 1 else value_key if own else f"{metric_id}_{value_key}"
    return name if filter_name is None else f"{name},{filter_name}"


def task_scores(numbers: Iterable["Number"]) -> dict[str, float | None]:
    """Scores by key. If a number has several aggregations, the first counts."""
    every = list(numbers)
    scores: dict[str, float | None] = {}
    for number, key in zip(every, score_keys(every), strict=True):
        scores.setdefault(key, number.value)
    return scores


def score_keys(numbers: Sequence["Named"]) -> list[str]:
    """The key of each of a task's numbers among the scores of its card."""
    values: dict[str, set[str]] = {}
    for number in numbers:
        values.setdefault(number.metric_id, set()).add(number.value_key)
    return [
        score_key(number.metric_id, number.filter, number.value_key, len(values[number.metric_id]))
        for number in numbers
    ]


def find_primary(
    keys: Sequence[str], wanted: str, types: Mapping[str, str] | None = None, *, owner: str = ""
) -> str | None:
    """The key of the primary score, None when there is none.

    Looked for in this order: the key itself; a key that ends with it (``within_tol`` for ``value_within_tol``), at an
    underscore first; the name of the metric of that type. A filter's name behind a comma does not count. Of several
    that fit the first is taken, with a warning.

    Args:
        keys: the keys that scores have.
        wanted: `Preset.primary_metric`.
        types: the type of each metric by its name.
        owner: whose card it is, for the warning.
    """
    plain = {key: key.partition(",")[0] for key in keys}
    names = {name for name, kind in (types or {}).items() if kind == wanted}
    searches = (
        [key for key in keys if key == wanted],
        [key for key in keys if plain[key] == wanted],
        [key for key in keys if plain[key].endswith(f"_{wanted}")],
        [key for key in keys if plain[key].endswith(wanted)],
        [key for key in keys if plain[key] in names],
    )
    matches = next(filter(None, searches), [])
    if len(matches) > 1:
        _log.warning(
            "%sprimary_metric '%s' may be any of %s; %s is taken. Name one of them in the scoring profile.",
            owner,
            wanted,
            ", ".join(matches),
            matches[0],
        )
    return matches[0] if matches else None


def card_rule(
    answer_type: str,
    keys: Sequence[str],
    preset: Preset | None,
    version: str | None = None,
    types: Mapping[str, str] | None = None,
    *,
    less_is_better: Collection[str] = (),
    owner: str = "",
    is_chosen: bool = True,
) -> CardRule:
    """The rule of a task's cards.

    Args:
        answer_type: of the task.
        keys: the keys its scores have.
        preset: of the answer type; without one the first score is the primary one and nothing passes.
        version: of the scoring profile.
        types: the type of each metric by its name.
        less_is_better: the keys of scores of which less is better.
        owner: whose cards they are, for warnings: ``task 'x': ``.
        is_chosen: whether the config names the profile. Who does not may not know that it has a primary metric.
    """
    if preset is None:
        return CardRule(answer_type, version=version)
    primary = find_primary(keys, preset.primary_metric, types, owner=owner)
    if primary is None and keys and is_chosen:
        _log.warning(
            "%sno score is named by primary_metric '%s' of answer type %s (there are %s), so nothing passes. Name one "
            "of them in a scoring profile, or have that metric, too (metrics_mode: extend).",
            owner,
            preset.primary_metric,
            answer_type,
            ", ".join(keys),
        )
    return CardRule(
        answer_type,
        primary or preset.primary_metric,
        preset.pass_threshold,
        version,
        higher_is_better=primary not in less_is_better,
    )
