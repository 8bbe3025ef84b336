"""Base classes for metrics that differ in one step.

    @metric("close_enough", value="similarity")
    class CloseEnough(SequenceDistanceMetric):
        def distance(self, answer: str, expected: str) -> float: ...

A metric may be a class instead of a function: a frozen dataclass with keyword-only fields, which are its parameters,
and a method ``score``, whose arguments are the fields that it reads.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from gage_eval.base.canonical import JsonValue
from gage_eval.scoring.metrics.base import Score
from gage_eval.scoring.metrics.builtin.perplexity import nats_and_tokens
from gage_eval.scoring.metrics.builtin.ranking import read_candidates
from gage_eval.scoring.metrics.numbers import exact, last_number
from gage_eval.scoring.metrics.text_utils import normalise_text


@dataclass(frozen=True, kw_only=True)
class SimpleMetric(ABC):
    """A number computed from the answer only."""

    @abstractmethod
    def score(self, prediction: str) -> float | Score:
        """The number of an answer."""


@dataclass(frozen=True, kw_only=True)
class ComparisonMetric(ABC):
    """A number computed from the answer and the reference."""

    @abstractmethod
    def compare(self, prediction: str, reference: str) -> float | Score:
        """The number of an answer compared with a reference."""

    def score(self, prediction: str, reference: str) -> float | Score:
        return self.compare(prediction, reference)


@dataclass(frozen=True, kw_only=True)
class SequenceDistanceMetric(ComparisonMetric):
    """A distance of answer and reference, with white space collapsed and both lowered unless case counts.

    ``normalize``: ``anls`` is 1 − distance / length of the longer, ``cer`` 1 − distance / length of the reference (the
    character error rate's complement), both from 0 up; ``raw`` is the distance. Two empty texts are the same.
    """

    normalize: Literal["anls", "cer", "raw"] = "anls"
    case_sensitive: bool = False

    def distance(self, answer: str, expected: str) -> float:
        """Levenshtein's distance, unless a subclass has another."""
        from rapidfuzz.distance import Levenshtein

        return Levenshtein.distance(answer, expected)

    def compare(self, prediction: str, reference: str) -> float | Score:
        answer, expected = (
            normalise_text(text, case_sensitive=self.case_sensitive, collapse_whitespace=True)
            for text in (prediction, reference)
        )
        distance = self.distance(answer, expected)
        length = len(expected) if self.normalize == "cer" else max(len(answer), len(expected))
        value = distance if self.normalize == "raw" else max(0.0, 1 - distance / (length or 1))
        facts: dict[str, JsonValue] = {"distance": distance, "normalized": value, "strategy": self.normalize}
        return Score(value, metadata=facts)


@dataclass(frozen=True, kw_only=True)
class MultiReferenceTextMetric(ABC):
    """The best number over several accepted answers; ``separator`` splits one text into several answers."""

    separator: Annotated[str, Field(min_length=1)] | None = None

    @abstractmethod
    def compare(self, prediction: str, reference: str) -> float:
        """The number of an answer for one accepted answer; higher is better."""

    def score(self, prediction: str, answers: Sequence[str]) -> Score:
        if self.separator is not None:
            answers = [part for answer in answers for part in answer.split(self.separator)]
        if not answers:
            return Score.unscored("there is no accepted answer")
        values = [self.compare(prediction, answer) for answer in answers]
        best = max(values)
        facts: dict[str, JsonValue] = {"best_score": best, "best_reference": answers[values.index(best)]}
        return Score(best, metadata=facts)


@dataclass(frozen=True, kw_only=True)
class NumericThresholdMetric:
    """1 when the answer's last number is accepted for the reference's; an answer without a number is unparsed."""

    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0

    def accepts(self, number: Fraction, reference: Fraction) -> bool:
        """Whether they differ by at most ``tolerance``; subclasses may check something else."""
        return abs(number - reference) <= exact(self.tolerance)

    def score(self, prediction: str, reference: str) -> Score:
        wanted, predicted = last_number(reference), last_number(prediction)
        if wanted is None:
            return Score.unscored("the reference is not a number")
        if predicted is None:
            return Score(0.0, "unparsed", explanation="the answer holds no number", metadata={"invalid_format": True})
        return Score(float(self.accepts(Fraction(predicted.value), Fraction(wanted.value))), extracted=predicted.text)


@dataclass(frozen=True, kw_only=True)
class LikelihoodMetric(ABC):
    """A number computed from a text's likelihood; a response without log probabilities is unscored."""

    @abstractmethod
    def of(self, nats: float, tokens: int) -> float:
        """The number of a text with this negative log-likelihood (of all its tokens, in nats)."""

    def score(self, logprobs: JsonValue) -> Score:
        try:
            return Score(self.of(*nats_and_tokens(logprobs)))
        except ValueError as error:
            return Score.unscored(str(error))


@dataclass(frozen=True, kw_only=True)
class RankingMetric(ABC):
    """A number computed from the ranks of the right candidates, in a JSON list or one per line (see ``ranking``)."""

    candidate_field: str | None = None

    @abstractmethod
    def of(self, ranks: Sequence[int], targets: int) -> float:
        """Compute the number from the ranks (from 1) of right candidates and the number of targets. The list of ranks
        is empty if no candidate is right.
        """

    def score(self, prediction: str, targets: Sequence[str]) -> Score:
        wanted = {target.strip() for target in targets}
        if not wanted:
            return Score.unscored("there is no target")
        candidates = read_candidates(prediction, self.candidate_field)
        value = self.of([rank for rank, candidate in enumerate(candidates, 1) if candidate in wanted], len(wanted))
        return Score(value) if candidates else Score.unparsed("the answer holds no candidates", value=value)
