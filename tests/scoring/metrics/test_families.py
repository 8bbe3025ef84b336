"""A metric may be a class: its fields are parameters, and a base class leaves it one step to write."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gage_eval
from gage_eval.plugins import InputError

CODE = """
from dataclasses import dataclass
from gage_eval.plugins import *

class Words(SimpleMetric):
    def score(self, prediction: str) -> float:
        return len(prediction.split())

@dataclass(frozen=True, kw_only=True)
class Starts(ComparisonMetric):
    letters: int = 1
    def compare(self, prediction: str, reference: str) -> float:
        return float(prediction[:self.letters] == reference[:self.letters])

@dataclass(frozen=True, kw_only=True)
class Distance(SequenceDistanceMetric):
    pass

class Best(MultiReferenceTextMetric):
    def compare(self, prediction: str, reference: str) -> float:
        return float(prediction == reference)

class Below(NumericThresholdMetric):
    def accepts(self, number, reference) -> bool:
        return number < reference

class Near(NumericThresholdMetric):
    pass

class Bits(LikelihoodMetric):
    def of(self, nats: float, tokens: int) -> float:
        return nats / tokens / 2

@dataclass(frozen=True, kw_only=True)
class Precision(RankingMetric):
    k: int = 2
    def of(self, ranks, targets: int) -> float:
        return sum(rank <= self.k for rank in ranks) / self.k

class Unfinished(ComparisonMetric):
    pass

class Bare:
    pass
"""


@pytest.fixture
def score(tmp_path: Path) -> Callable[..., gage_eval.ScoreResult]:
    (tmp_path / "mine.py").write_text(CODE)

    def call(name: str, answer: Any, label: str = "Paris", **params: Any) -> gage_eval.ScoreResult:
        output = answer if isinstance(answer, dict) else {"answer": answer}
        return gage_eval.score(
            f"{tmp_path}/mine.py:{name}", sample={"label": label}, model_output=output, params=params
        )

    return call


@pytest.mark.parametrize(
    ("name", "answer", "label", "params", "value"),
    [
        ("Words", "a b c", "x", {}, 3.0),
        ("Starts", "Perth", "Paris", {}, 1.0),
        ("Starts", "Perth", "Paris", {"letters": 2}, 0.0),
        ("Distance", "paris!", "Paris", {}, 1 - 1 / 6),
        ("Distance", "paris!", "Paris", {"normalize": "cer"}, 1 - 1 / 5),
        ("Distance", "paris!", "Paris", {"normalize": "raw"}, 1.0),
        ("Distance", "paris", "Paris", {"normalize": "raw", "case_sensitive": True}, 1.0),
        ("Distance", "", "", {}, 1.0),
        ("Best", "b", "a;b", {"separator": ";"}, 1.0),
        ("Best", "b", "a;b", {}, 0.0),
        ("Below", "it is 3", "4", {}, 1.0),
        ("Near", "4.4", "4", {"tolerance": 0.5}, 1.0),
        ("Near", "none", "4", {"tolerance": 0.5}, 0.0),
        ("Bits", {"logprobs": {"token_logprobs": [-2.0, -4.0]}}, "x", {}, 1.5),
        ("Precision", "a\nParis", "Paris", {}, 0.5),
        ("Precision", "", "Paris", {}, 0.0),
    ],
)
def test_each_family_leaves_one_step_to_write(
    score: Callable[..., gage_eval.ScoreResult],
    name: str,
    answer: Any,
    label: str,
    params: dict[str, Any],
    value: float,
) -> None:
    assert score(name, answer, label, **params).values == {"score": pytest.approx(value)}


def test_what_cannot_be_read_is_told_as_by_functions(score: Callable[..., gage_eval.ScoreResult]) -> None:
    assert score("Near", "none", "4").status == score("Precision", "").status == "unparsed"
    assert score("Near", "4", "none").status == score("Bits", {"logprobs": {}}).status == "unscored"


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("Starts", {"letter": 2}, "Did you mean 'letters'"),
        ("Starts", {"letters": "two"}, "parameter 'letters' is 'two'"),
        ("Distance", {"normalize": "wer"}, "parameter 'normalize' is 'wer'"),
        ("Unfinished", {}, "lacks compare"),
        ("Bare", {}, "a class without a method 'score'"),
    ],
)
def test_classes_are_checked_before_work_starts(
    score: Callable[..., gage_eval.ScoreResult], name: str, params: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        score(name, "x", **params)
