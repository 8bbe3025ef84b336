"""What people say about answers: a score is wrong, a question is wrong, or a note. Kept in the store.

    <store>/labels/<response key>/<time>-<id>.json

A label belongs to a response and a metric, not to a run: every run that uses the same response has it. Labels are only
added. To take one back, a label that names it is added. `gage cache gc` keeps all labels.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import ClassVar, Literal, TypeAlias, get_args

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from gage_eval.base.canonical import canonical_json, decode
from gage_eval.base.errors import InputError
from gage_eval.base.processes import user_name
from gage_eval.store import Store
from gage_eval.store.objects import is_digest

Verdict: TypeAlias = Literal["score_wrong", "score_right", "question_wrong", "note", "withdrawn"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
MOST_CHARACTERS = 4_000

_FOLDER = "labels"


class Label(BaseModel):
    """What one person says about one answer."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    id: str = Field(description="Of the label.")
    response_key: str = Field(description="The response it is about.")
    metric: str | None = Field(default=None, description="The metric whose score it is about; null for the answer.")
    verdict: Verdict = Field(description="What is said.")
    note: str = Field(default="", description="In words.")
    withdraws: str | None = Field(default=None, description="The label that is taken back.")
    by: str = Field(description="Who said it.")
    at: AwareDatetime = Field(description="When.")
    run_id: str = Field(description="The run that was looked at.")
    task_id: str = Field(description="Its task.")
    sample_id: str = Field(description="The sample.")
    replicate: int = Field(default=0, description="Which repetition of the sample.")


class Labels:
    """The labels of a store.

    Args:
        store: the store; it must not be read-only to add one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(
        self,
        response_key: str,
        verdict: Verdict,
        *,
        run_id: str,
        task_id: str,
        sample_id: str,
        replicate: int = 0,
        metric: str | None = None,
        note: str = "",
        withdraws: str | None = None,
    ) -> Label:
        """Add a label of the current user.

        Raises:
            InputError: there is no such response or verdict, or the note is empty or too long.
            StoreError: the store cannot be written.
        """
        if not is_digest(response_key):
            raise InputError(f"'{response_key[:80]}' is not the key of a response: open the page of the sample again.")
        if verdict not in VERDICTS:
            raise InputError(f"'{verdict}' is not a verdict: use one of {', '.join(VERDICTS)}.")
        if verdict == "note" and not note.strip():
            raise InputError("the note is empty: write a few words.")
        if len(note) > MOST_CHARACTERS:
            raise InputError(f"the note has {len(note):,} characters: at most {MOST_CHARACTERS:,} are kept.")
        now = datetime.now(UTC)
        label = Label(
            id=uuid.uuid4().hex,
            response_key=response_key,
            metric=metric,
            verdict=verdict,
            note=note.strip(),
            withdraws=withdraws,
            by=user_name(),
            at=now,
            run_id=run_id,
            task_id=task_id,
            sample_id=sample_id,
            replicate=replicate,
        )
        path = f"{_FOLDER}/{response_key}/{now:%Y%m%dT%H%M%S}-{label.id}.json"
        self._store.objects.create(path, canonical_json(label.model_dump(mode="json")))
        return label

    def of(self, response_key: str) -> list[Label]:
        """The labels of a response that were not taken back, oldest first."""
        return current(self._read(f"{_FOLDER}/{response_key}"))

    def all(self) -> list[Label]:
        """The labels of all responses that were not taken back, oldest first."""
        return current(self._read(_FOLDER))

    def _read(self, folder: str) -> Iterator[Label]:
        for item in self._store.objects.list(folder):
            try:
                yield Label.model_validate(decode(self._store.objects.get(item.path)))
            except (ValueError, ValidationError) as error:
                why = str(error).splitlines()[0]
                raise InputError(f"{item.path} in the store is not a label ({why}). Remove that file.") from error


def current(labels: Iterable[Label]) -> list[Label]:
    """The labels that were not taken back, oldest first."""
    ordered = sorted(labels, key=lambda label: label.at)
    gone = {label.withdraws for label in ordered}
    return [label for label in ordered if label.verdict != "withdrawn" and label.id not in gone]


def by_verdict(labels: Iterable[Label]) -> dict[str, set[str]]:
    """Response keys by verdict, and under ``any`` all of them."""
    keys: defaultdict[str, set[str]] = defaultdict(set)
    for label in labels:
        keys[label.verdict].add(label.response_key)
        keys["any"].add(label.response_key)
    return dict(keys)
