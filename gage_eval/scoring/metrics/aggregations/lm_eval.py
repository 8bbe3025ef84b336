"""The aggregations of tasks of the lm-eval harness, by the harness's own code."""

import json
import math

from gage_eval.scoring.harness import client
from gage_eval.scoring.metrics.aggregations.base import Aggregate, CountedRows, aggregation


@aggregation("lm_eval", version=1, categories=True, params=True, libraries=("lm-eval",), resamples=False)
def lm_eval(rows: CountedRows) -> Aggregate:
    """The task's own number of all rows, such as F1 or corpus BLEU. It has no interval.

    It is for the metric of the same name, which leaves what the harness says about each row as the text that was read.
    A draw of the bootstrap would ask the harness again, so two runs are compared without a test.
    """
    items = [json.loads(text) for text in rows.categories or () if text is not None]
    if not items:
        return Aggregate(None, samples=0)
    task, value, sources = (str(rows.params.get(key)) for key in ("task", "value", "sources"))
    number = client.aggregate(sources, task, value, items)
    known = isinstance(number, int | float) and math.isfinite(number)
    return Aggregate(float(number) if known else None, samples=len(items))
