"""Question answering by spans: exact match and F1 of words."""

from collections import Counter
from collections.abc import Sequence

from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.words import drop_words, f1, squad_normalised


@metric("squad", value=("em", "f1"), binary=("em",), bounds=(0, 1), version=1)
def squad(answers: Sequence[str], prediction: str | None = None) -> Score:
    """Exact match and word F1, 0..1, the best over the references (official SQuAD v1.1 script).

    Lower case, without ASCII punctuation and articles, white space collapsed. Two empty answers match exactly and have
    an F1 of 0. A question without a prediction scores 0 and counts, as in the official script.
    """
    if not answers:
        return Score.unscored("there is no reference")
    if prediction is None:
        return Score.unparsed("there is no answer")
    normalised = squad_normalised(prediction)
    wanted = [squad_normalised(answer) for answer in answers]
    words = Counter(normalised.split())
    return Score({"em": float(normalised in wanted), "f1": max(f1(words, Counter(text.split())) for text in wanted)})


@metric("token_f1", value=("f1", "exact"), binary=("exact",), bounds=(0, 1), version=1, normalized=True)
def token_f1(prediction: str, answers: Sequence[str], *, stop_words: Sequence[str] = ()) -> Score:
    """F1 of words, and whether all are the same, 0..1, the best over the references (Inspect AI's ``f1``, ``exact``).

    Words as in DROP's script: split at spaces and hyphens, case folded, without articles and punctuation, numbers by
    value. ``stop_words`` do not count for F1. Texts without words match nothing, and empty references are
    skipped. Inspect rounds F1 to two decimals.
    """
    wanted = [answer for answer in answers if answer[:1].strip()]
    if not wanted:
        return Score.unscored("there is no reference")
    predicted, bag = _words(prediction, stop_words)
    right = [_words(answer, stop_words) for answer in wanted]
    return Score(
        {
            "f1": max(f1(bag, other) for _, other in right),
            "exact": float(bool(predicted) and any(words == predicted for words, _ in right)),
        }
    )


def _words(text: str, stop_words: Sequence[str]) -> tuple[list[str], "Counter[str]"]:
    """The words of a text in order, and those of them that count for F1."""
    words = drop_words(text)
    return words, Counter(drop_words(text, stop_words) if stop_words else words)
