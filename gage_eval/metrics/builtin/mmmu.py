"""MMMU: college-level questions on images, multiple choice and open."""

from collections.abc import Sequence
from typing import Literal

from gage_eval.canonical import JsonValue, sha256_hex
from gage_eval.metrics.base import Score, metric
from gage_eval.metrics.choices import LETTERS, option_texts
from gage_eval.metrics.mmmu_rules import open_is_right, read_choice, read_open


@metric(
    "mmmu_accuracy",
    value="acc",
    aggregate="mean",
    binary=True,
    version=1,
    fields={
        "answers": "sample.metadata.answers",
        "question_type": "sample.task_type",
        "sample_id": "sample.id",
    },
)
def mmmu_accuracy(
    prediction: str,
    answers: Sequence[str],
    options: JsonValue = None,
    question_type: str | None = None,
    sample_id: str = "",
    *,
    on_unparsed: Literal["random", "wrong"] = "random",
) -> Score:
    """1 when the answer is right by MMMU's official rules, else 0; the mean is the official score.

    ``question_type`` ``multiple-choice`` is read as a letter, anything else as an open answer
    (`gage_eval.metrics.mmmu_rules`). Without it, a question with options, or with letters as its
    answers, is multiple choice. Without options the letters A to J are used. A multiple-choice answer that
    names no option is unparsed. The official rule, and ``on_unparsed: random``, then draw an option; here it is
    drawn by the sample's id, so that every run draws the same. ``wrong`` counts it as 0. The share of unparsed rows is
    printed beside the score.
    """
    if not answers:
        return Score.unscored("there is no accepted answer")
    try:
        texts = option_texts(options) if options else LETTERS
    except ValueError as error:
        return Score.unscored(str(error))
    if not _is_multiple_choice(question_type, options, answers):
        parts = read_open(prediction)
        return Score(float(open_is_right(parts, answers)), extracted=" | ".join(map(str, parts)))
    chosen = read_choice(prediction, texts)
    if chosen is not None:
        return Score(float(chosen in answers), extracted=chosen)
    if on_unparsed == "wrong":
        return Score.unparsed("the answer names no option")
    drawn = list(texts)[int(sha256_hex(sample_id.encode())[:16], 16) % len(texts)]
    return Score(
        float(drawn in answers), "unparsed", extracted=drawn, explanation="the answer names no option; one was drawn"
    )


def _is_multiple_choice(question_type: str | None, options: JsonValue, answers: Sequence[str]) -> bool:
    if question_type is not None:
        return question_type in ("multiple-choice", "multiple_choice")
    return bool(options) or all(answer in LETTERS for answer in answers)
