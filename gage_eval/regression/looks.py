"""The gate's verdict on a run that stopped early: tests of a fixed number of rows do not hold there."""

from dataclasses import replace

import numpy as np

from gage_eval.regression.compare import TaskComparison
from gage_eval.stats.early_stop import difference_limits_by_look, looks_up_to
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.verdicts import MetricVerdict, Verdict


def with_looks(decision: MetricVerdict, task: TaskComparison, rule: GateRule, family: int) -> MetricVerdict:
    """The verdict on a number; where its run stopped early, by the interval that holds at every look.

    The level is shared out among the family (Bonferroni), because Holm's method needs p values.

    Args:
        decision: by the tests of a fixed number of rows.
        task: the rows.
        rule: tolerance and level; without a test, the decision stands.
        family: how many numbers are decided together.
    """
    if task.current.part != "look" or rule.mode != "significance":
        return decision
    level = 2 * rule.alpha / family
    width = task.scale.width
    if width is None or task.pairing.rows.weights is not None or task.measure.aggregation not in (None, "mean"):
        note = "stopped early: only a plain mean of values in a fixed range has a verdict then"
        return MetricVerdict(decision.evidence, "inconclusive", holds=False, p_worse=1, p_better=1, notes=(note,))
    samples = task.current.reader.samples.table(columns=["id", "row_index"])
    rows, look = samples["row_index"].to_numpy(), task.current.look
    difference = dict(zip(task.pairing.ids.to_pylist(), task.pairing.rows.differences.tolist(), strict=True))
    ids = samples["id"].to_pylist()[: int(np.searchsorted(rows, look))]
    # A sample without a pair may have any difference.
    values = np.array([difference.get(name, np.nan) for name in ids], np.float64)
    sizes = [int(np.searchsorted(rows, end)) for end in looks_up_to(look)]
    low, high = difference_limits_by_look(values, width, len(rows), sizes, rule.tolerance, alpha=level)[-1]
    verdict: Verdict = "inconclusive"
    if high < -rule.tolerance:
        verdict = "regressed"
    elif low > 0:
        verdict = "improved"
    elif low > -rule.tolerance:
        verdict = "passed"
    p_worse, p_better = (rule.alpha if is_known else 1.0 for is_known in (high < 0, low > 0))
    evidence = replace(decision.evidence, low=low, high=high, p_worse=p_worse, p_better=p_better, row_p_worse=1.0)
    note = (
        f"stopped early, after {len(ids):,} samples: the interval is that of all {len(rows):,} samples of this "
        "benchmark, and holds at every look"
    )
    return MetricVerdict(evidence, verdict, low > -rule.tolerance, p_worse, p_better, notes=(*decision.notes, note))
