"""Filters: what is taken from a model's answer before a metric sees it. Each is a plug-in."""
