"""YAML becomes values with lines; what no file needs is refused in plain words."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.base.errors import ConfigError
from gage_eval.config.interpolate import fill
from gage_eval.config.yaml import lines


def values(text: str) -> object:
    return fill(lines.parse(text, "mine.yaml"), {}).value


def said(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        lines.parse(text, "mine.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("010", 10),
        ("0o10", 8),
        ("0x10", 16),
        ("1.5", 1.5),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("''", ""),
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("2024-01-02", "2024-01-02"),
        ("'5'", "5"),
        ('"true"', "true"),
        ("!!str 5", "5"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1e999", "1e999"),
        ("9" * 101, "9" * 101),
    ],
)
def test_scalars_follow_the_core_schema(text: str, value: object) -> None:
    got = values(f"a: {text}")
    assert got == {"a": value}
    assert isinstance(got, dict)
    assert type(got["a"]) is type(value)


def test_keys_are_text() -> None:
    assert values("{1: a, true: b, null: c}") == {"1": "a", "true": "b", "null": "c"}


def test_an_empty_document_is_an_empty_mapping() -> None:
    assert values("") == {}
    assert values("# nothing\n") == {}


def test_every_place_knows_its_line() -> None:
    filled = fill(lines.parse("a:\n  - b: 1\n    c:\n      d: 2\n  - x\n", "mine.yaml"), {})
    assert filled.line(("a", 0, "b")) == 2
    assert filled.line(("a", 0, "c", "d")) == 4
    assert filled.line(("a", 1)) == 5
    assert filled.line(("a", 0, "missing")) == 2
    assert filled.line(()) is None


def test_aliases_and_merge_keys_are_followed() -> None:
    text = "base: &b {x: 1, y: 2}\na: *b\nc:\n  <<: *b\n  y: 3\nd:\n  <<: [*b, {z: 4}]\n"
    assert values(text) == {
        "base": {"x": 1, "y": 2},
        "a": {"x": 1, "y": 2},
        "c": {"x": 1, "y": 3},
        "d": {"x": 1, "y": 2, "z": 4},
    }


def test_duplicate_keys_are_refused_with_both_lines() -> None:
    assert said("a: 1\nb: 2\na: 3\n") == (
        "mine.yaml has 1 problem:\n  line 3  the key 'a' is given twice, first on line 1; keep one."
    )


def test_a_second_document_is_refused() -> None:
    assert said("a: 1\n---\nb: 2\n") == (
        "mine.yaml has 1 problem:\n  line 2  a second document begins here; a file holds one."
    )


def test_tags_construct_nothing() -> None:
    assert said("a: !!python/object/apply:os.system ['true']\n") == (
        "mine.yaml has 1 problem:\n  line 1  the tag '!!python/object/apply:os.system' is not allowed; remove it."
    )
    assert "the tag '!include'" in said("a: !include other.yaml\n")


def test_an_alias_bomb_is_refused_without_being_expanded() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert said("\n".join(rows)) == (
        "mine.yaml has 1 problem:\n  line 6  aliases and values add up to more than 200,000 nodes; write less."
    )


def test_an_alias_to_what_contains_it_is_refused() -> None:
    assert "an alias '*a' without an anchor '&a' before it" in said("a: &a [*a]\n")


def test_aliases_cannot_nest_deeper_than_the_text_may() -> None:
    rows = ["a0: &a0 " + "[" * 60 + "]" * 60]
    rows += [f"a{n}: &a{n} " + "[" * 60 + f"*a{n - 1}" + "]" * 60 for n in range(1, 25)]
    assert said("\n".join(rows)) == (
        "mine.yaml has 1 problem:\n  line 2  nested more than 64 levels deep; write fewer."
    )
    once = lines.parse("a: &a [[x]]\nb: " + "[" * 60 + "*a, *a" + "]" * 60, "mine.yaml")
    assert once is not None, "beside each other they are not deeper"


def test_nesting_without_end_is_refused() -> None:
    assert "nested more than 64 levels deep" in said("a: " + "[" * 5000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "a: b: c\n",
            "line 1  not valid YAML: a ': ' inside a value, or a key at the wrong indentation; quote",
        ),
        ("a:\n\tb: 1\n", "line 2  not valid YAML: a tab; YAML is indented with spaces"),
        ("a: 'open\nb: 1\n", "not valid YAML: a quoted text that is never closed"),
        ("a: [1, 2\nb: 3\n", "not valid YAML: a list '[…]' that is never closed, or lacks a comma"),
        ("a: 1\nb: {q: Paris?, a: c}\n", "line 2  not valid YAML: a '?' in a text inside '{…}' or '[…]'; put"),
        ("a: [b, c?]\n", "line 1  not valid YAML: a '?' in a text"),
        ("a: {b: ?x}\n", "line 1  not valid YAML: a '?' in a text"),
        ("a: {b: 1\nc: 3\n", "not valid YAML: a mapping '{…}' that is never closed, or lacks a comma"),
        ("a: 1\n  b: 2\n", "not valid YAML: a ': ' inside a value, or a key at the wrong indentation"),
        (
            "- a\nb: 1\n",
            "not valid YAML: a line whose indentation fits neither the lines above nor the level below",
        ),
        ("a: *x\n", "an alias '*x' without an anchor '&x' before it"),
        ("a: \x07\n", "line 1  not valid YAML: a control character; remove it"),
        ('a: "\\U00110000"\n', "not valid YAML: an escape beyond Unicode"),
        (
            'a: "\\uD800"\n',
            "line 1  half a surrogate pair is not a character; write the character itself.",
        ),
        ("? [a]\n: 1\n", "line 1  a key must be text, not a list or a mapping."),
        ("a: {<<: 5}\n", "line 1  '<<' merges mappings only."),
    ],
)
def test_broken_yaml_is_said_in_plain_words(text: str, words: str) -> None:
    assert words in said(text)


def test_characters_that_json_writes_as_two_escapes_are_read() -> None:
    written = {"name \U0001f600": "\U0001f600 and \U0001d11e"}
    assert values(json.dumps(written)) == written


@given(st.text(alphabet="ab:- \n[]{}&*!'\"#|>?<%,\t\\u", max_size=60))
def test_any_text_is_a_tree_or_a_config_error(text: str) -> None:
    try:
        tree = lines.parse(text, "mine.yaml")
    except ConfigError as error:
        (problem,) = error.problems
        assert problem.message
        assert problem.line is None or 1 <= problem.line <= len(text.splitlines()) + 1
    else:
        assert isinstance(tree, lines.Scalar | lines.Listing | lines.Mapping)
