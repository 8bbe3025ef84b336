"""Measures speed and memory against the targets: ``python -m bench``."""
