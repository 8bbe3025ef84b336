"""Numbers over classes are those of scikit-learn 1.9 (`labels=sorted(set(y_true))`, `zero_division=0`)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from score_tables import responses, sample, samples

from gage_eval.base.errors import InputError
from gage_eval.scoring.metrics import bind
from gage_eval.scoring.metrics.aggregations.base import CountedRows, find_aggregation

LABELS = ["cat", "dog", "bird", "fish"]
TRUE = ["cat"] * 8 + ["dog"] * 6 + ["bird"] * 4 + ["fish"] * 2
SAID = [*["cat"] * 6, "dog", "none", *["dog"] * 3, "cat", "cat", "bird", "bird", "bird", "cat", "fish", "fish", "dog"]
NAMES = ("macro_f1", "macro_precision", "macro_recall", "micro_f1", "weighted_f1", "mcc")


def scores(true: Sequence[str], said: Sequence[str], *, fields: Any = None, **how: Any) -> dict[str, dict[str, Any]]:
    bound = bind("classification", {"labels": LABELS}, **how)
    rows = [sample(at, label, **(fields[at] if fields else {})) for at, label in enumerate(true)]
    wanted = samples(rows)
    answered = responses([{"row_index": at, "answer": f"It is a {text}."} for at, text in enumerate(said)])
    tables = {"samples": wanted, "responses": answered}
    numbers = bound.aggregate([bound.grouping.label(bound.score_table(tables), tables)], {})
    return {f"{row['value_key']} {row['aggregation']}": row for row in numbers if row["slice_field"] is None}


def test_numbers_are_those_of_scikit_learn() -> None:
    numbers = scores(TRUE, SAID, aggregation=[*NAMES, "class_precision", "class_recall", "class_f1", "confusion"])
    values = {name: row["value"] for name, row in numbers.items()}
    golden = (
        0.58069136745607,
        0.6083333333333333,
        0.5625,
        0.6153846153846154,
        0.6102750190985485,
        0.4357142857142857,
    )
    assert [values[f"acc {name}"] for name in NAMES] == pytest.approx(golden)
    by_class = {
        "class_precision": (0.66666667, 0.66666667, 0.6, 0.5),
        "class_recall": (0.5, 0.75, 0.5, 0.5),
        "class_f1": (0.57142857, 0.70588235, 0.54545455, 0.5),
    }
    for name, expected in by_class.items():
        assert [values[f"acc={label} {name}"] for label in sorted(LABELS)] == pytest.approx(expected), name
    matrix = {name.split()[0]: value for name, value in values.items() if name.endswith("confusion")}
    assert matrix == {
        "acc=bird→bird": 0.5,
        "acc=bird→cat": 0.25,
        "acc=bird→fish": 0.25,
        "acc=cat→cat": 0.75,
        "acc=cat→dog": 0.125,
        "acc=cat→": 0.125,
        "acc=dog→dog": 0.5,
        "acc=dog→cat": pytest.approx(1 / 3),
        "acc=dog→bird": pytest.approx(1 / 6),
        "acc=fish→dog": 0.5,
        "acc=fish→fish": 0.5,
    }
    assert all(row["ci_low"] <= row["value"] <= row["ci_high"] for row in numbers.values())
    assert (numbers["acc mcc"]["bound_low"], numbers["acc mcc"]["higher_is_better"]) == (-1, True)


def test_errors_are_those_of_a_bootstrap_over_samples() -> None:
    draw = np.random.RandomState(0)
    true = draw.choice(["a", "b", "c"], 600, p=[0.6, 0.3, 0.1])
    said = np.where(draw.rand(600) < 0.7, true, draw.choice(["a", "b", "c", None], 600))

    def number(name: str, which: Any) -> Any:
        labels = {"categories": said[which].tolist(), "references": true[which].tolist()}
        rows = CountedRows(np.arange(600), np.ones(600), **labels)
        return find_aggregation(name).compute(rows)[""]

    for name in NAMES:
        drawn = [number(name, draw.randint(0, 600, 600)).value for _ in range(200)]
        assert number(name, np.arange(600)).stderr == pytest.approx(np.std(drawn), rel=0.2), name


def test_copies_of_a_sample_in_its_cluster_add_no_certainty() -> None:
    fields = [{"metadata": {"group": f"{at}"}} for at in range(len(TRUE))] * 2
    for name in ("macro_f1", "class_recall", "confusion"):
        alone = scores(TRUE, SAID, aggregation=name)
        copied = scores(TRUE * 2, SAID * 2, aggregation=name, fields=fields, cluster_field="metadata.group")
        for key, row in alone.items():
            assert (copied[key]["value"], copied[key]["stderr"]) == pytest.approx((row["value"], row["stderr"])), key


def test_a_perfect_and_an_empty_set_have_no_false_certainty() -> None:
    perfect = scores(LABELS, LABELS)
    assert [perfect[f"acc {name}"]["value"] for name in ("mean", "macro_f1")] == [1, 1]
    assert (perfect["acc macro_f1"]["interval"], perfect["acc=cat class_f1"]["ci_high"]) == (None, 1)
    assert perfect["acc=cat class_f1"]["ci_low"] < 0.5
    assert scores([], [], aggregation=list(NAMES))["acc macro_f1"]["value"] is None
    only = scores(["cat", "cat"], ["cat", "dog"], aggregation="mcc")["acc mcc"]
    assert (only["value"], only["stderr"]) == (0, 0)


def test_an_answer_in_which_a_filter_finds_nothing_is_wrong_for_its_class() -> None:
    pattern = {"regex": {"pattern": "a (cat|dog)"}}
    numbers = scores(
        ["cat", "cat", "dog"], ["cat", "bird", "dog"], filters=[pattern], aggregation=["class_recall", "mean"]
    )
    assert (numbers["acc=cat class_recall"]["value"], numbers["acc mean"]["n"]) == (0.5, 3)


def test_more_classes_than_anyone_reads_are_refused() -> None:
    bound = bind("classification", aggregation="macro_f1")
    tables = {
        "samples": samples([sample(at, f"{at}") for at in range(201)]),
        "responses": responses([{"row_index": at, "answer": "1"} for at in range(201)]),
    }
    with pytest.raises(InputError, match="201 classes are more than 200"):
        bound.aggregate([bound.score_table(tables)], {})
