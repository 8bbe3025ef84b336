"""Which of several models are better than which others, beyond chance."""

from collections.abc import Mapping
from itertools import combinations

from gage_eval.base.errors import InputError
from gage_eval.regression.compare import TaskComparison
from gage_eval.regression.scored_task import ScoredTask
from gage_eval.stats.multiple import holm

_ALPHA = 0.05


def significant_pairs(
    tasks: Mapping[str, ScoredTask], problems: list[str] | None = None, metric: str | None = None
) -> list[tuple[str, str]]:
    """The pairs (better, worse) of models that differ by two-sided paired tests, adjusted by Holm over all pairs.

    Args:
        tasks: one task by model.
        problems: takes the reasons why runs are not comparable; their order then stays open.
        metric: name of the number; the task's first by default.

    Raises:
        InputError: two runs cannot be compared, and nothing takes the reason.
    """
    p_values, ordered = {}, {}
    for model, other in combinations(tasks, 2):
        try:
            comparison = TaskComparison(tasks[model], [tasks[other]], metric)
            comparison.check_comparable()
            evidence = comparison.evidence(_ALPHA)
        except InputError as error:
            if problems is None:
                raise
            problems.append(str(error))
            continue
        pair = f"{model}\0{other}"
        p_values[pair] = evidence.p
        ordered[pair] = (model, other) if (evidence.difference or 0) > 0 else (other, model)
    return [ordered[pair] for pair, p in holm(p_values).items() if p <= _ALPHA]
