"""What people say about answers: a score is wrong, a question is wrong, or a comment. Kept in the store.

    <store>/notes/<response key>/<time>-<id>.json

A note belongs to a response and a metric, not to a run: every run that uses the same response has it. Notes are only
added. To take one back, a note that names it is added. `gage cache gc` keeps all notes.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from gage_eval.base.canonical import canonical_json, decode
from gage_eval.base.errors import InputError
from gage_eval.base.processes import user_name
from gage_eval.store import Store
from gage_eval.store.objects import is_digest

Verdict: TypeAlias = Literal["score_wrong", "score_right", "question_wrong", "comment", "withdrawn"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
MOST_CHARACTERS = 4_000

_FOLDER = "notes"


class Note(BaseModel):
    """What one person says about one answer."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    id: str = Field(description="Of the note.")
    response_key: str = Field(description="The response it is about.")
    metric: str | None = Field(default=None, description="The metric whose score it is about; null for the answer.")
    verdict: Verdict = Field(description="What is said.")
    text: str = Field(default="", description="In words.")
    withdraws: str | None = Field(default=None, description="The note that is taken back.")
    by: str = Field(description="Who said it.")
    at: AwareDatetime = Field(description="When.")
    run_id: str = Field(description="The run that was looked at.")
    task_id: str = Field(description="Its task.")
    sample_id: str = Field(description="The sample.")
    replicate: int = Field(default=0, description="Which repetition of the sample.")


class Notes:
    """The notes of a store.

    Args:
        store: the store; it must not be read-only to add one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, response_key: str, verdict: str, *, text: str = "", **about: Any) -> Note:
        """Add a note of the current user.

        Args:
            response_key: the response.
            verdict: one of `VERDICTS`.
            text: in words.
            about: the other fields of `Note`: the run that was looked at, its task and the sample.

        Raises:
            InputError: there is no such response or verdict, or the comment is empty or too long.
            StoreError: the store cannot be written.
        """
        if not is_digest(response_key):
            raise InputError(f"'{response_key[:80]}' is not the key of a response: open the page of the sample again.")
        if verdict not in VERDICTS:
            raise InputError(f"'{verdict}' is not a verdict: use one of {', '.join(VERDICTS)}.")
        if verdict == "comment" and not text.strip():
            raise InputError("the comment is empty: write a few words.")
        if len(text) > MOST_CHARACTERS:
            raise InputError(f"the comment has {len(text):,} characters: at most {MOST_CHARACTERS:,} are kept.")
        now = datetime.now(UTC)
        said = {"response_key": response_key, "verdict": verdict, "text": text.strip()}
        note = Note.model_validate({**about, **said, "id": uuid.uuid4().hex, "by": user_name(), "at": now})
        path = f"{_FOLDER}/{response_key}/{now:%Y%m%dT%H%M%S}-{note.id}.json"
        self._store.objects.create(path, canonical_json(note.model_dump(mode="json")))
        return note

    def of(self, response_key: str) -> list[Note]:
        """The notes of a response that were not taken back, oldest first."""
        return current(self._read(f"{_FOLDER}/{response_key}"))

    def all(self) -> list[Note]:
        """The notes of all responses that were not taken back, oldest first."""
        return current(self._read(_FOLDER))

    def _read(self, folder: str) -> Iterator[Note]:
        for item in self._store.objects.list(folder):
            try:
                yield Note.model_validate(decode(self._store.objects.get(item.path)))
            except (ValueError, ValidationError) as error:
                why = str(error).splitlines()[0]
                raise InputError(f"{item.path} in the store is not a note ({why}). Remove that file.") from error


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
