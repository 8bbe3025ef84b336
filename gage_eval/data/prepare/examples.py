"""Sources of few-shot examples: the sample itself, or a pool."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.data.prepare.few_shot import Example, FewShotQuery, FewShotRules, Pool, answer_of, fingerprint
from gage_eval.data.prepare.media import MediaReader
from gage_eval.data.prepare.options import with_options
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.sample.table import rows_of

Conversation: TypeAlias = list[dict[str, Any]]


class Examples(Protocol):
    """Gives each sample its examples."""

    def choose(
        self, samples: pa.Table, conversations: Sequence[Conversation]
    ) -> Sequence[list[Example] | RecordRejected]:
        """The examples of each sample, or why it cannot have any.

        Args:
            samples: rows of samples, with the columns that the examples are in or are chosen by.
            conversations: the messages of each.
        """

    def unread(self, chosen: Sequence[list[Example] | RecordRejected]) -> Iterator[Conversation]:
        """Messages of chosen examples whose media are not read yet."""

    def shown(self, examples: list[Example]) -> tuple[list[Example], list[JsonValue]]:
        """The examples with stored media, and what the sample's row says about these media.

        Raises:
            RecordRejected: a medium is missing, broken or out of bounds.
        """


class OwnExamples:
    """The examples in a sample's own ``few_shot_examples``.

    Args:
        most: how many of them to show; None for all.
        media: reads their media.
        lists_options: whether options that their messages do not show are listed.
    """

    def __init__(self, most: int | None, media: MediaReader, *, lists_options: bool) -> None:
        self._most = most
        self._media = media
        self._lists_options = lists_options

    def choose(self, samples: pa.Table, conversations: Sequence[Conversation]) -> list[list[Example]]:
        del conversations
        return [
            [
                Example(self._messages(shot), answer_of(shot))
                for shot in (row.get("few_shot_examples") or ())[: self._most]
            ]
            for row in rows_of(samples, ["few_shot_examples"])
        ]

    def unread(self, chosen: Sequence[list[Example] | RecordRejected]) -> Iterator[Conversation]:
        return (example.messages for row in chosen if not isinstance(row, RecordRejected) for example in row)

    def shown(self, examples: list[Example]) -> tuple[list[Example], list[JsonValue]]:
        resolved = [self._media.resolve(example.messages) for example in examples]
        shown = [Example(messages, example.answer) for (messages, _), example in zip(resolved, examples, strict=True)]
        return shown, [item for _, items in resolved for item in items]

    def _messages(self, shot: dict[str, Any]) -> Conversation:
        messages: Conversation = with_options(shot) if self._lists_options else shot["messages"]
        return messages


class PoolExamples:
    """Examples chosen from another dataset. A pool's examples are prepared once, with their own reader.

    Args:
        samples: `FewShotRules.pool_columns` of the pool's samples.
        rules: how to choose.
        task_id: part of the seed of the draws.
        media: reads the pool's media.
        lists_options: whether options that the messages do not show are listed.

    Raises:
        InputError: as `Pool`.
    """

    def __init__(
        self, samples: pa.Table, rules: FewShotRules, task_id: str, media: MediaReader, *, lists_options: bool
    ) -> None:
        def ready(sample: dict[str, Any]) -> Conversation:
            try:
                return media.resolve(with_options(sample) if lists_options else sample["messages"])[0]
            except RecordRejected as error:
                raise InputError(
                    f"example '{sample['id']}' of dataset '{rules.pool}' cannot be shown: {error.reason}"
                ) from error

        self._rules = rules
        self._pool = Pool(samples, rules, task_id, ready)

    def choose(
        self, samples: pa.Table, conversations: Sequence[Conversation]
    ) -> Sequence[list[Example] | RecordRejected]:
        return self._pool.choose(self._queries(samples, conversations))

    def unread(self, chosen: Sequence[list[Example] | RecordRejected]) -> Iterator[Conversation]:
        del chosen
        return iter(())

    def shown(self, examples: list[Example]) -> tuple[list[Example], list[JsonValue]]:
        return examples, []

    def _queries(self, samples: pa.Table, conversations: Sequence[Conversation]) -> Iterator[FewShotQuery]:
        ids = samples["id"].to_pylist()
        rows = rows_of(samples, sorted(self._rules.match_columns))
        for sample_id, messages, row in zip(ids, conversations, rows, strict=True):
            yield FewShotQuery(sample_id, fingerprint(messages), self._rules.matched(row))
