"""Metrics on a judge's output."""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Literal, TypeAlias

from gage_eval.base.canonical import JsonValue
from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.filters.extract import rating
from gage_eval.scoring.metrics.verdicts import PAIR_OUTCOMES

PanelRule: TypeAlias = Literal["mean", "median", "majority"]

_NO_PAIR = Score.unscored("no judge gave a verdict in both orders", reason="no_verdict")


@metric("judge_threshold", binary=True, version=2)
def judge_threshold(judge: JsonValue, *, threshold: float = 0.5) -> Score:
    """1 when the judge's score is at least ``threshold``, else 0.

    A score may be a number, a number as text, or true and false. Anything else is not a verdict: the row is
    unscored, because a judge's failure is not the model's fault.
    """
    score = _number(judge)
    return _no_number(judge) if score is None else Score(float(score >= threshold))


@metric("judge_score", bounds=(None, None), version=1)
def judge_score(judge: JsonValue) -> Score:
    """The judge's score, on the scale that the judge uses.

    A score is read as by `judge_threshold`; true is 1 and false is 0. The row is unscored without one.
    """
    score = _number(judge)
    return _no_number(judge) if score is None else Score(score)


@metric("clip_score", bounds=(0, 2.5), version=1)
def clip_score(judge: JsonValue) -> Score:
    """CLIPScore (Hessel et al. 2021, arXiv:2104.08718): 2.5 · max(cosine, 0) of the embeddings of a picture and a text.

    The cosine is the score of a judge with ``embeds``. The paper has CLIP ViT-B/32, and ``A photo depicts`` before each
    text; here texts are embedded as they are. Another score than a cosine is unscored.
    """
    score = _number(judge)
    if score is not None and not -1.000001 <= score <= 1.000001:
        return Score.unscored(f"the judge's score {score:g} is not a cosine", reason="no_verdict")
    return _no_number(judge) if score is None else Score(2.5 * min(max(score, 0), 1))


@metric("judge_share", bounds=(0, 1), version=1)
def judge_share(judge: JsonValue) -> Score:
    """The judge's score where it is a share from 0 to 1, of statements that are supported for example.

    A score is read as by `judge_threshold`. Without one, or with one outside 0..1, the row is unscored.
    """
    score = _number(judge)
    if score is not None and not 0 <= score <= 1:
        return Score.unscored(f"the judge's score {score:g} is not a share", reason="no_verdict")
    return _no_number(judge) if score is None else Score(score)


@metric(
    "judge_rating",
    value="rating",
    bounds=(None, None),
    version=2,
    fields={"text": "judge_output.text"},
    set_by={"text": "target_field"},
)
def judge_rating(text: str) -> Score:
    """The judge's ``[[n]]``, as MT-bench reads it (filter ``rating``); unscored without one."""
    rated = rating(text)
    return (
        Score.unscored("the judge gave no rating", reason="no_verdict")
        if rated is None
        else Score(float(rated), extracted=rated)
    )


@metric(
    "panel_score", bounds=(None, None), version=1, fields={"scores": "verdicts.score"}, set_by={"scores": "judge_field"}
)
def panel_score(scores: JsonValue, *, rule: PanelRule = "mean", min_valid: int = 1) -> Score:
    """One score of several judges' scores, on the scale that they use.

    Args:
        scores: the list of all verdicts on the answer; null where a judge gave none.
        rule: ``mean``, ``median``, or ``majority``: the score that more than half of the valid verdicts have.
        min_valid: the row is unscored with fewer valid verdicts.
    """
    return _of_panel([_number(score) for score in scores or []], rule, min_valid)


@metric("panel_pass", binary=True, version=1, fields={"scores": "verdicts.score"}, set_by={"scores": "judge_field"})
def panel_pass(scores: JsonValue, *, threshold: float = 0.5, min_valid: int = 1) -> Score:
    """1 when more than half of the judges' scores are at least ``threshold``, 0 when fewer; a tie is unscored.

    Args:
        scores: the list of all verdicts on the answer; null where a judge gave none.
        threshold: for one verdict.
        min_valid: the row is unscored with fewer valid verdicts.
    """
    numbers = [_number(score) for score in scores or []]
    return _of_panel([None if x is None else float(x >= threshold) for x in numbers], "majority", min_valid)


@metric(
    "pairwise_win",
    value=("win", "consistent", "first_place"),
    bounds=(0, 1),
    higher_is_better={"consistent": None, "first_place": None},
    version=3,
    fields={"answers": "verdicts.answer", "slots": "verdicts.slot"},
)
def pairwise_win(
    answers: JsonValue, slots: JsonValue, *, disagreement: Literal["mean", "tie", "loss"] = "mean"
) -> Score:
    """The win rate of the model's answers in pairs that a judge sees in both orders (``both_orders``).

    In the first order the model's answer is A, in the second it is B. ``win`` is the mean of both orders, with half a
    win for a tie; ``consistent`` is 1 where both say the same; ``first_place`` is the share of wins of the answer that
    was shown first, 0.5 without position bias. The row is unscored where no judge gave a verdict in both orders.

    Args:
        answers: ``A``, ``B`` or ``tie`` of every verdict, or the form of Arena-Hard, ``A>>B``, ``A>B``, ``A=B``, …
        slots: of the same verdicts: even in the first order, then odd.
        disagreement: what counts where the orders differ: the ``mean`` of both, or a ``tie``. With ``loss``, as
            JudgeBench counts, a pair is won whose mean is more than a half, and lost else, with two ties, too.
    """
    pairs = _pairs(answers, slots)
    if not pairs:
        return _NO_PAIR
    wins = [(a + b) / 2 if a == b or disagreement != "tie" else 0.5 for a, b in pairs]
    if disagreement == "loss":
        wins = [float(win > 0.5) for win in wins]
    return Score(
        {
            "win": math.fsum(wins) / len(pairs),
            "consistent": sum(a == b for a, b in pairs) / len(pairs),
            "first_place": math.fsum(a + 1 - b for a, b in pairs) / (2 * len(pairs)),
        }
    )


@metric(
    "length_controlled_win",
    value="win",
    aggregate="length_controlled",
    bounds=(0, 1),
    version=1,
    fields={
        "answers": "verdicts.answer",
        "slots": "verdicts.slot",
        "response": "model_output.answer",
        "other": "sample.metadata.baseline",
        "difficulty": "sample.metadata.difficulty",
    },
)
def length_controlled_win(
    answers: JsonValue, slots: JsonValue, response: JsonValue, other: JsonValue, difficulty: JsonValue = None
) -> Score:
    """The win rate that the model's answers would have if they were as long as the other answers (AlpacaEval 2).

    ``difficulty_field`` must name the field of the samples that has the difficulty of each instruction, from a table
    that was fitted on many models; ``other_field`` that of the other answers. Lengths are in characters. A row
    without a difficulty is unscored, as it is without a verdict in both orders.
    """
    pairs = _pairs(answers, slots)
    if not pairs:
        return _NO_PAIR
    weight = _number(difficulty)
    if weight is None or isinstance(difficulty, bool):
        return Score.unscored(f"the difficulty {str(difficulty)[:40]!r} is not a number")
    if not isinstance(response, str) or not isinstance(other, str):
        return Score.unscored("the lengths of an answer of several turns are not compared")
    win = math.fsum((a + b) / 2 for a, b in pairs) / len(pairs)
    return Score(win, components={"win": [win, len(response) - len(other), weight]})


def _pairs(answers: JsonValue, slots: JsonValue) -> list[tuple[float, float]]:
    """The model's outcome in both orders, by every judge that gave a verdict in both."""
    by_slot = {
        slot: PAIR_OUTCOMES.get(str(answer).strip().casefold()) for slot, answer in zip(slots, answers, strict=True)
    }
    return [
        (first, 1 - second)
        for slot, first in by_slot.items()
        if slot % 2 == 0 and first is not None and (second := by_slot.get(slot + 1)) is not None
    ]


def _of_panel(scores: Sequence[float | None], rule: PanelRule, min_valid: int) -> Score:
    valid = [score for score in scores if score is not None]
    if len(valid) < max(1, min_valid):
        said = f"{len(valid)} of {len(scores)} judges gave a score, and the panel needs {max(1, min_valid)}"
        return Score.unscored(said, reason="no_verdict")
    if rule == "mean":
        return Score(math.fsum(valid) / len(valid))
    if rule == "median":
        return Score(median(valid))
    score, votes = Counter(valid).most_common(1)[0]
    if 2 * votes <= len(valid):
        return Score.unscored("no score has the majority of the judges", reason="no_verdict")
    return Score(score)


def _number(judge: JsonValue) -> float | None:
    try:
        score = float(judge) if isinstance(judge, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return None
    return score if math.isfinite(score) else None


def _no_number(judge: JsonValue) -> Score:
    return Score.unscored(f"the judge's score {str(judge)[:80]!r} is not a number", reason="no_verdict")
