"""The verdict of a gate as files for continuous integration: JUnit XML, and Markdown for a pull request."""

from xml.etree import ElementTree as ET

from gage_eval.regression.gating import GateResult, TaskGate
from gage_eval.report.console import clean, counted
from gage_eval.report.markdown import bullets, code, page, plain, table
from gage_eval.report.summary import format_value, p_text, signed_ends, signed_text
from gage_eval.stats.verdicts import Verdict

_HEADER = ("task", "metric", "verdict", "baseline", "run", "better by", "interval", "p", "n")
_SIGNS: dict[Verdict, str] = {"regressed": "🔴", "improved": "🟢", "passed": "🟢", "inconclusive": "🟡"}
_MOST_SLICES, _MOST_FLIPS = 5, 10


def gate_junit(gated: GateResult, *, fail_undecided: bool) -> str:
    """The verdict as JUnit XML, with one test case per task. It has a failure exactly if the gate's exit code is not 0.

    Args:
        gated: the verdict.
        fail_undecided: a task that cannot be decided fails instead of being skipped.
    """
    cases = [_case(gated, task, fail_undecided=fail_undecided) for task in gated.tasks]
    for name, remark in zip(gated.unwatched, gated.unwatched_remarks, strict=True):
        case = _named(gated.entry.suite, name)
        _outcome(case, "failure" if fail_undecided else "skipped", "inconclusive", remark)
        cases.append(case)
    return _xml(f"gage gate {gated.run_id} against {gated.entry.name}", cases)


def refused_junit(run_id: str, baseline: str, reason: str) -> str:
    """JUnit XML with an error: run and baseline could not be compared."""
    case = _named("gage gate", run_id)
    _outcome(case, "error", "not comparable", reason)
    return _xml(f"gage gate {run_id} against {baseline}", [case])


def gate_markdown(gated: GateResult, anchor: GateResult | None = None) -> str:
    """The verdict as Markdown: differences with intervals, the slices that lost most, and samples that changed.

    Args:
        gated: the verdict against the newest entry of the baseline.
        anchor: that against its first entry, where this is another one.
    """
    entry = gated.entry
    accepted = f"a loss of {gated.rule.tolerance:g} is accepted"
    if gated.rule.mode == "exact":
        accepted = "no answer may change"
    level = f"{100 * (1 - 2 * gated.rule.alpha):g} %"
    return page(
        f"## {_SIGNS[gated.verdict]} {gated.verdict.capitalize()}: {code(gated.run_id)} against baseline "
        f"{code(entry.name)}",
        table(_HEADER, [task.cells(signed_ends(task.decision.evidence.bounds)) for task in gated.tasks]),
        f"{plain(entry.suite)}, entry {entry.number} of the baseline. Positive differences are better, intervals have "
        f"{level}, and {accepted}.",
        bullets(gated.notes(anchor)),
        *(_details(task) for task in gated.tasks),
    )


def refused_markdown(run_id: str, baseline: str, reason: str) -> str:
    """Markdown that says why run and baseline could not be compared."""
    return page(f"## ⚠️ Not compared: {code(run_id)} against baseline {code(baseline)}", plain(reason))


def _case(gated: GateResult, task: TaskGate, *, fail_undecided: bool) -> ET.Element:
    decision, changed = task.decision, task.comparison
    case = _named(gated.entry.suite, f"{changed.task_id} {changed.measure.name}")
    numbers = decision.evidence
    said = (
        f"{decision.verdict}: {format_value(numbers.baseline)} → {format_value(numbers.current)}, better by "
        f"{signed_text(numbers.difference)} ({signed_ends(numbers.bounds)}), p {p_text(decision.p)}, n {numbers.n:,}"
    )
    if task.changes is not None:
        said = f"{decision.verdict}: {task.changes.text}"
    if task in gated.regressed:
        worse = [f"worse: {name}" for name in changed.worse[:_MOST_FLIPS]]
        _outcome(case, "failure", decision.verdict, said, [*task.all_remarks, *worse])
    elif task in gated.undecided:
        _outcome(case, "failure" if fail_undecided else "skipped", "inconclusive", said, [*task.all_remarks])
    ET.SubElement(case, "system-out").text = clean(said)
    return case


def _named(suite: str, name: str) -> ET.Element:
    return ET.Element("testcase", {"classname": clean(suite), "name": clean(name)})


def _outcome(case: ET.Element, tag: str, kind: str, message: str, details: list[str] | None = None) -> None:
    outcome = ET.SubElement(case, tag, {"message": clean(message)} | ({} if tag == "skipped" else {"type": kind}))
    outcome.text = "\n".join(map(clean, details or ())) or None


def _xml(name: str, cases: list[ET.Element]) -> str:
    counts = {f"{tag}s": str(sum(case.find(tag) is not None for case in cases)) for tag in ("failure", "error")}
    skipped = sum(case.find("skipped") is not None for case in cases)
    suite = ET.Element("testsuite", {"name": clean(name), "tests": str(len(cases)), **counts, "skipped": str(skipped)})
    suite.extend(cases)
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _details(task: TaskGate) -> str:
    """The slices that lost most and the samples that changed most, losses first."""
    changed = task.comparison
    worst = sorted((x for x in changed.slices if x.difference < 0), key=lambda x: x.difference)[:_MOST_SLICES]
    worse, better = changed.worse[:_MOST_FLIPS], changed.better
    flips = [("worse", name) for name in worse]
    flips += [("better", name) for name in better[: _MOST_FLIPS - len(flips)]]
    if not flips:
        return ""
    # Texts of the data as code: a site would notify the user that a name such as @all stands for.
    samples = "\n".join(f"- {word}: {code(name)}" for word, name in flips)
    slices = "\n".join(f"- {code(x.text)}" for x in worst)
    counts = f"{counted(len(changed.worse), 'sample')} became worse, {len(changed.better):,} better"
    return page(
        f"### {plain(changed.task_id)}: {counts}",
        f"Slices that lost most:\n\n{slices}" if worst else "",
        f"Samples that changed most:\n\n{samples}",
    ).rstrip("\n")
