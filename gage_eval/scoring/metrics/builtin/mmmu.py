"""MMMU and MMMU-Pro: college-level questions on images."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from gage_eval.base.canonical import JsonValue
from gage_eval.scoring.metrics.base import FIRST_VERSION, Score, metric
from gage_eval.scoring.metrics.choices import LETTERS, option_texts
from gage_eval.scoring.metrics.mmmu_rules import draw_option, open_is_right, read_choice, read_open, read_pro_choice


@metric(
    "mmmu_accuracy",
    presets={FIRST_VERSION: {"on_unparsed": "wrong"}},
    value="acc",
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
    (`gage_eval.scoring.metrics.mmmu_rules`). Without it, a question with options, or with letters as its
    answers, is multiple choice. Without options the letters A to J are used. A multiple-choice answer that
    names no option is unparsed. The official rule, and ``on_unparsed: random``, then draw an option; here it is
    drawn by the sample's id, so that every run draws the same. ``wrong`` counts it as 0. The share of unparsed rows is
    printed with the score.
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
    return _score(read_choice(prediction, texts), texts, answers, sample_id, on_unparsed)


@metric(
    "mmmu_pro_accuracy",
    value="acc",
    binary=True,
    version=1,
    fields={"answers": "sample.metadata.answers", "sample_id": "sample.id"},
)
def mmmu_pro_accuracy(
    answers: Sequence[str],
    prediction: str = "",
    options: JsonValue = None,
    sample_id: str = "",
    *,
    on_unparsed: Literal["random", "wrong"] = "random",
) -> Score:
    """1 when the answer is right by MMMU-Pro's official rule, else 0; the mean is the official score.

    The rule is that of ``mmmu-pro/evaluate.py`` (MMMU-Benchmark/MMMU, commit bb0b95a9):

    1. If exactly one option's letter occurs after the last ``Answer:``, it is chosen. It may stand anywhere, even
       inside a word, and only capitals count.
    2. Otherwise the signs ``, . ! ? ; : '`` are removed from the ends, and candidates are the letters written as
       ``(A)``. If there are none, those followed by a space, whatever stands before them: ``A`` in ``VITAMIN A is``,
       and in ``J. A dramatic increase``, where ``J`` is none. If there are none, those followed by a full stop. If
       there are none and the answer has more than five words, the options whose text occurs in it in any case.
    3. Of several candidates the last one wins, by the place of ``(A)``, of ``A`` between spaces, or of the text. Where
       no letter stands between spaces, the first candidate wins.

    An answer that names no option is unparsed. The official rule, and ``on_unparsed: random``, then draw an option.
    Known difference: the official script draws again in every run. Here the sample's id decides, so that every run
        draws the same. ``wrong`` counts it as 0. The share of unparsed rows is printed with the score. A response
        without text
    counts as an empty one, but errors of the endpoint are not scored. Without options the letters A to J are used.
    Thinking is read too, as officially; the filter `strip_thinking` removes it.
    """
    if not answers:
        return Score.unscored("there is no accepted answer")
    try:
        texts: Mapping[str, str | None] = option_texts(options) if options else dict.fromkeys(LETTERS)
    except ValueError as error:
        return Score.unscored(str(error))
    return _score(read_pro_choice(prediction, texts), texts, answers, sample_id, on_unparsed)


def _score(
    chosen: str | None,
    options: Iterable[str],
    answers: Sequence[str],
    sample_id: str,
    on_unparsed: Literal["random", "wrong"],
) -> Score:
    """The score of the option that was read; without one, of a drawn one, or wrong."""
    if chosen is not None:
        return Score(float(chosen in answers), extracted=chosen)
    if on_unparsed == "wrong":
        return Score.unparsed("the answer names no option")
    drawn = draw_option(options, sample_id)
    return Score(
        float(drawn in answers), "unparsed", extracted=drawn, explanation="the answer names no option; one was drawn"
    )


def _is_multiple_choice(question_type: str | None, options: JsonValue, answers: Sequence[str]) -> bool:
    if question_type is not None:
        return question_type in ("multiple-choice", "multiple_choice")
    return bool(options) or all(answer in LETTERS for answer in answers)
