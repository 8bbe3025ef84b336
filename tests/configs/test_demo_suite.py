"""The demo data is what it claims to be: enough, unambiguous, balanced, right where it can be computed."""

import itertools
import json
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

Row = dict[str, Any]
FILES = ("multiple_choice", "short_answer", "arithmetic")
DIFFICULTIES = {"easy", "medium", "hard"}
LETTERS = "ABCD"
WORDS = {"plus": "+", "minus": "-", "times": "*", "divided by": "/"}


@pytest.fixture(scope="module")
def suite() -> Path:
    return Path(__file__).parents[2] / "configs" / "builtin_templates" / "demo"


@pytest.fixture(scope="module")
def template(suite: Path) -> dict[str, Any]:
    loaded = yaml.safe_load((suite / "v1.yaml").read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


@pytest.fixture(scope="module")
def rows(suite: Path) -> dict[str, list[Row]]:
    return {name: read(suite / "data" / f"{name}.jsonl") for name in FILES}


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def value_of(expression: str) -> Fraction:
    """The exact value of an expression of decimals, ``+ - * /`` and parentheses."""
    tokens = re.findall(r"\d+(?:\.\d+)?|[-+*/()]", expression)
    assert "".join(tokens) == expression.replace(" ", ""), f"not an expression: {expression}"

    def total() -> Fraction:
        value = product()
        while tokens and tokens[0] in "+-":
            value = value + product() if tokens.pop(0) == "+" else value - product()
        return value

    def product() -> Fraction:
        value = atom()
        while tokens and tokens[0] in "*/":
            value = value * atom() if tokens.pop(0) == "*" else value / atom()
        return value

    def atom() -> Fraction:
        token = tokens.pop(0)
        if token != "(":
            return Fraction(token)
        value = total()
        assert tokens.pop(0) == ")"
        return value

    value = total()
    assert not tokens, f"left over in {expression}: {tokens}"
    return value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("10 - 2 * 3", 4),
        ("10 - 2 - 3", 5),
        ("(8 - 3) * (6 + 2)", 40),
        ("9 / 4", Fraction(9, 4)),
        ("0.1 + 0.2", Fraction(3, 10)),
    ],
)
def test_the_checking_parser_knows_precedence_and_decimals(expression: str, value: Fraction) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize("name", FILES)
def test_each_file_has_at_least_forty_tagged_rows(rows: dict[str, list[Row]], name: str) -> None:
    assert len(rows[name]) >= 40
    for row in rows[name]:
        assert set(row["data_tag"]) == {"topic", "difficulty"}, row["id"]
        assert row["data_tag"]["difficulty"] in DIFFICULTIES, row["id"]
    topics = Counter(row["data_tag"]["topic"] for row in rows[name])
    assert len(topics) >= 5
    assert min(topics.values()) >= 4, "a slice of fewer rows says nothing"
    assert {row["data_tag"]["difficulty"] for row in rows[name]} == DIFFICULTIES


def test_ids_are_explicit_and_unique_over_the_suite(rows: dict[str, list[Row]]) -> None:
    ids = Counter(row["id"] for name in FILES for row in rows[name])
    assert max(ids.values()) == 1
    assert all(re.fullmatch(r"(mc|sa|ar)-\d\d", name) for name in ids)


def test_no_question_occurs_twice(rows: dict[str, list[Row]]) -> None:
    questions = Counter(re.sub(r"\W+", " ", row["question"].lower()) for name in FILES[:2] for row in rows[name])
    questions.update(row["question"] for row in rows["arithmetic"])
    assert [question for question, count in questions.items() if count > 1] == []


def test_right_letters_are_balanced_and_in_no_pattern(rows: dict[str, list[Row]]) -> None:
    letters = "".join(row["answer"] for row in rows["multiple_choice"])
    counts = Counter(letters)
    assert set(counts) == set(LETTERS)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert max(len(run.group()) for run in re.finditer(r"(.)\1*", letters)) <= 3
    shifts = Counter((ord(b) - ord(a)) % 4 for a, b in itertools.pairwise(letters))
    assert max(shifts.values()) < len(letters) / 2, "the next letter must not follow from the last one"


def test_options_are_four_and_distinct(rows: dict[str, list[Row]]) -> None:
    for row in rows["multiple_choice"]:
        options = [option.strip().lower() for option in row["choices"]]
        assert len(options) == len(set(options)) == len(LETTERS), row["id"]
        assert all(options), row["id"]


def test_the_right_option_is_not_given_away_by_its_length(rows: dict[str, list[Row]]) -> None:
    longest = 0
    for row in rows["multiple_choice"]:
        lengths = [len(option) for option in row["choices"]]
        right = lengths[LETTERS.index(row["answer"])]
        longest += right == max(lengths) and lengths.count(right) == 1
    assert longest <= len(rows["multiple_choice"]) // 2


def test_short_answers_are_one_word_that_no_common_word_contains(rows: dict[str, list[Row]]) -> None:
    for row in rows["short_answer"]:
        answer = row["answer"]
        assert re.fullmatch(r"[A-Z][a-z]+|\d+", answer), row["id"]
        # `contains` finds a two-letter word or a digit in nearly every sentence.
        assert len(answer) >= (2 if answer.isdigit() else 4), row["id"]
        assert answer.lower() not in row["question"].lower(), row["id"]


def test_arithmetic_answers_are_what_an_independent_parser_computes(rows: dict[str, list[Row]]) -> None:
    for row in rows["arithmetic"]:
        assert Fraction(row["answer"]) == value_of(row["metadata"]["expression"]), row["id"]
        assert re.fullmatch(r"-?\d+(\.\d*[1-9])?", row["answer"]), row["id"]


def test_the_expression_is_what_the_question_asks(rows: dict[str, list[Row]]) -> None:
    for row in rows["arithmetic"]:
        expression, question = row["metadata"]["expression"], row["question"]
        if row["data_tag"]["topic"] == "word_problem":
            numbers = re.findall(r"\d+(?:\.\d+)?", question)
            assert sorted(numbers) == sorted(re.findall(r"\d+(?:\.\d+)?", expression)), row["id"]
            continue
        match = re.fullmatch(r"What is (.+?)\?(?: Write a decimal number\.)?", question)
        assert match is not None, row["id"]
        text = match.group(1)
        for word, sign in WORDS.items():
            text = text.replace(word, sign)
        assert text == expression, row["id"]


def test_a_run_of_the_suite_is_short(rows: dict[str, list[Row]], template: dict[str, Any]) -> None:
    """Two and a half minutes at 30 tokens a second, every answer as long as it may be."""
    limit = template["definition"]["backends"][0]["config"]["default_params"]["max_new_tokens"]
    assert sum(len(answers) for answers in rows.values()) * limit <= 150 * 30


def test_the_template_names_every_data_file_once(suite: Path, template: dict[str, Any]) -> None:
    paths = [dataset["params"]["path"] for dataset in template["definition"]["datasets"]]
    assert sorted(paths) == sorted(f"data/{name}.jsonl" for name in FILES)
    assert all((suite / path).is_file() for path in paths)
