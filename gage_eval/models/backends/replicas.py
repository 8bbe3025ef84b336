"""Engines of one backend that share its requests: each has its own GPUs and its own log."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from gage_eval.base.errors import InputError
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.checkpoint import CheckpointConfig
from gage_eval.models.backends.child import log_file
from gage_eval.models.backends.engines import EnginePart
from gage_eval.models.backends.gpus import devices

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
    config: CheckpointConfig, context: BackendContext, log_folder: Path | None, type_: str
) -> list[tuple[dict[str, str], Path | None]]:
    """For each replica its additional environment variables, and the file of its log.

    Raises:
        InputError: there are too few GPUs.
    """
    names = [type_ if config.replicas == 1 else f"{type_}-{number}" for number in range(config.replicas)]
    own = share_devices(context.env, config.replicas, config.gpus_each)
    return [(variables, log_file(log_folder, name)) for variables, name in zip(own, names, strict=True)]


def gpus_of(config: CheckpointConfig, context: BackendContext) -> int:
    """How many GPUs the engines of a config hold on this machine."""
    wanted = config.replicas * config.gpus_each
    return min(wanted, len(devices(context.env)))


def share_devices(env: Mapping[str, str], replicas: int, each: int) -> list[dict[str, str]]:
    """The additional environment of each replica: its own GPUs. Empty without GPUs.

    Raises:
        InputError: there are too few.
    """
    gpus = devices(env)
    if not gpus or replicas == 1:
        return [{} for _ in range(replicas)]
    if len(gpus) < replicas * each:
        raise InputError(
            f"{replicas} replicas of {each} GPUs each need {replicas * each} GPUs, and there are {len(gpus)}. "
            "Lower replicas, tensor_parallel_size or data_parallel_size."
        )
    return [{"CUDA_VISIBLE_DEVICES": ",".join(gpus[i * each : (i + 1) * each])} for i in range(replicas)]
