"""docs/suites-reference.md, made from the templates of the built-in suites.

python -m tools.suites_page    write the page
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gage_eval.config.suites.card import SuiteCard
from gage_eval.config.suites.template_file import Template, read_template
from gage_eval.config.suites.templates import list_suites
from gage_eval.config.yaml.lines import as_written
from tools.markdown import cell

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "suites-reference.md"

_HEAD = """# Reference: suites

Made from the templates by `python -m tools.suites_page`; change a text there, not on this page.

`gage suite NAME --model MODEL --endpoint URL` runs a suite. A version never changes: its digest pins data, prompts,
parameters, filters and metrics.

"""


def page() -> str:
    """The page as it should be."""
    return _HEAD + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    suites = [(suite, read_template(suite.path)) for suite in list_suites() if suite.card is not None]
    yield "| suite | measures | rows | metric | needs | licence | data |"
    yield "|---|---|---|---|---|---|---|"
    for suite, _ in suites:
        card = suite.card
        assert card is not None
        yield (
            f"| [{suite.name}](#{suite.name}) | {cell(card.summary)} | {card.rows:,} | `{card.metric}` "
            f"| {', '.join(card.needs) or '–'} | {_licence(card)} | {_size(card.download_bytes)} |"
        )
    for suite, template in suites:
        assert suite.card is not None
        yield from _suite(suite.name, suite.versions, suite.card, template)


def _suite(name: str, versions: tuple[str, ...], card: SuiteCard, template: Template) -> Iterator[str]:
    definition = as_written(template.definition)
    tasks = [task["task_id"] for task in definition.get("tasks") or definition["datasets"] if "task_id" in task]
    yield ""
    yield f"## {name}"
    yield ""
    assert template.path is not None
    readme = template.path.parent / "README.md"
    title = card.title
    if readme.is_file():
        title = f"[{card.title}](../{readme.relative_to(ROOT).as_posix()})"
    yield f"{title}. {card.summary}"
    yield ""
    yield f"- Versions: {', '.join(versions)}. Digest of {versions[-1]}: `{template.digest[:16]}…`"
    if tasks:
        more = f" and {len(tasks) - 8} more" if len(tasks) > 8 else ""
        yield f"- Tasks: {', '.join(f'`{task}`' for task in tasks[:8])}{more}"
    if metrics := list(dict.fromkeys(_metrics(definition))):
        yield f"- Metrics: {', '.join(f'`{metric}`' for metric in metrics)}"
    cost = card.cost
    judge = f", {cost.judge_requests:,} requests to the judge" if cost.judge_requests else ""
    yield (
        f"- A whole run: {cost.requests:,} requests, about {_thousands(cost.prompt_tokens)} prompt tokens and "
        f"{_thousands(cost.answer_tokens)} answer tokens{judge}"
    )
    for reference in card.reference:
        how = ", ".join(filter(None, (reference.setting, reference.metric)))
        yield f"- {reference.model}: {reference.score:g}{f' ({how})' if how else ''}, {reference.source}"


def _metrics(definition: Mapping[str, Any]) -> Iterator[str]:
    lists = [definition.get("metrics") or ()]
    lists += [task.get(key) or () for task in definition.get("tasks") or () for key in ("metrics", "metric_overrides")]
    for metric in (metric for metrics in lists for metric in metrics):
        yield str(metric.get("metric_id") or next(iter(metric), "")) if isinstance(metric, dict) else str(metric)


def _licence(card: SuiteCard) -> str:
    return cell(card.licence) + (" (non-commercial)" if card.non_commercial else "")


def _size(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB" if count >= 2**20 else f"{count / 2**10:,.0f} KiB"


def _thousands(count: int) -> str:
    return f"{count / 1e6:.1f} million" if count >= 1_000_000 else f"{round(count, -3):,}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
