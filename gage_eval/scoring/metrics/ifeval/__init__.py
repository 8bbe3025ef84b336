"""IFEval's instructions and how a response is checked against them (Zhou et al. 2023, arXiv:2311.07911)."""

from gage_eval.scoring.metrics.ifeval.follow import Compliance, follow

__all__ = ["Compliance", "follow"]
