"""Corpus scores of machine translation, from the n-gram counts and edits of the sentences."""

from gage_eval.scoring.metrics.aggregations.base import (
    Aggregate,
    CountedRows,
    Floats,
    aggregation,
    corpus_number,
    recounted_sums,
)
from gage_eval.scoring.metrics.scorers import sacrebleu_scorer


def _bleu(sums: Floats) -> float:
    from sacrebleu.metrics.bleu import BLEU

    counts = [round(number) for number in sums.tolist()]
    orders = len(counts) // 2 - 1
    bleu = BLEU.compute_bleu(
        counts[:orders],
        counts[orders:-2],
        counts[-2],
        counts[-1],
        smooth_method="exp",
        max_ngram_order=orders,
    )
    return float(bleu.score)


def _chrf(sums: Floats) -> float:
    scorer = sacrebleu_scorer("CHRF", word_order=len(sums) // 3 - 6)
    return float(scorer._compute_score_from_stats(sums.tolist()).score)


def _ter(sums: Floats) -> float:
    edits, length = (float(number) for number in sums)
    if length:
        return 100 * edits / length
    return 100.0 if edits else 0.0


@aggregation(
    "corpus_bleu", version=1, clusters=True, terms=True, libraries=("sacrebleu",), recount=recounted_sums(_bleu)
)
def corpus_bleu(rows: CountedRows) -> Aggregate:
    """BLEU of all sentences' n-gram counts: exponential smoothing, no effective order (sacrebleu's default).

    A metric leaves ``components={value key: [matches by order, n-grams by order, length, reference length]}``.
    Bootstrap over samples.
    """
    return corpus_number(rows, _bleu)


@aggregation(
    "corpus_chrf", version=1, clusters=True, terms=True, libraries=("sacrebleu",), recount=recounted_sums(_chrf)
)
def corpus_chrf(rows: CountedRows) -> Aggregate:
    """chrF2 of all sentences' n-gram counts (sacrebleu).

    A metric leaves ``components={value key: [n-grams of answer, of reference, shared]}``, three by three for each
    order: six of characters, then of words. Bootstrap over samples.
    """
    return corpus_number(rows, _chrf)


@aggregation("corpus_ter", version=1, clusters=True, terms=True, recount=recounted_sums(_ter))
def corpus_ter(rows: CountedRows) -> Aggregate:
    """100 · Σ edits / Σ reference length; 100 where there are edits and no reference (sacrebleu).

    A metric leaves ``components={value key: [edits, reference length]}``. Bootstrap over samples.
    """
    return corpus_number(rows, _ter)
