"""The health of a benchmark over all stored runs: wrong golds, copies, leaks, noise, and items that tell nothing."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from gage_eval.regression.stored_answers import SHARED_WORDS, AnswerSet, Item, StoredAnswers, stored_answers
from gage_eval.report.console import one_line
from gage_eval.runs.options import Locations

FindingKind: TypeAlias = Literal["gold", "duplicate", "leak", "flip", "dead"]
FINDING_KINDS: tuple[FindingKind, ...] = get_args(FindingKind)

MEANINGS: Mapping[FindingKind, str] = {
    "gold": "no strong model gives the reference, and several agree on another answer",
    "duplicate": "the same question and options as another item, without regard to case and spaces",
    "leak": f"a model repeats {SHARED_WORDS} words of a solution in the metadata, or the question is a worked example",
    "flip": "two runs that ask the same of the same model score differently",
    "dead": "all answers of all models have the same score",
}

_LEAST_MODELS = 2
# Two wrong answers are never taken to agree by chance more rarely than this.
_LEAST_COINCIDENCE = 0.01
_SHOWN = 200


@dataclass(frozen=True)
class Finding:
    """What is notable about an item.

    Attributes:
        kind: one of `FINDING_KINDS`.
        item: the item.
        score: by which findings of a kind are ordered; higher is graver.
        detail: what exactly was found.
    """

    kind: FindingKind
    item: Item
    score: float
    detail: str

    def as_record(self) -> dict[str, Any]:
        """For JSON and files; long questions are cut."""
        return {
            "kind": self.kind,
            "sample_id": self.item.sample_id,
            "score": round(self.score, 3),
            "detail": self.detail,
            "gold": one_line(self.item.gold, _SHOWN),
            "question": one_line(self.item.question, _SHOWN),
        }


@dataclass(frozen=True)
class ModelVote:
    """A model's weight in doubts about golds.

    Attributes:
        name: the model.
        runs: how many sets of its answers there are.
        score: share of right items; None where nothing is right or wrong.
        weight: log of the odds that an answer which other models share is right; 0 for a model that is not strong.
    """

    name: str
    runs: int
    score: float | None
    weight: float


@dataclass(frozen=True)
class Health:
    """The health of a dataset.

    Attributes:
        dataset_id, metric: what is looked at.
        items: how many there are.
        effective: items on which answers differ, of copies one; None with fewer than two models.
        models: the models, the strongest first.
        flip_rate: share of scores that differ between two runs of the same; None without repeats.
        findings: by kind, the gravest first.
        left_out: tasks of runs that are left out, by the reason.
    """

    dataset_id: str
    metric: str
    items: int
    effective: int | None
    models: tuple[ModelVote, ...]
    flip_rate: float | None
    findings: tuple[Finding, ...]
    left_out: Mapping[str, int]

    @property
    def counts(self) -> dict[FindingKind, int]:
        """Findings by kind."""
        counted = Counter(finding.kind for finding in self.findings)
        return {kind: counted[kind] for kind in FINDING_KINDS}

    @property
    def lacking(self) -> list[str]:
        """What cannot be known from the stored runs, one sentence each."""
        said = []
        if len(self.models) < _LEAST_MODELS:
            said.append("Only one model has answered: golds and dead items need two.")
        elif not any(vote.weight for vote in self.models):
            said.append("No model is strong enough for doubts about golds.")
        if self.flip_rate is None:
            said.append(
                "No run was repeated, so flips are not known: gage baseline set NAME RUN --repeats 3 repeats one."
            )
        return said

    def of_kind(self, kind: str | None) -> tuple[Finding, ...]:
        """The findings of a kind, or all."""
        return tuple(finding for finding in self.findings if kind in (None, finding.kind))

    def as_record(self, kind: str | None = None) -> dict[str, Any]:
        """For JSON; with findings of one kind only, where one is given."""
        return {
            "dataset_id": self.dataset_id,
            "metric": self.metric,
            "items": self.items,
            "effective": self.effective,
            "flip_rate": self.flip_rate,
            "models": [vars(vote) for vote in self.models],
            "counts": self.counts,
            "findings": [finding.as_record() for finding in self.of_kind(kind)],
            "lacking": self.lacking,
            "left_out": dict(self.left_out),
        }


def health(locations: Locations, suite: str) -> tuple[list[Health], Mapping[str, int]]:
    """Look at every item of a suite over all its stored runs.

    Returns:
        One result for each dataset, and how many runs are left out, by the reason.

    Raises:
        InputError: no stored run of the suite can be read.
    """
    answers, skipped = stored_answers(locations, suite)
    return [health_of(own) for own in answers], skipped


def health_of(answers: StoredAnswers) -> Health:
    """The health of a dataset."""
    models = answers.models
    right = {name: _right(sets) for name, sets in models.items()}
    said = {name: _said(sets) for name, sets in models.items()}
    votes = _votes(models, right, said)
    several = len(models) >= _LEAST_MODELS
    dead = list(_dead(answers, models)) if several else []
    flips, rate = _flips(answers)
    by_kind = {
        "gold": list(_golds(answers, right, said, votes)) if several else [],
        "duplicate": list(_duplicates(answers)),
        "leak": list(_leaks(answers, models)),
        "flip": flips,
        "dead": dead,
    }
    still = {finding.item.sample_id for finding in dead}
    live = {item.key or sample_id for sample_id, item in answers.items.items() if sample_id not in still}
    return Health(
        answers.dataset_id,
        answers.measure.name,
        len(answers.items),
        len(live) if several else None,
        tuple(sorted(votes.values(), key=lambda vote: (-vote.weight, -(vote.score or 0.0), vote.name))),
        rate,
        tuple(
            finding
            for kind in FINDING_KINDS
            for finding in sorted(by_kind[kind], key=lambda finding: (-finding.score, finding.item.sample_id))
        ),
        answers.left_out,
    )


def table(results: Sequence[Health], kind: str | None = None) -> pa.Table:
    """The findings for a file."""
    names = ("dataset_id", "kind", "sample_id", "score", "detail", "gold", "question")
    types = {"score": pa.float64()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
    rows = [
        {"dataset_id": result.dataset_id, **finding.as_record()}
        for result in results
        for finding in result.of_kind(kind)
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def _votes(
    models: Mapping[str, Sequence[AnswerSet]],
    right: Mapping[str, Mapping[str, bool]],
    said: Mapping[str, Mapping[str, str]],
) -> dict[str, ModelVote]:
    """The weight of each model in doubts about golds.

    A model that is right with probability a and whose wrong answer is that of another model with probability q
    multiplies the odds of an answer by a / ((1 − a) q): Dawid and Skene (1979) with one parameter for each model.
    """
    wrong, same = 0, 0
    for first, other in combinations(models, 2):
        for sample_id, answer in said[first].items():
            if right[first].get(sample_id) is False and right[other].get(sample_id) is False:
                wrong += sample_id in said[other]
                same += said[other].get(sample_id) == answer
    # One half each way keeps a small benchmark from certainty.
    coincidence = min(1.0, max(_LEAST_COINCIDENCE, (same + 0.5) / (wrong + 1)))
    votes = {}
    for name, sets in models.items():
        decided = list(right[name].values())
        score = sum(decided) / len(decided) if decided else None
        chance = (sum(decided) + 0.5) / (len(decided) + 1)
        weight = max(0.0, math.log(chance / ((1 - chance) * coincidence))) if decided else 0.0
        votes[name] = ModelVote(name, len(sets), score, weight)
    return votes


def _golds(
    answers: StoredAnswers,
    right: Mapping[str, Mapping[str, bool]],
    said: Mapping[str, Mapping[str, str]],
    votes: Mapping[str, ModelVote],
) -> Iterator[Finding]:
    strong = [name for name, vote in votes.items() if vote.weight > 0]
    for sample_id, item in answers.items.items():
        if any(right[name].get(sample_id) for name in strong):
            continue
        weights: Counter[str] = Counter()
        agreeing: Counter[str] = Counter()
        for name in strong:
            if sample_id in said[name] and sample_id in right[name]:
                weights[said[name][sample_id]] += votes[name].weight  # type: ignore[assignment]
                agreeing[said[name][sample_id]] += 1
        answer = max(weights, key=lambda text: (weights[text], text), default=None)
        if answer is None or agreeing[answer] < _LEAST_MODELS:
            continue
        detail = f"{agreeing[answer]} of {sum(agreeing.values())} strong models say {one_line(answer, _SHOWN)}"
        yield Finding("gold", item, float(weights[answer]), detail)


def _duplicates(answers: StoredAnswers) -> Iterator[Finding]:
    by_key: dict[str, list[Item]] = {}
    for item in answers.items.values():
        if item.key:
            by_key.setdefault(item.key, []).append(item)
    for copies in by_key.values():
        for item in copies if len(copies) > 1 else ():
            others = [other for other in copies if other is not item]
            contradicts = any(other.gold != item.gold for other in others)
            named = ", ".join(other.sample_id for other in others[:5]) + (" and more" if len(others) > 5 else "")
            detail = f"as {named}" + (", with another gold" if contradicts else "")
            yield Finding("duplicate", item, len(copies) + (1_000_000 if contradicts else 0), detail)


def _leaks(answers: StoredAnswers, models: Mapping[str, Sequence[AnswerSet]]) -> Iterator[Finding]:
    examples = {key: item.sample_id for item in answers.items.values() for key in item.examples}
    by_item: dict[str, list[str]] = {}
    for name, sets in models.items():
        for sample_id in set().union(*(own.verbatim for own in sets)):
            by_item.setdefault(sample_id, []).append(name)
    for sample_id, item in answers.items.items():
        told = []
        if item.question_key in examples:
            told.append(f"a worked example of {examples[item.question_key]}")
        if sample_id in by_item:
            told.append(f"the solution is repeated by {', '.join(by_item[sample_id][:5])}")
        if told:
            yield Finding("leak", item, len(by_item.get(sample_id, ())) + len(told), "; ".join(told))


def _flips(answers: StoredAnswers) -> tuple[list[Finding], float | None]:
    """Items whose score differs between repeats, and the share of pairs of scores that differ."""
    pairs: Counter[str] = Counter()
    differing: Counter[str] = Counter()
    for group in answers.repeats:
        for sample_id in answers.items:
            values = Counter(round(own.values[sample_id], 9) for own in group if sample_id in own.own)
            count = values.total()
            pairs[sample_id] += math.comb(count, 2)
            differing[sample_id] += math.comb(count, 2) - sum(math.comb(same, 2) for same in values.values())
    flips = [
        Finding(
            "flip",
            answers.items[sample_id],
            count / pairs[sample_id],
            f"{count} of {pairs[sample_id]} pairs of repeats differ",
        )
        for sample_id, count in differing.items()
        if count
    ]
    return flips, differing.total() / pairs.total() if pairs.total() else None


def _dead(answers: StoredAnswers, models: Mapping[str, Sequence[AnswerSet]]) -> Iterator[Finding]:
    for sample_id, item in answers.items.items():
        answered = [name for name, sets in models.items() if any(sample_id in own.values for own in sets)]
        values = {round(own.values[sample_id], 9) for own in answers.sets if sample_id in own.values}
        if len(answered) < _LEAST_MODELS or len(values) != 1:
            continue
        rights = {own.right[sample_id] for own in answers.sets if sample_id in own.right}
        word = "scored alike by" if len(rights) != 1 else "right by" if True in rights else "wrong by"
        yield Finding("dead", item, float(rights == {False}), f"{word} all {len(answered)} models")


def _right(sets: Sequence[AnswerSet]) -> dict[str, bool]:
    """Whether most runs of a model are right, by sample."""
    counted: dict[str, list[bool]] = {}
    for own in sets:
        for sample_id, is_right in own.right.items():
            counted.setdefault(sample_id, []).append(is_right)
    return {sample_id: 2 * sum(decided) > len(decided) for sample_id, decided in counted.items()}


def _said(sets: Sequence[AnswerSet]) -> dict[str, str]:
    """What most runs of a model say, by sample."""
    counted: dict[str, Counter[str]] = {}
    for own in sets:
        for sample_id, answer in own.said.items():
            counted.setdefault(sample_id, Counter())[answer] += 1
    return {sample_id: answered.most_common(1)[0][0] for sample_id, answered in counted.items()}
