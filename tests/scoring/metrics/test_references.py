"""Several references of a sample are alternatives, or all needed where the config says so; none is passed over."""

from pathlib import Path
from typing import Any

import pytest
from score_tables import answers, responses, sample, samples
from vectors import references

import gage_eval
from gage_eval.base.errors import InputError
from gage_eval.extend import registry
from gage_eval.scoring.metrics import Score, bind
from gage_eval.scoring.metrics.base import define
from gage_eval.scoring.metrics.references import position


def values(name: str, golds: list[str], answer: str, how: Any = "any", **params: Any) -> dict[str, float] | str:
    bound = bind(name, params, references=how)
    row = sample(0, golds[0], references=references(*golds))
    (scored,) = bound.score_table({"samples": samples([row]), "responses": answers([answer])}).to_pylist()
    return dict(scored["values"]) if scored["status"] == "scored" else scored["status"]


@pytest.mark.parametrize(
    ("name", "golds", "answer", "key"),
    [
        ("exact_match", ["Paris", "City of Light"], "city of light", "score"),
        ("contains", ["Paris", "Lutetia"], "It was Lutetia.", "score"),
        ("numeric_match", ["10", "12"], "It is 12.", "score"),
        ("numeric_match", ["none", "12"], "It is 12.", "score"),
        ("multi_choice_accuracy", ["A", "C"], "The answer is C.", "acc"),
        ("gsm8k", ["1000", "1,200"], "#### 1200", "exact_match"),
        ("math_equivalence", ["2", r"\frac12"], "1/2", "score"),
        ("choice_set", ["A", "BC"], "C, B", "acc"),
        ("choice_points", ["A", "BC"], "C, B", "credit"),
        ("number", ["3", "4"], "4", "value_exact"),
        ("list", ["a, b", "c"], "c", "list_exact"),
        ("match", ["x", "y"], "so y", "score"),
        ("token_f1", ["x", "y"], "y", "exact"),
    ],
)
def test_any_reference_may_match(name: str, golds: list[str], answer: str, key: str) -> None:
    scores = values(name, golds, answer)
    assert isinstance(scores, dict)
    assert scores[key] == 1.0


@pytest.mark.parametrize(
    ("name", "golds", "answer", "key", "value"),
    [
        ("contains", ["red", "blue"], "red and blue", "score", 1.0),
        ("contains", ["red", "blue"], "red", "score", 0.0),
        ("match", ["red", "blue"], "blue, red", "score", 1.0),
        ("match", ["red", "blue"], "blue", "score", 0.0),
        ("list", ["red", "blue"], "blue, red", "list_exact", 1.0),
        ("list", ["red", "blue"], "blue", "list_recall", 0.5),
        ("choice_set", ["A", "C"], "C and A", "acc", 1.0),
        ("choice_set", ["A", "C"], "A", "acc", 0.0),
        ("choice_points", ["A", "C"], "A", "credit", 0.5),
        ("choice_points", ["A", "C"], "A, B", "credit", 0.0),
    ],
)
def test_all_references_are_needed_where_the_config_says_so(
    name: str, golds: list[str], answer: str, key: str, value: float
) -> None:
    params = {"location": "any"} if name == "match" else {}
    scores = values(name, golds, answer, "all", **params)
    assert isinstance(scores, dict)
    assert scores[key] == value


def test_every_metric_reads_all_references_or_says_that_it_cannot() -> None:
    refused, unread = set(), set()
    for plugin in (registry.metrics.get(name) for name in registry.metrics.names()):
        if not plugin.is_builtin:
            continue
        known = define(plugin)
        required = {name: "x" for name, (_, default) in known.signature.parameters.items() if name in ("pattern",)}
        required |= {"fields": ["x"]} if "fields" in known.signature.parameters else {}
        if position(known) is None or plugin.info["all_references"] is None:
            with pytest.raises(InputError, match="references"):
                bind(plugin.name, required, references="all")
            refused.add(plugin.name)
        else:
            bind(plugin.name, required, references="all")
        if position(known) is not None and not plugin.info["alternatives"]:
            unread.add(plugin.name)
    assert unread == {"word_perplexity", "byte_perplexity", "bits_per_byte"}
    assert refused.isdisjoint({"contains", "match", "list", "choice_set", "choice_points"})
    assert {"exact_match", "rouge", "latency", "docvqa_anls"} <= refused


def test_a_metric_that_reads_one_text_leaves_samples_with_several_unscored() -> None:
    bound = bind("word_perplexity", on_missing_field="ignore")
    rows = samples([sample(0, "a b", references=references("a b", "c"))])
    answered = responses([{"answer": "x", "logprobs": '{"choices": [{"ll": -2.0, "tokens": 2}]}'}])
    (row,) = bound.score_table({"samples": rows, "responses": answered}).to_pylist()
    assert row["status"] == "unscored"
    assert "the sample has 2 references and word_perplexity reads one" in row["explanation"]


def test_a_list_at_the_label_field_is_alternatives_too() -> None:
    result = gage_eval.score(
        {"exact_match": {"label_field": "metadata.golds"}},
        sample={"metadata": {"golds": ["x", "y"]}},
        model_output="Y",
    )
    assert result.values == {"score": 1.0}
    assert result.metadata["reference"] == ["x", "y"]
    assert result.metadata["best_reference"] == "y"


def test_a_choice_of_its_own_stays_the_only_reference() -> None:
    row = {"references": ["A", "C"], "metadata": {"correct_choice": "B"}}
    assert gage_eval.score("multi_choice_accuracy", sample=row, model_output="C").values == {"acc": 0.0}
    assert gage_eval.score("multi_choice_accuracy", sample=row, model_output="B").values == {"acc": 1.0}


def test_replicates_and_rows_with_one_reference_keep_their_own() -> None:
    bound = bind("exact_match")
    rows = samples([sample(0, "a"), sample(1, "b", references=references("b", "c")), sample(2, "d")])
    table = bound.score_table({"samples": rows, "responses": answers(["a", "c", "c"])})
    assert [dict(row["values"])["score"] for row in table.to_pylist()] == [1.0, 1.0, 0.0]


def test_the_best_reference_of_an_error_is_the_smallest(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from gage_eval.plugins import metric\n\n"
        "@metric('length_error', value='error', higher_is_better=False, bounds=(0, None))\n"
        "def length_error(prediction: str, reference: str) -> float:\n"
        "    return abs(len(prediction) - len(reference))\n"
    )
    assert values(f"{file}:length_error", ["aaaa", "bb"], "ccc!") == {"error": 0.0}
    assert values(f"{file}:length_error", ["aaaa", "b"], "cc") == {"error": 1.0}


def test_points_and_weights_need_no_python() -> None:
    rows = samples([sample(i, "AC", metadata={"points": points}) for i, points in enumerate((6, 4, 2))])
    tables = {"samples": rows, "responses": answers(["A, C", "A", "B"])}
    bound = bind("choice_points", weight_field="metadata.points")
    table = bound.score_table(tables)
    assert [dict(row["values"]) for row in table.to_pylist()] == [
        {"credit": 1.0, "points": 6.0},
        {"credit": 0.5, "points": 2.0},
        {"credit": 0.0, "points": 0.0},
    ]
    labelled = bound.grouping.label(table, tables)
    numbers = {row["value_key"]: row["value"] for row in bound.aggregate([labelled], {"ok": 3})}
    assert numbers["credit"] == pytest.approx(8 / 12)


def test_unusable_points_leave_the_row_unscored() -> None:
    for points in (-1, "six", True):
        result = gage_eval.score(
            "choice_points", sample={"label": "A", "metadata": {"points": points}}, model_output="A"
        )
        assert result.status == "unscored"


def test_scores_say_the_facts_that_the_base_classes_promise() -> None:
    ranked = gage_eval.score("ranking", sample={"references": ["b"]}, model_output="a\nb")
    assert (ranked.metadata["hit_rank"], ranked.metadata["k"]) == (2, 3)
    loss = gage_eval.score("likelihood", model_output={"logprobs": {"token_logprobs": [-1.0, None, -2.0]}})
    assert loss.metadata["token_count"] == 2
    number = gage_eval.score("numeric_match", sample={"label": "4"}, model_output="none")
    assert number.metadata["invalid_format"] is True
    read = gage_eval.score("docvqa_anls", sample={"references": ["a", "Paris"]}, model_output="paris")
    assert (read.metadata["best_reference"], read.metadata["prediction"]) == ("Paris", "paris")
    assert Score(1.0).metadata == {}
