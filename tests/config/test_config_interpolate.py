"""Placeholders are filled from the environment as data, typed only where a whole value is one."""

import pytest

from gage_eval.config.interpolate import FilledTree, fill
from gage_eval.config.yaml import lines


def filled(text: str, **env: str) -> FilledTree:
    return fill(lines.parse(text, "mine.yaml"), env)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${N}", 7),
        ("${N:-5}", 7),
        ("${UNSET:-5}", 5),
        ("${EMPTY:-5}", 5),
        ("${UNSET:-true}", True),
        ("${UNSET:-}", None),
        ("${UNSET:-a b}", "a b"),
        ("'${N}'", "7"),
        ("${N}0", "70"),
        ("${DIR}/x-${N}", "/d/x-7"),
        ("$${N}", "${N}"),
        ("$${", "${"),
        ("$N and $5", "$N and $5"),
        ("${YAML}", "{a: [1]}"),
        ("${NESTED}", "${N}"),
    ],
)
def test_a_placeholder_becomes_its_value(text: str, value: object) -> None:
    out = filled(f"a: {text}", N="7", DIR="/d", EMPTY="", YAML="{a: [1]}", NESTED="${N}")
    assert out.value == {"a": value}
    assert out.problems == []


def test_a_default_may_hold_a_path_and_dashes() -> None:
    assert filled("a: ${ROOT:-./local-datasets}/x").value == {"a": "./local-datasets/x"}


def test_keys_and_comments_are_not_filled() -> None:
    assert filled("${A}: 1 # ${B}").value == {"${A}": 1}


def test_an_unset_variable_without_default_is_a_problem_at_its_place() -> None:
    out = filled("a:\n  b: x${NOPE}\n")
    assert [(item.loc, item.message) for item in out.problems] == [
        (("a", "b"), "NOPE is not set; set it, or write a default: ${NOPE:-value}.")
    ]


@pytest.mark.parametrize("text", ["${}", "${a b}", "${1A}", "${runtime.x}", "'${A'"])
def test_what_is_no_placeholder_is_a_problem_that_shows_the_escape(text: str) -> None:
    (problem,) = filled(f"a: {text}").problems
    assert problem.message.endswith(": write ${NAME} or ${NAME:-default}, and $${ for a literal ${.")


def test_bytes_that_are_no_text_are_a_problem() -> None:
    (problem,) = filled("a: ${BYTES}", BYTES="\udcff").problems
    assert problem.message == "BYTES holds bytes that are not UTF-8; set it to text."


def test_the_variables_of_a_place_are_known() -> None:
    assert filled("a: ${N}-${M:-1}", N="1").variables == {("a",): ["N", "M"]}
