"""Mathematical answers in LaTeX."""

from typing import Literal

from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.math_rules import hendrycks_equal, prm800k_equal

_RULES = {"hendrycks": hendrycks_equal, "prm800k": prm800k_equal}


@metric("math_equivalence", binary=True, version=3, libraries=("mpmath", "pylatexenc"))
def math_equivalence(prediction: str, reference: str, *, rule: Literal["hendrycks", "prm800k"] = "hendrycks") -> Score:
    r"""1 when answer and reference are equal in LaTeX by a published rule, else 0.

    ``hendrycks`` (hendrycks/math, as in the lm-eval harness) compares strings after a normalisation: ``\frac12`` is
    ``1/2``, but ``1.0`` is not ``1``. ``prm800k`` (openai/prm800k, used for MATH-500) accepts the same, then also
    compares values, tuples part by part: ``2\sqrt{3}`` is ``\sqrt{12}``, but an unreduced fraction is wrong, and
    ``0.1+0.2`` is not ``0.3``, because decimals are floats there. Put the filter ``boxed`` before it; no answer is
    evaluated as code.
    """
    return Score(float(_RULES[rule](prediction, reference)))
