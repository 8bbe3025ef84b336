"""Forecast of a run: what is cached and what would be computed. Nothing is computed.

Uses the same keys (`action_document`) and DAG (`run_dag`) as the stages. A request counts as answered
if `Generate` would take its answer from a chunk, a log or another run.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import JsonValue, digest, encode, normalise
from gage_eval.base.stages import Stage
from gage_eval.data.datasets.origins import OriginPath
from gage_eval.engine.episodes import episode_name, response_key, with_body
from gage_eval.engine.wal import index_logs
from gage_eval.models.backends.asked import is_empty
from gage_eval.models.client.episode_limits import Price
from gage_eval.models.client.types import Request
from gage_eval.pipeline.asks import Asks
from gage_eval.pipeline.dag import run_dag
from gage_eval.pipeline.differences import differing, in_config_words
from gage_eval.pipeline.generate_spec import GenerateSpec
from gage_eval.pipeline.judge_forms import settled_before
from gage_eval.pipeline.keys import action_document, finished_action, input_id
from gage_eval.pipeline.outputs import responses_of, telemetry_of
from gage_eval.pipeline.source import RoleSource
from gage_eval.pipeline.specs import Plan, TaskPlan
from gage_eval.store import Action, Artifact, Store

State: TypeAlias = Literal["cached", "missing", "partial", "after"]
N = TypeVar("N", int, float)

_SLICE = 1024


@dataclass(frozen=True)
class UserForecast:
    """What a run would ask the model of a task's simulated users.

    Attributes:
        adapter_id: the role adapter of the users.
        model: the short name of its model.
        episodes: the conversations that are not stored.
        turns: those of the users at most.
        at_most: the most requests for these turns, of which one that calls tools needs several.
        tokens: estimated tokens of these requests, from earlier conversations with the same model; None without any.
        cost: of these tokens, by the prices of the backend; None without tokens or prices.
    """

    adapter_id: str
    model: str
    episodes: int
    turns: int
    at_most: int
    tokens: int | None
    cost: float | None


@dataclass(frozen=True)
class Forecast:
    """What a run would do for one stage of a task.

    Attributes:
        task_id, stage: which.
        state: ``cached``: the result is stored; ``missing``: it would be computed; ``partial``: some of it is stored;
            ``after``: it depends on the result of an earlier stage.
        key: the action's key; None while it is unknown.
        why: the reason of the state, in a few words.
        outputs: artifact ids of a cached result.
        responses: number of requests of a generate stage that is not cached; None if they cannot be rendered yet.
        to_send: number of requests without an answer.
        at_most: the same, where more may follow from answers that are not there yet: those of the model, or of the
            first judges. None if it is not known.
        tokens: estimated tokens, from earlier answers of the same model; None without earlier answers.
        seconds: estimated time, from earlier answers of the same model; None without earlier answers.
        cost: estimated, by the prices of the backends; None without earlier answers or prices.
        user: what the simulated users of an infer stage are asked; None if no model plays them.
        metrics: metrics whose scores would be computed.
    """

    task_id: str
    stage: Stage
    state: State
    key: str | None = None
    why: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)
    responses: int | None = None
    to_send: int | None = None
    at_most: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    cost: float | None = None
    user: UserForecast | None = None
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Use:
    """A run that used an action, for a task."""

    run_id: str
    task_id: str


@dataclass(frozen=True, slots=True)
class RenderedRequest:
    """A request with the body that is sent and the key its answer is stored under."""

    request: Request
    body: dict[str, JsonValue]
    key: str


def forecast(
    store: Store,
    plan: Plan,
    *,
    uses: Callable[[], Mapping[str, Sequence[Use]]] = dict,
    concurrency: int | None = None,
    missing: Collection[OriginPath] = (),
) -> list[Forecast]:
    """Forecast a run of the plan, stage by stage. A judge stage without a judge is left out.

    Args:
        store: where stored results are.
        plan: all tasks.
        uses: returns the runs that used an action, newest first, by key. Called only if something is missing.
        concurrency: requests in flight; the backends' own limit by default.
        missing: data files that a run would fetch first. Tasks that read them are forecast as far as that goes.

    Raises:
        InputError: a source of data or a local model does not exist.
    """
    planner = _Planner(store, uses, concurrency, frozenset(missing))
    for task in plan.tasks:
        run_dag(planner.last_look(task), planner.call)
    return planner.forecasts


def rendered(spec: GenerateSpec, requests: Iterable[Request]) -> list[RenderedRequest]:
    """The requests with the bodies that are sent to a model."""
    out = []
    for request in requests:
        to_send, body = with_body(spec.model.body, request)
        key = response_key(spec.model_identity, encode(body), request.draw, episode_name(to_send))
        out.append(RenderedRequest(to_send, body, key))
    return out


def inputs_of(stage: Stage, task: TaskPlan, outputs: Mapping[str, Mapping[str, str]]) -> dict[str, str] | None:
    """Artifact ids of what a generate stage reads, as `run_dag` gives them.

    Args:
        stage: support, infer or judge.
        task: its task.
        outputs: artifact ids by stage and output, including those of standardize and preprocess.

    Returns:
        Ids by input name; None while the answers that its requests show are missing.
    """
    sources: dict[str, Stage] = {}

    def call(name: Stage, of: TaskPlan, /, **inputs: Stage | None) -> Stage:
        if name == stage:
            sources.update({input_name: source for input_name, source in inputs.items() if source is not None})
        return name

    run_dag(task, call)
    try:
        return {name: input_id(name, outputs[source]) for name, source in sources.items()}
    except KeyError:
        return None


def asks_a_model(stage: Stage, task: TaskPlan) -> bool:
    """Whether a stage sends requests."""
    return task.generate_spec(stage) is not None


def asks_of(store: Store, stage: Stage, task: TaskPlan, inputs: Mapping[str, str]) -> list[Asks]:
    """A stage's asks of each model. Only a judge stage may have several models, if samples name judges."""
    if stage == "judge":
        return task.judge.asks(task.judge.explicit_asks(store, inputs))
    spec = task.generate_spec(stage)
    return [] if spec is None else [Asks.implicit(spec.binding)]


def settled_task(store: Store, task: TaskPlan, inputs: Mapping[str, str]) -> tuple[TaskPlan, str]:
    """The task with the forms of verdicts that are stored, and which are not, in words; empty if all are.

    Args:
        store: where the forms are.
        task: the task.
        inputs: artifact ids of the judge stage's inputs.
    """
    judge = settled_before(store, task.judge, inputs)
    names = " and ".join(f"'{name}'" for name in judge.to_settle(store, inputs))
    why = f"verdict: auto of judge {names} is not settled yet; a run asks it first" if names else ""
    return task if judge is task.judge else replace(task, judge=judge), why


def stored_outputs(
    store: Store, stage: Stage, task: TaskPlan, inputs: Mapping[str, str], *, incomplete: bool = False
) -> dict[str, str] | None:
    """Artifact ids of a stage's stored outputs; None if they are not stored.

    Args:
        store: where results are.
        stage, task: which stage.
        inputs: artifact ids of its inputs.
        incomplete: also accept a result with error rows, which a run would retry.
    """
    action = finished_action(store, stage, action_key(store, stage, task, inputs))
    return dict(action.outputs) if action is not None and (action.complete or incomplete) else None


def action_key(store: Store, stage: Stage, task: TaskPlan, inputs: Mapping[str, str]) -> str:
    """The key of a stage's action with these inputs."""
    return digest(_document(store, stage, task, inputs))


def _document(store: Store, stage: Stage, task: TaskPlan, inputs: Mapping[str, str]) -> JsonValue:
    """What determines the stage's key, in the form that actions store."""
    return normalise(action_document(stage, getattr(task, stage), inputs, store))


@dataclass(eq=False)
class _Planner:
    store: Store
    uses: Callable[[], Mapping[str, Sequence[Use]]]
    concurrency: int | None
    missing: Collection[OriginPath]
    forecasts: list[Forecast] = field(default_factory=list)
    _used: Mapping[str, Sequence[Use]] | None = None
    _actions: dict[str, list[Action]] = field(default_factory=dict)

    @cached_property
    def _under_way(self) -> set[str]:
        return {wip.key for wip in self.store.wips()}

    def last_look(self, task: TaskPlan) -> TaskPlan:
        """The task on the rows that were enough, where these are scored already; else on all that it may need."""
        look: TaskPlan | None = task.first_look
        while task.stop is not None and look is not None:
            walked, at = _Planner(self.store, dict, None, self.missing), look
            run_dag(at, walked.call)
            outputs: dict[str, Mapping[str, str]] = {
                done.stage: done.outputs for done in walked.forecasts if done.state == "cached"
            }
            if "auto_eval" not in outputs:
                return task
            look = at.next_look(self.store, outputs)
            if look is None:
                return at
        return task

    def call(self, stage: Stage, task: TaskPlan, /, **inputs: Forecast | None) -> Forecast:
        """Forecast one stage of the DAG."""
        forecast = self._forecast(stage, task, {name: before for name, before in inputs.items() if before is not None})
        if stage != "judge" or task.judge.generate is not None:
            self.forecasts.append(forecast)
        return forecast

    def _forecast(self, stage: Stage, task: TaskPlan, forecasts: Mapping[str, Forecast]) -> Forecast:
        waiting = next((before for before in forecasts.values() if before.state != "cached"), None)
        if waiting is not None:
            first = waiting.why.removeprefix("after ") if waiting.state == "after" else waiting.stage
            return Forecast(
                task.task_id, stage, "after", why=f"after {first}", at_most=self._at_most(stage, task, forecasts)
            )
        if stage == "load" and any(file in self.missing for file in task.load.origin_files):
            return Forecast(task.task_id, stage, "missing", why="its data are fetched first")
        inputs = {name: input_id(name, before.outputs) for name, before in forecasts.items()}
        if stage == "judge":
            task, unsettled = settled_task(self.store, task, inputs)
            if unsettled:
                at_most = self._at_most(stage, task, forecasts)
                return Forecast(task.task_id, stage, "missing", why=unsettled, at_most=at_most)
        document = _document(self.store, stage, task, inputs)
        key = digest(document)
        outputs = stored_outputs(self.store, stage, task, inputs)
        if outputs is not None:
            return Forecast(task.task_id, stage, "cached", key, outputs=outputs)
        missing = Forecast(task.task_id, stage, "missing", key)
        if stage == "auto_eval":
            return self._scores(missing, task, inputs, document)
        asks = asks_of(self.store, stage, task, inputs)
        if not asks:
            return replace(missing, why=self._why(missing, task, document))
        return self._requests(missing, task, asks, inputs, document)

    # --- requests

    def _at_most(self, stage: Stage, task: TaskPlan, forecasts: Mapping[str, Forecast]) -> int | None:
        """The most requests of judges that wait for answers; None while it is not known what will be asked."""
        there = {name: before.outputs for name, before in forecasts.items() if before.state == "cached"}
        if stage != "judge" or not {"prepared", "samples"} <= there.keys():
            return None
        inputs = {name: input_id(name, outputs) for name, outputs in there.items()}
        prepared = self.store.artifact(inputs["prepared"])
        return sum(n for asks in task.judge.asks_at_most(self.store, inputs) for _, n in asks.counts(prepared))

    def _of_second(self, task: TaskPlan, inputs: Mapping[str, str], key: str | None) -> int:
        """The most requests that a second judge would be sent."""
        if task.judge.second is None:
            return 0
        *_, asks = task.judge.asks_at_most(self.store, inputs)
        _, left = self._count(asks.spec, RoleSource.of(asks, self.store, inputs), asks.work_key(key or ""))
        return left

    def _requests(
        self,
        missing: Forecast,
        task: TaskPlan,
        asks: Sequence[Asks],
        inputs: Mapping[str, str],
        document: JsonValue,
    ) -> Forecast:
        counted = [
            (each, *self._count(each.spec, RoleSource.of(each, self.store, inputs), each.work_key(missing.key or "")))
            for each in asks
        ]
        total, left = sum(whole for _, whole, _ in counted), sum(open_ for _, _, open_ in counted)
        estimates = [self._estimate(missing.stage, each, open_) for each, _, open_ in counted if open_]
        reusable = total - left
        reason = f"{reusable:,} of {total:,} responses reusable" if reusable else self._why(missing, task, document)
        return replace(
            missing,
            state="partial" if reusable else "missing",
            why=reason,
            responses=total,
            to_send=left,
            at_most=left + self._of_second(task, inputs, missing.key) if missing.stage == "judge" else left,
            tokens=_sum([tokens for tokens, _, _ in estimates]),
            seconds=_sum([seconds for _, seconds, _ in estimates]),
            cost=_sum([cost for _, _, cost in estimates]),
            user=self._of_users(asks[0].spec.user, left),
        )

    def _of_users(self, spec: GenerateSpec | None, episodes: int) -> UserForecast | None:
        """What the model of simulated users is asked at most in so many episodes; None where it is asked nothing."""
        if spec is None or spec.simulator is None or spec.simulator.script is not None or not episodes:
            return None
        turns = episodes * spec.simulator.max_turns
        at_most = turns * (1 + spec.tool_rounds)
        earlier = [
            action.artifacts[responses_of("dut_model")]
            for known in self._known("infer")
            if (user := known.document["spec"].get("user"))
            and digest(user["model"]) == spec.model_identity
            and (action := self.store.actions.find("infer", known.key)) is not None
        ]
        used = _used_by_users(max(earlier, key=lambda artifact: artifact.rows)) if earlier else []
        tokens, cost = _estimated(used, at_most, spec.price)
        return UserForecast(spec.adapter_id, spec.model_name, episodes, turns, at_most, tokens, cost)

    def _count(self, spec: GenerateSpec, source: RoleSource, key: str) -> tuple[int, int]:
        """Number of requests of a stage, and of those that would be sent."""
        wip = self.store.wip(key)
        logged: Mapping[str, bytes] = {}
        # A running run may commit its answers at any moment, and then remove chunks and logs.
        with suppress(FileNotFoundError):
            if wip.key in self._under_way:
                logged = index_logs(self.store.scratch(key))
        total = left = 0
        for part, count in source.parts:
            finished: set[str] = set()
            for chunk in wip.chunks(part):
                with suppress(FileNotFoundError):
                    finished.update(chunk.tables()["responses"]["response_key"].to_pylist())
            requests = source.open(part)
            for start in range(0, count, _SLICE):
                slice_requests = rendered(spec, requests.render(start, min(start + _SLICE, count)))
                total += len(slice_requests)
                unknown = [
                    item.key
                    for item in slice_requests
                    if item.key not in finished and item.key not in logged and _asks(item.request)
                ]
                known = self.store.responses.find(spec.model_identity, unknown) if unknown else {}
                left += sum(key_ not in known for key_ in unknown)
        return total, left

    def _estimate(self, stage: Stage, asks: Asks, left: int) -> tuple[int | None, float | None, float | None]:
        """Tokens, seconds and cost of ``left`` requests, from the largest earlier result of the same model."""
        model = asks.spec.model_identity
        tables = [
            (artifact, action.artifacts[telemetry_of(name)])
            for known in self._known(stage)
            if any(self.store.responses.holds(model, id_) for id_ in known.outputs.values())
            and (action := self.store.actions.find(stage, known.key)) is not None
            for name, artifact in action.artifacts.items()
            if telemetry_of(name) in action.outputs and self.store.responses.holds(model, artifact.id)
        ]
        if not tables:
            return None, None, None
        responses, timings = max(tables, key=lambda pair: pair[0].rows)
        used = _tokens_of(responses.table(columns=["prompt_tokens", "completion_tokens"]).to_pylist())
        tokens, cost = _estimated(used, left, asks.spec.price)
        rows = timings.table(columns=["latency_ms", "source"]).to_pylist()
        latencies = [row["latency_ms"] for row in rows if row["latency_ms"] is not None and row["source"] == "sent"]
        width = max(1, min(left, self.concurrency or asks.spec.model.limiter.cap))
        seconds = left / width * sum(latencies) / len(latencies) / 1000 if latencies else None
        return tokens, seconds, cost

    # --- scores

    def _scores(self, missing: Forecast, task: TaskPlan, inputs: Mapping[str, str], document: JsonValue) -> Forecast:
        """Forecast scoring. Each metric has its own stored scores."""
        spec = task.auto_eval
        samples = self.store.artifact(inputs["samples"])
        named = spec.named(samples)
        if spec.execution is not None:
            from gage_eval.pipeline.executions import NAME, executions_document

            key = digest(executions_document(self.store, spec.execution, inputs))
            ran = self.store.actions.find(NAME, key)
            if ran is None or not ran.complete:
                return replace(missing, why="programs are run", metrics=tuple(x.metric_id for x in spec.metrics))
            inputs = {**inputs, **ran.outputs}
        documents = {metric.metric_id: spec.scores_document(metric, inputs, samples, named) for metric in spec.metrics}
        computed = tuple(
            metric_id
            for metric_id, needed in documents.items()
            if self.store.actions.find("scores", digest(needed)) is None
        )
        if not task.auto_eval.metrics or len(computed) == len(task.auto_eval.metrics):
            return replace(missing, why=self._why(missing, task, document), metrics=computed)
        if not computed:
            return replace(missing, state="partial", why="all scores are stored; aggregated again")
        stored = len(task.auto_eval.metrics) - len(computed)
        kept = f"{stored:,} metric{'s' if stored != 1 else ''} stored"
        return replace(missing, state="partial", why=f"{kept}; computes {', '.join(computed)}", metrics=computed)

    # --- reasons

    def _why(self, missing: Forecast, task: TaskPlan, document: JsonValue) -> str:
        """What differs from the most similar earlier action, preferably of this task."""
        stage, key = missing.stage, missing.key or ""
        if self._used is None:
            self._used = self.uses()
        if any(action.key == key for action in self._known(stage)):
            action = self.store.actions.find(stage, key)
            return "its result was removed by gc" if action is None else "rows ended in an error"
        best: tuple[bool, int] | None = None
        closest: Action | None = None
        run: str | None = None
        for action in self._known(stage):
            uses = self._used.get(action.key, ())
            same_task = next((use.run_id for use in uses if use.task_id == task.task_id), None)
            if same_task is None and not _comparable(action.document, document):
                continue
            rank = (same_task is None, len(differing(action.document, document)))
            if best is None or rank < best:
                best, closest = rank, action
                run = same_task or next((use.run_id for use in uses), None)
        if closest is None:
            return "no earlier run"
        words = list(
            dict.fromkeys(in_config_words(stage, path, task) for path in differing(closest.document, document))
        )
        more = f" and {len(words) - 2:,} more" if len(words) > 2 else ""
        return f"{', '.join(words[:2])}{more} changed" + (f" since run {run}" if run else "")

    def _known(self, stage: Stage) -> list[Action]:
        if stage not in self._actions:
            self._actions[stage] = list(self.store.actions.all(stage))
        return self._actions[stage]


def _comparable(old: JsonValue, new: JsonValue) -> bool:
    """Whether an action of an unknown run is comparable: it has the same input or the same data."""
    if old["inputs"] or new["inputs"]:
        return bool(old["inputs"] == new["inputs"])
    return bool((old["spec"] or {}).get("data") == (new["spec"] or {}).get("data"))


def _tokens_of(rows: Iterable[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Tokens of prompts and of completions, of the rows that tell them."""
    tokens = ((row["prompt_tokens"] or 0, row["completion_tokens"] or 0) for row in rows)
    return [pair for pair in tokens if any(pair)]


def _asks(request: Request) -> bool:
    """Whether a request is sent: an empty one is skipped, unless a simulated user has the first turn."""
    return request.user is not None or not is_empty(request)


def _used_by_users(responses: Artifact) -> list[tuple[int, int]]:
    """The tokens of each answer that a simulated user's model gave."""
    used = []
    for table in responses.tables(columns=["turns"]):
        turns = pc.list_flatten(table["turns"])
        of_users = turns.filter(pc.equal(pc.struct_field(turns, "actor"), "user"))
        names = ("prompt_tokens", "completion_tokens")
        used += _tokens_of(pa.table({name: pc.struct_field(of_users, name) for name in names}).to_pylist())
    return used


def _estimated(used: Sequence[tuple[int, int]], requests: int, price: Price) -> tuple[int | None, float | None]:
    """Tokens and cost of so many requests that use as many tokens as earlier ones did; None where that is not known."""
    if not used:
        return None, None
    prompt, completion = (requests * sum(counts) / len(used) for counts in zip(*used, strict=True))
    return round(prompt + completion), price.of(prompt, completion) if price != Price() else None


def _sum(values: Sequence[N | None]) -> N | None:
    """The sum of numbers; None without numbers, and if one of them is unknown."""
    known = [number for number in values if number is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(values) else None
