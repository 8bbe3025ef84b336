"""When the stages of a run worked, how fast, and what its answers took: the timings and the usage of summary.json."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from gage_eval.base.stages import ASKING, STAGES, Phase, Stage, StageResult
from gage_eval.base.strict_model import StrictModel


class Timings(BaseModel):
    """Seconds and rates of one run. Further keys ``<stage>_total_s`` hold the seconds of each stage.

    Seconds are those of the clock: while stages of several tasks run side by side, each second counts once.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True, defer_build=True)
    __pydantic_extra__: dict[str, float] = Field(init=False)

    dataset_materialization_s: float = Field(description="While load, standardize or preprocess ran.")
    inference_s: float = Field(description="While support or infer ran.")
    judge_s: float = Field(description="While judge ran.")
    evaluation_s: float = Field(description="While auto_eval ran.")
    execution_runtime_s: float = Field(description="While support, infer or auto_eval ran.")
    total_runtime_s: float = Field(description="While any stage of the data, of inference or of scoring ran.")
    wall_runtime_s: float = Field(description="From the start of the run to its end, without that of the process.")
    throughput_total_samples_per_s: float | None = Field(description="Samples / wall_runtime_s.")
    throughput_inference_samples_per_s: float | None = Field(
        description="Samples answered in this run / seconds of infer; null when all came from the cache."
    )
    throughput_auto_eval_samples_per_s: float | None = Field(
        description="Samples scored in this run / seconds of auto_eval; null when all came from the cache."
    )
    latency_total_ms_per_sample: float | None = Field(description="wall_runtime_s / samples, in ms.")
    latency_inference_ms_per_sample: float | None = Field(
        description="Seconds of infer / samples answered in this run, in ms; null when all were cached."
    )

    @property
    def stage_seconds(self) -> dict[Stage, float]:
        """The seconds of each stage that took any."""
        seconds = {stage: self.__pydantic_extra__.get(f"{stage}_total_s", 0.0) for stage in STAGES}
        return {stage: value for stage, value in seconds.items() if value}


class Usage(StrictModel):
    """What this run's own answers took, judges included. Answers that were there already took nothing."""

    prompt_tokens: int | None = Field(default=None, description="Prompt tokens; null when none were reported.")
    completion_tokens: int | None = Field(default=None, description="Completion tokens, thinking included.")
    completion_tokens_per_s: float | None = Field(
        default=None, description="completion_tokens / seconds in which a model was asked; null when none was."
    )
    cost: float | None = Field(
        default=None, description="In the currency of the backends' prices; null without prices or answers."
    )
    cached_share: float | None = Field(
        default=None, description="Share of the responses that were there already; null without responses."
    )
    gpu_seconds: float | None = Field(
        default=None,
        description="Seconds since the start of each engine that the run started, times its GPUs; null without such.",
    )


@dataclass(frozen=True)
class Consumption:
    """What a run's requests took, as its budget and its engines counted it.

    Attributes:
        prompt_tokens, completion_tokens: as the endpoints count them.
        cost: in the currency of the prices.
        gpu_seconds: of engines that the run started; None without such.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    gpu_seconds: float | None = None

    def __add__(self, other: "Consumption") -> "Consumption":
        gpu_seconds = [seconds for seconds in (self.gpu_seconds, other.gpu_seconds) if seconds is not None]
        return Consumption(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost + other.cost,
            sum(gpu_seconds) if gpu_seconds else None,
        )


def run_timings(stages: Sequence[StageResult], *, samples: Mapping[str, int], wall_s: float) -> Timings:
    """The timings of a run from when its stages ran.

    Args:
        stages: the result of every stage of every task.
        samples: samples by task id.
        wall_s: seconds since the run began.

    Returns:
        A rate is None when its denominator is 0, or when nothing of its stage was computed in this run.
    """

    def busy(*phases: Phase) -> float:
        return busy_seconds(item for item in stages if STAGES[item.stage].phase in phases)

    def busy_with(stage: Stage) -> float:
        return busy_seconds(item for item in stages if item.stage == stage)

    count = sum(samples.values())
    answered, answering_s = _computed(stages, "infer", samples)
    scored, scoring_s = _computed(stages, "auto_eval", samples)
    return Timings(
        dataset_materialization_s=busy("data"),
        inference_s=busy("inference"),
        judge_s=busy("judging"),
        evaluation_s=busy("scoring"),
        execution_runtime_s=busy("inference", "scoring"),
        total_runtime_s=busy("data", "inference", "scoring"),
        wall_runtime_s=wall_s,
        throughput_total_samples_per_s=_rate(count, wall_s),
        throughput_inference_samples_per_s=_rate(answered, answering_s),
        throughput_auto_eval_samples_per_s=_rate(scored, scoring_s),
        latency_total_ms_per_sample=_rate(1000 * wall_s, count),
        latency_inference_ms_per_sample=_rate(1000 * answering_s, answered),
        **{f"{stage}_total_s": busy_with(stage) for stage in dict.fromkeys(item.stage for item in stages)},
    )


def run_usage(stages: Sequence[StageResult], spent: Consumption) -> Usage:
    """What the answers of a run took.

    Args:
        stages: the result of every stage of every task.
        spent: as the run's budget and engines counted it.
    """
    asking = [item for item in stages if item.stage in ASKING]
    answers = [(item, item.counts.get(STAGES[item.stage].counted, 0)) for item in asking]
    there = sum(count if item.cached else min(count, item.counts.get("reused", 0)) for item, count in answers)
    everything = sum(count for _, count in answers)
    seconds = busy_seconds(item for item in asking if not item.cached and item.counts.get("sent"))
    return Usage(
        prompt_tokens=spent.prompt_tokens or None,
        completion_tokens=spent.completion_tokens or None,
        completion_tokens_per_s=_rate(spent.completion_tokens, seconds),
        cost=spent.cost or None,
        cached_share=there / everything if everything else None,
        gpu_seconds=spent.gpu_seconds,
    )


def busy_seconds(stages: Iterable[StageResult]) -> float:
    """Seconds in which at least one of the stages ran."""
    total, busy_until = 0.0, -math.inf
    for began, ended in sorted((item.started, item.started + item.seconds) for item in stages):
        total += max(0.0, ended - max(began, busy_until))
        busy_until = max(busy_until, ended)
    return total


def _computed(stages: Sequence[StageResult], stage: str, samples: Mapping[str, int]) -> tuple[int, float]:
    """Samples and seconds of a stage's computations: without cache hits, and without reused responses."""
    mine = [item for item in stages if item.stage == stage and not item.cached]
    count = 0
    for item in mine:
        of_task = samples.get(item.task_id, 0)
        count += min(of_task, item.counts.get("sent", of_task))
    return count, busy_seconds(mine)


def _rate(amount: float, per: float) -> float | None:
    return amount / per if per > 0 and amount > 0 else None
