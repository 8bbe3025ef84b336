"""The change of a finished run against the baselines of its suite or config."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gage_eval.regression.gating import Gated
    from gage_eval.runs import RunOutcome


def print_changes(outcome: "RunOutcome") -> None:
    """Print one line per task and baseline: the change of its declared number, and the gate's verdict.

    Prints nothing without baselines. A baseline that cannot be compared is one sentence; the run itself is complete.
    """
    from gage_eval.store import Store

    store = Store.open(outcome.folder.locations.store, read_only=True)
    if next(iter(store.objects.list("baselines")), None) is None:
        return
    from gage_eval.errors import GageError
    from gage_eval.regression.baselines import Baselines
    from gage_eval.regression.gating import gate
    from gage_eval.report.console import clean
    from gage_eval.runs.reading import RunReader

    run = RunReader.open(outcome.folder.locations, outcome.run_id)
    baselines = Baselines(store)
    for suite, name in baselines.names():
        if suite != run.stored.record.name:
            continue
        try:
            lines = _lines(gate(run, baselines.latest(suite, name)))
        except GageError as error:
            lines = [f"vs {name}  not compared: {error}"]
        for line in lines:
            print(clean(line))


def _lines(found: "Gated") -> list[str]:
    from gage_eval.cli.compare import p_text
    from gage_eval.report.summary import signed_text

    out = []
    for one in found.tasks:
        numbers, verdict = one.judged.evidence, one.judged.verdict
        arrow = {"regressed": " ▼", "improved": " ▲"}.get(verdict, "")
        tested = "" if numbers.test == "none" else f" (p {p_text(one.judged.p_worse)})"
        change = f"{signed_text(numbers.difference)}{arrow}  {verdict}{tested}"
        out.append(f"vs {found.entry.name}  {one.comparison.task_id}  {one.comparison.measure.name}  {change}")
    return out
