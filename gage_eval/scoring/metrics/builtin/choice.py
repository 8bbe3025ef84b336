"""Metrics on multiple choice."""

from gage_eval.base.canonical import JsonValue
from gage_eval.scoring.extract.thinking import strip_thinking
from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.choices import LETTERS, choose, option_texts


@metric(
    "multi_choice_accuracy", value="acc", binary=True, version=4, fields={"reference": "sample.metadata.correct_choice"}
)
def multi_choice_accuracy(
    prediction: str, reference: str, options: JsonValue = None, *, allow_text_match: bool = True
) -> Score:
    """1 when the answer chooses the right option, by its letter or its text.

    [How a choice is read](choices.md) has the rule, and test vectors for it: sentences that choose an option or reject
    it, letters on their own, options named by their text. Letters inside ``<think>`` do not count. An answer that
    chooses none, or several, is unparsed. The reference may be a letter or an option's text; without ``options`` the
    letters A to J are used. The rule is our own: no official scorer reads sentences.
    """
    try:
        texts = option_texts(options) if options else LETTERS
    except ValueError as error:
        return Score.unscored(str(error))
    right = choose(reference, texts)
    if right is None:
        return Score.unscored(f"the label {reference!r} is not one of the options {', '.join(texts)}")
    answer = strip_thinking(prediction)
    if answer is None:
        return Score.unparsed("the thinking never ended")
    chosen = choose(answer, texts, allow_text_match=allow_text_match)
    if chosen is None:
        return Score.unparsed("the answer chooses no option, or several")
    return Score(float(chosen == right), extracted=chosen)
