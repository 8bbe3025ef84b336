"""Logs of other tools, made into runs."""
