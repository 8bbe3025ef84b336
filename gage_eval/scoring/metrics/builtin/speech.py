"""Word and character error rates of transcripts, with the normalisers that published numbers use."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Literal

from gage_eval.scoring.metrics.base import Score, metric

Normalizer = Literal["whisper_basic", "whisper_english", "none"]


_rate_metric = partial(
    metric,
    aggregate="ratio",
    higher_is_better=False,
    bounds=(0, None),
    perfect=0,
    version=1,
    libraries=("rapidfuzz", "whisper-normalizer"),
)


@_rate_metric("wer", value="wer")
def wer(prediction: str, answers: Sequence[str], *, normalizer: Normalizer = "whisper_basic") -> Score:
    """Word error rate: substituted, missing and added words per word of the reference; it can exceed 1.

    The fewest edits between the words (Levenshtein), as jiwer counts them. Of several references the nearest counts.
    The number of the task is Σ edits / Σ words. Both texts are normalised first: ``whisper_basic`` lowers case and
    drops punctuation in any language, ``whisper_english`` also unifies English numbers, contractions and spellings
    (Radford et al. 2022, appendix C; package whisper-normalizer), ``none`` changes nothing.
    """
    return _rate("wer", prediction, answers, normalizer, str.split)


@_rate_metric("cer", value="cer")
def cer(prediction: str, answers: Sequence[str], *, normalizer: Normalizer = "whisper_basic") -> Score:
    """Character error rate: as `wer` counts words, for languages that write none. Spaces between words count, too."""
    return _rate("cer", prediction, answers, normalizer, lambda text: list(" ".join(text.split())))


def _rate(
    name: str, prediction: str, answers: Sequence[str], normalizer: Normalizer, split: Callable[[str], list[str]]
) -> Score:
    from rapidfuzz.distance import Levenshtein

    normalised = _normalizer(normalizer)
    wanted = [units for answer in answers if (units := split(normalised(answer)))]
    if not wanted:
        return Score.unscored("no reference has a word" if answers else "there is no reference")
    said = split(normalised(prediction))
    counts = ((Levenshtein.distance(said, units), len(units)) for units in wanted)
    edits, length = min(counts, key=lambda count: count[0] / count[1])
    return Score(edits / length, components={name: [edits, length]})


@cache
def _normalizer(name: Normalizer) -> Callable[[str], str]:
    if name == "none":
        return str
    if name == "whisper_basic":
        from whisper_normalizer.basic import BasicTextNormalizer

        basic: Callable[[str], str] = BasicTextNormalizer()
        return basic
    from whisper_normalizer.english import EnglishTextNormalizer

    english: Callable[[str], str] = EnglishTextNormalizer()
    return english
