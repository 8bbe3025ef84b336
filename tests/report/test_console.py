"""Promises of the score table: the columns of the design, plain elsewhere, words for what is too much."""

import io

import pytest
from run_summaries import metric_row, summary

from gage_eval.report.console import COLUMNS, Change, artifact_rows, plain_lines, print_scores, score_rows, score_text
from gage_eval.report.html import report_html
from gage_eval.report.shares import remarks, share_text


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def _printed(stream: io.StringIO, **changes: object) -> str:
    print_scores(summary(**changes), report="runs/quiet-otter/report.html", stream=stream)  # type: ignore[arg-type]
    return stream.getvalue()


def test_elsewhere_the_table_is_plain_aligned_lines() -> None:
    lines = _printed(io.StringIO()).splitlines()
    assert lines == [
        "task   metric                    score              n  truncated  unparsed  error",
        "gsm8k  exact_match,strict-match  0.842 ± 0.020  1,319      0.4 %     2.7 %      0",
        "time    load 1.0 s █▊ · infer 10 s █████████████████▍ · auto_eval 0.5 s ▉",
        "report  runs/quiet-otter/report.html      19 s · 1.31 M tokens · 268 reused",
    ]


def test_each_baseline_is_a_column_and_a_change_of_another_number_a_line() -> None:
    name = "exact_match,strict-match"
    changes = [
        Change("main", "gsm8k", name, "−0.021 ▼  regressed (p < 0.001)"),
        Change("older", "gsm8k", name, "+0.006  passed (p 0.700)"),
        Change("older", "gsm8k", "length", "+0.100  inconclusive"),
    ]
    out = io.StringIO()
    print_scores(summary([metric_row(), metric_row(metric_id="other")]), changes=changes, stream=out)
    assert out.getvalue().splitlines()[:4] == [
        "task   metric                    score              n  truncated  unparsed  error  vs main                 "
        "         vs older",
        "gsm8k  exact_match,strict-match  0.842 ± 0.020  1,319      0.4 %     2.7 %      0  −0.021 ▼  regressed (p <"
        " 0.001)  +0.006  passed (p 0.700)",
        "gsm8k  other,strict-match        0.842 ± 0.020  1,319      0.4 %     2.7 %      0",
        "vs older  gsm8k  length  +0.100  inconclusive",
    ]
    coloured = Terminal()
    print_scores(summary(), changes=changes, stream=coloured)
    assert "−0.021 ▼" in coloured.getvalue()


def test_on_a_terminal_the_same_cells_are_there() -> None:
    text = _printed(Terminal())
    assert "\x1b[" in text
    for cell in ("0.842 ± 0.020", "1,319", "0.4 %", "2.7 %"):
        assert cell in text


def test_a_table_that_does_not_fit_has_its_tasks_as_headings() -> None:
    rows = [("multiple_choice", "multi_choice_accuracy", "0.292 ± 0.125", "48", "0", "2.1 %", "0")]
    assert plain_lines(rows, 80) == [
        "  metric                 score           n  truncated  unparsed  error",
        "multiple_choice",
        "  multi_choice_accuracy  0.292 ± 0.125  48          0     2.1 %      0",
    ]
    assert len(plain_lines(rows, 100)) == 2


def test_full_width_names_keep_the_columns_in_line() -> None:
    rows = [("数据", "ｆ１", "0.5", "8", "0", "0", "0"), ("data", "f1", "0.5", "8", "0", "0", "0")]
    assert plain_lines(rows) == [
        "task  metric  score  n  truncated  unparsed  error",
        "数据  ｆ１    0.5    8          0         0      0",
        "data  f1      0.5    8          0         0      0",
    ]


@pytest.mark.parametrize(
    ("value", "low", "high", "shown"),
    [
        (1.0, 0.4385, 1.0, "1.000 [0.44, 1.00]"),
        (0.0, 0.0, 0.2775, "0.000 [0.00, 0.28]"),
        (1.0, 0.9971, 1.0, "1.000 [0.997, 1.000]"),
        (0.2917, 0.1824, 0.4318, "0.292 [0.18, 0.43]"),
        (0.861, 0.8413, 0.8787, "0.861 ± 0.019"),
        (0.5, 0.4, 0.6, "0.500 ± 0.100"),
        (0.5, 0.4, 0.606, "0.500 [0.40, 0.61]"),
        (1523.4, 1500.0, 1599.0, "1,523.4 [1,500, 1,599]"),
        (35.21, 33.82, 36.99, "35.210 [33.8, 37.0]"),
        (0.25, 0.25, 0.25, "0.250 ± 0.000"),
        (-3.0, -9.9, 120.0, "-3.000 [-10, 120]"),
    ],
)
def test_an_interval_that_is_not_symmetric_is_shown_by_its_ends(
    value: float, low: float, high: float, shown: str
) -> None:
    scored = summary([metric_row(value=value, ci_low=low, ci_high=high)])
    assert score_text(scored.metrics[0]) == shown
    assert artifact_rows(scored)[0]["score"] == shown
    assert f"<strong>{shown}</strong>" in report_html(scored)


@pytest.mark.parametrize(
    ("n", "interval", "shown"),
    [(2, "t", "0.500 ± ?"), (4, "bootstrap", "0.500 ± ?"), (5, "t", "0.500 ± 0.400"), (3, "wilson", "0.500 ± 0.400")],
)
def test_an_interval_that_few_samples_do_not_show_is_unknown(n: int, interval: str, shown: str) -> None:
    scored = summary([metric_row(value=0.5, ci_low=0.1, ci_high=0.9, n=n, interval=interval)])
    assert score_text(scored.metrics[0]) == shown
    page = report_html(scored)
    assert f"<strong>{shown}</strong>" in page
    assert ("0.100 … 0.900" in page) == ("?" not in shown)


def test_plus_minus_is_half_of_the_interval() -> None:
    ((*_, score, _n, _t, _u, _e),) = score_rows(summary([metric_row(ci_low=0.792, ci_high=0.892)]))
    assert score == "0.842 ± 0.050"
    ((_, _, large, *_),) = score_rows(summary([metric_row(value=1523.4, ci_low=1498.4, ci_high=1548.4)]))
    assert large == "1,523.4 ± 25.0"


def test_without_an_interval_there_is_no_plus_minus_and_without_a_value_a_dash() -> None:
    rows = score_rows(summary([metric_row(ci_low=None, ci_high=None), metric_row(value=None, n=0)]))
    assert [row[2] for row in rows] == ["0.842", "–"]


def test_names_from_data_cannot_move_the_cursor_or_style_the_table() -> None:
    rows = [metric_row(metric_id="x\x1b[2J\r\n[red]y[/red]")]
    for stream in (io.StringIO(), Terminal()):
        text = _printed(stream, rows=rows, task_id="t\x1b]0;title\x07")
        assert "\x1b[2J" not in text
        assert "\x1b]0" not in text
        assert "[red]" in text


def test_a_share_above_its_limit_is_said_in_words() -> None:
    run = summary(
        [metric_row(unparsed=300, n=1300, rows=1300, unscored=19)],
        statuses={"ok": 1000, "truncated": 200, "refused": 119},
        rejects=2,
    )
    assert remarks(run) == [
        "gsm8k: 2 of 1,321 (0.2 %) records were rejected and are not scored.",
        "gsm8k: 200 of 1,319 (15.2 %) answers were cut at the token limit and are scored like any other answer. "
        "Raise max_new_tokens.",
        "gsm8k: 119 of 1,319 (9.0 %) answers are refusals and are scored like any other answer.",
        "gsm8k: exact_match,strict-match could not read 300 of 1,319 (22.7 %) answers; they count as wrong.",
        "gsm8k: exact_match,strict-match has no score for 19 of 1,319 (1.4 %) rows; they are left out.",
    ]
    assert remarks(summary()) == []


def test_a_remark_on_drawn_options_says_how_many_got_credit() -> None:
    run = summary([metric_row(unparsed=300, unparsed_credited=70, n=1319, rows=1319)])
    assert remarks(run) == [
        "gsm8k: exact_match,strict-match could not read 300 of 1,319 (22.7 %) answers; 70 of them got a value above 0 "
        "all the same, for example by a random option, and the other 230 count as wrong."
    ]


def test_shares_never_round_to_nothing() -> None:
    assert [share_text(*pair) for pair in ((0, 10), (1, 100_000), (5, 1319), (10, 10), (3, 0))] == [
        "0",
        "<0.1 %",
        "0.4 %",
        "100.0 %",
        "0",
    ]


def test_a_run_without_metrics_still_says_where_the_report_is() -> None:
    assert _printed(io.StringIO(), rows=[]).splitlines()[-1].startswith("report  runs/quiet-otter/report.html")


def test_records_for_other_tables_have_the_same_cells() -> None:
    run = summary()
    assert artifact_rows(run) == [dict(zip(COLUMNS, score_rows(run)[0], strict=True))]
    assert len(plain_lines(score_rows(run))) == 2
