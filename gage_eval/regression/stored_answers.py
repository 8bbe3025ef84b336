"""The answers of all stored runs of a suite to the same items: what `gage health` looks at.

An item is a sample with its question, options and references. Answers to an earlier text of it are left out.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import canonical_text, decode
from gage_eval.base.errors import GageError, InputError
from gage_eval.regression.definitions import Definition, differences
from gage_eval.regression.scored_task import ScoredTask
from gage_eval.runs.options import Locations
from gage_eval.runs.results.outcomes import Measure, answer_kinds
from gage_eval.runs.results.reading import RunReader, TaskReader
from gage_eval.runs.results.rows import read_part
from gage_eval.runs.results.stored import stored_runs

# So many tasks of runs are read for a dataset, the newest.
MOST_READ = 200
# Answers that the run asked for, and did not take from another run or an equal question.
_OWN = ("sent", "log")
_DECIDED = ("right", "wrong")
# Words in a row that an answer and a reference share only by chance of memory (Brown et al. 2020, appendix C).
SHARED_WORDS = 13
_LONGEST = 50_000
_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?")


@dataclass(frozen=True)
class Item:
    """A sample as it is judged.

    Attributes:
        sample_id: its id.
        question: its user messages and options.
        gold: its references.
        content: what makes it this item; None of two samples with other questions, options or references.
        key: question, options and media without regard to case and spaces; empty without any.
        question_key: the question and options alone; empty without any.
        examples: those of its worked examples.
        solution: runs of words of texts in its metadata, such as a worked solution, that the question does not have.
    """

    sample_id: str
    question: str
    gold: str
    content: str
    key: str
    question_key: str
    examples: frozenset[str]
    solution: frozenset[tuple[str, ...]]


@dataclass
class AnswerSet:
    """A task of a run: what one model answered once to the items.

    Attributes:
        run_id, task_id: which.
        model: as it is shown.
        definition: what determined the scores.
        values: the mean of the scored answers of each sample.
        right: whether most answers of a sample are right; without those that are neither right nor wrong.
        said: what most answers of a sample say, as the metric read it.
        own: samples that this run asked itself.
        verbatim: samples of which an answer repeats `SHARED_WORDS` words of the solution.
    """

    run_id: str
    task_id: str
    model: str
    definition: Definition
    values: dict[str, float] = field(default_factory=dict)
    right: dict[str, bool] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    verbatim: set[str] = field(default_factory=set)

    def differs_from(self, other: "AnswerSet", *kinds: str) -> bool:
        """Whether the definitions differ in these kinds, apart from how old an answer may be."""
        return any(
            difference.kind in kinds and not difference.path.endswith("config.freshness")
            for difference in differences(self.definition, other.definition)
        )


@dataclass
class StoredAnswers:
    """All answers to the items of a dataset.

    Attributes:
        dataset_id: the dataset.
        measure: by which answers are right or wrong, that of the newest run.
        implementation: the metric of the measure, which a config may give another name.
        items: by sample id, each as in the newest run that has it.
        sets: the newest first.
        left_out: counts of tasks of runs that are left out, by the reason.
    """

    dataset_id: str
    measure: Measure
    implementation: str
    items: dict[str, Item] = field(default_factory=dict)
    sets: list[AnswerSet] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def models(self) -> dict[str, list[AnswerSet]]:
        """The sets by model. Tasks of one run that ask models of the same name have their ids after the name."""
        shared = {
            first.model
            for first in self.sets
            for other in self.sets
            if first.run_id == other.run_id and first.model == other.model and first.task_id < other.task_id
            if first.differs_from(other, "model")
        }
        named: dict[str, list[AnswerSet]] = {}
        for answers in self.sets:
            name = f"{answers.model} ({answers.task_id})" if answers.model in shared else answers.model
            named.setdefault(name, []).append(answers)
        return named

    @property
    def repeats(self) -> list[list[AnswerSet]]:
        """Sets of the same model, prompts, sampling parameters and scorer, where there are several."""
        groups: list[list[AnswerSet]] = []
        for answers in self.sets:
            group = next((group for group in groups if not _differ(group[0], answers)), [])
            if not group:
                groups.append(group)
            group.append(answers)
        return [group for group in groups if len(group) > 1]


def _differ(a: AnswerSet, b: AnswerSet) -> bool:
    return a.model != b.model or a.differs_from(b, "prompts", "sampling", "model", "scorer")


def stored_answers(locations: Locations, suite: str) -> tuple[list[StoredAnswers], Counter[str]]:
    """Read the answers of all stored runs of a suite, by dataset.

    Returns:
        The answers, and how many runs are left out, by the reason.

    Raises:
        InputError: no stored run of the suite can be read.
    """
    by_dataset: dict[str, StoredAnswers] = {}
    seen: set[tuple[str, ...]] = set()
    skipped: Counter[str] = Counter()
    names: Counter[str] = Counter()
    contents: dict[str, dict[str, Item]] = {}
    meant = ""
    for stored in stored_runs(locations):
        try:
            names[stored.record.name] += 1
            if stored.run_id == suite:
                meant = f" '{suite}' is a run of '{stored.record.name}'."
            if stored.record.name != suite:
                continue
            if stored.status != "completed":
                skipped[f"it is {stored.state}"] += 1
                continue
            run = RunReader.open(locations, stored.run_id)
            for task_id in run.task_ids:
                _add(by_dataset, run, task_id, seen, contents, skipped)
        except GageError as error:
            skipped[str(error)] += 1
    if not by_dataset:
        known = ", ".join(sorted(names)) or "none"
        why = "".join(f" {count} left out: {reason.rstrip('.')}." for reason, count in skipped.most_common(3))
        raise InputError(f"no run of '{suite}' can be read. Suites and configs with stored runs: {known}.{meant}{why}")
    return list(by_dataset.values()), skipped


def _add(
    by_dataset: dict[str, StoredAnswers],
    run: RunReader,
    task_id: str,
    seen: set[tuple[str, ...]],
    contents: dict[str, dict[str, Item]],
    skipped: Counter[str],
) -> None:
    task = run.task(task_id)
    left_out = skipped
    try:
        summary = task.summary
        known = by_dataset.get(summary.dataset_id)
        scored = ScoredTask.of_run(run, task_id)
        if known is None:
            measure = task.measure()
            known = StoredAnswers(summary.dataset_id, measure, _implementation(task, measure))
        else:
            left_out = known.left_out
            measure = _same_measure(task, known)
        if len(known.sets) >= MOST_READ:
            left_out[f"more than the newest {MOST_READ}"] += 1
            return
        answered = (known.dataset_id, *(task.artifact(name).id for name in ("responses", "response_telemetry")))
        if answered in seen:
            left_out["the same answers as of a newer run"] += 1
            return
        definition = scored.definition(measure.metric_id)
        answers = AnswerSet(run.run_id, task_id, summary.model or "no name", definition)
        if task.samples.id not in contents:
            contents[task.samples.id] = {item.sample_id: item for item in _items(task)}
        _read(answers, task, measure, known, contents[task.samples.id])
    except GageError as error:
        left_out[str(error)] += 1
        return
    by_dataset[known.dataset_id] = known
    seen.add(answered)
    known.sets.append(answers)


def _implementation(task: TaskReader, measure: Measure) -> str:
    return next(str(row["implementation"]) for row in task.metrics if row["metric_id"] == measure.metric_id)


def _same_measure(task: TaskReader, known: StoredAnswers) -> Measure:
    """The measure of the same name, or of the same metric under another name."""
    wanted = known.measure
    for measure in task.measures:
        if measure.name == wanted.name:
            return measure
    for measure in task.measures:
        same = (measure.filter, measure.value_key) == (wanted.filter, wanted.value_key)
        if same and _implementation(task, measure) == known.implementation:
            return measure
    raise InputError(f"no metric '{wanted.name}'")


def _read(
    answers: AnswerSet, task: TaskReader, measure: Measure, known: StoredAnswers, contents: Mapping[str, Item]
) -> None:
    values: dict[str, list[float]] = {}
    right: dict[str, list[bool]] = {}
    said: dict[str, Counter[str]] = {}
    items: dict[str, Item] = {}
    earlier: set[str] = set()
    reused: set[str] = set()
    for part in task.parts:
        table = task.answers(part, measure)
        kinds = answer_kinds(table, measure).to_pylist()
        scores = measure.of_filter(
            read_part(task.scores[measure.metric_id], part, ("row_index", "replicate", "filter", "extracted"))
        )
        keys = zip(scores["row_index"].to_pylist(), scores["replicate"].to_pylist(), strict=True)
        extracted = dict(zip(keys, scores["extracted"].to_pylist(), strict=True))
        texts = read_part(task.responses, part, ("answer",))["answer"].to_pylist()
        columns = ("row_index", "sample_id", "replicate", "score_status", "value")
        rows = zip(*(table[name].to_pylist() for name in columns), kinds, texts, strict=True)
        for row_index, sample_id, replicate, status, value, kind, answered in rows:
            own_item = contents[sample_id]
            item = items[sample_id] = known.items.get(sample_id, own_item)
            if item.content != own_item.content:
                earlier.add(sample_id)
                continue
            if status in (None, "unscored") or value is None:
                continue
            values.setdefault(sample_id, []).append(value)
            text = answered or ""
            if item.solution and not item.solution.isdisjoint(runs_of_words(text)):
                answers.verbatim.add(sample_id)
            if kind in _DECIDED or kind == "unparsed":
                right.setdefault(sample_id, []).append(kind == "right")
            if kind in _DECIDED and (answer := folded_answer(extracted.get((row_index, replicate)) or text)):
                said.setdefault(sample_id, Counter())[answer] += 1
        sources = read_part(task.artifact("response_telemetry"), part, ("sample_id", "source"))
        others = pc.invert(pc.fill_null(pc.is_in(sources["source"], pa.array(_OWN, pa.string())), fill_value=False))
        reused.update(sources.filter(others)["sample_id"].to_pylist())
    known.items.update(items)
    answers.values = {sample_id: sum(own) / len(own) for sample_id, own in values.items()}
    answers.right = {sample_id: 2 * sum(own) > len(own) for sample_id, own in right.items()}
    answers.said = {sample_id: own.most_common(1)[0][0] for sample_id, own in said.items()}
    answers.own = set(answers.values) - reused
    if earlier:
        known.left_out["some answers are to an earlier text of their questions"] += 1


def _items(task: TaskReader) -> Iterator[Item]:
    for part in task.samples.parts:
        for row in task.samples.read(part.index).to_pylist():
            yield item_of(row)


def item_of(row: Mapping[str, Any]) -> Item:
    """The item of a row of `tables.SAMPLES`."""
    question, media = _question(row)
    golds = [_text(reference["answer"]) for reference in row["references"] or []]
    gold = " | ".join(filter(None, golds)) or str(row["label"] or "")
    key = folded(question)
    judged = [row["references"], row["label"], row["options"] or []]
    return Item(
        row["id"],
        question,
        gold,
        canonical_text([key, media, judged]),
        canonical_text([key, media]) if key or media else "",
        key,
        frozenset(folded(_question(example)[0]) for example in row["few_shot_examples"] or []) - {""},
        _solution(question, _metadata_texts(row["metadata"])),
    )


def _question(row: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The user's messages with the options, and the addresses of media."""
    parts = [
        part for message in row["messages"] or [] if message["role"] == "user" for part in message["content"] or []
    ]
    options = [_text(option["content"]) for option in row["options"] or []]
    return "\n".join([_text(parts), *options]).strip(), [part["url"] for part in parts if part["url"]]


def _text(parts: Any) -> str:
    if isinstance(parts, str):
        return parts
    return "\n".join(part["text"] for part in parts or [] if part.get("text"))


def _metadata_texts(metadata: str | None) -> list[str]:
    """Texts of the record that are neither question nor answer of a model, such as a worked solution."""
    read = None if metadata is None else decode(metadata)
    return [value for value in read.values() if isinstance(value, str)] if isinstance(read, dict) else []


def _solution(question: str, texts: Iterable[str]) -> frozenset[tuple[str, ...]]:
    return frozenset(chain.from_iterable(map(runs_of_words, texts))) - runs_of_words(question)


def runs_of_words(text: str) -> set[tuple[str, ...]]:
    """All runs of `SHARED_WORDS` words of a text."""
    words = re.findall(r"[^\W\d_]+", text[:_LONGEST].casefold())
    return {tuple(words[at : at + SHARED_WORDS]) for at in range(len(words) - SHARED_WORDS + 1)}


def folded(text: str) -> str:
    """A text without regard to case and spaces."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def folded_answer(text: str) -> str:
    """What an answer says, for comparison with others: without case, spaces and ends; a number as its value."""
    short = folded(text[:_LONGEST]).strip(" .,;:!?\"'`*$%()")
    if _NUMBER.fullmatch(short) and len(short) < 40:
        return f"{float(short.replace(',', '')):.12g}"
    return short
