"""Figures and LaTeX are legible, complete, and safe whatever a name holds."""

import math
from xml.etree import ElementTree

import pytest

from gage_eval.report.figures import Mark, interval_figure
from gage_eval.report.latex import escaped, table

HOSTILE = '</text><script>alert(1)</script>"&\x1b[2J\u202e'
SVG = "{http://www.w3.org/2000/svg}"


def drawn(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


@pytest.mark.parametrize("differences", [False, True])
def test_a_name_cannot_add_an_element(differences: bool) -> None:
    svg = drawn(interval_figure(HOSTILE, [(HOSTILE, [Mark(HOSTILE, 0.5, 0.4, 0.6)])], differences=differences))
    assert {element.tag for element in svg.iter()} <= {f"{SVG}{tag}" for tag in (
        "svg", "title", "rect", "text", "g", "line", "path", "circle")}  # fmt: skip
    assert "\x1b" not in "".join(svg.itertext())


def test_every_mark_lies_on_the_axis_and_unknown_numbers_are_left_out() -> None:
    marks = [Mark("a", -3.0, -4.5, 12_000.0), Mark("b", None), Mark("c", math.nan), Mark("d", 0.0)]
    svg = drawn(interval_figure("t", [("p", marks), ("none", [Mark("x", None)])]))
    width = float(svg.attrib["width"])
    dots = svg.findall(f".//{SVG}circle")
    assert len(dots) == 2
    assert all(0 < float(dot.attrib["cx"]) < width for dot in dots)
    assert interval_figure("t", [("p", [Mark("a", None)])]) == ""


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-9, -1e-9, 5.0, 123_456.0, -7.5])
def test_every_scale_has_few_ticks_and_holds_its_number(value: float) -> None:
    svg = drawn(interval_figure("t", [("p", [Mark("a", value)])]))
    lines = svg.findall(f".//{SVG}g[@class='grid']/{SVG}line")
    assert 2 <= len(lines) <= 9
    ends = sorted(float(line.attrib["x1"]) for line in lines)
    (dot,) = svg.findall(f".//{SVG}circle")
    assert ends[0] <= float(dot.attrib["cx"]) <= ends[-1]


def test_latex_prints_a_name_and_runs_none_of_it() -> None:
    assert escaped(r"\input{a}$%&_#^~") == (r"\textbackslash{}input\{a\}\$\%\&\_\#\textasciicircum{}\textasciitilde{}")
    text = table(("[2em]", "b & c"), [("*", "x\n\\end{table}"), (), ("1 ± 2", "−3")], "50 %", ["a\n\\input{b}"])
    assert text.count("\\end{table}") == 1
    assert "\n\\input" not in text
    # After the end of a row, a bracket or a star would be its argument.
    assert "{[}2em{]} & b \\& c \\\\" in text
    assert "\n{*} & " in text
    assert "1 $\\pm$ 2 & $-$3" in text
    assert text.count("\\midrule") == 2
