"""The DAG of a task: which stage reads the outputs of which. Runners differ only in how they call a stage."""

from typing import Protocol, TypeVar

from gage_eval.base.stages import Stage
from gage_eval.pipeline.specs import TaskPlan

T = TypeVar("T")


class Call(Protocol[T]):
    """Runs (or submits) a stage of a task. Inputs are passed by name; None means that the input is not used."""

    def __call__(self, stage: Stage, task: TaskPlan, /, **inputs: T | None) -> T: ...


def prepare(task: TaskPlan, call: Call[T]) -> tuple[T, T]:
    """Chain the stages that need no model. Returns the results of standardize and preprocess."""
    samples = call("standardize", task, raw=call("load", task))
    pool = None
    if task.pool is not None:
        pool = call("standardize", task.pool, raw=call("load", task.pool))
    return samples, call("preprocess", task, samples=samples, few_shot=pool)


def run_dag(task: TaskPlan, call: Call[T]) -> T:
    """Chain the stages of one task and return the result of the last one.

    Args:
        task: the task's specs.
        call: runs one stage; its results (or futures of them) are passed on as inputs of others. An input is
            named after the output it takes from that result; ``few_shot`` takes ``samples``.
    """
    samples, prepared = prepare(task, call)
    support = call("support", task, prepared=prepared, samples=samples) if task.support else None
    # Only prompts read samples and support answers. So a changed label alone never asks a model again.
    looks = task.infer.reads_samples
    responses = call(
        "infer",
        task,
        prepared=prepared,
        samples=samples if looks else None,
        support_responses=support if looks else None,
    )
    judgments = call(
        "judge",
        task,
        prepared=prepared,
        samples=samples,
        responses=responses,
        support_responses=support if task.judge.reads_support else None,
    )
    results: dict[Stage, T] = {"standardize": samples, "infer": responses, "judge": judgments}
    metrics = call("auto_eval", task, **{source.name: results[source.stage] for source in task.auto_eval.inputs})
    return call(
        "report",
        task,
        metrics=metrics,
        samples=samples,
        rejects=samples,
        prepare_rejects=prepared,
        responses=responses,
        judgments=judgments if task.judge.generate is not None else None,
        executions=metrics if task.auto_eval.execution is not None else None,
    )
