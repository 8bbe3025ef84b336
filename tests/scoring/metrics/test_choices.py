"""Promises of multiple choice: the option the answer chooses, never a letter that is a word."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_tables import OPTIONS, answers, sample, samples

from gage_eval.extend import registry
from gage_eval.scoring.metrics import bind
from gage_eval.scoring.metrics.choices import LETTERS, choose, option_texts

PLACES = {"A": "Paris", "B": "Rome", "C": "New York", "D": "York", "I": "Oslo"}


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ("B", "B"),
        ("b", "B"),
        (" (b) ", "B"),
        ("**B**", "B"),
        ("B.", "B"),
        ("Rome", "B"),
        ("rome!", "B"),
        ("I think the answer is B", "B"),
        ("I think it's B.", "B"),
        ("The answer is B", "B"),
        ("ANSWER: (b)", "B"),
        ("**Answer:** B", "B"),
        ("Answer:\n\n**B**", "B"),
        ("Final answer: $\\boxed{B}$", "B"),
        ("\\boxed{\\text{B}}", "B"),
        ("The correct option is D.", "D"),
        ("答案是 B。", "B"),
        ("选B", "B"),
        ("答え：C", "C"),
        ("D is correct because A, B and C are not.", "D"),
        ("(A) is wrong. (B) is right.", "B"),
        ("The answer is A. Wait, the answer is C.", "C"),
        ("B. Rome", "B"),
        ("B) because", "B"),
        ("B: Rome of all places", "B"),
        ("B\nSince Rome is in Italy", "B"),
        ("so it must be (b)", "B"),
        ("Option B", "B"),
        ("I would say New York", "C"),
        ("It is York, surely", "D"),
        ("The answer is I", "I"),
        ("The correct options are B. A is wrong.", "B"),
        ("The answer is B. B is also the largest.", "B"),
    ],
)
def test_the_option_an_answer_chooses(answer: str, chosen: str) -> None:
    assert choose(answer, PLACES) == chosen


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I like cats",
        "I don't know",
        "A cat",
        "A and B",
        "The answer is A or B",
        "ANSWER: AB",
        "(A) and (C)",
        "Rome or Paris",
        "None of these",
        "parish",
        "A. Paris\nB. Rome\nC. New York",
        "The correct options are A, Paris; B, Rome; and D, York.",
        "The correct answers are:\nA. Paris\nB. Rome",
        "B is correct. A is correct as well.",
        "The answer is B. The answer is also A.",
        "A is correct. Rome is right, too.",
    ],
)
def test_no_option_or_several_are_no_choice(answer: str) -> None:
    assert choose(answer, PLACES) is None


def test_an_options_text_counts_as_whole_words_the_longest_first() -> None:
    options = {"A": "3", "B": "13", "C": "13 apples"}
    assert choose("it is 13", options) == "B"
    assert choose("there are 13 apples there", options) == "C"
    assert choose("113", options) is None
    assert choose("no idea", {"A": "yes", "B": "no"}) == "B"
    assert choose("I do not know", {"A": "yes", "B": "no"}) is None


def test_texts_can_be_left_out_of_it() -> None:
    assert choose("Rome", PLACES, allow_text_match=False) is None
    assert choose("B", PLACES, allow_text_match=False) == "B"


def test_equal_texts_name_no_option() -> None:
    assert choose("same", {"A": "same", "B": "same"}) is None


def test_ids_need_not_be_letters() -> None:
    assert choose("Solution 2", {"1": "x", "2": "y"}) == "2"
    assert choose("The answer is no.", {"yes": "", "no": ""}) == "no"


@pytest.mark.parametrize(
    "options",
    [
        {"A": "Paris", "B": "Rome"},
        [{"label": "A", "text": "Paris"}, {"label": "B", "text": "Rome"}],
        [{"id": "A", "content": "Paris"}, {"id": "B", "content": "Rome"}],
        ["Paris", "Rome"],
    ],
)
def test_every_shape_of_options_is_read(options: Any) -> None:
    assert option_texts(options) == {"A": "Paris", "B": "Rome"}


@pytest.mark.parametrize("options", ["x", 3, [{"text": "no label"}], ["x"] * 27])
def test_what_is_no_options_is_refused(options: Any) -> None:
    with pytest.raises(ValueError, match="option"):
        option_texts(options)


@pytest.fixture(scope="module")
def vectors(repo_root: Path) -> list[dict[str, Any]]:
    lines = (repo_root / "docs" / "vectors" / "multi_choice.jsonl").read_bytes().splitlines()
    return [orjson.loads(line) for line in lines]


def test_every_vector_of_the_rule_is_read_as_it_says(vectors: list[dict[str, Any]]) -> None:
    wrong = {
        row["answer"]: row["expected"] for row in vectors if choose(row["answer"], row["options"]) != row["expected"]
    }
    assert wrong == {}


def test_the_vectors_are_of_this_version_of_the_rule_and_in_both_languages(
    vectors: list[dict[str, Any]], repo_root: Path
) -> None:
    page = (repo_root / "docs" / "vectors" / "README.md").read_text(encoding="utf-8")
    version = registry.metrics.get("multi_choice_accuracy").version
    assert f"(../metrics.md#multi_choice_accuracy) | {version} | {len(vectors)} |" in page
    assert len({row["id"] for row in vectors}) == len(vectors) >= 150
    assert Counter(row["group"].startswith("zh:") for row in vectors)[True] >= 50


@pytest.mark.parametrize("answer", ["\ue000 is right", "\uf8f0 \ue0fe", "\uf8ff"])
def test_private_characters_of_an_answer_name_no_option(answer: str) -> None:
    assert choose(answer, PLACES) is None


def _score(
    answer: str, params: dict[str, Any] | None = None, **fields: Any
) -> tuple[str, dict[str, float], str | None]:
    bound = bind("multi_choice_accuracy", params, on_missing_field="ignore")
    (row,) = bound.score_table({"samples": samples([sample(0, **fields)]), "responses": answers([answer])}).to_pylist()
    return row["status"], dict(row["values"]), row["extracted"]


def test_without_parameters_it_reads_the_standard_fields() -> None:
    assert _score("so, B", label="B", options=OPTIONS) == ("scored", {"acc": 1.0}, "B")
    assert _score("Paris", label="B", options=OPTIONS) == ("scored", {"acc": 0.0}, "A")
    assert _score("who knows", label="B", options=OPTIONS) == ("unparsed", {"acc": 0.0}, None)


def test_the_label_may_be_an_options_text() -> None:
    assert _score("B", label="Rome", options=OPTIONS) == ("scored", {"acc": 1.0}, "B")


def test_a_label_that_is_no_option_is_unscored() -> None:
    assert _score("B", label="Madrid", options=OPTIONS) == ("unscored", {}, None)


def test_options_that_cannot_be_read_are_unscored() -> None:
    assert _score("B", label="B", metadata={"option_map": "broken"}) == ("unscored", {}, None)


def test_letters_inside_thinking_do_not_count() -> None:
    assert _score("<think>Surely A. The answer is A</think>B", label="B", options=OPTIONS)[1] == {"acc": 1.0}
    assert _score("<think>The answer is B", label="B", options=OPTIONS)[0] == "unparsed"


def test_all_field_parameters_are_honoured() -> None:
    fields = {"label": "A", "options": OPTIONS, "metadata": {"gold": "C", "map": [{"label": "C", "text": "Lima"}]}}
    params = {"label_field": "metadata.gold", "option_map_field": "metadata.map"}
    assert _score("Lima", params, **fields) == ("scored", {"acc": 1.0}, "C")
    assert _score("Lima", params | {"allow_text_match": False}, **fields)[0] == "unparsed"
    assert _score("?", params | {"prediction_field": "sample.metadata.gold"}, **fields)[1] == {"acc": 1.0}


def test_without_options_the_letters_a_to_j_are_known() -> None:
    assert list(LETTERS) == list("ABCDEFGHIJ")
    assert _score("(C)", label="C") == ("scored", {"acc": 1.0}, "C")


@given(st.text(max_size=200), st.lists(st.text(max_size=10), min_size=1, max_size=6))
def test_any_answer_chooses_one_of_the_options_or_none(answer: str, texts: list[str]) -> None:
    options = option_texts(texts)
    assert choose(answer, options) in {*options, None}


PIECES = (
    "A|B|C|D|I|a|b|c|d| |. |, |\n|\n\n|? |: |(|)|**|$|\\boxed{|}|Ａ|Rome|York| is correct| is wrong| is the answer"
    "|The answer is |The correct options are |answers are: | not | and | or | also | as well| too| rather than "
    "|all except |if |so |none of |is the area|答案是|不选|正确|La respuesta es |정답은 |الإجابة |उत्तर "
    "|\x00|\ue000|\uf8f0|\ud800|🙂|1,000|-"
).split("|")


def test_ten_thousand_made_answers_choose_an_option_or_none() -> None:
    draw = random.Random(20261126)
    for _ in range(10_000):
        answer = "".join(draw.choices(PIECES, k=draw.randrange(1, 14)))
        assert choose(answer, PLACES) in (*PLACES, None), answer


@given(st.sampled_from("ABCD"))
def test_a_bare_letter_always_chooses_itself(letter: str) -> None:
    for form in (letter, f"({letter})", f"The answer is {letter}.", f"{letter}. because", f"\\boxed{{{letter}}}"):
        assert choose(form, PLACES | {"D": "York"}) == letter


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ("answer " * 30_000, None),
        ("(" * 200_000, None),
        ("is " * 60_000, None),
        ("A " * 100_000, "A"),
        ("A, " * 60_000, "A"),
        ("x" + "\n" * 200_000 + "x", "C"),
        ("12 " * 60_000, "B"),
        ("\\boxed{" * 30_000, None),
        ("answer: " + "*" * 200_000, None),
        ("选" * 200_000, None),
        ("resposta é " * 20_000, None),
        ("정답은 " * 50_000, None),
        ("B has " * 33_000, "B"),
        ("1,000" * 40_000, None),
    ],
)
def test_a_long_hostile_answer_costs_linear_time(answer: str, chosen: str | None) -> None:
    # Quadratic work on 200,000 characters would outlast the test's time limit many times over.
    assert choose(answer, {"A": "12", "B": "12 12", "C": "x"}) == chosen
