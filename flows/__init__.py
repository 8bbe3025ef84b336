"""Prefect flows: `flows.evaluate.evaluate` for one task, `flows.suite.suite` for many.

Nothing is imported here, because `flows.launch` configures the Prefect client before Prefect is imported.
"""
