"""One Prefect task per stage. Prefect's engine runs them; the store is the only cache.

A stage whose result the store has ends as Cached. Between tasks travel references to artifacts, never rows. The tasks
have no tags: Prefect asks the server for a slot before it starts a tagged task, and a server that is gone gives none.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas import State
from prefect.states import Cancelled, Completed, Failed

from gage_eval.base.errors import RunCancelled
from gage_eval.base.stages import Stage, StageResult
from gage_eval.report.console import readable
from gage_eval.runs.results.formatting import stage_text

# Runs the stage that a task stands for, with its inputs by name.
Compute: TypeAlias = Callable[..., StageResult]

_stage = partial(task, cache_policy=NO_CACHE, persist_result=False, retries=0)


@_stage
def load(compute: Compute) -> State[StageResult]:
    """Read the records of the source as text, in parts that all later stages keep."""
    return _ended(compute)


@_stage
def standardize(compute: Compute, raw: StageResult) -> State[StageResult]:
    """Turn records into samples. Records that are none are rejected, each with its reason."""
    return _ended(compute, raw=raw)


@_stage
def preprocess(compute: Compute, samples: StageResult, few_shot: StageResult | None = None) -> State[StageResult]:
    """Choose worked examples, store media, and merge the parameters of requests."""
    return _ended(compute, samples=samples, few_shot=few_shot)


@_stage
def support(compute: Compute, prepared: StageResult, samples: StageResult) -> State[StageResult]:
    """Ask the support model, whose answers the prompts of the evaluated model read."""
    return _ended(compute, prepared=prepared, samples=samples)


@_stage
def infer(
    compute: Compute,
    prepared: StageResult,
    samples: StageResult | None = None,
    support_responses: StageResult | None = None,
) -> State[StageResult]:
    """Ask the model that is evaluated."""
    return _ended(compute, prepared=prepared, samples=samples, support_responses=support_responses)


@_stage
def judge(
    compute: Compute,
    prepared: StageResult,
    samples: StageResult,
    responses: StageResult,
    support_responses: StageResult | None = None,
) -> State[StageResult]:
    """Have judges read the answers, and parse their verdicts."""
    return _ended(compute, prepared=prepared, samples=samples, responses=responses, support_responses=support_responses)


@_stage
def auto_eval(
    compute: Compute,
    samples: StageResult | None = None,
    responses: StageResult | None = None,
    response_telemetry: StageResult | None = None,
    judgments: StageResult | None = None,
) -> State[StageResult]:
    """Score the answers, one artifact per metric, and aggregate the scores."""
    return _ended(
        compute,
        samples=samples,
        responses=responses,
        response_telemetry=response_telemetry,
        judgments=judgments,
    )


@_stage
def report(
    compute: Compute,
    metrics: StageResult,
    samples: StageResult,
    rejects: StageResult,
    prepare_rejects: StageResult,
    responses: StageResult,
    judgments: StageResult | None = None,
    executions: StageResult | None = None,
) -> State[StageResult]:
    """Summarize what was scored, with intervals and the shares of rows that were not."""
    return _ended(
        compute,
        metrics=metrics,
        samples=samples,
        rejects=rejects,
        prepare_rejects=prepare_rejects,
        responses=responses,
        judgments=judgments,
        executions=executions,
    )


STAGE_TASKS: Mapping[Stage, Task[..., Any]] = {
    "load": load,
    "standardize": standardize,
    "preprocess": preprocess,
    "support": support,
    "infer": infer,
    "judge": judge,
    "auto_eval": auto_eval,
    "report": report,
}


def _ended(compute: Compute, **inputs: StageResult | None) -> State[StageResult]:
    """The final state of a stage. Its data is the result, or the error that stopped it, which stays in this process."""
    try:
        result = compute(**{name: value for name, value in inputs.items() if value is not None})
    except RunCancelled as error:
        return Cancelled(message=readable(str(error)), data=error)
    except Exception as error:  # noqa: BLE001 - a raised error would be logged with its traceback
        return Failed(message=readable(str(error)), data=error)
    return Completed(name="Cached" if result.cached else "Completed", message=stage_text(result) or None, data=result)
