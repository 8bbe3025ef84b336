"""Thin Prefect tasks, one for each stage: they call the stage function and say whether it was cached."""

from tasks.stages import STAGE_TASKS, active

__all__ = ["STAGE_TASKS", "active"]
