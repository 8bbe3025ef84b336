"""The self-test of a suite whose answers are programs: what its tests accept, and what they let through.

The suite's own solutions, an empty answer and the attacks take the place of the model's answers. They run as a model's
programs do: by the task's filters, with its tests, in a box. Where the final state of an agent's box is checked, the
solution is a shell script that runs in such a box, and the empty answer is a box in which nothing ran.
"""

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from gage_eval.authoring.attacks import ATTACKS, OUTSIDE, WRONG, Attack
from gage_eval.base.errors import GageError, InputError
from gage_eval.base.python_syntax import module_tree
from gage_eval.base.tables import RESPONSES
from gage_eval.config.suites.templates import suite_info
from gage_eval.data.sample.table import rows_of
from gage_eval.engine.final_state import final_state
from gage_eval.engine.runtime import Runtime
from gage_eval.engine.tools.box import BoxTool
from gage_eval.engine.tools.mcp import McpTool
from gage_eval.observability.observer import Observer, Observers
from gage_eval.pipeline import stages
from gage_eval.pipeline.action import StageContext
from gage_eval.pipeline.boxes import AgentBoxes
from gage_eval.pipeline.execution_spec import ExecutionSpec
from gage_eval.pipeline.specs import TaskPlan
from gage_eval.runs.fetching import fetch_hub_data
from gage_eval.runs.options import RunOptions
from gage_eval.runs.planned import planned
from gage_eval.scoring.extract.cruxeval import is_assertion
from gage_eval.store import Artifact, Store

_CANONICAL, _EMPTY = "canonical", "empty"


@dataclass(frozen=True)
class TaskSelfTest:
    """What came of the programs of one task.

    Attributes:
        mode: how a program is tested (``execution.mode``).
        problems: how many were tried.
        failed: the problems whose own solution does not pass; by id, with the reason.
        exceptions: those of them that the suite's card names.
        without_solution: the problems that bring no solution.
        lenient: the problems that pass a plainly wrong or an empty answer, by their rules; attacks on them say nothing.
            A final state that nothing was done for must not pass.
        passed: by attack, the other problems that it passes.
    """

    task_id: str
    mode: str
    problems: int
    failed: Mapping[str, str]
    exceptions: Sequence[str]
    without_solution: Sequence[str]
    lenient: Sequence[str]
    passed: Mapping[str, Sequence[str]]

    @property
    def is_as_expected(self) -> bool:
        """Whether all solutions pass, and no attack, unless the mode lets the tests be forged."""
        lets_through = self.lenient if self.mode == "final_state" else any(self.passed.values())
        return self.failed.keys() <= {*self.exceptions} and (self.mode == "script" or not lets_through)

    def lines(self) -> list[str]:
        """All of it for people."""
        solutions = self.problems - len(self.without_solution)
        passing = [f"{name} ({len(ids)} of {self.problems})" for name, ids in self.passed.items() if ids]
        lines = [
            f"{self.task_id} · mode {self.mode} · {self.problems} problems",
            f"  its own solutions: {solutions - len(self.failed)} of {solutions} pass",
        ]
        if self.mode == "final_state":
            lines.append(f"  doing nothing: {len(self.lenient)} of {self.problems} problems pass")
        else:
            lines.append(f"  empty and wrong answers: {len(self.lenient)} of {self.problems} problems pass one")
            lines.append(f"  attacks: {len(passing)} of {len(self.passed)} pass")
        lines += [f"    {name}" for name in passing]
        lines += [f"  the solution of {problem} does not pass: {why}" for problem, why in self.failed.items()]
        if self.lenient:
            lines.append(f"  a wrong answer passes the tests of {', '.join(self.lenient)}")
        if self.mode == "script":
            lines.append("  mode script runs the tests in the program's own process, so its scores can be forged")
        return lines


def self_test(options: RunOptions, observer: Observer, attacks: Mapping[str, Attack] = ATTACKS) -> list[TaskSelfTest]:
    """Test each task of a suite that runs programs. Nothing is kept.

    Args:
        options: the suite. No model is asked.
        observer: told what is fetched.
        attacks: what is tried besides the suite's own solutions and empty answers.

    Raises:
        InputError: the suite runs no programs, or runs them without a box.
        BoxUnavailable: this machine can make no box.
        GageError: an attack did not find itself in a box.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = planned(options.model_copy(update={"engine": "dummy", "store": folder}))
        tasks = [task for task in run.plan.tasks if task.auto_eval.execution is not None]
        if not tasks:
            raise InputError(f"{run.plan.name} runs no programs, so there is nothing to attack: leave out --self-test.")
        run.fetch_data(observer)
        fetch_hub_data(run.plan, run.store, observer)
        suite = run.loaded.suite
        card = None if suite is None else suite_info(suite.name).card
        named = {} if card is None else card.exceptions
        with Runtime() as runtime:
            env = StageContext(run.store, runtime, Observers(), run_id="self-test")
            return [_tested(env, task, named, attacks) for task in tasks]


def _tested(env: StageContext, task: TaskPlan, named: Mapping[str, str], attacks: Mapping[str, Attack]) -> TaskSelfTest:
    spec = task.auto_eval.execution
    assert spec is not None
    if spec.config.allow_unsafe:
        raise InputError(f"task '{task.task_id}': attacks run only in a box: remove 'allow_unsafe'.")
    if spec.boxes.settings.work_pool is not None:
        raise InputError(f"task '{task.task_id}': attacks run only on this machine: set 'work_pool' to local.")
    made = stages.standardize(env, task.standardize, raw=stages.load(env, task.load))
    samples = env.store.artifact(made.outputs["samples"])
    if spec.config.mode == "final_state":
        attacks, boxes = {}, _agent_boxes(task)
        states = asyncio.run(_final_states(boxes, samples, env.store.media.put))
        answers = _answers(env.store, samples, "artifacts", lambda sample: states[sample["id"]])
    else:
        tried = list(attacks.values())
        answers = _answers(env.store, samples, "answer", lambda sample: _programs(spec, sample, tried))
    responses = replace(made, outputs={"responses": answers.id})
    scoring = replace(task.auto_eval, metrics=(), max_unscored_share=None)
    result = stages.auto_eval(env, scoring, samples=made, responses=responses)
    rows = env.store.artifact(result.outputs["executions"]).table().to_pylist()
    if any(OUTSIDE in row["stdout"] for row in rows):
        raise GageError("an attack did not find itself in a box and ended; nothing is known of the suite.")
    return _judged(task.task_id, spec.config.mode, rows, named, list(attacks))


def _judged(
    task_id: str, mode: str, rows: Sequence[Mapping[str, Any]], named: Mapping[str, str], attacks: Sequence[str]
) -> TaskSelfTest:
    names = [_CANONICAL, _EMPTY, *attacks]
    by_name: dict[str, list[Mapping[str, Any]]] = {name: [] for name in names}
    for row in rows:
        by_name[names[row["replicate"]]].append(row)
    canonical = by_name.pop(_CANONICAL)
    problems = [row["sample_id"] for row in by_name[_EMPTY]]
    passes = {name: [row["sample_id"] for row in of if row["status"] == "passed"] for name, of in by_name.items()}
    lenient = dict.fromkeys(passes.pop(_EMPTY) + passes.pop(WRONG, []))
    tried = [row for row in canonical if row["reason"] != "no_program"]
    failed = {row["sample_id"]: f"{row['status']}: {row['text']}" for row in tried if row["status"] != "passed"}
    return TaskSelfTest(
        task_id,
        mode,
        len(problems),
        {**failed, **{problem: named[problem] for problem in failed if problem in named}},
        [problem for problem in failed if problem in named],
        [problem for problem in problems if problem not in {row["sample_id"] for row in tried}],
        list(lenient),
        {name: [problem for problem in ids if problem not in lenient] for name, ids in passes.items()},
    )


def _answers(
    store: Store, samples: Artifact, column: str, answers_of: Callable[[Mapping[str, Any]], Sequence[str | None]]
) -> Artifact:
    """The answers of all samples: for each program or final state a replicate."""
    writer = store.writer(RESPONSES)
    blank = {**dict.fromkeys(RESPONSES.arrow.names), "status": "ok"}
    for part in samples.parts:
        table = samples.read(part.index)
        rows = [
            {**blank, "row_index": index, "sample_id": sample["id"], "replicate": number, column: text}
            for index, sample in zip(table["row_index"].to_pylist(), rows_of(table), strict=True)
            for number, text in enumerate(answers_of(sample))
            if text is not None
        ]
        writer.write(part.index, pa.Table.from_pylist(rows, schema=RESPONSES.arrow))
    return writer.commit()


def _agent_boxes(task: TaskPlan) -> AgentBoxes:
    """The boxes of a task's agent."""
    tools = [tool.box for tool in task.infer.tools.values() if isinstance(tool, BoxTool | McpTool) and tool.box]
    boxes = tools[0] if task.infer.agent is None else task.infer.agent.boxes
    assert isinstance(boxes, AgentBoxes)
    if boxes.boxes.settings.allow_unsafe:
        raise InputError(f"task '{task.task_id}': solutions run only in a box: remove 'allow_unsafe'.")
    return boxes


async def _final_states(
    boxes: AgentBoxes, samples: Artifact, keep: Callable[[bytes], str]
) -> dict[str, tuple[str | None, str]]:
    """By sample: the final state that its solution leaves, None without a solution, and that of a box with no work.

    Raises:
        BoxError: a box cannot be made.
    """
    executor = boxes.boxes.backend().executor

    async def left(sample: Mapping[str, Any], solution: str) -> str:
        limits = boxes.limits_of(sample)
        box = await executor.open(boxes.spec(sample), limits)
        try:
            if solution:
                await box.run(["sh", "-s"], stdin=solution.encode(), limits=limits)
            return await final_state(box, boxes.artifacts_of(sample), limits, keep)
        finally:
            await box.close()

    async def both(sample: Mapping[str, Any]) -> tuple[str | None, str]:
        solution = (sample.get("metadata") or {}).get("solution")
        return await left(sample, solution) if isinstance(solution, str) else None, await left(sample, "")

    rows = [row for part in samples.parts for row in rows_of(samples.read(part.index))]
    try:
        states = await asyncio.gather(*map(both, rows))
    finally:
        await executor.close()
    return {row["id"]: state for row, state in zip(rows, states, strict=True)}


def _programs(spec: ExecutionSpec, sample: Mapping[str, Any], attacks: Sequence[Attack]) -> list[str]:
    """The canonical and the empty program, and the attacks, in their order."""
    entry, prelude = (
        str(spec.paths[name].get(sample, model_output={})) if name in spec.paths else None
        for name in ("entry", "prelude")
    )
    is_called = spec.config.mode != "stdio"
    solution = _solution(sample, prelude or "")
    if is_assertion(solution):
        return [solution, "", *(attack.assertion() for attack in attacks)]
    return [solution, "", *(attack.program(entry, is_called=is_called) for attack in attacks)]


def _solution(sample: Mapping[str, Any], prelude: str) -> str:
    """The suite's own solution; with the start that the model is given, where it does not parse without it."""
    for reference in sample.get("references") or ():
        for answer in reference["answer"]:
            code = str(answer["text"])
            try:
                module_tree(code.encode())
            except (SyntaxError, ValueError):
                return prelude + code
            return code
    return ""
