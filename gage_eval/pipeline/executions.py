"""The programs of a task, run once: samples and responses → `executions`, an action inside auto_eval.

A program is asked like a model: `engine.generate` logs each execution, commits chunks, runs equal programs once and
finds those of earlier runs. The key does not contain the metrics, so a changed metric runs nothing again.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any, Generic, TypeAlias, TypeVar

import pyarrow as pa

from gage_eval.base.canonical import JsonValue, decode, digest
from gage_eval.base.statuses import EXECUTION_STATUSES, UNANSWERED
from gage_eval.base.tables import EXECUTION_TELEMETRY, EXECUTIONS, RESPONSE_TELEMETRY, RESPONSES, TableSchema
from gage_eval.box.types import Execution
from gage_eval.data.prepare.media import MediaReader
from gage_eval.data.sample.table import rows_of
from gage_eval.engine.generate import Generate
from gage_eval.engine.job import Job, Source, Tally
from gage_eval.engine.rows import index_answers
from gage_eval.models.backends.boxed import BoxBackend
from gage_eval.models.client.types import RenderFailure, Request
from gage_eval.pipeline.action import StageRun
from gage_eval.pipeline.boxes import CannotRun
from gage_eval.pipeline.execution_spec import ExecutionSpec
from gage_eval.scoring.stdio import same_output
from gage_eval.store import Action, Artifact, Media, Store

# Raise it when the same executions become other rows.
VERSION = 1
NAME = "executions"
EXPECTED = "expected_outputs"
"""What programs of samples print for the tests of all answers to them; a separate action."""

_LONGEST_SHOWN = 200

_Row: TypeAlias = Mapping[str, Any]
RowT = TypeVar("RowT")


def executions_document(store: Store, spec: ExecutionSpec, inputs: Mapping[str, str]) -> dict[str, JsonValue]:
    """What determines the executions of a task; its digest is their key.

    Args:
        store: where the inputs are.
        spec: how programs are run.
        inputs: artifact ids; those of ``samples`` and ``responses`` count.
    """
    material = spec.material(store.artifact(inputs["samples"]))
    read = {name: inputs[name] for name in ("samples", "responses")}
    return {"stage": NAME, "version": VERSION, "execution": material, "inputs": read}


def executions(run: StageRun, spec: ExecutionSpec) -> Mapping[str, Artifact]:
    """The executions of all answers by output name, run or found.

    Args:
        run: the computation of auto_eval.
        spec: how programs are run.

    Raises:
        BoxUnavailable: this machine has no executor.
        InputError: no sample has what its program needs.
    """
    store, document = run.env.store, executions_document(run.env.store, spec, run.inputs)
    key = digest(document)
    with store.lock(key, run.env.check):
        stored = store.actions.find(NAME, key, renew=True)
        if stored is not None and stored.complete and not run.refreshing:
            return stored.artifacts
        work_key = digest([key, run.env.run_id]) if run.refreshing else key
        outputs = _run(run, spec, work_key, None if run.refreshing else stored)
        complete = outputs[NAME].complete
        action = store.actions.commit(NAME, key, outputs, complete=complete, document=document, replaces=stored)
        store.wip(work_key).discard()
    return action.artifacts


def _run(run: StageRun, spec: ExecutionSpec, work_key: str, earlier: Action | None) -> dict[str, Artifact]:
    store = run.env.store
    backend = run.env.runtime.shared(spec.boxes.key, partial(spec.boxes.backend, run.env.runtime.pools))
    samples = store.artifact(run.inputs["samples"])
    expected = _expected_outputs(run, spec, samples, backend) if spec.expects else None
    source = ProgramSource(spec, samples, run.input("responses"), store.media, expected)
    outputs, tally = _generated(run, source, backend, work_key, earlier, "execution", reuse=not run.refreshing)
    run.counts.update(programs_run=tally.sent, programs_reused=tally.reused + tally.replayed)
    responses, telemetry = (outputs[f"execution_{schema.name}"] for schema in _OF_ENGINE)
    return {**_tables(run, source, backend, responses, telemetry), **outputs}


def _expected_outputs(run: StageRun, spec: ExecutionSpec, samples: Artifact, backend: BoxBackend) -> Artifact:
    """The executions of the programs that print what the tests of each sample expect: run once for all answers."""
    store = run.env.store
    document: JsonValue = {
        "stage": EXPECTED,
        "version": VERSION,
        "samples": samples.id,
        "program": spec.config.expected,
        "limits": asdict(spec.limits),
        "image": spec.config.image,
        "box": spec.boxes.identity,
        "files": spec.files_identity(samples),
    }
    key = digest(document)
    with store.lock(key, run.env.check):
        stored = store.actions.find(EXPECTED, key, renew=True)
        if stored is None or not stored.complete:
            source = ExpectedSource(spec, samples, store.media)
            outputs, tally = _generated(run, source, backend, key, stored, EXPECTED, reuse=True)
            complete = not tally.errors
            stored = store.actions.commit(EXPECTED, key, outputs, complete=complete, document=document, replaces=stored)
            store.wip(key).discard()
    return stored.artifacts[f"{EXPECTED}_responses"]


def _generated(
    run: StageRun,
    source: Source,
    backend: BoxBackend,
    work_key: str,
    earlier: Action | None,
    name: str,
    *,
    reuse: bool,
) -> tuple[dict[str, Artifact], Tally]:
    """Run the programs of a source. Returns the engine's artifacts by output name, and what was done for them."""
    env, store = run.env, run.env.store
    identity = digest(backend.identity())
    wip = store.wip(work_key)
    wip.begun_by(env.run_id)
    writers = {schema.name: run.new_writer(schema, f"{name}_{schema.name}") for schema in _OF_ENGINE}
    kept = {} if earlier is None else earlier.artifacts
    with env.runtime.answers.step() as answers:
        engine = Generate(
            Job(
                source=source,
                backend=backend,
                model_identity=identity,
                store=store,
                wip=wip,
                log_folder=store.scratch(wip.key),
                responses=writers["responses"],
                telemetry=writers["response_telemetry"],
                reuse=reuse,
                answers=answers,
                earlier=(kept[f"{name}_responses"], kept[f"{name}_response_telemetry"]) if kept else None,
                progress=run.progress,
            )
        )
        tally = env.runtime.call(engine.run())
        responses = writers["responses"].commit(complete=not tally.errors)
        telemetry = writers["response_telemetry"].commit()
        index_answers(store, identity, responses)
    return {f"{name}_responses": responses, f"{name}_response_telemetry": telemetry}, tally


_OF_ENGINE: Sequence[TableSchema] = (RESPONSES, RESPONSE_TELEMETRY)


def _tables(
    run: StageRun, source: "ProgramSource", backend: BoxBackend, responses: Artifact, telemetry: Artifact
) -> dict[str, Artifact]:
    """The executions as rows, and their measurements."""
    writers = {schema.name: run.new_writer(schema, schema.name) for schema in (EXECUTIONS, EXECUTION_TELEMETRY)}
    statuses: Counter[str] = Counter()
    near = 0
    for part in responses.parts:
        errors = telemetry.read(part.index, columns=["errors"])["errors"].to_pylist()
        rows = responses.read(part.index, columns=["status", "answer", "error_kind"]).to_pylist()
        tables: dict[str, list[dict[str, Any]]] = {name: [] for name in writers}
        for program, row, failed in zip(source.programs(part.index), rows, errors, strict=True):
            if row["status"] == "skipped":
                continue
            execution = program.judged(_execution(row, failed))
            statuses[execution.status] += 1
            near += execution.is_near_limit
            values = {
                **{name: getattr(execution, name) for name in Execution.__slots__},
                **{name: getattr(program.request, name) for name in ("row_index", "sample_id", "replicate")},
                "mode": source.spec.config.mode,
                "containment": backend.resolve(program.image)[0],
                "code": program.code,
            }
            for schema in (EXECUTIONS, EXECUTION_TELEMETRY):
                tables[schema.name].append({name: values[name] for name in schema.arrow.names})
        for schema in (EXECUTIONS, EXECUTION_TELEMETRY):
            writers[schema.name].write(part.index, pa.Table.from_pylist(tables[schema.name], schema=schema.arrow))
    counts = {**{status: statuses[status] for status in EXECUTION_STATUSES}, "near_limit": near}
    return {
        NAME: writers[NAME].commit(complete=not statuses["box_error"], counts=counts),
        "execution_telemetry": writers["execution_telemetry"].commit(),
    }


def _execution(row: Mapping[str, Any], errors: Sequence[str] | None) -> Execution:
    """The execution behind a row of the engine; a box error where the program could not even be asked for."""
    if row["answer"] is not None:
        return Execution(**decode(row["answer"]))
    return Execution("box_error", row["error_kind"] or "", (errors or [""])[-1])


@dataclass(frozen=True)
class AskedProgram:
    """A program that is asked for.

    Attributes:
        request: as the engine gets it.
        expected: the expected outputs of a stdio program; they never enter the box.
        is_check: whether it checks a final state.
        verdict: of a final state that is not checked.
    """

    request: Request
    expected: Sequence[str] | None = None
    is_check: bool = False
    verdict: Execution | None = None

    @property
    def code(self) -> str | None:
        """The program; None if the answer holds none."""
        boxed = self.request.program
        return None if boxed is None or boxed.program is None else boxed.program.code

    @property
    def image(self) -> str | None:
        """The image that its sample or its task names."""
        boxed = self.request.program
        return None if boxed is None else boxed.spec.image

    def judged(self, execution: Execution) -> Execution:
        """The execution with the outputs of a stdio program compared; the verdict of a check on a final state."""
        if self.verdict is not None:
            return self.verdict
        if self.is_check and execution.status == "crashed":
            said = execution.stderr.strip().rpartition("\n")[2][:_LONGEST_SHOWN]
            return replace(execution, status="failed", text=said)
        if self.expected is None or execution.status == "box_error":
            return execution
        right = [same_output(*pair) for pair in zip(execution.outputs, self.expected, strict=False)]
        passed = sum(right)
        counted = replace(execution, tests_passed=passed, tests_failed=len(self.expected) - passed)
        if execution.status != "passed" or passed == len(self.expected):
            return counted
        at = right.index(False) if False in right else len(right)
        printed = execution.outputs[at] if at < len(right) else ""
        text = f"test {at + 1}: expected {_shown(self.expected[at])}, printed {_shown(printed)}"
        return replace(counted, status="failed", reason="wrong_output", text=text)


def _shown(text: str) -> str:
    text = text.strip()
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…")


@dataclass(eq=False)
class ProgramSource:
    """The programs of a task's answers, part by part (`gage_eval.engine.job.Source`)."""

    spec: ExecutionSpec
    samples: Artifact
    responses: Artifact
    media: Media
    expected: Artifact | None = None

    @cached_property
    def _reader(self) -> MediaReader:
        return MediaReader(self.spec.media, self.media, threads=1)

    @cached_property
    def parts(self) -> Sequence[tuple[int, int]]:
        """(part index, number of answers) in order."""
        return [(part.index, part.rows) for part in self.responses.parts]

    def open(self, part: int) -> "RenderedPart[_Row]":
        """Read the samples and answers of a part."""
        answers, program = self._read(part)
        return RenderedPart(answers, lambda answer: program(answer).request)

    def programs(self, part: int) -> Iterator[AskedProgram]:
        """The programs of all answers of a part in order."""
        answers, program = self._read(part)
        return map(program, answers)

    def _read(self, part: int) -> tuple[Sequence[_Row], Callable[[_Row], AskedProgram]]:
        """The answers of a part, and what is asked for each."""
        table = self.samples.read(part, columns=self.spec.sample_columns)
        samples = dict(zip(table["row_index"].to_pylist(), rows_of(table), strict=True))
        expected = {} if self.expected is None else _printed(self.expected, part)
        return self.responses.read(part).to_pylist(), partial(self._asked, samples, expected)

    def _asked(self, samples: Mapping[int, _Row], expected: Mapping[int, str], answer: _Row) -> AskedProgram:
        index = answer["row_index"]
        request = Request("run", sample_id=answer["sample_id"], row_index=index, replicate=answer["replicate"])
        if answer["status"] in UNANSWERED:
            return AskedProgram(request)
        sample, spec, mode = samples[index], self.spec, self.spec.config.mode
        about = f"sample '{answer['sample_id']}': "
        try:
            boxed = spec.boxed(sample, answer, self._reader, expected.get(index))
            outputs = spec.expected(sample, answer) if mode == "stdio" else None
            state = spec.final_state(answer) if mode == "final_state" else None
        except CannotRun as error:
            return AskedProgram(replace(request, unasked=RenderFailure("sample", about + str(error))))
        except Exception as error:  # noqa: BLE001  # a filter that fails on an answer costs only its row
            return AskedProgram(replace(request, unasked=RenderFailure("filter_failed", f"{about}{error}")))
        verdict = state if isinstance(state, Execution) else None
        return AskedProgram(replace(request, program=boxed), outputs, state is not None, verdict)


def _printed(responses: Artifact, part: int) -> dict[int, str]:
    """What the programs of a part printed, by row index. Where one failed, its tests do without."""
    rows = responses.read(part, columns=["row_index", "answer"]).to_pylist()
    ended = {row["row_index"]: Execution(**decode(row["answer"])) for row in rows if row["answer"] is not None}
    whole = {index: run for index, run in ended.items() if run.status == "passed" and not run.is_cut}
    return {index: run.outputs[0] for index, run in whole.items()}


class ExpectedSource:
    """The programs of samples that print what their tests expect (`gage_eval.engine.job.Source`)."""

    def __init__(self, spec: ExecutionSpec, samples: Artifact, media: Media) -> None:
        self._spec = spec
        self._samples = samples
        self._reader = MediaReader(spec.media, media, threads=1)

    @cached_property
    def parts(self) -> Sequence[tuple[int, int]]:
        """(part index, number of samples) in order."""
        return [(part.index, part.rows) for part in self._samples.parts]

    def open(self, part: int) -> "RenderedPart[tuple[int, _Row]]":
        """Read the samples of a part. The request of one without a program is empty."""
        table = self._samples.read(part, columns=[*self._spec.sample_columns, "id"])
        return RenderedPart(list(zip(table["row_index"].to_pylist(), rows_of(table), strict=True)), self._request)

    def _request(self, row: tuple[int, _Row]) -> Request:
        index, sample = row
        request = Request("run", sample_id=sample["id"], row_index=index)
        try:
            return replace(request, program=self._spec.expected_program(sample, self._reader))
        except CannotRun:
            return request


class RenderedPart(Generic[RowT]):
    """The requests of one part (`gage_eval.engine.job.PartSource`), one for each row."""

    def __init__(self, rows: Sequence[RowT], request: Callable[[RowT], Request]) -> None:
        self._rows, self._request = rows, request

    def render(self, start: int, stop: int) -> list[Request]:
        """The requests of the rows ``start`` to ``stop`` (exclusive)."""
        return [self._request(row) for row in self._rows[start:stop]]
