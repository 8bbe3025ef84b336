"""Aggregations: how samples' values become one number. Each module registers its own."""
