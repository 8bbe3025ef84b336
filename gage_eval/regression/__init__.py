"""Regression: paired comparisons of runs, the gate, and baselines."""
