"""Few-shot examples: which ones a sample gets, and how they appear in its prompt.

The choice depends only on the rules, the pool, (seed, task, sample id) and the value to match. Limits, shards, part
sizes and worker counts never change a prompt. A sample is never its own example: it is excluded by id (where the
pool is the sample's own dataset) and by content.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from gage_eval.base.canonical import JsonValue, canonical_json, canonical_text
from gage_eval.base.errors import InputError, closest
from gage_eval.base.field_paths import MISSING, compile_path
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.sample.rules import reference_text
from gage_eval.data.sample.table import messages_from_array, rows_of

_EXAMPLE_COLUMNS = ("id", "messages", "references", "label", "metadata", "options", "task_type")
_SYSTEM = frozenset({"system", "developer"})
_REMEMBERED = 32_768
_MAX_SHOWN = 80


@dataclass(frozen=True)
class FewShotRules:
    """How many examples, which ones, and in what form.

    Attributes:
        k: number of examples; None for all of `ids`, or all of the sample's own.
        pool: id of the dataset they come from; None for the sample's own examples. A name, so it is not in keys.
        own_dataset: whether the pool is the dataset that is evaluated.
        match: path of a sample's field; examples have the same value there. None for any row.
        strategy: ``first``, ``random``, or ``balanced`` (each label in turn).
        seed: of the draws of random and balanced.
        ids: these examples of the pool, in this order.
        form: ``chat``: turns of user and assistant; ``text``: text before the question, in the user's message.
        delimiter: between examples in text.
    """

    k: int | None = None
    pool: str | None = None
    own_dataset: bool = False
    match: str | None = None
    strategy: str = "first"
    seed: int = 123
    ids: tuple[str, ...] = ()
    form: str = "chat"
    delimiter: str = "\n\n"

    @property
    def draws(self) -> bool:
        """Whether examples are drawn for each sample; then the task's id matters too."""
        return self.pool is not None and not self.ids and self.strategy != "first"

    @property
    def match_columns(self) -> frozenset[str]:
        """The columns of samples that `match` reads."""
        return compile_path(self.match).sample_columns if self.match is not None else frozenset()

    @property
    def pool_columns(self) -> list[str]:
        """The columns of a pool's samples that choosing and building examples needs."""
        return [*_EXAMPLE_COLUMNS, *sorted(self.match_columns.difference(_EXAMPLE_COLUMNS))]

    def matched(self, sample: Mapping[str, Any]) -> str | None:
        """The value that a sample shares with its examples, as canonical JSON; None where the sample lacks it."""
        if self.match is None:
            return ""
        value = compile_path(self.match).get(sample)
        if value is MISSING or value is None:
            return None
        # A number or boolean matches its text, because the other dataset may be a table whose cells are text.
        return canonical_text(canonical_text(value) if isinstance(value, int | float) else value)

    def material(self) -> JsonValue:
        """Everything but the pool's artifact that determines the examples."""
        material: dict[str, JsonValue] = {
            "k": self.k,
            "own_dataset": self.own_dataset,
            "strategy": self.strategy,
            "seed": self.seed,
            "ids": list(self.ids),
            "form": self.form,
            "delimiter": self.delimiter,
        }
        return material if self.match is None else {**material, "match": self.match}


@dataclass(frozen=True, slots=True)
class Example:
    """A solved example: its messages without the system message, content as segments, and its answer."""

    messages: list[dict[str, Any]]
    answer: str


@dataclass(frozen=True, slots=True)
class FewShotQuery:
    """A sample that needs examples: its id, its `fingerprint`, and the result of `FewShotRules.matched` for it."""

    sample_id: str
    fingerprint: bytes
    matched: str | None


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Positions of rows that can be examples of the same samples, in the pool's order, overall and by label."""

    positions: list[int] = field(default_factory=list)
    by_label: dict[str, list[int]] = field(default_factory=dict)

    def add(self, position: int, label: str) -> None:
        self.positions.append(position)
        self.by_label.setdefault(label, []).append(position)


class Pool:
    """The rows of a dataset that can be examples: those with messages (a question last) and an answer.

    Args:
        samples: `FewShotRules.pool_columns` of the pool's samples, in their order.
        rules: how to choose.
        task_id: part of the seed of the draws.
        prepared: prepares the messages of an example's sample; raises what the stage may raise.

    Raises:
        InputError: an id is not in the pool, the pool has fewer usable rows than the number of examples, or no row has
        a value to match by.
    """

    def __init__(
        self,
        samples: pa.Table,
        rules: FewShotRules,
        task_id: str,
        prepared: Callable[[dict[str, Any]], list[dict[str, Any]]],
    ) -> None:
        self._samples = samples
        self._rules = rules
        self._task_id = task_id
        self._prepared = prepared
        self._ids: list[str] = samples["id"].to_pylist()
        self._examples: dict[int, Example] = {}
        self._prints: list[bytes] = []
        self._usable: list[int] = []
        self._candidates: dict[str, _Candidates] = {}
        self._read(samples)
        self._fixed = self._places_of(rules.ids)
        if not rules.ids and len(self._usable) < (rules.k or 0):
            raise InputError(
                f"{self._where}: {rules.k:,} examples are asked for, and dataset '{rules.pool}' has "
                f"{len(self._usable):,} rows with a question and an answer. Lower few_shot.k."
            )
        if rules.k and not self._candidates:
            raise InputError(
                f"{self._where}.match: no example of dataset '{rules.pool}' has a value at '{rules.match}'. "
                "Name a field that both datasets have, such as data_tag.subject."
            )

    def _read(self, samples: pa.Table) -> None:
        """Note the rows that can be examples, by what their samples share with those that they are examples of."""
        rules = self._rules
        read = sorted({"references", "label", "metadata"} | rules.match_columns)
        offset = 0
        for batch in samples.to_batches(max_chunksize=1024):
            table = pa.Table.from_batches([batch])
            rows = rows_of(table, read)
            names = table["label"].to_pylist()
            conversations = messages_from_array(table["messages"], collapse=False)
            for index, messages in enumerate(conversations):
                self._prints.append(fingerprint(messages))
                asks = messages and messages[-1]["role"] not in (*_SYSTEM, "assistant")
                if asks and answer_of(rows[index]):
                    self._usable.append(offset + index)
                    matched = rules.matched(rows[index])
                    if matched is not None:
                        self._candidates.setdefault(matched, _Candidates()).add(offset + index, names[index] or "")
            offset += batch.num_rows

    def choose(self, samples: Iterable[FewShotQuery]) -> list[list[Example] | RecordRejected]:
        """The examples of each sample; or, for a sample without the value to match by, the reason for its rejection.

        Raises:
            InputError: too few rows are left after the sample itself is excluded.
        """
        chosen = [self._chosen(sample) for sample in samples]
        self._remember({position for positions in chosen for position in positions or ()})
        reason = f"few_shot.match: there is no value at '{self._rules.match}'."
        return [
            RecordRejected(reason) if positions is None else [self._examples[position] for position in positions]
            for positions in chosen
        ]

    def _chosen(self, sample: FewShotQuery) -> list[int] | None:
        """Positions of a sample's examples in the pool; None for a sample without the value to match by."""
        rules = self._rules
        count = len(rules.ids) if rules.k is None else rules.k
        if sample.matched is None and count:
            return None
        chosen = list(islice(self._order(sample, lambda position: not self._is_self(position, sample)), count))
        # The sample itself may be among examples given by id; then there is no replacement for it.
        if len(chosen) < count and not rules.ids:
            alike = f"with {rules.match} {_shown(sample.matched)} " if rules.match is not None else ""
            raise InputError(
                f"{self._where}: dataset '{rules.pool}' has {len(chosen):,} examples {alike}for sample "
                f"'{sample.sample_id}', which cannot be its own example; {count:,} are asked for. Lower few_shot.k."
            )
        return chosen

    @property
    def _where(self) -> str:
        return f"task '{self._task_id}'.few_shot"

    def _order(self, sample: FewShotQuery, fits: Callable[[int], bool]) -> Iterator[int]:
        rules = self._rules
        if rules.ids:
            return filter(fits, self._fixed)
        candidates = self._candidates.get(sample.matched or "", _Candidates())
        if rules.strategy == "first":
            return filter(fits, candidates.positions)
        draws = _draws(rules.seed, self._task_id, sample.sample_id)
        if rules.strategy == "random":
            return filter(fits, shuffled(candidates.positions, draws))
        return _in_turn(list(candidates.by_label.values()), draws, fits)

    def _is_self(self, position: int, sample: FewShotQuery) -> bool:
        if self._rules.own_dataset and self._ids[position] == sample.sample_id:
            return True
        return self._prints[position] == sample.fingerprint

    def _remember(self, positions: set[int]) -> None:
        """Load some rows as examples, all at once: taking single rows out of a table is slow."""
        if len(self._examples) > _REMEMBERED:
            self._examples.clear()
        missing = sorted(positions - self._examples.keys())
        if not missing:
            return
        rows = rows_of(self._samples.take(pa.array(missing, pa.int64())), _EXAMPLE_COLUMNS)
        for position, row in zip(missing, rows, strict=True):
            row["messages"] = [message for message in row["messages"] if message["role"] not in _SYSTEM]
            self._examples[position] = Example(self._prepared(row), answer_of(row))

    def _places_of(self, ids: Sequence[str]) -> list[int]:
        known = {self._ids[position]: position for position in self._usable} if ids else {}
        for name in ids:
            if name not in known:
                there = "has no question or no answer" if name in self._ids else "is not there"
                raise InputError(
                    f"{self._where}.ids: sample '{name}' of dataset '{self._rules.pool}' {there}.{closest(name, known)}"
                )
        return [known[name] for name in ids]


def answer_of(shot: Mapping[str, Any]) -> str:
    """The assistant's answer in an example.

    The worked solution under ``metadata.answer_text`` where a preprocessor kept one, else the label, else the first
    reference as text; empty when there is none.
    """
    # What a sample brings along as an example may have any JSON value here.
    metadata = shot.get("metadata")
    worked = metadata.get("answer_text") if isinstance(metadata, Mapping) else None
    if isinstance(worked, str) and worked:
        return worked
    references = shot.get("references") or []
    return shot.get("label") or (reference_text(references[0]) if references else None) or ""


def fingerprint(messages: Sequence[Mapping[str, Any]]) -> bytes:
    """A hash of the question: equal for equal messages, system prompts aside."""
    conversation = [message for message in messages if message["role"] not in _SYSTEM]
    return hashlib.sha256(canonical_json(conversation)).digest()[:16]


def as_chat(own: list[dict[str, Any]], examples: Sequence[Example]) -> list[dict[str, Any]]:
    """The examples as turns of user and assistant before the sample's own turns, after its system message."""
    before: list[dict[str, Any]] = []
    for example in examples:
        before += [*example.messages, {"role": "assistant", "content": [_text(example.answer)]}]
    head = own[:1] if own and own[0]["role"] == "system" else []
    return [*head, *before, *own[len(head) :]]


def as_text(
    own: list[dict[str, Any]], examples: Sequence[Example], *, target_delimiter: str, delimiter: str
) -> list[dict[str, Any]]:
    """The examples as text (and media) before the sample's first message that is not a system message.

    Args:
        own: the sample's messages.
        examples: in the order they are shown.
        target_delimiter: between an example's question and its answer.
        delimiter: between examples, and before the question.
    """
    segments: list[dict[str, Any]] = []
    for example in examples:
        for number, message in enumerate(example.messages):
            _append(segments, [_text("\n")] if number else [])
            _append(segments, message.get("content") or [])
        _append(segments, [_text(f"{target_delimiter}{example.answer}{delimiter}")])
    first = next((index for index, message in enumerate(own) if message["role"] not in _SYSTEM), len(own))
    if not segments:
        return own
    question: dict[str, Any] = own[first] if first < len(own) else {"role": "user", "content": []}
    _append(segments, question.get("content") or [])
    return [*own[:first], {**question, "content": segments}, *own[first + 1 :]]


def shuffled(items: Sequence[int], draws: Iterator[int]) -> Iterator[int]:
    """The items in random order, drawn one at a time (Fisher and Yates)."""
    moved: dict[int, int] = {}
    for index in range(len(items)):
        other = index + next(draws) % (len(items) - index)
        chosen = moved.get(other, other)
        moved[other] = moved.pop(index, index)
        yield items[chosen]


def _in_turn(groups: Sequence[Sequence[int]], draws: Iterator[int], fits: Callable[[int], bool]) -> Iterator[int]:
    """Take one fitting item from each group in turn. Groups and items are in random order."""
    opened: list[Iterator[int]] = []
    for group in shuffled(range(len(groups)), draws):
        fitting = filter(fits, shuffled(groups[group], draws))
        if (item := next(fitting, None)) is not None:
            opened.append(fitting)
            yield item
    while opened:
        for items in list(opened):
            if (item := next(items, None)) is None:
                opened.remove(items)
            else:
                yield item


def _draws(seed: int, task_id: str, sample_id: str) -> Iterator[int]:
    """An endless stream of 64-bit numbers that depends only on these arguments: sha256 in counter mode."""
    start = hashlib.sha256(canonical_json([seed, task_id, sample_id])).digest()
    counter = 0
    while True:
        block = hashlib.sha256(start + counter.to_bytes(8, "big")).digest()
        for offset in range(0, 32, 8):
            yield int.from_bytes(block[offset : offset + 8], "big")
        counter += 1


def _shown(matched: str | None) -> str:
    text = matched or ""
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _append(segments: list[dict[str, Any]], more: Sequence[dict[str, Any]]) -> None:
    """Add segments; neighbouring plain texts become one."""
    for segment in more:
        last = segments[-1] if segments else None
        plain = segment["type"] == "text" and len(segment) == 2
        if plain and last is not None and last["type"] == "text" and len(last) == 2:
            segments[-1] = _text(last["text"] + segment["text"])
        else:
            segments.append(segment)
