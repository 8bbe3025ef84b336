"""Every parameter that the design documents name for a metric is accepted and changes a value."""

from dataclasses import dataclass, field
from typing import Any

import pytest

import gage_eval
from gage_eval.extend import registry
from gage_eval.scoring.metrics.base import define

OPTIONS = {"A": "Paris", "B": "Rome"}
ALIEN = {"metadata": {"gold": "b"}}


@dataclass(frozen=True)
class Effect:
    """A row whose value one parameter changes.

    Attributes:
        without: the values when the parameter is left away; None for a row without a value.
        given: the values with it.
        also: parameters that both have.
    """

    metric: str
    params: dict[str, Any]
    without: dict[str, float] | None
    with_parameter: dict[str, float]
    sample: dict[str, Any] = field(default_factory=dict)
    output: dict[str, Any] = field(default_factory=dict)
    judgment: dict[str, Any] = field(default_factory=dict)
    also: dict[str, Any] = field(default_factory=dict)


def _text(
    metric: str, params: dict[str, Any], answer: str, label: str, without: float, with_parameter: float
) -> Effect:
    return Effect(metric, params, {"score": without}, {"score": with_parameter}, {"label": label}, {"answer": answer})


def _anls(params: dict[str, Any], answer: str, gold: str, without: float, with_parameter: float) -> Effect:
    return Effect(
        "docvqa_anls", params, {"anls": without}, {"anls": with_parameter}, {"label": gold}, {"answer": answer}
    )


def _loss(metric_type: str, with_parameter: dict[str, float]) -> Effect:
    without = {"nll": 0.0, "ppl": 1.0}
    return Effect(
        "likelihood", {"metric_type": metric_type}, without, with_parameter, output={"logprobs": {"loss": 0.0}}
    )


def _length(params: dict[str, Any], without: float, with_parameter: float, **also: Any) -> Effect:
    output = {"answer": "ab cd", "reasoning": "xyz"}
    return Effect("text_length", params, {"length": without}, {"length": with_parameter}, output=output, also=also)


def _elsewhere(metric: str, key: str, label: str, wrong: str, **fields: Any) -> list[Effect]:
    """The paths of prediction and label, by all their names."""
    outputs = {"answer": wrong, "reasoning": label}
    to_label = {"label": wrong, "metadata": {"gold": label}, **fields}
    of_label = {"label": label, **fields}
    return [
        Effect(metric, {name: "model_output.reasoning"}, {key: 0.0}, {key: 1.0}, of_label, outputs)
        for name in ("prediction_field", "pred_field")
    ] + [Effect(metric, {"label_field": "metadata.gold"}, {key: 0.0}, {key: 1.0}, to_label, {"answer": label})]


EFFECTS = [
    *_elsewhere("exact_match", "score", "b", "c"),
    _text("exact_match", {"case_sensitive": True}, "B", "b", 1.0, 0.0),
    _text("exact_match", {"strip_whitespace": False}, " b", "b", 1.0, 0.0),
    *_elsewhere("contains", "score", "b", "c"),
    _text("contains", {"case_sensitive": True}, "a B c", "b", 1.0, 0.0),
    *_elsewhere("numeric_match", "score", "4", "5"),
    _text("numeric_match", {"tolerance": 0.5}, "4.4", "4", 0.0, 1.0),
    _text("numeric_match", {"mode": "ge"}, "5", "4", 0.0, 1.0),
    _text("numeric_match", {"mode": "le"}, "3", "4", 0.0, 1.0),
    _text("numeric_match", {"range": [5, 9]}, "4", "4", 1.0, 0.0),
    _text("numeric_match", {"fallback": 0.5}, "none", "4", 0.0, 0.5),
    Effect(
        "regex_match",
        {"target_field": "model_output.reasoning"},
        {"score": 0.0},
        {"score": 1.0},
        output={"answer": "x", "reasoning": "7"},
        also={"pattern": r"\d"},
    ),
    Effect(
        "regex_match", {"pattern": "^x$"}, {"score": 0.0}, {"score": 1.0}, output={"answer": "x"}, also={"pattern": "y"}
    ),
    *(
        Effect(
            "judge_threshold",
            {name: "judge_output.parsed.grade"},
            {"score": 0.0},
            {"score": 1.0},
            judgment={"score": 0.1, "parsed": {"grade": 0.9}},
        )
        for name in ("judge_field", "score_field", "verdict_field")
    ),
    Effect("judge_threshold", {"threshold": 0.7}, {"score": 1.0}, {"score": 0.0}, judgment={"score": 0.6}),
    _length({"unit": "word"}, 5.0, 2.0),
    _length({"unit": "char"}, 2.0, 5.0, unit="word"),
    _length({"target_field": "model_output.reasoning"}, 5.0, 3.0),
    Effect("latency", {"default_latency": 7}, None, {"latency_ms": 7.0}),
    Effect(
        "latency",
        {"target_field": "model_output.ttft_ms"},
        {"latency_ms": 9.0},
        {"latency_ms": 2.0},
        output={"latency_ms": 9.0, "ttft_ms": 2.0},
    ),
    *_elsewhere("multi_choice_accuracy", "acc", "B", "A", metadata={"gold": "B", "option_map": OPTIONS}),
    *(
        Effect(
            "multi_choice_accuracy",
            {"option_map_field": "metadata.choices"},
            None,
            {"acc": 1.0},
            {"label": "B", "metadata": {"choices": choices, "option_map": {"X": "Oslo", "Y": "Bonn"}}},
            {"answer": "Rome"},
        )
        for choices in (OPTIONS, [{"label": label, "text": text} for label, text in OPTIONS.items()])
    ),
    Effect(
        "multi_choice_accuracy",
        {"allow_text_match": False},
        {"acc": 1.0},
        {"acc": 0.0},
        {"label": "B", "metadata": {"option_map": OPTIONS}},
        {"answer": "Rome"},
    ),
    *_elsewhere("mmmu_accuracy", "acc", "B", "A", options=[{"id": "A", "content": "x"}, {"id": "B", "content": "y"}]),
    *(
        Effect(
            "docvqa_anls",
            {name: "metadata.gold"},
            {"anls": 0.0},
            {"anls": 1.0},
            {"label": "A", **ALIEN},
            {"answer": "b"},
        )
        for name in ("answers_field", "label_field")
    ),
    _anls({"threshold": 0.9}, "abcdX", "abcde", 0.8, 0.0),
    _anls({"case_sensitive": True}, "paris", "Paris", 1.0, 0.8),
    _anls({"separator": ";"}, "b", "alpha;b", 0.0, 1.0),
    _loss("nll", {"nll": 0.0}),
    _loss("PPL", {"ppl": 1.0}),
    *(
        Effect("ranking", params, {"mrr": 0.5, "hit@3": 1.0}, with_parameter, {"references": ["b"]}, {"answer": "a\nb"})
        for params, with_parameter in (
            ({"metric_type": "MRR"}, {"mrr": 0.5}),
            ({"metric_type": "Hit@K"}, {"hit@3": 1.0}),
            ({"k": 1}, {"mrr": 0.5, "hit@1": 0.0}),
        )
    ),
    Effect(
        "ranking",
        {"candidate_field": "id"},
        {"mrr": 0.0, "hit@3": 0.0},
        {"mrr": 1.0, "hit@3": 1.0},
        {"references": ["b"]},
        {"answer": '[{"id": "b"}]'},
    ),
    Effect(
        "ranking",
        {"targets_field": "metadata.gold"},
        {"mrr": 0.0, "hit@3": 0.0},
        {"mrr": 1.0, "hit@3": 1.0},
        {"references": ["a"], **ALIEN},
        {"answer": "b"},
    ),
]


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: f"{effect.metric}-{effect.params}")
def test_a_documented_parameter_changes_a_value(effect: Effect) -> None:
    def values(params: dict[str, Any]) -> dict[str, float] | None:
        result = gage_eval.score(
            effect.metric,
            sample={"id": "s", **effect.sample},
            model_output=effect.output,
            judge_output=effect.judgment,
            params=params,
        )
        return None if result.status == "unscored" else result.values

    assert values(effect.also) == (None if effect.without is None else pytest.approx(effect.without))
    assert values({**effect.also, **effect.params}) == pytest.approx(effect.with_parameter)


def test_the_table_has_every_documented_parameter() -> None:
    documented = {
        "exact_match": {"label_field", "prediction_field", "case_sensitive", "strip_whitespace"},
        "contains": {"label_field", "prediction_field", "case_sensitive"},
        "numeric_match": {"label_field", "prediction_field", "tolerance", "mode", "range", "fallback"},
        "regex_match": {"pattern", "target_field"},
        "judge_threshold": {"judge_field", "score_field", "verdict_field", "threshold"},
        "text_length": {"target_field", "unit"},
        "latency": {"target_field", "default_latency"},
        "multi_choice_accuracy": {"label_field", "prediction_field", "option_map_field", "allow_text_match"},
        "mmmu_accuracy": {"label_field", "prediction_field"},
        "docvqa_anls": {"answers_field", "threshold", "case_sensitive", "separator"},
        "likelihood": {"metric_type"},
        "ranking": {"metric_type", "k", "candidate_field"},
    }
    for metric, names in documented.items():
        shown = {name for effect in EFFECTS if effect.metric == metric for name in effect.params}
        assert names <= shown, metric
        known = define(registry.metrics.get(metric))
        assert names <= known.path_parameters.keys() | known.signature.parameters.keys(), metric


@pytest.mark.parametrize(("metric", "keys"), [("likelihood", {"ppl"}), ("ranking", {"hit@3"})])
def test_a_chosen_number_is_the_only_one_in_the_table(metric: str, keys: set[str]) -> None:
    chosen = {"likelihood": "ppl", "ranking": "hit@k"}[metric]
    bound = gage_eval.scoring.metrics.bind(metric, {"metric_type": chosen})
    assert set(bound.value_keys) == keys
    assert {row["value_key"] for row in bound.aggregate([], {})} == keys
    renamed = gage_eval.scoring.metrics.bind(metric, {"metric_type": chosen}, value_key="mine")
    assert {row["value_key"] for row in renamed.aggregate([], {})} == {"mine"}
