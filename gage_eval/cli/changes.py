"""The changes of a finished run against the baselines of its suite or config."""

from typing import TYPE_CHECKING

from gage_eval.base.errors import GageError
from gage_eval.cli.places import open_run

if TYPE_CHECKING:
    from gage_eval.regression.gating import GateResult
    from gage_eval.report.console import Change
    from gage_eval.runs import RunOutcome


def changes_of(outcome: "RunOutcome") -> "tuple[list[Change], list[str]]":
    """The change of each task's declared number against each baseline, with the gate's verdict.

    Returns:
        The changes, and a sentence for each baseline that cannot be compared or lacks a task; the run itself is
        complete. Both are empty without baselines.
    """
    from gage_eval.store import Store

    store = Store.open(outcome.folder.locations.store, read_only=True)
    if next(iter(store.objects.list("baselines")), None) is None:
        return [], []
    from gage_eval.regression.baselines import Baselines
    from gage_eval.regression.gating import gate

    run = open_run(outcome.folder.locations, outcome.run_id)
    baselines = Baselines(store)
    changes: list[Change] = []
    notes: list[str] = []
    for suite, name in baselines.names():
        if suite != run.stored.record.name:
            continue
        try:
            gated = gate(run, baselines.latest(suite, name))
            changes += _changes(gated)
            notes += [f"vs {name}  {remark}" for remark in gated.remarks]
        except GageError as error:
            notes.append(f"vs {name}  not compared: {error}")
    return changes, notes


def _changes(gated: "GateResult") -> "list[Change]":
    from gage_eval.report.console import Change
    from gage_eval.report.summary import p_text

    out = []
    for task in gated.tasks:
        numbers, verdict = task.decision.evidence, task.decision.verdict
        arrow = {"regressed": " ▼", "improved": " ▲"}.get(verdict, "")
        if verdict == "inconclusive" and task.decision.notes:
            # A p value says nothing where something else leaves the task undecided.
            reason = f" ({'; '.join(task.decision.notes)})"
        else:
            reason = "" if numbers.test == "none" else f" (p {p_text(task.decision.p)})"
        text = f"{task.change}{arrow}  {verdict}{reason}"
        out.append(Change(gated.entry.name, task.comparison.task_id, task.comparison.measure.name, text))
    return out
