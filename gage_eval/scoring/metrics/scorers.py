"""The scorers of sacrebleu and rouge-score. To make one takes longer than to score a sentence, so each is kept."""

from functools import lru_cache
from importlib import import_module
from typing import Any, Literal


@lru_cache(maxsize=64)
def sacrebleu_scorer(name: Literal["BLEU", "CHRF", "TER"], **options: Any) -> Any:
    """A scorer of sacrebleu with these options."""
    return getattr(import_module(f"sacrebleu.metrics.{name.lower()}"), name)(**options)


@lru_cache(maxsize=8)
def rouge_scorer(kinds: tuple[str, ...], *, use_stemmer: bool = False) -> Any:
    """A scorer of these kinds of ROUGE."""
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(kinds), use_stemmer=use_stemmer)
