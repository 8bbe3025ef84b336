"""Filters over the replicates of a sample: which of its answers count."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from gage_eval.scoring.metrics.base import sample_filter


@sample_filter("take_first", version=2)
def take_first(texts: Sequence[str | None], *, n: Annotated[int, Field(ge=1)] = 1) -> dict[int, str | None]:
    """The first n replicates of each sample; the others get no score.

    The lm-eval harness ends its filter lists with it (``take_first``, ``take_first_k``). Replicates in error do not
    count.
    """
    return dict(enumerate(texts[:n]))


@sample_filter("majority_vote", version=1)
def majority_vote(texts: Sequence[str | None]) -> dict[int, str | None]:
    """The answer that most replicates of a sample give; of equally frequent answers the first one.

    Self-consistency (Wang et al. 2022, arXiv:2203.11171). Put filters that extract an answer before it. Replicates
    without an answer do not vote; a sample with only such replicates is unparsed.
    """
    votes = Counter(text for text in texts if text is not None)
    return {0: votes.most_common(1)[0][0] if votes else None} if texts else {}
