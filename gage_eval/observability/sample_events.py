"""The events of single samples: answers, scores, retries and rejects.

They hold no prompt, answer or reference. Those are in the run's tables, where a sample is found by its id.
"""

import logging
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from gage_eval.observability.events import StageEvent


@dataclass(frozen=True)
class Sampling:
    """The choice of samples that have events. Errors always have them.

    A sample is chosen by its id: the same samples in every stage, task and run.

    Attributes:
        rate: share of the samples.
        by_stage: shares of single stages, in place of the general one.
        counts_all: also tell of the other samples, with events that are not written; for statistics over all of them.
    """

    rate: float = 0.0
    by_stage: Mapping[str, float] = field(default_factory=dict)
    counts_all: bool = False

    def limit(self, stage: str) -> int:
        """Samples whose `place_of` is below this number have events in a stage."""
        return round(self.by_stage.get(stage, self.rate) * 2**32)


def place_of(sample_id: str) -> int:
    """The position of a sample for `Sampling.limit`, from 0 to 2³² - 1."""
    return zlib.crc32(sample_id.encode(errors="replace"))


@dataclass(frozen=True)
class SampleEvent(StageEvent, lossy=True):
    """Base of the events of one sample."""

    sample_id: str | None

    @property
    def sample(self) -> str | None:
        return self.sample_id


@dataclass(frozen=True)
class SampleAnswered(SampleEvent, name="sample_answered"):
    """A sample has its answer from the model; in the stage judge, an answer has its judgment.

    Attributes:
        replicate: which repetition, from 0.
        backend: the type of the backend that was asked.
        model: the model's name as configured.
        kind: chat, completion, likelihood, turns or tools.
        status: ok, truncated, looped, limit, refused, error or skipped.
        source: sent, log (kept by an earlier attempt of this run), reused (from another run) or repeated (an equal
            request of this run).
        attempts: requests sent for it.
        latency_ms: time of the attempt that gave the answer; null where nothing was sent.
        ttft_ms: time to the first token, where the backend streams.
        prompt_tokens: tokens of the prompt.
        completion_tokens: tokens of the answer.
        finish_reason: why the answer ended, as the endpoint says.
        error_kind: why there is no answer, one word.
        error: what the last failed attempt said, where there is no answer.
    """

    replicate: int
    backend: str
    model: str
    kind: str
    status: str
    source: str
    attempts: int
    latency_ms: float | None
    ttft_ms: float | None
    prompt_tokens: int | None
    completion_tokens: int | None
    finish_reason: str | None
    error_kind: str | None
    error: str | None
    sampled: bool = True

    @property
    def severity(self) -> int:
        return logging.ERROR if self.status == "error" else logging.INFO

    @property
    def is_written(self) -> bool:
        return self.sampled


@dataclass(frozen=True)
class SampleScored(SampleEvent, name="sample_scored"):
    """A metric scored an answer, or could not.

    Attributes:
        replicate: which repetition, from 0.
        metric: the metric's name in the config.
        filter: the filter that the answer went through; null for none.
        status: scored, unparsed or unscored.
        reason: why it is not scored, one word.
        values: the metric's numbers by value key.
    """

    replicate: int
    metric: str
    filter: str | None
    status: str
    reason: str | None
    values: Mapping[str, float | None]

    @property
    def severity(self) -> int:
        return logging.ERROR if self.status == "unscored" else logging.INFO


@dataclass(frozen=True)
class RequestRetried(SampleEvent, name="retry", severity=logging.WARNING):
    """An attempt failed, and the request is sent again.

    Attributes:
        replicate: which repetition, from 0.
        attempt: the number of the failed attempt, from 1.
        kind: the kind of failure, one word.
        message: what the endpoint said, one line.
        wait_s: seconds until the next attempt.
    """

    replicate: int
    attempt: int
    kind: str
    message: str
    wait_s: float


@dataclass(frozen=True)
class RowRejected(SampleEvent, name="reject", severity=logging.WARNING):
    """A row of the data was rejected, and is not scored. The sample id is null where it never became a sample.

    Attributes:
        row_index: its row among those that were loaded.
        file: the file that it is from, where there are several.
        line: its line in the source.
        reason: one sentence.
    """

    row_index: int
    file: str | None
    line: int | None
    reason: str


@dataclass(frozen=True)
class DataAdapterFailed(RowRejected, name="data_adapter_failed"):
    """A ``doc_to_*`` callable of the config failed on a row, which is rejected.

    Attributes:
        adapter: the callable.
    """

    adapter: str
