"""Prefect flows: `flows.evaluate.evaluate` for one task, `flows.suite.suite` for many.

Nothing is imported here: `flows.launch` sets the Prefect client up before Prefect is loaded.
"""
