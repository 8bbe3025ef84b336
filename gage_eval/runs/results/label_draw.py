"""Draw answers for people to label, at random: the labels then stand for the others."""

import math
import random
from collections.abc import Hashable, Mapping, Sequence
from itertools import islice
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.pipeline.labels_spec import values_of, verdicts_of
from gage_eval.report.calibration import Answer
from gage_eval.runs.results.explain import expected_of, question_of
from gage_eval.runs.results.outcomes import RowFilter
from gage_eval.runs.results.reading import TaskReader
from gage_eval.scoring.metrics import BoundMetric

# A verdict that is rare is labelled this often, if it is there: without a label, nothing is known of it.
_LEAST = 2
_SEED = 1234


def drawn_answers(task: TaskReader, bound: Sequence[BoundMetric], n: int, *, seed: int = _SEED) -> list[dict[str, Any]]:
    """Answers to label, in random order, without model and verdict, as rows of a file of labels.

    Where a verdict is 0 or 1, each of the two gets labels by its share; where the metric has a cluster field, whole
    clusters are drawn, until there are n answers.

    Args:
        task: of a run that is scored.
        bound: its metrics; the first that reads verdicts counts.
        n: how many answers.
        seed: equal seeds draw equal answers.

    Raises:
        InputError: no metric reads a judge's verdicts, or no answer has one.
    """
    metric, verdicts = _judged(task, bound)
    chance = random.Random(seed)  # noqa: S311 - a sample, not a secret
    cluster = metric.grouping.cluster
    if cluster is not None:
        of_sample = values_of(task.samples, cluster)
        chosen = _clusters({answer: str(of_sample[answer[0]]) for answer in verdicts}, n, chance)
    else:
        binary = metric.scale(metric.value_keys[0]).binary
        chosen = _strata(verdicts if binary else dict.fromkeys(verdicts, 0.0), n, chance)
    order = list(chosen)
    chance.shuffle(order)
    if cluster is not None:  # A cluster counts only as a whole, so its answers follow each other.
        places = {str(of_sample[name]): at for at, (name, _) in enumerate(order)}
        order.sort(key=lambda answer: places[str(of_sample[answer[0]])])
    return _rows(task, metric, {answer: chosen[answer] for answer in order})


def drawn_pairs(
    tasks: Sequence[TaskReader], bound: Sequence[BoundMetric], n: int, *, seed: int = _SEED
) -> list[list[dict[str, Any]]]:
    """The answers of two runs to the same samples, as the rows of one file of labels for each run.

    Samples are drawn evenly, because the verdicts that matter are differences. A larger n continues the draw of a
    smaller one, and labels that the runs have already are filled in.

    Args:
        tasks: the task in both runs.
        bound: its metrics; the first that reads verdicts counts.
        n: how many samples.
        seed: equal seeds draw equal samples.

    Raises:
        InputError: no metric reads a judge's verdicts, no sample has one in both runs, or samples have several answers.
    """
    (metric, verdicts), (_, others) = (_judged(task, bound) for task in tasks)
    shared = sorted(answer for answer in verdicts if answer in others)
    if not shared:
        raise InputError(f"task '{tasks[0].task_id}': no sample has a verdict in both runs.")
    if any(replicate for _, replicate in shared):
        raise InputError(
            f"task '{tasks[0].task_id}': samples have several answers each, and two runs are compared by one: "
            "draw answers of each run by itself."
        )
    path = metric.grouping.cluster
    of_sample = {} if path is None else values_of(tasks[0].samples, path)
    groups: dict[Hashable, list[Answer]] = {}
    for answer in shared:
        groups.setdefault(answer if path is None else str(of_sample[answer[0]]), []).append(answer)
    order = list(groups.values())
    random.Random(seed).shuffle(order)  # noqa: S311 - a sample, not a secret
    count = min(len(order), math.ceil(n * len(order) / len(shared)))
    chosen = {answer: count / len(order) for group in order[:count] for answer in group}
    return [_rows(task, metric, chosen) for task in tasks]


def _judged(task: TaskReader, bound: Sequence[BoundMetric]) -> tuple[BoundMetric, dict[Answer, float]]:
    """The first metric that reads a judge's verdicts, and its values."""
    metric = next((known for known in bound if "judgments" in known.inputs), None)
    if metric is None or metric.metric_id not in task.scores:
        raise InputError(f"task '{task.task_id}' has no scored metric that reads a judge's verdicts.")
    verdicts = verdicts_of(task.scores[metric.metric_id], metric.filters[0].name, metric.value_keys[0])
    if not verdicts:
        raise InputError(f"task '{task.task_id}': no answer has a verdict of metric '{metric.metric_id}'.")
    return metric, verdicts


def _rows(task: TaskReader, metric: BoundMetric, chosen: Mapping[Answer, float]) -> list[dict[str, Any]]:
    """Rows of a file of labels: answers with their probabilities, and with the labels that they have."""
    shown = _texts(task, list(chosen))
    spec = None if task.plan is None else task.plan.report.labels
    known = {} if spec is None else {label.answer: label.value for label in spec.labels}
    own = metric.scale(metric.value_keys[0]) if spec is None else spec.scale
    scale = {} if own.low is None or own.high is None else {"scale": [own.low, own.high]}
    return [
        {
            "task_id": task.task_id,
            "sample_id": answer[0],
            "replicate": answer[1],
            **shown[answer],
            "label": known.get(answer),
            **scale,
            "probability": probability,
        }
        for answer, probability in chosen.items()
    ]


def _strata(verdicts: Mapping[Answer, Hashable], n: int, chance: random.Random) -> dict[Answer, float]:
    """Answers with the probability that each was drawn with."""
    groups: dict[Hashable, list[Answer]] = {}
    for answer, verdict in verdicts.items():
        groups.setdefault(verdict, []).append(answer)
    chosen: dict[Answer, float] = {}
    for group in groups.values():
        count = min(len(group), max(_LEAST, round(n * len(group) / len(verdicts))))
        chosen |= dict.fromkeys(chance.sample(sorted(group), count), count / len(group))
    return chosen


def _clusters(of_answer: Mapping[Answer, str], n: int, chance: random.Random) -> dict[Answer, float]:
    groups: dict[str, list[Answer]] = {}
    for answer, name in of_answer.items():
        groups.setdefault(name, []).append(answer)
    # So many clusters have about n answers; a count that depends on the draw would not be at random.
    count = min(len(groups), max(1, math.ceil(n * len(groups) / len(of_answer))))
    names = chance.sample(sorted(groups), count)
    return {answer: count / len(groups) for name in names for answer in groups[name]}


def _texts(task: TaskReader, answers: Sequence[Answer]) -> dict[Answer, dict[str, Any]]:
    """What people see of each answer."""
    texts: dict[Answer, dict[str, Any]] = {}
    ids = iter(dict.fromkeys(sample_id for sample_id, _ in answers))
    while some := tuple(islice(ids, 500)):
        for row in task.rows(RowFilter(ids=some)):
            for response in row.responses:
                said = {"question": question_of(row.sample), "answer": response.get("answer")}
                expected = expected_of(row.sample)
                if expected is not None:
                    said["expected"] = expected
                texts[row.sample_id, response["replicate"]] = said
    return texts
