"""BLEU, chrF and TER by sacrebleu: a value per sentence, and the components of the corpus's value."""

from collections.abc import Sequence
from typing import Literal

from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.scorers import sacrebleu_scorer

Smoothing = Literal["exp", "floor", "add-k", "none"]
# sacrebleu searches for shifts of words in time that grows faster than the product of the lengths.
_MOST_FOR_SHIFTS = 40_000


@metric(
    "bleu", value="bleu", aggregate="corpus_bleu", bounds=(0, 100), perfect=100, version=2, libraries=("sacrebleu",)
)
def bleu(
    prediction: str,
    answers: Sequence[str],
    *,
    tokenize: Literal["13a", "zh", "intl", "char", "none"] = "13a",
    lowercase: bool = False,
    smooth_method: Smoothing = "exp",
    smooth_value: float | None = None,
    effective_order: bool = True,
) -> Score:
    """BLEU of a sentence, 0..100 (Papineni et al. 2002; sacrebleu), over all references at once.

    The number of the task is the corpus's BLEU from summed n-gram counts, with exponential smoothing and without
    effective order (sacrebleu's default). ``smooth_method``, ``smooth_value`` and ``effective_order`` only affect
    the values of sentences.
    """
    if not answers:
        return Score.unscored("there is no reference")
    scorer = sacrebleu_scorer(
        "BLEU",
        tokenize=tokenize,
        lowercase=lowercase,
        smooth_method=smooth_method,
        smooth_value=smooth_value,
        effective_order=effective_order,
    )
    score = scorer.sentence_score(prediction, list(answers))
    return Score(float(score.score), components={"bleu": [*score.counts, *score.totals, score.sys_len, score.ref_len]})


@metric(
    "chrf", value="chrf", aggregate="corpus_chrf", bounds=(0, 100), perfect=100, version=2, libraries=("sacrebleu",)
)
def chrf(
    prediction: str, answers: Sequence[str], *, word_order: Literal[0, 1, 2] = 0, lowercase: bool = False
) -> Score:
    """chrF2 of a sentence, 0..100 (Popović 2015; sacrebleu), the best over the references; chrF++ is ``word_order: 2``.

    Character n-grams up to 6. The number of the task is the corpus's chrF, from summed n-gram counts.
    """
    if not answers:
        return Score.unscored("there is no reference")
    scorer = sacrebleu_scorer("CHRF", word_order=word_order, lowercase=lowercase)
    # sacrebleu has no other way to get the counts; all its scorers use this method.
    (counts,) = scorer._extract_corpus_statistics([prediction], [[answer] for answer in answers])
    return Score(float(scorer._compute_score_from_stats(counts).score), components={"chrf": counts})


@metric(
    "ter",
    value="ter",
    aggregate="corpus_ter",
    higher_is_better=False,
    bounds=(0, None),
    perfect=0,
    version=4,
    libraries=("sacrebleu", "rapidfuzz"),
)
def ter(prediction: str, answers: Sequence[str], *, normalized: bool = False, case_sensitive: bool = False) -> Score:
    """Translation edit rate of a sentence, in percent, lower is better (Snover et al. 2006; sacrebleu).

    Edits for the reference that needs the fewest, divided by the mean length of the references. The number of the task
    is the corpus's rate, Σ edits / Σ length. For pairs of texts with more than 40,000 words × words (200 × 200) shifts
    are not searched and count as edits of single words; the rows' explanation says so.
    """
    if not answers:
        return Score.unscored("there is no reference")
    scorer = sacrebleu_scorer("TER", normalized=normalized, case_sensitive=case_sensitive)
    hypothesis, *wanted = (scorer._preprocess_segment(text).split() for text in (prediction, *answers))
    if len(hypothesis) * max(map(len, wanted)) > _MOST_FOR_SHIFTS:
        edits, length = _without_shifts(hypothesis, wanted)
        note = "too long to search for shifts: counted as edits of single words"
    else:
        score = scorer.sentence_score(prediction, list(answers))
        edits, length, note = float(score.num_edits), float(score.ref_length), None
    rate = 100 * edits / length if length else 100.0 * (edits > 0)
    return Score(rate, explanation=note, components={"ter": [edits, length]})


def _without_shifts(hypothesis: Sequence[str], wanted: Sequence[Sequence[str]]) -> tuple[float, float]:
    from rapidfuzz.distance import Levenshtein

    edits = min(Levenshtein.distance(hypothesis, words) for words in wanted)
    return float(edits), sum(len(words) for words in wanted) / len(wanted)
