"""What people say about answers: a score is wrong, a question is wrong, or a comment. Kept in the store.

    <store>/notes/<response key>/<time>-<id>.json

A note belongs to a response and a metric, not to a run: every run that uses the same response has it. Notes are only
added. To take one back, a note that names it is added. `gage cache gc` keeps all notes.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal, TypeAlias, get_args

from pydantic import AwareDatetime, Field

from gage_eval.base.canonical import canonical_json, decode
from gage_eval.base.errors import InputError
from gage_eval.base.processes import user_name
from gage_eval.base.strict_model import StrictModel
from gage_eval.store import Store
from gage_eval.store.objects import is_digest

Verdict: TypeAlias = Literal["score_wrong", "score_right", "question_wrong", "comment", "withdrawn"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
MOST_CHARACTERS = 4_000

_FOLDER = "notes"


class Note(StrictModel):
    """What one person says about one answer; unless said otherwise the current user, now."""

    id: str = Field(default_factory=lambda: uuid.uuid4().hex, description="Of the note.")
    response_key: str = Field(description="The response it is about.")
    metric: str | None = Field(default=None, description="The metric whose score it is about; null for the answer.")
    verdict: Verdict = Field(description="What is said.")
    text: str = Field(default="", description="In words.")
    withdraws: str | None = Field(default=None, description="The note that is taken back.")
    by: str = Field(default_factory=user_name, description="Who said it.")
    at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC), description="When.")
    run_id: str = Field(description="The run that was looked at.")
    task_id: str = Field(description="Its task.")
    sample_id: str = Field(description="The sample.")
    replicate: int = Field(default=0, description="Which repetition of the sample.")


def add_note(store: Store, note: Note) -> None:
    """Keep a note in a store.

    Raises:
        InputError: there is no such response, or the comment is empty or too long.
        StoreError: the store cannot be written.
    """
    if not is_digest(note.response_key):
        raise InputError(f"'{note.response_key[:80]}' is not the key of a response: open the page of the sample again.")
    if note.verdict == "comment" and not note.text:
        raise InputError("the comment is empty: write a few words.")
    if len(note.text) > MOST_CHARACTERS:
        raise InputError(f"the comment has {len(note.text):,} characters: at most {MOST_CHARACTERS:,} are kept.")
    path = f"{_FOLDER}/{note.response_key}/{note.at:%Y%m%dT%H%M%S}-{note.id}.json"
    store.objects.create(path, canonical_json(note.model_dump(mode="json")))


def notes_of(store: Store) -> list[Note]:
    """The notes of a store that were not taken back, oldest first.

    Raises:
        InputError: a note is damaged.
    """
    notes = []
    for item in store.objects.list(_FOLDER):
        try:
            notes.append(Note.model_validate(decode(store.objects.get(item.path))))
        except ValueError as error:
            why = str(error).splitlines()[0]
            raise InputError(f"{item.path} in the store is not a note ({why}). Remove that file.") from error
    return current(notes)


def current(notes: Iterable[Note]) -> list[Note]:
    """The notes that were not taken back, oldest first."""
    ordered = sorted(notes, key=lambda note: note.at)
    gone = {note.withdraws for note in ordered}
    return [note for note in ordered if note.verdict != "withdrawn" and note.id not in gone]


def by_verdict(notes: Iterable[Note]) -> dict[str, set[str]]:
    """Response keys by verdict, and under ``any`` all of them."""
    keys: defaultdict[str, set[str]] = defaultdict(set)
    for note in notes:
        keys[note.verdict].add(note.response_key)
        keys["any"].add(note.response_key)
    return dict(keys)
