"""preprocess: samples → prepared rows, each with everything of a request that does not depend on the model."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import JsonValue, canonical_text, digest
from gage_eval.base.errors import InputError
from gage_eval.base.tables import PREPARED, REJECTS
from gage_eval.data.prepare.examples import Conversation, Examples, OwnExamples, PoolExamples
from gage_eval.data.prepare.few_shot import Example, as_chat, as_text
from gage_eval.data.prepare.media import MediaReader, each_once, media_of
from gage_eval.data.prepare.options import with_options
from gage_eval.data.prepare.prompt import Prompt, prompt_of
from gage_eval.data.prepare.remote import FetchFailed
from gage_eval.data.prepare.rows import SAMPLE_COLUMNS, prepared_table
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.sample.table import messages_from_array, rows_of
from gage_eval.pipeline.action import StageRun, stage
from gage_eval.pipeline.keys import action_document
from gage_eval.pipeline.rejects import limit_on_rejects, rejects_table
from gage_eval.pipeline.specs import PreprocessSpec
from gage_eval.pipeline.subsets import SubsetFilter
from gage_eval.pipeline.watching import tell_rejects


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
        InputError: none of the chosen sample ids is there, a subject is unknown, the pool has too few examples, or a
            file that samples name changed while it was read.
    """
    samples = run.input("samples")
    prepared, rejects = run.writer(PREPARED), run.writer(REJECTS, "prepare_rejects")
    preparer = Preparer(run, spec)
    chosen = None if spec.subset is None else SubsetFilter(spec.subset)
    drawn = None if spec.quick is None else pa.array(spec.quick.rows(samples), pa.int64())
    columns = {**dict.fromkeys(preparer.columns), **dict.fromkeys(() if chosen is None else chosen.columns)}
    rows = requests = 0
    for part in samples.parts:
        table = samples.read(part.index, columns=[*columns])
        if chosen is not None:
            table = chosen.of(table)
        # Parts end where looks do.
        if spec.look is not None and table.num_rows and table["row_index"][0].as_py() >= spec.look:
            break
        if drawn is not None:
            table = table.filter(pc.is_in(table["row_index"], drawn))
        if spec.sample_ids:
            table = table.filter(pc.is_in(table["id"], pa.array(spec.sample_ids)))
        ready, rejected = preparer.prepare(table)
        prepared.write(part.index, ready)
        rejects.write(part.index, rejected)
        if rejected.num_rows:
            ids = dict(zip(table["row_index"].to_pylist(), table["id"].to_pylist(), strict=True))
            tell_rejects(run, rejected, ids, {})
        rows += table.num_rows
        requests += ready.num_rows * spec.replicates
        run.advance(rows, samples.rows)
    if chosen is not None:
        chosen.check(spec.task_id)
    if spec.sample_ids and rows == 0:
        raise InputError(f"task '{spec.task_id}': no sample has the id {' or '.join(map(repr, spec.sample_ids))}.")
    if digest(action_document("preprocess", spec, run.inputs, run.env.store)) != run.key:
        # The key must name what was read.
        raise InputError(
            f"task '{spec.task_id}': a file that its samples name changed while it was read. Run it again."
        )
    run.commit(PREPARED, counts={"requests": requests})
    run.commit(REJECTS, name="prepare_rejects", complete=not preparer.misses_media)


class Preparer:
    """Makes `tables.PREPARED` rows of sample rows, part by part.

    Attributes:
        misses_media: whether a row was rejected because of a server that may answer another time. The result is then
            incomplete, and the next run prepares its rows again.
    """

    def __init__(self, run: StageRun, spec: PreprocessSpec) -> None:
        self._spec = spec
        self.misses_media = False
        self._media = MediaReader(spec.media, run.env.store.media, threads=run.env.media_threads)
        self._lists_options = spec.lists_options and bool(run.input("samples").counts.get("unlisted_options"))
        self._has_pool = spec.few_shot is not None and run.has_input("few_shot")
        self._examples: Examples = self._pool(run) if self._has_pool else self._own()

    @property
    def columns(self) -> list[str]:
        """The columns of samples that it reads."""
        matched = self._spec.few_shot.match_columns if self._spec.few_shot is not None else frozenset()
        return [*SAMPLE_COLUMNS, *sorted(matched.difference(SAMPLE_COLUMNS))]

    def prepare(self, samples: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Prepared rows and `tables.REJECTS` rows of sample rows, both in their order."""
        if self._is_plain(samples):
            return self._table(samples, None), REJECTS.empty()
        outcomes = self._prompts(samples)
        good = [place for place, outcome in enumerate(outcomes) if not isinstance(outcome, RecordRejected)]
        kept = samples if len(good) == len(outcomes) else samples.take(pa.array(good, pa.int64()))
        rows = zip(samples["row_index"].to_pylist(), samples["id"].to_pylist(), outcomes, strict=True)
        rejected = [
            (row, None, None, "preprocess", outcome.reason, canonical_text({"id": id_}))
            for row, id_, outcome in rows
            if isinstance(outcome, RecordRejected)
        ]
        prompts = [outcome for outcome in outcomes if not isinstance(outcome, RecordRejected)]
        return self._table(kept, prompts), rejects_table(rejected)

    def _own(self) -> OwnExamples:
        rules = self._spec.few_shot
        return OwnExamples(None if rules is None else rules.k, self._media, lists_options=self._lists_options)

    def _pool(self, run: StageRun) -> PoolExamples:
        spec, rules = self._spec, self._spec.few_shot
        assert rules is not None, "there is a pool"
        media = MediaReader(spec.pool_media, run.env.store.media, threads=run.env.media_threads)
        table = run.input("few_shot").table(columns=rules.pool_columns)
        return PoolExamples(table, rules, spec.task_id, media, lists_options=spec.lists_options)

    def _is_plain(self, samples: pa.Table) -> bool:
        """Whether the messages are sent unchanged, so that rows need no individual work."""
        if self._spec.kind != "chat" or self._has_pool or self._lists_options:
            return False
        examples = pc.max(pc.fill_null(pc.list_value_length(samples["few_shot_examples"]), 0)).as_py()
        return not examples and not media_of(samples)

    def _prompts(self, samples: pa.Table) -> list[Prompt | RecordRejected]:
        """The prompt of each sample, or why there is none."""
        conversations = messages_from_array(samples["messages"], collapse=False)
        chosen = self._examples.choose(samples, conversations)
        self._media.read([*conversations, *self._examples.unread(chosen)])
        rows = rows_of(samples, ["options", "task_type"])
        if self._lists_options:
            conversations = [
                with_options({**row, "messages": own}) for row, own in zip(rows, conversations, strict=True)
            ]
        options = [row.get("options") or [] for row in rows]
        unconditioned = samples["unconditioned_input"].to_pylist()
        outcomes: list[Prompt | RecordRejected] = []
        for own, examples, *compared in zip(conversations, chosen, options, unconditioned, strict=True):
            try:
                outcomes.append(self._prompt(own, examples, *compared))
            except RecordRejected as error:
                self.misses_media = self.misses_media or isinstance(error, FetchFailed)
                outcomes.append(error)
        return outcomes

    def _prompt(
        self,
        own: Conversation,
        examples: list[Example] | RecordRejected,
        options: list[dict[str, str]],
        unconditioned: str | None,
    ) -> Prompt:
        if isinstance(examples, RecordRejected):
            raise examples
        spec = self._spec
        own, media = self._media.resolve(own)
        examples, media_before = self._examples.shown(examples)
        return prompt_of(
            self._joined(own, examples),
            _media_meta([*media_before, *media], embed=spec.media.embed),
            options,
            unconditioned,
            kind=spec.kind,
            choices=spec.choices,
            target_delimiter=spec.target_delimiter,
        )

    def _joined(self, own: Conversation, examples: Sequence[Example]) -> Conversation:
        rules = self._spec.few_shot
        if rules is None or rules.form == "chat":
            return as_chat(own, examples)
        return as_text(own, examples, target_delimiter=self._spec.target_delimiter, delimiter=rules.delimiter)

    def _table(self, samples: pa.Table, prompts: Sequence[Prompt] | None) -> pa.Table:
        spec = self._spec
        return prepared_table(samples, prompts, kind=spec.kind, params=spec.params, replicates=spec.replicates)


def _media_meta(media: Sequence[Mapping[str, Any]], *, embed: bool) -> JsonValue:
    """The media of a prepared row, without repetitions; None if there are none."""
    return {"embed": embed, "media": each_once(media)} if media else None
