"""Notes in the viewer: forms on an answer's page, and the page of all notes."""

import threading
import time
from collections.abc import Mapping

from starlette.responses import RedirectResponse, Response

from gage_eval.base.errors import GageError, StoreError
from gage_eval.runs.results.notes import Note, Notes, by_verdict
from gage_eval.store import Store
from gage_eval.store.objects import is_digest
from gage_eval.viewer.index import response_number
from gage_eval.viewer.listing import ListLinks, number_in
from gage_eval.viewer.pages import rendered
from gage_eval.viewer.query import Noted
from gage_eval.viewer.security import Session, safe_address

_FRESH_S = 5.0


class NotePages:
    """The notes of a store.

    Args:
        store: the URL of the store.
        session: of this server.
    """

    def __init__(self, store: str, session: Session) -> None:
        self._session = session
        self._url = store
        self._lock = threading.Lock()
        self._read: tuple[float, list[Note]] = (0.0, [])
        self._reader = Notes(Store.open(store, read_only=True))

    def all(self) -> list[Note]:
        """All notes; on a slow store as they were some seconds ago."""
        with self._lock:
            if self._read[0] < time.monotonic():
                self._read = time.monotonic() + _FRESH_S, self._reader.all()
            return self._read[1]

    def of(self, response_key: str) -> list[Note]:
        """The notes of a response."""
        return [note for note in self.all() if note.response_key == response_key]

    def noted(self) -> Noted:
        """Response numbers by verdict, for the search line."""
        # Other people may write into the store: a note may name something else.
        known = [note for note in self.all() if is_digest(note.response_key)]
        return {verdict: {response_number(key) for key in keys} for verdict, keys in by_verdict(known).items()}

    def page(self) -> str:
        """All notes, the newest first."""
        notes = [
            (note, ListLinks(note.run_id).sample(note.task_id, note.sample_id, note.replicate))
            for note in reversed(self.all())
        ]
        return rendered("notes.html", title="Notes", notes=notes, form=self._session.form)

    def add(self, form: Mapping[str, str]) -> Response:
        """Keep a note, and go back to the answer.

        Raises:
            InputError: the note cannot be kept.
        """
        try:
            Notes(Store.open(self._url)).add(
                form.get("response_key", ""),
                form.get("verdict", ""),
                run_id=form.get("run", ""),
                task_id=form.get("task", ""),
                sample_id=form.get("id", ""),
                replicate=number_in(form, "replicate"),
                metric=form.get("metric") or None,
                text=form.get("text", ""),
                withdraws=form.get("withdraws") or None,
            )
        except StoreError as error:
            raise GageError(f"the note cannot be kept: {error}") from error
        with self._lock:
            self._read = (0.0, [])
        return RedirectResponse(safe_address(form.get("address", "/")), 303)
