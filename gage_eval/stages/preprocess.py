"""preprocess: samples → prepared rows, what an episode needs whatever the model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.canonical import JsonValue, canonical_text, decode
from gage_eval.errors import InputError
from gage_eval.planning.specs import PreprocessSpec
from gage_eval.prepare.few_shot import (
    Example,
    FewShotQuery,
    Pool,
    answer_of,
    as_chat,
    as_text,
    fingerprint,
)
from gage_eval.prepare.media import MediaReader, media_of
from gage_eval.prepare.options import with_options
from gage_eval.sample.record import RecordRejected
from gage_eval.sample.table import messages_from_array, messages_to_array, rows_of
from gage_eval.stages.base import StageRun, stage
from gage_eval.stages.rejects import limit_on_rejects, rejects_table
from gage_eval.tables import PREPARED, REJECTS

_COLUMNS = [
    "row_index", "id", "messages", "options", "few_shot_examples", "metadata", "tools", "tool_choice",
    "sampling_params", "generation_params", "unconditioned_input", "task_type",
]  # fmt: skip
# Who makes one text of the messages, by the kind of request. A chat's template is its backend's.
_RENDERED_BY: Mapping[str, tuple[str, str, str]] = {
    "chat": ("backend", "backend", "model"),
    "completion": ("none", "preprocess", "manual"),
    "likelihood": ("none", "preprocess", "manual"),
    "chat_likelihood": ("backend", "backend", "model"),
}


@stage(
    "preprocess",
    check=limit_on_rejects(
        "prepared",
        "prepare_rejects",
        wrong="samples cannot be prepared",
        none="none of its {total} samples can be prepared",
    ),
)
def preprocess(run: StageRun, spec: PreprocessSpec) -> None:
    """Prepare every sample's request as far as no model takes part.

    Args:
        run: ``samples``, and ``few_shot``, the samples of the pool, where examples come from another dataset; writes
            ``prepared`` and ``prepare_rejects``.
        spec: the task's sampling parameters, replicates, examples, media and chosen sample ids.

    Raises:
        InputError: none of the chosen sample ids is there, or the pool has too few examples.
    """
    samples = run.input("samples")
    prepared, rejects = run.writer(PREPARED), run.writer(REJECTS)
    preparer = Preparer(run, spec)
    matched = spec.few_shot.match_columns if spec.few_shot is not None else frozenset()
    columns = [*_COLUMNS, *sorted(matched.difference(_COLUMNS))]
    rows = requests = 0
    for part in samples.parts:
        table = samples.read(part.index, columns=columns)
        if spec.sample_ids:
            table = table.filter(pc.is_in(table["id"], pa.array(spec.sample_ids)))
        ready, rejected = preparer.prepare(table)
        prepared.write(part.index, ready)
        rejects.write(part.index, rejected)
        rows += table.num_rows
        requests += ready.num_rows * spec.replicates
        run.advance(rows, samples.rows)
    if spec.sample_ids and rows == 0:
        raise InputError(f"task '{spec.task_id}': no sample has the id {' or '.join(map(repr, spec.sample_ids))}.")
    run.commit(PREPARED, counts={"requests": requests})
    run.commit(REJECTS, name="prepare_rejects")


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A sample's messages, ready to be sent.

    Attributes:
        text: the messages as one text; None where the backend makes it.
        meta: what there is to know of their media.
        choices: what likelihood compares, as it follows the messages.
        unconditioned: the text that the likelihood of the choices is compared with.
    """

    messages: list[dict[str, Any]]
    text: str | None
    meta: JsonValue
    choices: list[str] | None = None
    unconditioned: str | None = None


class Preparer:
    """Makes `tables.PREPARED` rows of sample rows, part by part."""

    def __init__(self, run: StageRun, spec: PreprocessSpec) -> None:
        self._spec = spec
        store, threads = run.env.store.media, run.env.media_threads
        self._media = MediaReader(spec.media, store, threads=threads)
        self._lists_options = spec.lists_options and bool(run.input("samples").counts.get("unlisted_options"))
        self._pool: Pool | None = None
        if run.has_input("few_shot") and spec.few_shot is not None:
            reader = MediaReader(spec.pool_media, store, threads=threads)
            table = run.input("few_shot").table(columns=spec.few_shot.pool_columns)
            self._pool = Pool(table, spec.few_shot, spec.task_id, _example_messages(reader, spec, spec.few_shot.pool))

    def prepare(self, samples: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Prepared rows and `tables.REJECTS` rows of sample rows, both in their order."""
        if self._is_plain(samples):
            return self._table(samples, samples["messages"]), REJECTS.empty()
        prompts: list[_Prompt] = []
        good: list[int] = []
        bad: list[tuple[int, None, str, str, str]] = []
        indexes, ids = samples["row_index"].to_pylist(), samples["id"].to_pylist()
        for place, found in enumerate(self._prompts(samples, ids)):
            if isinstance(found, RecordRejected):
                record = canonical_text({"id": ids[place]})
                bad.append((indexes[place], None, "preprocess", found.reason, record))
            else:
                good.append(place)
                prompts.append(found)
        kept = samples.take(pa.array(good, pa.int64())) if bad else samples
        messages = messages_to_array([prompt.messages for prompt in prompts])
        made = {
            "prompt": pa.array([prompt.text for prompt in prompts], pa.string()),
            "choices": pa.array([prompt.choices for prompt in prompts], pa.list_(pa.string())),
            "unconditioned_input": pa.array([prompt.unconditioned for prompt in prompts], pa.string()),
            "media_meta": pa.array(
                [canonical_text(prompt.meta) if prompt.meta else None for prompt in prompts], pa.string()
            ),
        }
        return self._table(kept, messages, made), rejects_table(bad)

    def _is_plain(self, samples: pa.Table) -> bool:
        """Whether the messages go out as they stand: then nothing looks at single rows."""
        if self._spec.kind != "chat" or self._pool is not None or self._lists_options:
            return False
        examples = pc.max(pc.fill_null(pc.list_value_length(samples["few_shot_examples"]), 0)).as_py()
        return not examples and not media_of(samples)

    def _prompts(self, samples: pa.Table, ids: Sequence[str]) -> list["_Prompt | RecordRejected"]:
        own = messages_from_array(samples["messages"], collapse=False)
        rows = rows_of(samples, ["few_shot_examples", "options", "task_type"])
        options = [row.get("options") or [] for row in rows]
        chosen: list[list[Example] | RecordRejected]
        if self._pool is None:
            brought = [self._own_examples(row) for row in rows]
            chosen = [*brought]
            self._media.read([*own, *(example.messages for row in brought for example in row)])
        else:
            chosen = self._pool.choose(self._queries(samples, ids, own))
            self._media.read(own)
        if self._lists_options:
            own = [with_options({**row, "messages": messages}) for row, messages in zip(rows, own, strict=True)]
        unconditioned = samples["unconditioned_input"].to_pylist()
        out: list[_Prompt | RecordRejected] = []
        for messages, row, *compared in zip(own, chosen, options, unconditioned, strict=True):
            if isinstance(row, RecordRejected):
                out.append(row)
                continue
            try:
                out.append(self._prompt(messages, row, *compared))
            except RecordRejected as error:
                out.append(error)
        return out

    def _own_examples(self, sample: Mapping[str, Any]) -> list[Example]:
        """The examples that a sample brings along, as many of them as the task shows."""
        rules = self._spec.few_shot
        shots = (sample.get("few_shot_examples") or [])[: None if rules is None else rules.k]
        if self._lists_options:
            shots = [{**shot, "messages": with_options(shot)} for shot in shots]
        return [Example(shot["messages"], answer_of(shot)) for shot in shots]

    def _queries(
        self, samples: pa.Table, ids: Sequence[str], own: Sequence[list[dict[str, Any]]]
    ) -> Iterator[FewShotQuery]:
        """The samples as their examples are chosen by."""
        rules = self._spec.few_shot
        assert rules is not None, "there is a pool"
        rows = rows_of(samples, sorted(rules.match_columns))
        for sample_id, messages, row in zip(ids, own, rows, strict=True):
            yield FewShotQuery(sample_id, fingerprint(messages), rules.matched(row))

    def _prompt(
        self,
        own: list[dict[str, Any]],
        examples: list[Example],
        options: list[dict[str, str]],
        unconditioned: str | None,
    ) -> _Prompt:
        spec, rules = self._spec, self._spec.few_shot
        own, meta = self._media.resolve(own)
        if self._pool is None:
            resolved = [(self._media.resolve(example.messages), example.answer) for example in examples]
            examples = [Example(messages, answer) for (messages, _), answer in resolved]
            meta = [*(one for (_, found), _ in resolved for one in found), *meta]
        if rules is not None and rules.form == "text":
            messages = as_text(own, examples, target_delimiter=spec.target_delimiter, delimiter=rules.delimiter)
        else:
            messages = as_chat(own, examples)
        noted: JsonValue = {"embed": spec.media.embed, "media": _unique(meta)} if meta else None
        if spec.kind == "chat":
            return _Prompt(messages, None, noted)
        text = text_of(messages)
        if spec.kind == "completion":
            return _Prompt(messages, text, noted)
        if not options:
            raise RecordRejected("options: likelihood requests compare options, and there are none.")
        templated = spec.kind == "chat_likelihood"
        # A chat's template ends where an answer begins.
        delimiter = "" if templated and not _is_begun(messages) else spec.target_delimiter
        choices = [f"{delimiter}{option[spec.choices]}" for option in options]
        return _Prompt(messages, None if templated else text, noted, choices, _unconditioned(unconditioned))

    def _table(
        self, samples: pa.Table, messages: pa.Array | pa.ChunkedArray, made: Mapping[str, pa.Array] | None = None
    ) -> pa.Table:
        """Prepared rows of samples; `made` has the columns that are not the sample's own, where any row has one."""
        count, spec = samples.num_rows, self._spec
        mode, by, source = _RENDERED_BY[spec.kind]
        nothing = {
            name: pa.nulls(count, PREPARED.arrow.field(name).type)
            for name in ("prompt", "choices", "unconditioned_input", "media_meta")
        }
        arrays = {
            **(made or nothing),
            "row_index": samples["row_index"],
            "sample_id": samples["id"],
            "kind": _kinds(samples, spec.kind),
            "replicates": pa.repeat(pa.scalar(spec.replicates, pa.int32()), count),
            "messages": messages,
            "tools": samples["tools"],
            "tool_choice": samples["tool_choice"],
            "params": _params(samples, dict(spec.params)),
            "chat_template_mode": pa.repeat(pa.scalar(mode), count),
            "rendered_by": pa.repeat(pa.scalar(by), count),
            "template_source": pa.repeat(pa.scalar(source), count),
        }
        return pa.Table.from_pydict({name: arrays[name] for name in PREPARED.arrow.names}, schema=PREPARED.arrow)


def text_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """The messages as one text to complete: their contents, a blank line between two messages.

    Raises:
        RecordRejected: they hold media, which no completion takes.
    """
    texts = []
    for message in messages:
        content = message.get("content") or []
        if any(segment["type"] != "text" for segment in content):
            raise RecordRejected("completion and likelihood requests are text, and the messages hold media.")
        texts.append("".join(segment["text"] for segment in content))
    return "\n\n".join(texts)


def _is_begun(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a chat ends with the first words of the answer, and no white space after them."""
    return bool(messages) and messages[-1]["role"] == "assistant" and not text_of(messages[-1:])[-1:].isspace()


def _unconditioned(value: str | None) -> str | None:
    """The text in a sample's ``unconditioned_input``, which is kept as JSON.

    Raises:
        RecordRejected: it is a list.
    """
    text = None if value is None else decode(value)
    if text is not None and not isinstance(text, str):
        raise RecordRejected("unconditioned_input: likelihood requests are text, and this is a list.")
    return text


def _example_messages(reader: MediaReader, spec: PreprocessSpec, pool: str | None) -> Any:
    def ready(sample: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            return reader.resolve(with_options(sample) if spec.lists_options else sample["messages"])[0]
        except RecordRejected as error:
            raise InputError(f"example '{sample['id']}' of dataset '{pool}' cannot be shown: {error.reason}") from error

    return ready


def _unique(meta: Sequence[JsonValue]) -> list[JsonValue]:
    return list({one["url"]: one for one in meta}.values())


def _kinds(samples: pa.Table, kind: str) -> pa.Array:
    """The kind of each row: that of the task, and ``turns`` for chats whose sample says ``metadata.turns: true``."""
    count = samples.num_rows
    # Canonical text: a sample that says so holds exactly this somewhere.
    said = pc.fill_null(pc.match_substring(samples["metadata"], '"turns":true'), False)  # noqa: FBT003
    if kind != "chat" or not pc.any(said).as_py():
        return pa.repeat(pa.scalar(kind), count)
    texts = samples["metadata"].to_pylist()
    return pa.array([
        "turns" if text is not None and decode(text).get("turns") is True else kind for text in texts
    ])  # fmt: skip


def _params(samples: pa.Table, task: dict[str, Any]) -> pa.Array:
    """Merged sampling parameters as canonical JSON: the sample's own win over the task's."""
    count = samples.num_rows
    own = [samples["sampling_params"], samples["generation_params"]]
    if all(column.null_count == count for column in own):
        return pa.repeat(pa.scalar(canonical_text(task)), count)
    texts = []
    for sampling, generation in zip(*(column.to_pylist() for column in own), strict=True):
        merged = {
            **task,
            **(decode(generation) if generation else {}),
            **(decode(sampling) if sampling else {}),
        }
        texts.append(canonical_text(merged))
    return pa.array(texts, pa.string())
