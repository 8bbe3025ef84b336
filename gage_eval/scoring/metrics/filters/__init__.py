"""Filters: take the answer out of a model's text before a metric reads it. Each is a plug-in."""
