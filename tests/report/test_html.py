"""Promises of the HTML page: self-contained, escaped, accessible."""

import base64
import hashlib
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from run_summaries import metric_row, summary

from gage_eval.report.details import (
    Bin,
    ComparedTask,
    Comparison,
    KindOfAnswer,
    Reason,
    RunDetails,
    SliceChange,
    TaskDetails,
)
from gage_eval.report.html import MAX_BYTES, report_html
from gage_eval.report.messages import Message, Part
from gage_eval.report.sample_view import KINDS, SampleView, ShownJudgment, ShownScore, folded
from gage_eval.report.summary import Summary
from gage_eval.report.trend_chart import TrendPoint
from gage_eval.stats.evidence import Evidence

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&amp;{{ 7*7 }}</title></style>"
VOID = frozenset({"meta", "img"})
SAME = Evidence(9, difference=0.0, baseline=0.8, current=0.8)
message = Message.plain


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


def card(**changes: Any) -> SampleView:
    return replace(
        SampleView(
            "gsm8k-17",
            kind="wrong",
            messages=(message("system", "Count."), message("user", "How many eggs?")),
            answer="9 eggs, so the answer is 17.",
            extracted="17",
            expected="18",
            explanation="17 is not 18",
            scores=(ShownScore("exact_match", (("exact_match", "0.000"),)),),
        ),
        **changes,
    )


def details(*cards: SampleView, **changes: Any) -> RunDetails:
    """A run of one task with its samples."""
    wrong = KindOfAnswer("wrong", 184, cards or (card(),))
    task = TaskDetails(
        "exact_match",
        1319,
        kinds=(wrong, KindOfAnswer("right", 1135, (card(kind="right"),))),
        distribution=(Bin("0", 184), Bin("1", 1135)),
        lengths=(Bin("≥3", 700, 0.9), Bin("≥80", 619, 0.7)),
        reasons=(Reason("request", "timeout", 3), Reason("rejected in standardize", "no question", 2)),
        sampling={"temperature": 0},
    )
    return RunDetails(
        began=datetime(2026, 11, 22, 2, 7, tzinfo=UTC),
        config_source="mine.yaml",
        config_digest="c" * 64,
        config_text="tasks: []",
        packages={"numpy": "2.1.0"},
        digests=(("gsm8k", "infer", "d" * 64),),
        tasks={"gsm8k": replace(task, **changes)},
    )


def hostile_details() -> RunDetails:
    bad = card(
        sample_id=HOSTILE,
        messages=(message(HOSTILE, HOSTILE), message("user", HOSTILE)),
        answer=f"{HOSTILE} {HOSTILE}",
        reasoning=HOSTILE,
        extracted=HOSTILE,
        expected=HOSTILE,
        explanation=HOSTILE,
        failure=HOSTILE,
        scores=(ShownScore(HOSTILE, ((HOSTILE, "1"),)),),
        judgments=(ShownJudgment(HOSTILE, HOSTILE),),
    )
    whole = details(
        bad,
        measure=HOSTILE,
        distribution=(Bin(HOSTILE, 3),),
        lengths=(Bin(HOSTILE, 3, 0.5),),
        reasons=(Reason(HOSTILE, HOSTILE, 1),),
        sampling={HOSTILE: HOSTILE},
    )
    compared = ComparedTask(
        HOSTILE, HOSTILE, Evidence(9, "t", -0.1, 0.5, 0.4, low=-0.2, high=-0.05), p=0.01, test=HOSTILE,
        verdict="regressed", worse=(HOSTILE,), slices=(SliceChange(HOSTILE, 5, -0.2),), notes=(HOSTILE,),
    )  # fmt: skip
    return replace(
        whole,
        config_source=HOSTILE,
        config_text=HOSTILE,
        options={"config": HOSTILE},
        packages={HOSTILE: HOSTILE},
        digests=((HOSTILE, "infer", HOSTILE),),
        tasks={HOSTILE: whole.tasks["gsm8k"]},
        comparison=Comparison(HOSTILE, (compared,)),
    )


def hostile_summary() -> Summary:
    row = metric_row(metric_id=HOSTILE, filter=HOSTILE, value_key=HOSTILE, unparsed=900)
    part = metric_row(**row | {"slice_field": HOSTILE, "slice_value": HOSTILE, "value": 0.1})
    run = summary(
        rows=[row, part], task_id=HOSTILE, dataset_id=HOSTILE, model=HOSTILE, description=HOSTILE,
        rejects=1, first_rejects=[HOSTILE],
    )  # fmt: skip
    return run.model_copy(update={"run": run.run.model_copy(update={"name": HOSTILE, "run_id": HOSTILE})})


def many_tasks(count: int, **changes: Any) -> tuple[Summary, RunDetails]:
    run, run_details = summary(**changes), details(*[card(answer=HOSTILE * 10_000)] * 10)
    tasks = [run.tasks[0].model_copy(update={"task_id": f"task {index}"}) for index in range(count)]
    of_tasks = {task.task_id: run_details.tasks["gsm8k"] for task in tasks}
    return run.model_copy(update={"tasks": tasks}), replace(run_details, tasks=of_tasks)


def test_hostile_texts_stay_text_wherever_they_are() -> None:
    text = report_html(hostile_summary(), hostile_details())
    page = Page(text)
    assert page.names().isdisjoint({"script", "img", "iframe", "link", "object"})
    assert not any(name.startswith("on") or name == "style" for _, attributes in page.tags for name in attributes)
    assert "<script" not in text
    assert "".join(page.text).count(HOSTILE) > 25
    assert "49" not in re.sub(r"\d{3,}|[\d.]*49[\d.]+|[\d.]+49", "", "".join(page.text)), "a template ran in the data"


def test_the_page_needs_nothing_from_elsewhere() -> None:
    text = report_html(summary(), details())
    assert not re.search(r"\b(?:src|href|url|@import)\s*[=(](?!\"#)", text)
    assert "://" not in text


def test_the_policy_allows_the_pages_own_style_and_nothing_else() -> None:
    text = report_html(summary(), details())
    policy = next(attributes["content"] for tag, attributes in Page(text).tags if "http-equiv" in attributes)
    style = text.partition("<style>")[2].partition("</style>")[0]
    own = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{own}'; img-src data:; media-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def test_media_are_shown_while_there_is_room_and_then_the_cards_say_where_they_are() -> None:
    picture, recording = (f"data:{kind};base64,{'A' * 240_000}" for kind in ("image/webp", "audio/wav"))
    made = [
        card(answer=f"media://sha256/{number:064}", made=made, before=before)
        for number, (made, before) in enumerate(
            [(Part("image", picture), (Part("image", picture),)), *[(Part("audio", recording), ())] * 9]
        )
    ]
    text = report_html(summary(), details(*made))
    page = Page(text)
    assert len(text.encode()) <= MAX_BYTES
    assert [attributes["src"] for tag, attributes in page.tags if tag == "img"] == [picture] * 2
    players = [attributes for tag, attributes in page.tags if tag == "audio"]
    assert [player["src"] for player in players] == [recording] * 2
    assert "".join(page.text).count("gage export RUN --format media") == 7
    assert all(sample.answer in text for sample in made if sample.answer)


def test_the_tables_are_readable_without_seeing_them() -> None:
    page = Page(report_html(summary(), details()))
    assert ("html", {"lang": "en"}) in page.tags
    assert "caption" in page.names()
    scopes = [attributes.get("scope") for tag, attributes in page.tags if tag == "th"]
    assert {"col", "row"} == set(scopes)
    pictures = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert {picture["role"] for picture in pictures} == {"img"}
    assert all(picture["aria-label"] for picture in pictures)
    assert "0.842 within 0.822 to 0.862" in {picture["aria-label"] for picture in pictures}


def test_both_colour_schemes_are_there() -> None:
    text = report_html(summary())
    assert "prefers-color-scheme: dark" in text
    assert "color-scheme: light dark" in text


def test_narrow_pages_hide_no_cell() -> None:
    text = report_html(summary(), details())
    narrow = text.partition("@media (max-width: 720px)")[2].partition("@media print")[0]
    hidden = re.findall(r"([^{};]+)\{[^}]*display: none", narrow)
    assert [name.strip() for name in hidden] == ["thead", "td:empty"]
    cells = [attributes for tag, attributes in Page(text).tags if tag == "td"]
    assert cells
    assert all(attributes.get("data-label") for attributes in cells), "a cell needs its heading where thead is hidden"


def test_what_went_wrong_is_on_the_page() -> None:
    text = report_html(summary(statuses={"ok": 1000, "truncated": 319}), details())
    assert "319 of 1,319 (24.2 %) answers were cut at the token limit" in text
    words = " ".join(Page(text).text)
    assert "timeout" in words
    assert "no question" in words


def test_a_sample_shows_what_was_asked_answered_read_out_and_expected() -> None:
    text = report_html(summary(), details())
    article = text.partition("<article")[2].partition("</article>")[0]
    for shown in ("gsm8k-17", "wrong", "How many eggs?", "the answer is <mark>17</mark>.", "18", "17 is not 18"):
        assert shown in article
    assert "10 of" not in text
    assert "1 of 184" in text


def test_how_it_was_run_is_on_the_page() -> None:
    words = " ".join(Page(report_html(summary(), details())).text)
    for shown in ("tasks: []", "numpy 2.1.0", "d" * 64, "c" * 64, "temperature", "2026-11-22 02:07 UTC"):
        assert shown in words
    assert "infer 10 s" in words


def test_the_worst_slices_are_those_that_cost_the_task_most() -> None:
    parts = [
        metric_row(slice_field="topic", slice_value=name, value=value, n=n)
        for name, value, n in (("tiny", 0.0, 2), ("large", 0.7, 500), ("good", 0.95, 800))
    ]
    text = report_html(summary([metric_row(), *parts]))
    assert re.findall(r"topic = (\w+)", text) == ["large", "tiny", *("tiny", "large", "good")], "the worst, then all"
    assert "−0.142" in text


def test_a_baselines_comparison_comes_with_the_scores() -> None:
    compared = ComparedTask(
        "gsm8k", "exact_match", Evidence(1319, "mcnemar", -0.021, 0.863, 0.842, low=-0.032, high=-0.010), p=0.0002,
        test="mcnemar", verdict="regressed", worse=("a", "b"), better=("c",),
    )  # fmt: skip
    text = report_html(summary(), replace(details(), comparison=Comparison("nightly-main", (compared,))))
    words = " ".join(Page(text).text)
    assert "Against nightly-main" in words
    assert "1 regressed" in words
    assert "<b>2</b> worse" in text
    assert "<b>1</b> better" in text
    assert '<span class="chip bad">−0.021 regressed</span>' in text
    assert "Against" not in report_html(summary(), details())


def points(task_id: str, count: int) -> tuple[TrendPoint, ...]:
    """A night each, with the same score."""
    nights = (datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=day) for day in range(count))
    return tuple(TrendPoint(when, f"{HOSTILE}-{when:%m-%d}", task_id, "acc", 0.8, 0.75, 0.84) for when in nights)


def test_the_trend_is_drawn_where_there_is_more_than_this_run() -> None:
    def drawn(count: int) -> str:
        compared = ComparedTask(HOSTILE, "acc", SAME, verdict="passed", trend=points(HOSTILE, count))
        return report_html(summary(), replace(details(), comparison=Comparison("small", (compared,), level=0.9)))

    page = Page(text := drawn(3))
    trends = [attributes for tag, attributes in page.tags if tag == "svg" and attributes.get("class") == "trend"]
    assert len(trends) == 1
    assert text.count("<circle") - drawn(1).count("<circle") == 3
    assert "baseline 0.800" in text
    assert "90 % interval" in text
    assert "script" not in page.names()
    assert "://" not in text
    assert 'class="trend"' not in drawn(1)


def test_many_trends_stay_below_the_limit_and_those_that_regressed_come_first() -> None:
    run, run_details = many_tasks(100)
    names = [task.task_id for task in run.tasks]
    compared = tuple(
        ComparedTask(name, "acc", SAME, trend=points(name, 60), verdict="regressed" if last else "passed")
        for name, last in ((name, name == names[-1]) for name in names)
    )
    text = report_html(run, replace(run_details, comparison=Comparison("small", compared)))
    assert len(text.encode()) <= MAX_BYTES
    assert 0 < text.count('class="trend"') < len(names)
    assert f"<title>{names[-1]}: acc of 60 runs" in text


def test_huge_answers_and_many_tasks_stay_below_the_limit_and_say_what_is_left_out() -> None:
    huge = HOSTILE * 20_000
    run, run_details = many_tasks(3)
    kinds = tuple(
        KindOfAnswer(kind, 10**6, (card(answer=huge, messages=(message("user", huge),) * 40),) * 10) for kind in KINDS
    )
    run_details = replace(
        run_details,
        config_text=huge,
        tasks={name: replace(task, kinds=kinds) for name, task in run_details.tasks.items()},
    )
    text = report_html(run, run_details)
    assert len(text.encode()) <= MAX_BYTES
    assert "characters left out" in text
    assert "messages left out" in text
    for kind in KINDS:
        assert f'id="task-1-{kind}"' in text
    many, of_many = many_tasks(3000)
    text = report_html(many, of_many)
    assert len(text.encode()) <= MAX_BYTES
    assert re.search(r"[\d,]+ more tasks have no section here", text)
    assert re.search(r"[\d,]+ more tasks are in summary.json", text)
    Page(text)


def test_endless_names_stay_below_the_limit() -> None:
    huge = HOSTILE * 500
    part = metric_row(slice_field=huge, slice_value=huge, value=0.1)
    rows = [*[metric_row(metric_id=huge)] * 200, *[part] * 200]
    run, run_details = many_tasks(60, rows=rows, description=huge, model=huge, rejects=500, first_rejects=[huge] * 500)
    text = report_html(run, replace(run_details, digests=((huge, "infer", "d" * 64),) * 5000))
    assert len(text.encode()) <= MAX_BYTES
    Page(text)


@pytest.mark.parametrize(
    "changes",
    [
        {"value": None, "ci_low": None, "ci_high": None, "n": 0},
        {"value": 1523.4, "ci_low": 1500.0, "ci_high": 1550.0},
        {"value": -0.5},
    ],
)
def test_numbers_on_another_scale_have_no_bar(changes: dict[str, Any]) -> None:
    assert 'class="interval"' not in report_html(summary([metric_row(**changes)]))


def test_a_bar_stays_within_its_track() -> None:
    text = report_html(summary([metric_row(value=1.0, ci_low=0.9, ci_high=1.1)]))
    left, width = re.search(r'class="bar" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', text).groups()  # type: ignore[union-attr]
    assert float(left) + float(width) <= 160.0


def test_a_task_without_metrics_says_so() -> None:
    assert "No metric." in report_html(summary([]))


def test_the_first_table_leads_to_each_task() -> None:
    run, run_details = many_tasks(4)
    page = Page(report_html(run, run_details))
    links = [attributes["href"] or "" for tag, attributes in page.tags if tag == "a"]
    places = {f"#{attributes['id']}" for _, attributes in page.tags if "id" in attributes}
    assert set(links) <= places
    assert [link for link in links if re.fullmatch(r"#task-\d", link)] == [f"#task-{number}" for number in range(1, 5)]
    assert "#task-4-wrong" in links


def test_equal_runs_have_equal_pages() -> None:
    assert report_html(summary(), details()) == report_html(summary(), details())


def test_of_a_long_prompt_the_question_is_shown_and_the_examples_are_folded() -> None:
    examples = "".join(f"Question {n}: {'word ' * 40}\nAnswer: A\n" for n in range(9))
    before, shown = folded([message("system", "Choose."), message("user", f"{examples}Question 10: why?\nAnswer:")])
    assert [item.role for item in before] == ["system", "user"]
    assert shown[-1].text.startswith("Question ")
    assert shown[-1].text.endswith("Question 10: why?\nAnswer:")
    assert "".join(item.text for item in (*before, *shown)) == f"Choose.{examples}Question 10: why?\nAnswer:"
    short = [message("user", "Question 10: why?"), message("choice", "A"), message("choice", "B")]
    assert folded(short) == ((), tuple(short))
    before, shown = folded([message("user", examples), *short])
    assert (len(before), list(shown)) == (1, short)


def test_few_shot_examples_are_folded_away_in_the_card_and_the_question_is_whole() -> None:
    examples = [message(role, f"{role} {n}") for n in range(5) for role in ("user", "assistant")]
    question = "Question 10: " + "why " * 100 + "?"
    before, shown = folded(card(messages=(*examples, message("user", question))).trimmed().messages)
    assert len(before) == len(examples)
    assert [item.text for item in shown] == [question]
