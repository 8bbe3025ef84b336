"""docs/suites-reference.md, made from the templates of the built-in suites.

python -m tools.suites_page    write the page
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gage_eval.config import list_suites
from gage_eval.config.suites.card import SuiteCard
from gage_eval.config.suites.template_file import Template, read_template
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
    suites = [(one, read_template(one.path)) for one in list_suites() if one.card is not None]
    yield "| suite | measures | rows | metric | needs | licence | data |"
    yield "|---|---|---|---|---|---|---|"
    for one, _ in suites:
        card = one.card
        assert card is not None
        yield (
            f"| [{one.name}](#{one.name}) | {cell(card.summary)} | {card.rows:,} | `{card.metric}` "
            f"| {', '.join(card.needs) or '–'} | {_licence(card)} | {_size(card.download_bytes)} |"
        )
    for one, template in suites:
        assert one.card is not None
        yield from _suite(one.name, one.versions, one.card, template)


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
        yield f"- Tasks: {', '.join(f'`{one}`' for one in tasks[:8])}{more}"
    if metrics := list(dict.fromkeys(_metrics(definition))):
        yield f"- Metrics: {', '.join(f'`{one}`' for one in metrics)}"
    cost = card.cost
    judge = f", {cost.judge_requests:,} requests to the judge" if cost.judge_requests else ""
    yield (
        f"- A whole run: {cost.requests:,} requests, about {_thousands(cost.prompt_tokens)} prompt tokens and "
        f"{_thousands(cost.answer_tokens)} answer tokens{judge}"
    )
    for one in card.reference:
        how = ", ".join(filter(None, (one.setting, one.metric)))
        yield f"- {one.model}: {one.score:g}{f' ({how})' if how else ''}, {one.source}"


def _metrics(definition: Mapping[str, Any]) -> Iterator[str]:
    lists = [definition.get("metrics") or ()]
    lists += [task.get(key) or () for task in definition.get("tasks") or () for key in ("metrics", "metric_overrides")]
    for one in (metric for metrics in lists for metric in metrics):
        yield str(one.get("metric_id") or next(iter(one), "")) if isinstance(one, dict) else str(one)


def _licence(card: SuiteCard) -> str:
    return cell(card.licence) + (" (non-commercial)" if card.non_commercial else "")


def _size(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB" if count >= 2**20 else f"{count / 2**10:,.0f} KiB"


def _thousands(count: int) -> str:
    return f"{count / 1e6:.1f} million" if count >= 1_000_000 else f"{round(count, -3):,}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
