"""auto_eval: samples, responses and judgments → one scores artifact per metric, and the metrics table.

Each metric's scores have a separate action, with a key from the metric and the artifacts it reads. So a new metric
computes only its own scores, a changed aggregation computes none, and a metric that reads no field of the samples keeps
its scores if the samples change.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from gage_eval.base.canonical import JsonValue, digest
from gage_eval.base.tables import METRICS, SCORES
from gage_eval.pipeline.action import StageRun, stage
from gage_eval.pipeline.specs import ScoreSpec
from gage_eval.pipeline.unscored import check_scored
from gage_eval.pipeline.watching import tell_scores
from gage_eval.scoring.metrics import BoundMetric
from gage_eval.scoring.metrics.rows import columns_read
from gage_eval.scoring.metrics.score_rows import FEWEST_ROWS, Inputs, RowReader, Rows, score_rows
from gage_eval.store import Action, Artifact, ArtifactWriter


@dataclass(frozen=True)
class _Computation:
    """A metric whose scores must be computed, and the action that they replace."""

    metric: BoundMetric
    document: dict[str, JsonValue]
    writer: ArtifactWriter
    previous: Action | None = None


@stage("auto_eval", check=check_scored)
def auto_eval(run: StageRun, spec: ScoreSpec) -> None:
    """Score every response with every metric and aggregate.

    Args:
        run: has the inputs of the spec (`gage_eval.base.inputs`). Writes ``metrics``, whose rows name the
            scores artifacts, and where programs are run ``executions`` and what they are made of.
        spec: the metrics.

    Raises:
        InputError: a field is missing and the metric's ``on_missing_field`` is ``error``.
        BoxUnavailable: programs are to be run, and this machine has no executor.
    """
    if spec.execution is not None:
        from gage_eval.pipeline.executions import executions

        ran = executions(run, spec.execution)
        run.inputs = {**run.inputs, **{name: artifact.id for name, artifact in ran.items()}}
        run.outputs.update(ran)
    scored = scores(run, spec)
    statuses = run.input("responses").counts
    rows = []
    for metric, artifact in zip(spec.metrics, scored, strict=True):
        numbers = metric.aggregate(_labelled(run, metric, artifact), statuses)
        rows += [{**row, "scores": artifact.id} for row in numbers]
    run.writer(METRICS).write(0, pa.Table.from_pylist(rows, schema=METRICS.arrow))
    run.commit(METRICS)


def _labelled(run: StageRun, metric: BoundMetric, artifact: Artifact) -> Iterator[pa.Table]:
    """The score rows of a metric, part by part, with their grouping columns."""
    by = metric.grouping
    if not by.field_paths:
        yield from artifact.tables()
        return
    inputs = {name: run.input(name) for name in {"samples", "responses"} | by.inputs}
    columns = columns_read(by.field_paths)
    for part in artifact.parts:
        tables = {name: source.read(part.index, columns=columns.get(name)) for name, source in inputs.items()}
        yield by.label(artifact.read(part.index), tables)


def scores(run: StageRun, spec: ScoreSpec) -> list[Artifact]:
    """The scores artifact of each metric. Missing ones are computed in one pass over the rows.

    A refresh computes all of them.
    """
    store, metrics = run.env.store, spec.metrics
    samples = run.input("samples")
    named = spec.named(samples)
    artifacts: dict[int, Artifact] = {}
    computations: dict[int, _Computation] = {}
    for index, metric in enumerate(metrics):
        document = spec.scores_document(metric, run.inputs, samples, named)
        action = store.actions.find("scores", digest(document), renew=True)
        if action is not None and not run.refreshing:
            artifacts[index] = action.artifacts["scores"]
        else:
            writer = run.new_writer(SCORES, f"scores of {metric.metric_id}")
            computations[index] = _Computation(metric, document, writer, action)
    try:
        _score(run, list(computations.values()), spec)
    except BaseException:
        for computation in computations.values():
            computation.writer.abort()
        raise
    for index, computation in computations.items():
        action = store.actions.commit(
            "scores",
            digest(computation.document),
            {"scores": computation.writer.commit()},
            document=computation.document,
            replaces=computation.previous,
        )
        artifacts[index] = action.artifacts["scores"]
    run.counts["computed_metrics"] = len(computations)
    return [artifacts[index] for index in range(len(metrics))]


def _score(run: StageRun, computations: Sequence[_Computation], spec: ScoreSpec) -> None:
    """Score all parts, in this process or in others, with the same result."""
    if not computations:
        return
    metrics = [computation.metric for computation in computations]
    inputs = Inputs.of(metrics, run.inputs, spec.nameable, spec.media)
    parts = run.input("responses").parts
    total, done = sum(part.rows for part in parts), 0
    tables: Iterator[list[pa.Table]]
    if run.env.processes is None or total <= FEWEST_ROWS:
        reader = RowReader(run.env.store, inputs)
        tables = (score_rows(metrics, reader, Rows(part.index, 0, part.rows)) for part in parts)
    else:
        # Costs 20 ms to import.
        from gage_eval.pipeline.score_parts import scored_in_processes

        tables = scored_in_processes(run, run.env.processes, inputs, metrics)
    for part, scored in zip(parts, tables, strict=True):
        for computation, table in zip(computations, scored, strict=True):
            computation.writer.write(part.index, table)
            tell_scores(run, computation.metric.metric_id, table)
        done += part.rows
        run.advance(done, total)
