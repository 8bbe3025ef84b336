"""Engines of one backend that share its requests: each has its own GPUs and its own log."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.checkpoint import CheckpointConfig
from gage_eval.models.backends.child import log_file
from gage_eval.models.backends.engines import EnginePart
from gage_eval.models.backends.gpus import NeededGPUs, devices

PartT = TypeVar("PartT", bound=EnginePart)


async def start_together(starting: Iterable[Coroutine[Any, Any, PartT]]) -> list[PartT]:
    """Start replicas at once. If one fails, the others are ended and its error is raised."""
    tasks: list[asyncio.Task[PartT]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks += [group.create_task(start) for start in starting]
    except BaseException as error:
        ready = [task.result() for task in tasks if not task.cancelled() and task.exception() is None]
        await asyncio.gather(*(part.close() for part in ready))
        if isinstance(error, BaseExceptionGroup):
            raise error.exceptions[0] from None
        raise
    return [task.result() for task in tasks]


def each_replica(
    replicas: int, gpus: Sequence[str], log_folder: Path | None, type_: str
) -> list[tuple[dict[str, str], Path | None]]:
    """For each replica its additional environment variables (its part of the GPUs), and the file of its log."""
    names = [type_ if replicas == 1 else f"{type_}-{number}" for number in range(replicas)]
    each = len(gpus) // replicas
    own = [{"CUDA_VISIBLE_DEVICES": ",".join(gpus[i * each : (i + 1) * each])} if each else {} for i in range(replicas)]
    return [(variables, log_file(log_folder, name)) for variables, name in zip(own, names, strict=True)]


def needed_gpus(config: CheckpointConfig, context: BackendContext) -> NeededGPUs:
    """The GPUs of this machine that the engines of a config need; none where there are none."""
    gpus, wanted = devices(context.env), config.replicas * config.gpus_each
    # One engine may reach over machines.
    return NeededGPUs(gpus, min(wanted, len(gpus)) if config.replicas == 1 or not gpus else wanted)
