"""gage show RUN --wrong and similar options: answers with an outcome, what was expected, and why."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gage_eval.cli.output import print_json, say
from gage_eval.report.console import aligned, clean, column_widths, counted, folded, one_line, terminal_width

if TYPE_CHECKING:
    from gage_eval.runs.results.explain import ExplainedAnswer, Tally
    from gage_eval.runs.results.outcomes import RowFilter
    from gage_eval.runs.results.reading import RunReader, TaskReader
    from gage_eval.runs.results.rows import SampleRow

_SHORT, _LONG = 30, 60
_WORDS = {"error": "in error"}


def show_outcomes(
    reader: "RunReader", outcomes: Sequence[str], *, task_id: str | None, metric: str | None, limit: int, json: bool
) -> None:
    """Print the answers of a run that have one of these outcomes.

    Args:
        reader: the run.
        outcomes: some of `gage_eval.runs.results.outcomes.OUTCOMES`.
        task_id: this task only.
        metric: the metric that decides; the primary one by default.
        limit: most answers of each task.
        json: print JSON, including the requests.

    Raises:
        InputError: the task or metric does not exist, or the task has no responses or scores yet.
    """
    from gage_eval.runs.results.explain import explained, tally

    if json:
        print_json(outcome_records(reader, outcomes, task_id=task_id, metric=metric, limit=limit, sent=True))
        return
    first: str | None = None
    for task in reader.tasks(task_id):
        where = _filter(task, outcomes, metric)
        counts = tally(task, where)
        shown = list(explained(task, where, limit=limit))
        say(_heading(task.task_id, counts, where, outcomes))
        _print(shown)
        if counts.matching > len(shown):
            print(f"{len(shown):,} of {counts.matching:,} shown; more with -n {counts.matching}")
        first = first or next((answer.sample_id for _, answer in shown), None)
    if first is not None:
        # The command is quoted for a shell.
        say(f"show one: {reader.stored.folder.locations.command('show', reader.run_id, '--sample', first)}")


def outcome_records(
    reader: "RunReader",
    outcomes: Sequence[str],
    *,
    task_id: str | None = None,
    metric: str | None = None,
    limit: int,
    sent: bool = False,
) -> list[dict[str, Any]]:
    """The same for JSON, by task; with ``sent``, including the requests."""
    from gage_eval.runs.results.explain import explained, tally

    records = []
    for task in reader.tasks(task_id):
        where = _filter(task, outcomes, metric)
        answers = [
            {**vars(answer), **({"sent": _sent(task, row, answer.replicate)} if sent else {})}
            for row, answer in explained(task, where, limit=limit)
        ]
        by = None if where.measure is None else where.measure.name
        records.append({"task_id": task.task_id, "metric": by, **vars(tally(task, where)), "shown": answers})
    return records


def _filter(task: "TaskReader", outcomes: Sequence[str], metric: str | None) -> "RowFilter":
    from gage_eval.runs.results.outcomes import OUTCOMES, RowFilter, needs_scores

    wanted = frozenset(name for name in OUTCOMES if name in outcomes)
    # Truncated answers are known before scoring.
    measure = task.measure(metric) if needs_scores(wanted) or metric or task.measures else None
    return RowFilter(outcomes=wanted, measure=measure)


def _heading(task_id: str, counts: "Tally", where: "RowFilter", outcomes: Sequence[str]) -> str:
    what = " or ".join(_WORDS.get(name, name) for name in outcomes)
    if where.measure is not None and "wrong" in outcomes:
        what += f" by {where.measure.name}"
    among = [f"{count:,} {name}" for name, count in counts.among.items() if list(outcomes) != [name]]
    if counts.unscored and "wrong" in outcomes:
        among.append(f"{counts.unscored:,} without a score")
    return f"{task_id} · {counts.matching:,} of {counted(counts.answers, 'answer')} {what}" + (
        f" ({', '.join(among)})" if among else ""
    )


def _print(answers: "Sequence[tuple[SampleRow, ExplainedAnswer]]") -> None:
    lines = [_cells(answer, several=len(row.responses) > 1) for row, answer in answers]
    width = terminal_width(sys.stdout)
    # A long id stands out of its column, instead of moving all others.
    widths = [min(size, _LONG) for size in column_widths(line[:2] for line in lines)]
    for line in lines:
        print(folded("   ".join([aligned(line[:2], widths), *line[2:]]), width, indent=widths[0] + 2))


def _cells(explained: "ExplainedAnswer", *, several: bool) -> list[str]:
    name = explained.sample_id + (f" (replicate {explained.replicate})" if several else "")
    expected = "" if explained.expected is None else f"expected {one_line(explained.expected, _SHORT)}"
    return [clean(name), clean(expected), *map(clean, _said(explained))]


def _said(explained: "ExplainedAnswer") -> list[str]:
    if explained.failure is not None:
        return [one_line(explained.failure, 2 * _LONG)]
    answer = explained.answer or ""
    # Log-likelihoods and tool calls have no text.
    quoted = f'"{_around(answer, explained.extracted)}"' if answer.strip() else "an answer without text"
    if explained.extracted is not None:
        parts = [f"read {one_line(explained.extracted, _SHORT)} from {quoted}"]
    elif explained.score_status == "unparsed":
        parts = [f"read nothing from {quoted}"]
    else:
        parts = [f"answered {quoted}" if answer.strip() else quoted]
    if explained.status in ("truncated", "looped"):
        tokens = (
            "" if explained.completion_tokens is None else f" after {counted(explained.completion_tokens, 'token')}"
        )
        parts.append(f"{'in a loop' if explained.status == 'looped' else 'cut at the limit'}{tokens}")
    elif explained.status != "ok":
        parts.append(explained.status)
    if explained.value is not None and 0 < explained.value < 1:
        parts.append(f"scored {explained.value:.3g}")
    if explained.explanation:
        parts.append(one_line(explained.explanation, 2 * _LONG))
    return parts


def _around(answer: str, extracted: str | None) -> str:
    """A piece of the answer around the last occurrence of the extracted text, else its end."""
    text = " ".join(answer.split())
    if len(text) <= _LONG:
        return text
    at = text.rfind(extracted) if extracted else -1
    end = len(text) if at < 0 else min(len(text), at + len(extracted or "") + _LONG // 4)
    start = max(0, end - _LONG)
    return ("…" if start else "") + text[start:end].strip() + ("…" if end < len(text) else "")


def _sent(task: "TaskReader", row: "SampleRow", replicate: int) -> list[Mapping[str, Any]]:
    return [call.request for call in task.calls(row) if call.stage == "infer" and call.replicate == replicate]
