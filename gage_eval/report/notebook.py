"""A run in a notebook: its score table as HTML, for IPython's rich display."""

from html import escape

from gage_eval.report.console import COLUMNS, clean, closing_facts, score_rows
from gage_eval.report.shares import remarks
from gage_eval.report.summary import Summary


def run_html(run_id: str, status: str, summary: Summary | None) -> str:
    """A run as a fragment of HTML without styles of its own, so that it looks like the notebook's other tables.

    Args:
        run_id: the run.
        status: of it, such as ``completed``.
        summary: None for a run that has not finished.
    """
    head = f"<p><b>{_text(run_id)}</b> {_text(status)}</p>"
    if summary is None:
        return head
    titles = "".join(f"<th>{_text(name)}</th>" for name in COLUMNS)
    rows = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in cells)}</tr>" for cells in score_rows(summary))
    notes = "".join(f"<li>{_text(remark)}</li>" for remark in remarks(summary))
    return (
        f"{head}<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>"
        f"{f'<ul>{notes}</ul>' if notes else ''}<p>{_text(' · '.join(closing_facts(summary)))}</p>"
    )


def _text(text: str) -> str:
    return escape(clean(text))
