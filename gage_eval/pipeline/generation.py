"""Ask a model as part of a stage; used by support, infer and judge."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.errors import BudgetSpent, EndpointFailed, InputError, RunFailed
from gage_eval.base.stages import StageResult
from gage_eval.base.statuses import ANSWERED, RESPONSE_STATUSES
from gage_eval.base.tables import RESPONSE_TELEMETRY, RESPONSES
from gage_eval.box.types import Executor
from gage_eval.engine.answers import StepAnswers
from gage_eval.engine.generate import Generate
from gage_eval.engine.job import EPISODES_IN_CHUNK, Job, Progress, Tally, UserModel
from gage_eval.engine.rows import index_answers
from gage_eval.extend.loading import PluginError, without_folders
from gage_eval.observability.events import RunWarning
from gage_eval.pipeline.action import StageContext, StageRun
from gage_eval.pipeline.asks import Asks
from gage_eval.pipeline.generate_spec import GenerateSpec
from gage_eval.pipeline.outputs import with_telemetry
from gage_eval.pipeline.source import RoleSource
from gage_eval.pipeline.watching import SampleWatch
from gage_eval.store import Artifact, Wip

# How many kinds of error a message names.
_CAUSES_SHOWN = 3


def generate(run: StageRun, asks: Asks) -> Artifact:
    """Answer all asks of one model and commit responses and telemetry (`generate_all`)."""
    return generate_all(run, [asks])[0]


def generate_all(run: StageRun, jobs: Sequence[Asks], *, before: int = 0, whole: int | None = None) -> list[Artifact]:
    """Answer all asks of several models at once, and commit responses and telemetry of each.

    If a model fails, the others still answer what they are asked. The models share the run's `max_inflight`.

    Args:
        run: the computation of the stage; gets the outputs that the asks name.
        jobs: the asks of each model.
        before: asks of the stage that were answered before, for the progress.
        whole: asks of the whole stage; those of the jobs by default.

    Raises:
        EndpointFailed: an endpoint cannot answer any more; the message says how much is kept.
        BudgetSpent: a limit of the run is reached; the message says which, and how much is kept.
    """
    env, progress = run.env, _SharedProgress(run, before, whole)
    width = max(1, env.max_inflight // len(jobs)) if env.max_inflight else None
    with ExitStack() as steps:
        started = []
        for asks in jobs:
            check_only_errors(run, asks.spec)
            wip = env.store.wip(asks.work_key(run.work_key))
            wip.begun_by(env.run_id)
            answers = steps.enter_context(env.runtime.answers.step())
            started.append((asks, wip, _engine(run, asks, wip, answers, progress.of_job(), width)))
        ended = env.runtime.call(_together([engine for _, _, engine in started]))
        # Also if another one failed: a run with another model in its place finds them.
        committed = [
            _committed(run, asks, engine)
            for (asks, _, engine), failure in zip(started, ended, strict=True)
            if not isinstance(failure, BaseException)
        ]
    for (_, _, engine), failure in zip(started, ended, strict=True):
        if isinstance(failure, EndpointFailed):
            raise EndpointFailed(stopped(run, engine.tally, failure)) from failure
        if isinstance(failure, BudgetSpent):
            raise BudgetSpent(out_of_budget(run, engine.tally, failure)) from failure
        if isinstance(failure, BaseException):
            raise failure
    responses = []
    for (asks, wip, engine), received in zip(started, committed, strict=True):
        run.after_commit(wip.discard)
        responses.append(received if asks.received == asks.output else parsed(run, asks, received))
        tally = engine.tally
        run.counts.update(sent=tally.sent, reused=tally.reused + tally.replayed, retried=tally.retried)
    return responses


async def _together(engines: Sequence[Generate]) -> list[Tally | BaseException]:
    return await asyncio.gather(*(engine.run() for engine in engines), return_exceptions=True)


class _SharedProgress:
    """The progress of jobs that run at once, as that of one."""

    def __init__(self, run: StageRun, before: int, whole: int | None) -> None:
        self._run = run
        self._before = before
        self._whole = whole
        self._jobs: list[tuple[int, int, Mapping[str, int | float]]] = []

    def of_job(self) -> Progress:
        """What one more job reports to."""
        at = len(self._jobs)
        self._jobs.append((0, 0, {}))

        def progress(done: int, total: int, **figures: int | float) -> None:
            self._jobs[at] = done, total, figures
            sums: Counter[str] = Counter()
            for _, _, own in self._jobs:
                sums.update(own)
            answered, asks = (sum(counts) for counts in zip(*(job[:2] for job in self._jobs), strict=True))
            self._run.progress(self._before + answered, self._whole or asks, **sums)

        return progress


def _committed(run: StageRun, asks: Asks, engine: Generate) -> Artifact:
    """The answers as the model gave them, and their telemetry, unless the adapter adds to it."""
    statuses = {name: engine.statuses[name] for name in RESPONSE_STATUSES}
    is_last = asks.received == asks.output
    responses = run.commit(
        RESPONSES, name=asks.received, complete=statuses["error"] == 0, counts=statuses if is_last else {}
    )
    if is_last:
        run.commit(RESPONSE_TELEMETRY, name=asks.telemetry)
    index_answers(run.env.store, asks.spec.model_identity, responses)
    return responses


def tokens_of(responses: Artifact) -> Counter[str]:
    """The summed ``prompt_tokens`` and ``completion_tokens`` of responses; 0 where none were reported."""
    tokens: Counter[str] = Counter({"prompt_tokens": 0, "completion_tokens": 0})
    for table in responses.tables(columns=[*tokens]):
        for name in tokens:
            tokens[name] += pc.sum(table[name]).as_py() or 0
    return tokens


def check_only_errors(run: StageRun, spec: GenerateSpec) -> None:
    """Refuse to compute a whole stage if only its failed rows may be asked again.

    Raises:
        InputError: the stage never finished.
    """
    env = run.env
    # A later model step gets another key after its input rows changed. It finds its kept answers by response key.
    first_step = not (run.has_input("responses") or run.has_input("support_responses"))
    if env.only_errors and first_step and run.previous is None:
        raise InputError(
            f"{run.stage} of task '{spec.task_id}' never finished, so there are no failed rows to ask again. "
            f"Resume the whole run: {env.resume_command}"
        )


def _engine(
    run: StageRun, asks: Asks, wip: Wip, answers: StepAnswers, progress: Progress, width: int | None
) -> Generate:
    """What asks the model in this process."""
    env, spec = run.env, asks.spec
    backend = env.runtime.backend(spec.backend_type, spec.backend_config, spec.context)
    return Generate(
        Job(
            source=RoleSource.of(asks, env.store, run.inputs),
            backend=backend,
            model_identity=spec.model_identity,
            store=env.store,
            wip=wip,
            log_folder=env.store.scratch(wip.key),
            responses=run.writer(RESPONSES, asks.received),
            telemetry=run.writer(RESPONSE_TELEMETRY, asks.telemetry),
            max_inflight=width,
            most_in_chunk=EPISODES_IN_CHUNK if spec.tool_rounds or spec.agent is not None else None,
            prefetch_factor=env.prefetch_factor,
            pool=env.runtime.pool(spec.adapter_id, spec.pool_size) if spec.pool_size else None,
            budget=env.runtime.budget,
            price=spec.price,
            reuse=not run.refreshing,
            answers=answers,
            earlier=earlier(run, asks),
            ask_again=run.ask_again,
            progress=progress,
            watch=SampleWatch(run, without_folders(spec.backend_type), spec.model_name),
            executor=_executor(run, spec),
            user=_user_model(run, spec.user),
        )
    )


def _user_model(run: StageRun, spec: GenerateSpec | None) -> UserModel | None:
    """The model of the simulated users, which has its own requests in flight."""
    if spec is None:
        return None
    runtime = run.env.runtime
    pool = runtime.pool(spec.adapter_id, spec.pool_size) if spec.pool_size else None
    backend = runtime.backend(spec.backend_type, spec.backend_config, spec.context)
    return UserModel(backend, spec.model_identity, pool, spec.price)


def _executor(run: StageRun, spec: GenerateSpec) -> Callable[[], Executor] | None:
    """Makes the boxes of the adapter's tools; one executor serves all steps of the run."""
    boxes, runtime = spec.boxes, run.env.runtime
    return None if boxes is None else lambda: runtime.shared(boxes.key, boxes.backend).executor


def parsed(run: StageRun, asks: Asks, responses: Artifact) -> Artifact:
    """Commit the telemetry, and the responses as the adapter's own class reads them; an error where it fails.

    Raises:
        PluginError: it failed on every one.
    """
    hooks = asks.spec.hooks
    assert hooks is not None
    writer = run.writer(RESPONSES, asks.output)
    counts: Counter[str] = Counter()
    failures: dict[int, dict[int, str]] = {}
    for part in responses.parts:
        table, failures[part.index] = hooks.parse(responses.read(part.index))
        counts.update(table["status"].to_pylist())
        writer.write(part.index, table)
    sentences = [sentence for of_part in failures.values() for sentence in of_part.values()]
    if sentences:
        if not any(counts[status] for status in ANSWERED):
            raise PluginError(sentences[0])
        rows = "This row is" if len(sentences) == 1 else f"{len(sentences):,} rows like this are"
        run.env.observer.emit(RunWarning(f"{run.stage}: {sentences[0]} {rows} in error.", run.task_id))
    if sentences or earlier(run, asks) is not None:
        _tell_why(run, asks, failures)
    run.commit(RESPONSE_TELEMETRY, name=asks.telemetry)
    return run.commit(
        RESPONSES,
        name=asks.output,
        complete=counts["error"] == 0,
        counts={name: counts[name] for name in RESPONSE_STATUSES},
    )


def _tell_why(run: StageRun, asks: Asks, failures: Mapping[int, Mapping[int, str]]) -> None:
    """Write why the adapter's ``parse`` failed into the telemetry of its rows.

    Args:
        run: its telemetry is written and not committed.
        asks: whose adapter it is.
        failures: the sentences by part and position.
    """
    hooks = asks.spec.hooks
    assert hooks is not None

    def with_reasons(index: int, table: pa.Table) -> pa.Table:
        failed = failures.get(index, {})
        errors = [
            # Without the sentence of an earlier run of this action, which kept the model's answer.
            [line for line in lines or () if not hooks.said_of_parse(line)]
            + ([failed[position]] if position in failed else [])
            for position, lines in enumerate(table["errors"].to_pylist())
        ]
        at = table.schema.get_field_index("errors")
        return table.set_column(at, table.schema.field(at), [errors])

    run.writer(RESPONSE_TELEMETRY, asks.telemetry).revise(with_reasons)


def earlier(run: StageRun, asks: Asks) -> tuple[Artifact, Artifact] | None:
    """Responses and telemetry of the action's earlier result; None without one."""
    kept = {} if run.previous is None or run.refreshing else run.previous.artifacts
    return (kept[asks.received], kept[asks.telemetry]) if asks.received in kept else None


def out_of_budget(run: StageRun, tally: Tally, error: BudgetSpent) -> str:
    """A sentence with the limit that is reached, how much is kept, and how to resume."""
    return f"{run.stage} stopped: {error}. {kept(tally)} To resume with the same limits again: {run.env.resume_command}"


def stopped(run: StageRun, tally: Tally, error: EndpointFailed) -> str:
    """A sentence with the endpoint's error, how much is kept, and how to resume."""
    otherwise = "; or run the command again with the right --endpoint and --model" if run.env.model_by_options else ""
    return f"{run.stage} stopped: {error} {kept(tally)} After you have fixed it: {run.env.again(run.stage)}{otherwise}"


def kept(tally: Tally) -> str:
    """A sentence about how much of a stopped step is kept."""
    return f"{tally.done - tally.errors:,} of {tally.total:,} responses are kept."


def check_errors(env: StageContext, spec: GenerateSpec, result: StageResult) -> None:
    """Stop the run if too many rows ended in an error.

    Raises:
        RunFailed: more than ``max_error_share``; all answers are kept.
    """
    errors = result.counts.get("error", 0)
    total = sum(result.counts.get(name, 0) for name in RESPONSE_STATUSES)
    if total and spec.role == "dut_model" and result.counts.get("skipped", 0) == total:
        empty = f"all {total:,} requests of task '{spec.task_id}' are"
        if total == 1:
            empty = f"the only request of task '{spec.task_id}' is"
        raise InputError(
            f"{result.stage}: {empty} empty. Name a prompt with prompt_id, or use a preprocessor that writes messages."
        )
    if total and errors > spec.max_error_share * total:
        raise RunFailed(
            f"{result.stage}: {errors:,} of {total:,} rows of task '{spec.task_id}' ended in an error "
            f"({errors / total:.1%}, more than max_error_share {spec.max_error_share:.1%}): {_causes(env, result)}. "
            f"The other answers are kept; {env.again(result.stage)} asks again for these rows only."
        )


def _causes(env: StageContext, result: StageResult) -> str:
    """The most frequent kinds of error of a stage, each with the last message of one row."""
    counted: Counter[str] = Counter()
    messages_by_kind: dict[str, str] = {}
    for ids in with_telemetry(result.outputs):
        responses, telemetry = map(env.store.artifact, ids)
        for part in responses.parts:
            kinds = responses.read(part.index, columns=["status", "error_kind"]).to_pylist()
            errors = telemetry.read(part.index, columns=["errors"])["errors"].to_pylist()
            for row, messages in zip(kinds, errors, strict=True):
                if row["status"] == "error":
                    kind = row["error_kind"] or "unknown"
                    counted[kind] += 1
                    if messages:
                        messages_by_kind.setdefault(kind, messages[-1])
    shown = [
        f"{count:,} {kind} ({messages_by_kind[kind]})" if kind in messages_by_kind else f"{count:,} {kind}"
        for kind, count in counted.most_common(_CAUSES_SHOWN)
    ]
    return ", ".join([*shown, *(["…"] if len(counted) > _CAUSES_SHOWN else [])])
