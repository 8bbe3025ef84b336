"""Promises of the HTML page: self-contained, escaped, accessible."""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest
from run_summaries import metric_row, summary

from gage_eval.report.html import report_html

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&amp;{{ 7*7 }}</title></style>"
VOID = frozenset({"meta", "line", "rect", "circle", "br"})


class Page(HTMLParser):
    """Collects tags, attributes and text, and checks that tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def names(self) -> set[str]:
        return {tag for tag, _ in self.tags}


def _hostile() -> dict[str, Any]:
    return {
        "rows": [metric_row(metric_id=HOSTILE, filter=HOSTILE, value_key=HOSTILE, unparsed=900)],
        "task_id": HOSTILE,
        "dataset_id": HOSTILE,
        "model": HOSTILE,
        "description": HOSTILE,
    }


def test_hostile_names_stay_text() -> None:
    run = summary(**_hostile())
    run = run.model_copy(update={"run": run.run.model_copy(update={"name": HOSTILE, "run_id": HOSTILE})})
    text = report_html(run)
    page = Page(text)
    assert page.names().isdisjoint({"script", "img", "iframe", "link", "object"})
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert "<script" not in text
    assert HOSTILE in "".join(page.text)


def test_the_page_needs_nothing_from_elsewhere() -> None:
    text = report_html(summary())
    assert not re.search(r"\b(?:src|href|url|@import)\s*[=(](?!\"#)", text)
    assert "://" not in text
    policy = next(attributes["content"] for tag, attributes in Page(text).tags if "http-equiv" in attributes)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_the_table_is_readable_without_seeing_it() -> None:
    page = Page(report_html(summary()))
    assert ("html", {"lang": "en"}) in page.tags
    assert "caption" in page.names()
    scopes = [attributes.get("scope") for tag, attributes in page.tags if tag == "th"]
    assert {"col", "row"} == set(scopes)
    pictures = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert [picture["role"] for picture in pictures] == ["img"]
    assert pictures[0]["aria-label"] == "0.842 within 0.822 to 0.862"


def test_both_colour_schemes_are_there() -> None:
    text = report_html(summary())
    assert "prefers-color-scheme: dark" in text
    assert "color-scheme: light dark" in text


def test_what_went_wrong_is_on_the_page() -> None:
    text = report_html(summary(statuses={"ok": 1000, "truncated": 319}))
    assert "319 of 1,319 (24.2 %) answers were cut at the token limit" in text


@pytest.mark.parametrize(
    "changes",
    [
        {"value": None, "ci_low": None, "ci_high": None, "n": 0},
        {"value": 1523.4, "ci_low": 1500.0, "ci_high": 1550.0},
        {"value": -0.5},
    ],
)
def test_numbers_on_another_scale_have_no_bar(changes: dict[str, Any]) -> None:
    assert "<svg" not in report_html(summary([metric_row(**changes)]))


def test_a_bar_stays_within_its_track() -> None:
    text = report_html(summary([metric_row(value=1.0, ci_low=0.9, ci_high=1.1)]))
    left, width = re.search(r'class="bar" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', text).groups()  # type: ignore[union-attr]
    assert float(left) + float(width) <= 160.0


def test_a_task_without_metrics_says_so() -> None:
    assert "No metric." in report_html(summary([]))


def test_many_tasks_have_a_table_that_leads_to_each() -> None:
    few, many = summary(), summary()
    many = many.model_copy(update={"tasks": many.tasks * 4})
    assert "href" not in report_html(few)
    page = Page(report_html(many))
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert links == [f"#{attributes['id']}" for tag, attributes in page.tags if tag == "section" and "id" in attributes]
    assert len(links) == 4


def test_the_page_says_when_the_run_began() -> None:
    assert "2026-11-22 02:07 UTC" in report_html(summary(), datetime(2026, 11, 22, 2, 7, tzinfo=UTC))


def test_equal_runs_have_equal_pages() -> None:
    assert report_html(summary()) == report_html(summary())
