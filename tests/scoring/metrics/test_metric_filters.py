"""Promises of the filters."""

from typing import Any

import pytest
from score_tables import answers, responses, sample, samples, score

from gage_eval.scoring.metrics.bind import bind
from gage_eval.scoring.metrics.parse_schema import ParseField, ParseSchema


def apply(text: str, *steps: Any) -> str | None:
    """What the filters leave of a text."""
    (pipeline,) = bind("exact_match", filters=[{"name": "x", "steps": list(steps)}]).filters
    return pipeline.apply(text)


@pytest.mark.parametrize(
    ("params", "text", "expected"),
    [
        ({"pattern": r"#### (\d+)"}, "#### 5 #### 6", "5"),
        ({"pattern": r"#### (\d+)", "take": "last"}, "#### 5 #### 6", "6"),
        ({"pattern": r"\d+", "take": "last"}, "5 and 6", "6"),
        ({"pattern": r"(a)|(b)"}, "b", "b"),
        ({"pattern": r"(a)(b)", "group": 2}, "ab", "b"),
        ({"pattern": r"(?P<x>a)(b)", "group": "x"}, "ab", "a"),
        ({"pattern": r"a(.*)"}, "a  ", None),
        ({"pattern": r"a"}, "b", None),
    ],
)
def test_regex_takes_the_hit_and_the_group_asked_for(params: dict[str, Any], text: str, expected: str | None) -> None:
    assert apply(text, {"regex": params}) == expected


def test_a_group_the_pattern_does_not_have_is_said_on_the_row() -> None:
    assert score(bind("exact_match", filters=[{"regex": {"pattern": "a", "group": 3}}]), [("a", "a")]) == [
        ("unscored", {})
    ]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("plain", "plain"),
        ("<think>a</think>\n\nb", "b"),
        ("a</think> b", "b"),
        ("<think>a</think><think>b</think>c", "c"),
        ("<think>never ends", None),
        ("<think>a</think>b<think>c", None),
        ("<think>a</think>", ""),
    ],
)
def test_strip_thinking_keeps_what_follows_the_last_end(text: str, left: str | None) -> None:
    assert apply(text, "strip_thinking") == left


def test_strip_thinking_takes_other_markers() -> None:
    assert apply("[T]a[/T]b", {"strip_thinking": {"start": "[T]", "end": "[/T]"}}) == "b"


def test_letters_and_numbers() -> None:
    assert apply("I think the answer is C", "choice_letter") == "C"
    assert apply("<think>A</think>B", "choice_letter") == "B"
    assert apply("<think>A", "choice_letter") is None
    assert apply("E", {"choice_letter": {"letters": "ABCD"}}) is None
    assert apply("5 + 3 = $8.00", "last_number") == "$8.00"
    assert apply("5 + 3 = 8", "first_number") == "5"
    assert apply("none", "last_number") is None
    assert apply("none", "first_number") is None


def test_filters_go_one_after_another_and_stop_at_the_first_that_finds_nothing() -> None:
    assert apply("<think>7</think> It is 5.", "strip_thinking", "last_number") == "5"
    assert apply("<think>7", "strip_thinking", "last_number") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"so \boxed{42}.", "42"),
        (r"\boxed{\frac{1}{2}} or \boxed{x_{1}}", "x_{1}"),
        (r"\fbox{7}", "7"),
        (r"$\boxed 5$ rest", "5"),
        (r"\boxed{never closed", None),
        ("none", None),
        ("\\boxed{" * 100_000, None),
    ],
)
def test_boxed_takes_what_the_last_box_holds(text: str, expected: str | None) -> None:
    assert apply(text, "boxed") == expected


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ('{"answer": "B"}', "answer", "B"),
        ('I say ```json\n{"a": {"b": [1, 2.5]}}\n```', "a.b.1", "2.5"),
        ('{"a": {"b": 1}}', "a", '{"b":1}'),
        ('{"a": null}', "a", None),
        ('{"a": 1}', "b", None),
        ("no JSON", "a", None),
        ("{" * 200_000, "a", None),
    ],
)
def test_json_field_reads_a_path_of_the_answers_json(text: str, field: str, expected: str | None) -> None:
    assert apply(text, {"json_field": {"field": field}}) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("Rating: [[7.5]] and [[8]]", "7.5"), ("I give [6]", "6"), ("[[x]] 5", None)]
)
def test_rating_prefers_double_brackets(text: str, expected: str | None) -> None:
    assert apply(text, "rating") == expected


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("letter", "ANSWER: Bad\nanswer : (B) ANSWER: c.", "c"),
        ("word", "thinking\nANSWER: yes.\n", "yes"),
        ("letter", "ANSWER: A\nNo, wait.\nANSWER: B\nThat is final.", "B"),
        ("letter", "ANSWER: A\nANSWER: none of them", None),
        ("word", "ANSWER: yes it is", None),
        ("word", "answer: no\nANSWER : yes!\nI am sure of that.", "yes"),
        ("word", "ANSWER: yes!!", "yes!"),
        ("word", "ANSWER: yes ;\nmore", None),
        ("word", "ANSWER:\nyes\n\nmore", "yes"),
        ("word", "ANSWER: ?", "?"),
        ("word", "ANSWER: maybe\nANSWER: well, no", None),
        ("line", "ANSWER: New York", "New York"),
        ("line", "ANSWER: New York\nand more", None),
        ("line", "ANSWER: " * 100_000, ("ANSWER: " * 99_999).strip()),
    ],
)
def test_answer_reads_what_follows_the_marker(kind: str, text: str, expected: str | None) -> None:
    assert apply(text, {"answer": {"kind": kind}}) == expected


def _replicates(steps: list[Any], texts: list[str | None], label: str = "1") -> list[tuple[int, str, str | None]]:
    """(replicate, status, extracted) of the score rows of one sample; None is an answer that never came."""
    table = bind("exact_match", filters=[{"name": "x", "steps": steps}]).score_table(
        {
            "samples": samples([sample(0, label)]),
            "responses": responses(
                [
                    {"row_index": 0, "replicate": i, "answer": text, "status": "error" if text is None else "ok"}
                    for i, text in enumerate(texts)
                ]
            ),
        }
    )
    return [(row["replicate"], row["status"], row["extracted"]) for row in table.to_pylist()]


def test_majority_vote_makes_the_replicates_of_a_sample_one_answer() -> None:
    assert _replicates(["last_number", "majority_vote"], ["a 1", "b 2", "c 2", "none"]) == [(0, "scored", "2")]
    assert _replicates(["majority_vote"], ["2", "1", "1", "2"]) == [(0, "scored", "2")]
    assert _replicates(["last_number", "majority_vote"], ["x", "y"]) == [(0, "unparsed", None)]


def test_take_first_leaves_the_other_replicates_out() -> None:
    assert _replicates(["take_first"], ["1", "2", "3"]) == [(0, "scored", "1")]
    assert [row[0] for row in _replicates([{"take_first": {"n": 2}}], ["1", "2", "3"])] == [0, 1]
    assert _replicates([{"take_first": {"n": 3}}, "majority_vote"], ["1", "2", "2", "1", "1"]) == [(0, "scored", "2")]


def test_a_replicate_that_never_came_casts_no_vote_and_is_unscored() -> None:
    assert _replicates(["majority_vote"], [None, "1", "1"]) == [(0, "unscored", None), (1, "scored", "1")]
    assert _replicates(["majority_vote"], [None, None]) == [(0, "unscored", None), (1, "unscored", None)]


def test_samples_vote_apart_and_beside_other_pipelines() -> None:
    bound = bind("exact_match", filters=["last_number", {"name": "vote", "steps": ["last_number", "majority_vote"]}])
    votes = [(0, 0, "1"), (1, 0, "5"), (0, 1, "1"), (1, 1, "6"), (0, 2, "2"), (1, 2, "6")]
    table = bound.score_table(
        {
            "samples": samples([sample(0, "1"), sample(1, "6")]),
            "responses": responses([{"row_index": row, "replicate": k, "answer": text} for row, k, text in votes]),
        }
    )
    each, vote = bound.aggregate([table], {"ok": 6})
    assert (each["filter"], each["rows"], each["n"], each["value"]) == ("last_number", 6, 2, pytest.approx(2 / 3))
    assert (vote["filter"], vote["rows"], vote["n"], vote["value"]) == ("vote", 2, 2, 1.0)


def test_what_a_filter_before_a_vote_raises_is_told_on_each_replicate() -> None:
    steps = [{"regex": {"pattern": "(a)", "group": 3}}, "majority_vote"]
    assert [row[1] for row in _replicates(steps, ["a", "a"])] == ["unscored", "unscored"]


FOLLOWED = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter", "ifeval"])
def test_a_row_without_a_match_counts_as_an_empty_answer_in_a_number_of_the_corpus(name: str) -> None:
    answer = "Answer: the cat sat on the red mat"
    with_miss = corpus_numbers(name, [answer, "I cannot tell."], [{"regex": {"pattern": "Answer: (.*)"}}])
    assert with_miss == corpus_numbers(name, [answer.removeprefix("Answer: "), ""])
    assert with_miss != corpus_numbers(name, [answer.removeprefix("Answer: ")])


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter", "ifeval"])
def test_an_answer_without_the_parsed_field_counts_as_an_empty_one_in_a_number_of_the_corpus(name: str) -> None:
    schema = ParseSchema((ParseField("answer", "enum", ("the cat sat on the mat", "a dog")),))
    lacking = corpus_numbers(
        name,
        ["answer: the cat sat on the mat", "I cannot tell."],
        params={"prediction_field": "answer"},
        parse_schema=schema,
    )
    assert lacking == corpus_numbers(name, ["the cat sat on the mat", ""])


def corpus_numbers(name: str, texts: list[str], filters: list[Any] | None = None, **settings: Any) -> dict[str, Any]:
    """The value and n of each number of a metric whose answers all have the same reference and instruction."""
    bound = bind(name, filters=filters, **settings)
    rows = [sample(row, "the cat sat on the mat", extra=FOLLOWED) for row in range(len(texts))]
    table = bound.score_table({"samples": samples(rows), "responses": answers(texts)})
    return {row["value_key"]: (row["value"], row["n"]) for row in bound.aggregate([table], {"ok": len(texts)})}
