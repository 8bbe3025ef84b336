"""What the page of a flow run says about a run, as texts: the state's message, the report, tags and progress."""

from collections.abc import Sequence

from gage_eval.base.stages import StageResult
from gage_eval.pipeline.specs import Plan
from gage_eval.report.console import (
    COLUMNS,
    clean,
    closing_facts,
    counted,
    group_lines,
    headline,
    score_rows,
    slice_lines,
)
from gage_eval.report.markdown import bullets, code, page, plain, table
from gage_eval.report.model_run import under_test
from gage_eval.report.shares import remarks
from gage_eval.report.summary import Summary, arrow_note
from gage_eval.runs import RunOutcome
from gage_eval.runs.results.formatting import of_task, stage_text

# Tasks, or groups, in the message of a state.
_MOST_SCORES = 3


def score_line(summary: Summary) -> str:
    """The scores in one line: ``exact_match 0.861 ± 0.019 · 1,319 samples``. Several tasks, or groups, by name."""
    return f"{headline(summary, _MOST_SCORES)} · {counted(summary.sample_count, 'sample')}"


def report_markdown(outcome: RunOutcome, viewer: str | None = None) -> str:
    """The run's report as Markdown: scores with their intervals, what to know about them, and where the rest is.

    Args:
        outcome: of a finished run.
        viewer: the address of the run's page in a viewer that is running.
    """
    summary = outcome.summary
    models = dict.fromkeys(model.title for model in under_test(summary.models))
    facts = [*(f"model {code(model)}" for model in models), *closing_facts(summary)]
    if summary.run.cached_stages:
        facts.append(f"cached: {', '.join(summary.run.cached_stages)}")
    note = arrow_note(summary)
    command = code(outcome.folder.locations.command("view", outcome.run_id))
    looked_at = (
        f"Samples and answers: {command}" if viewer is None else f"[Samples and answers]({viewer}), or {command}"
    )
    sections = [
        f"## {plain(summary.title)}",
        f"**{plain(score_line(summary))}**",
        table(COLUMNS, score_rows(summary)),
        "" if note is None else f"{note}.",
        bullets(remarks(summary)),
        _titled("Groups", group_lines(summary)),
        _titled("Slices", slice_lines(summary)),
        " · ".join(facts),
        f"{looked_at}. The full report: {code(outcome.folder.location('report.html'))}.",
    ]
    return page(*sections)


def tags_of(plan: Plan) -> list[str]:
    """The name of what is run, and its models."""
    return sorted({clean(plan.name), *(clean(task.infer.model_name) for task in plan.tasks)})


def stage_line(result: StageResult) -> str:
    """``gsm8k infer: 1,319 rows · 212 requests/s, in 6.2 s``; ``gsm8k load: cached, 1,319 rows``."""
    return f"{stage_label(result.task_id, result.stage)}: {stage_text(result)}"


def stage_label(task_id: str, stage: str) -> str:
    """``gsm8k infer``; ``gsm8k infer (few-shot examples)``."""
    task, part = of_task(task_id)
    return clean(f"{task} {stage}{f' ({part})' if part else ''}")


def _titled(title: str, lines: Sequence[str]) -> str:
    return f"### {title}\n\n{bullets(lines)}" if lines else ""
