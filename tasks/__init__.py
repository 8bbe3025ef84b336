"""Prefect tasks, one for each stage."""

from tasks.stages import STAGE_TASKS

__all__ = ["STAGE_TASKS"]
