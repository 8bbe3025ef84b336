"""The page on which people label answers, without seeing the model and the verdict; the labels go into a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.responses import RedirectResponse, Response

from gage_eval.base.canonical import canonical_text
from gage_eval.base.errors import InputError
from gage_eval.runs.results.label_file import LabelFile
from gage_eval.viewer.listing import number_in, number_of
from gage_eval.viewer.pages import rendered
from gage_eval.viewer.security import Session


class LabelPages:
    """The files of labels that the viewer was started with.

    Args:
        files: as `gage labels suggest` writes them.
        session: of this server.
    """

    def __init__(self, files: Sequence[Path], session: Session) -> None:
        self._files = [LabelFile(file) for file in files]
        self._session = session

    def page(self, params: QueryParams) -> str:
        """An answer: the one of the address, else the first without a label.

        Raises:
            InputError: a file cannot be read.
        """
        if not self._files:
            return rendered("label.html", title="Labels", files=[], row=None)
        number = self._number(params)
        rows = self._files[number].rows()
        open_rows = [at for at, row in enumerate(rows) if row.label is None]
        wanted = number_in(params, "row")
        at = wanted - 1 if 0 < wanted <= len(rows) else None
        shown = next(iter(open_rows), None) if at is None else at
        before = rows if shown is None else rows[:shown]
        return rendered(
            "label.html",
            title="Labels",
            files=[(file.file.name, _address(at)) for at, file in enumerate(self._files)],
            number=number,
            path=canonical_text(str(self._files[number].file)),
            task=rows[0].fields.get("task_id"),
            row=None if shown is None else rows[shown],
            at=shown,
            count=len(rows),
            labelled=len(rows) - len(open_rows),
            leaves_out=shown is not None and bool(open_rows) and open_rows[0] < shown,
            undo=next((row for row in reversed(before) if row.label is not None), None),
            previous=_address(number, shown) if shown else None,
            next=_address(number, shown + 2) if shown is not None and shown + 1 < len(rows) else None,
            form=self._session.form,
        )

    def add(self, form: Mapping[str, str]) -> Response:
        """Write a label, or take one back, and go to the next answer.

        Raises:
            InputError: the label cannot be written.
        """
        number = self._number(form)
        line, replicate = number_of(form.get("line")), number_of(form.get("replicate"))
        label = form.get("label", "").strip()
        if line is None or replicate is None:
            raise InputError("this form names no answer: load the page again.")
        file = self._files[number]
        file.set(line, form.get("id", ""), replicate, label)
        # What was taken back is shown again.
        row = next((at for at, row in enumerate(file.rows(), 1) if row.line == line), None)
        return RedirectResponse(_address(number, None if label else row), 303)

    def _number(self, values: Mapping[str, str]) -> int:
        number = number_in(values, "file")
        if number >= len(self._files):
            raise InputError("this file of labels is not open: gage view --labels FILE opens it.")
        return number


def _address(number: int, row: int | None = None) -> str:
    """The address of a file's row, counted from 1; without one, of its first row without a label."""
    values = {"file": number, "row": row}
    query = urlencode({name: value for name, value in values.items() if value})
    return f"/labels?{query}" if query else "/labels"
