"""ifeval follows google-research's instruction_following_eval, instruction by instruction."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_tables import answers, sample, samples
from vectors import score_one, vector_rows

from gage_eval.scoring.metrics import bind
from gage_eval.scoring.metrics.ifeval import follow
from gage_eval.scoring.metrics.ifeval.instructions import INSTRUCTIONS
from gage_eval.scoring.metrics.ifeval.text import capital_word_count, is_language, sentence_count

ARGUMENTS: dict[str, Any] = {
    "keywords": ["a", "b"],
    "keyword": "a",
    "frequency": 2,
    "relation": "at least",
    "forbidden_words": ["a"],
    "letter": "a",
    "let_frequency": 2,
    "let_relation": "less than",
    "language": "en",
    "num_sentences": 2,
    "num_words": 2,
    "num_paragraphs": 2,
    "nth_paragraph": 1,
    "first_word": "a",
    "num_placeholders": 2,
    "postscript_marker": "P.S.",
    "num_bullets": 2,
    "num_highlights": 2,
    "section_spliter": "Section",
    "num_sections": 2,
    "prompt_to_repeat": "a",
    "end_phrase": "a",
    "capital_frequency": 2,
    "capital_relation": "at least",
}


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    """A sample with the extra fields of a row of the data set."""
    return {"extra": {"instruction_id_list": row["instruction_id_list"], "kwargs": row["kwargs"]}}


def test_every_response_follows_what_it_follows_officially(shared: Path) -> None:
    rows = [row for row in vector_rows(shared, "ifeval_official") if row["group"] != "corpus"]
    for row in rows:
        followed = follow(row["response"], row["instruction_id_list"], row["kwargs"])
        assert list(followed.strict) == row["expected"]["strict"], row["id"]
        assert list(followed.loose) == row["expected"]["loose"], row["id"]
        values = score_one("ifeval", _fields(row), {"answer": row["response"]})["values"]
        assert values["prompt_strict"] == float(row["expected"]["strict_all"]), row["id"]
        assert values["prompt_loose"] == float(row["expected"]["loose_all"]), row["id"]
    assert len(rows) == 434


def test_the_four_figures_of_a_corpus_are_the_official_ones(shared: Path) -> None:
    rows = list(vector_rows(shared, "ifeval_official"))
    (corpus,) = [row for row in rows if row["group"] == "corpus"]
    real = [row for row in rows if row["group"] in corpus["row_groups"]]
    metric = bind("ifeval")
    table = metric.score_table(
        {
            "samples": samples([sample(i, None, **_fields(row)) for i, row in enumerate(real)]),
            "responses": answers([row["response"] for row in real]),
        }
    )
    numbers = {row["value_key"]: row["value"] for row in metric.aggregate([table], {"ok": len(real)})}
    assert len(real) == corpus["count"]
    assert numbers == pytest.approx(corpus["expected"], abs=1e-9)


def test_the_real_prompts_have_known_instructions_and_all_arguments(shared: Path) -> None:
    file = shared / "data" / "ifeval" / "input_data.jsonl"
    for line in file.read_bytes().splitlines():
        row = orjson.loads(line)
        # Raises where an argument is missing.
        followed = follow("Some text.", row["instruction_id_list"], row["kwargs"])
        assert len(followed.strict) == len(row["instruction_id_list"])


def test_there_are_25_instructions_and_each_names_its_arguments() -> None:
    assert len(INSTRUCTIONS) == 25
    assert {name for instruction in INSTRUCTIONS.values() for name in instruction.needs} == set(ARGUMENTS)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"instruction_id_list": ["keywords:none"], "kwargs": [{}]}, "there is no instruction 'keywords:none'"),
        ({"instruction_id_list": ["keywords:frequency"], "kwargs": [{"keyword": None}]}, "lacks keyword, frequency"),
        ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": []}, "1 instructions, but 0 sets of arguments"),
        ({"instruction_id_list": "punctuation:no_comma", "kwargs": {}}, "not lists"),
    ],
)
def test_a_sample_that_cannot_be_checked_is_unscored_not_wrong(fields: dict[str, Any], reason: str) -> None:
    scored = score_one("ifeval", {"extra": fields}, {"answer": "x"})
    assert scored["status"] == "unscored"
    assert reason in scored["explanation"]


def test_arguments_that_are_null_or_unknown_are_passed_over() -> None:
    row = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{"keywords": None, "num_words": 3}]}
    assert score_one("ifeval", {"extra": row}, {"answer": "no comma"})["values"]["prompt_strict"] == 1.0


def test_an_empty_response_follows_nothing() -> None:
    row = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    assert set(score_one("ifeval", {"extra": row}, {"answer": "  "})["values"].values()) == {0.0}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("   ", 0),
        ("one", 1),
        ("One. Two! Three?", 3),
        ("Dr. Smith went to Washington, D.C. It rained.", 2),
        ('He said "Go." Then he went.', 2),
        ("Wait... what? Yes.", 2),
        ("It cost 3.5 dollars. A lot.", 2),
        ("no end\nno end", 1),
    ],
)
def test_sentences_are_counted_by_their_ends(text: str, count: int) -> None:
    assert sentence_count(text) == count


# Recorded with nltk 3.10 and its English model.
@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The last letter is in o. Let's count them.", 2),
        ("The word ends in x. Then we stop.", 2),
        ("He scored B. The others got C. Everyone passed.", 2),
        ("It was Plan B. Nobody knew. Plan A. Nobody cared.", 4),
        ("Take vitamin C. Remember it.", 1),
        ("J. Smith came. K. went.", 2),
        ("See e.g. The house. It is red.", 3),
        ("no. it is not.", 2),
        ("Ends in etc. Then more. vol. 3 is out. No. 5 is here. no. it is not.", 8),
        ("We met Mr. Tan. Mr. Tan left at 5 p.m. He was late.", 3),
        ("It's Jan. 5. On Dec. Monday came. at 3 a.m. we left. St. Peter. vs. them Inc. The firm.", 6),
        ("He lives in the U.S. The U.S. economy grew.", 2),
        ("It costs 3. Buy it. 4. sell", 3),
        ("1. First\n2. Second\n3. Third", 4),
        ("She asked: “Why?” He left. “Go!” he said.", 4),
        ("end.) Next one.' Third.", 3),
        ("Visit www.x.com. Now. version 2.0. Done.", 4),
        ("Wait... what? Yes... The end.", 3),
        ("Hello!!! Really?! Yes.", 3),
        ("Is it a?b!c", 1),
    ],
)
def test_a_text_has_as_many_sentences_as_for_punkt(text: str, count: int) -> None:
    assert sentence_count(text) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("HELLO world", 1),
        ("I'M HERE", 3),
        ("DON'T", 2),
        ("**TITLE**: A-B and A/B", 3),
        ("CANNOT", 2),
        ("U.S. and NATO.", 2),
        ("it's lower", 0),
    ],
)
def test_capital_words_are_split_as_the_penn_treebank_splits(text: str, count: int) -> None:
    assert capital_word_count(text) == count


def test_the_language_of_a_text_is_the_same_every_time() -> None:
    assert len({is_language("gato e hola due", "it") for _ in range(20)}) == 1
    assert is_language("1 2 3", "fr")


def test_zh_is_any_chinese() -> None:
    simplified, traditional = "这是一封用中文写的短信。", "這是一封用中文寫的短信，請您儘快回覆。"
    assert [is_language(text, "zh") for text in (simplified, traditional, "A short letter in English.")] == [
        True,
        True,
        False,
    ]
    assert is_language(simplified, "zh-cn")
    assert not is_language(simplified, "zh-tw")


@given(st.text(alphabet="aA.,*-[]<>\"' \n{}#1", max_size=80))
def test_loose_holds_wherever_strict_does(response: str) -> None:
    names = [name for name in INSTRUCTIONS if not name.startswith(("language", "change_case:english"))]
    followed = follow(response, names, [ARGUMENTS] * len(names))
    assert all(loose or not strict for strict, loose in zip(followed.strict, followed.loose, strict=True))


@pytest.mark.parametrize(
    "piece", ["[", "<<", "\n", "*", "* ", " ", "P.", "'", "a.", "]", "1", "Section ", "A'", "\n\n"]
)
def test_a_long_answer_takes_linear_time(piece: str) -> None:
    response = piece * (100_000 // len(piece))
    names = list(INSTRUCTIONS)
    assert len(follow(response, names, [ARGUMENTS] * len(names)).strict) == 25
