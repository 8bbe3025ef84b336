"""Texts of runs stay texts in Markdown."""

import pytest

from gage_eval.report.markdown import bullets, code, page, plain, table


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "[link](javascript:x)",
        "![](http://host/x.png)",
        "a | b",
        "`code`",
        "**bold**",
        "# h",
    ],
)
def test_no_character_of_a_text_is_markup(text: str) -> None:
    escaped = plain(text)
    kept = escaped
    for char in "\\`*_<>|[]#":
        kept = kept.replace(f"\\{char}", "")
    assert not set(kept) & set("\\`*_<>|[]#")


def test_a_text_stays_on_its_line_and_in_its_cell() -> None:
    assert table(["a\nb"], [["one | two\n\n# three"]]).splitlines() == [
        "| a b |",
        "| --- |",
        "| one \\| two \\# three |",
    ]
    assert bullets(["one\n- two"]) == "- one - two"


def test_code_cannot_be_ended_by_its_text() -> None:
    assert code("a` <b> `") == "`a <b> `"


def test_empty_sections_leave_no_gap() -> None:
    assert page("one", "", "two") == "one\n\ntwo\n"
