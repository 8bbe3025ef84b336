"""The programs of a task: from a sample and an answer to what a box runs, and what that determines in keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import JsonValue, digest
from gage_eval.base.field_paths import MISSING, compile_path
from gage_eval.base.field_paths import Path as FieldPath
from gage_eval.base.marks import semantic_values
from gage_eval.box.executors import ExecutorSettings, open_executor
from gage_eval.box.types import BoxSpec, Limits, Program
from gage_eval.config.execution import ExecutionConfig, ExecutionLimitsConfig
from gage_eval.data.prepare.media import MediaReader, MediaRules, files_identity
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.sample.rules import inside
from gage_eval.data.sample.table import rows_of
from gage_eval.models.backends.boxed import BoxBackend
from gage_eval.models.client.types import BoxedProgram
from gage_eval.scoring.metrics.pipelines import FilterPipeline, read_steps
from gage_eval.store import Artifact

_REFERENCES = ("env:", "block:")
# Of executors that this process has found, by `ExecutionSpec.executor_key`.
_identities: dict[str, JsonValue] = {}


class CannotRun(Exception):
    """A sample has not what it takes to run its program; a sentence says what is missing."""


@dataclass(frozen=True)
class ExecutionSpec:
    """How a task's programs are run.

    Attributes:
        config: the task's section.
        media: where the files of samples are.
    """

    config: ExecutionConfig
    media: MediaRules = field(default_factory=MediaRules)

    @property
    def settings(self) -> ExecutorSettings:
        """Which executor runs them."""
        config = self.config
        roots = {image: Path(root) for image, root in config.roots.items()}
        return ExecutorSettings(config.executor, config.slots, config.allow_unsafe, roots)

    @property
    def executor_key(self) -> str:
        """Equal for tasks that share one executor."""
        config = self.config
        return digest(["box", config.executor, config.slots, config.allow_unsafe, config.roots])

    def backend(self) -> BoxBackend:
        """A new executor behind a backend. It starts nothing before its first program.

        Raises:
            BoxUnavailable: this machine has no such executor.
        """
        return BoxBackend(open_executor(self.settings))

    @cached_property
    def box_identity(self) -> JsonValue:
        """What of the executor can change a verdict. To find an executor takes a trial, one for all tasks.

        Raises:
            BoxUnavailable: this machine has no such executor.
        """
        if self.executor_key not in _identities:
            _identities[self.executor_key] = self.backend().identity()
        return _identities[self.executor_key]

    @cached_property
    def limits(self) -> Limits:
        """What a program may use; with ``compat: official`` as much wall time as CPU time."""
        own = self.config.limits or ExecutionLimitsConfig()
        wall = own.cpu_s if own.wall_s is None and self.config.compat == "official" else own.wall_s
        return Limits(**{**own.model_dump(), "wall_s": wall})

    @cached_property
    def filters(self) -> FilterPipeline:
        """What is read out of an answer."""
        return read_steps(self.config.filters)

    @cached_property
    def paths(self) -> Mapping[str, FieldPath]:
        """The field paths that the section sets, by its keys."""
        names = ("program", "entry", "prelude", "tests", "inputs", "outputs")
        return {name: compile_path(path) for name in names if (path := getattr(self.config, name)) is not None}

    @cached_property
    def sample_columns(self) -> list[str]:
        """The columns of samples that it reads."""
        read = frozenset().union(*(path.sample_columns for path in self.paths.values()))
        return sorted(read | {"row_index", "sandbox", "metadata"})

    def material(self, samples: Artifact) -> dict[str, JsonValue]:
        """What determines the executions, besides samples and answers: the section, the box, the samples' files."""
        material: dict[str, JsonValue] = {
            **semantic_values(self.config, "auto_eval"),
            "filters": self.filters.identity(),
            "box": self.box_identity,
        }
        addresses = {
            str(address)
            for table in samples.tables(columns=["sandbox", "metadata"])
            for sample in rows_of(table)
            for address in (_sandbox(sample).get("files") or {}).values()
        }
        files = files_identity([("file", address) for address in sorted(addresses)], self.media)
        return material if files is None else {**material, "files": files}

    def boxed(self, sample: Mapping[str, Any], answer: Mapping[str, Any], reader: MediaReader) -> BoxedProgram:
        """What is run for an answer; the reader reads the files that the sample names.

        Raises:
            CannotRun: the sample lacks a field, or its surroundings cannot be made.
            Exception: a filter failed on the answer.
        """
        text = self._value("program", sample, answer)
        code = None if text is None else self.filters.apply(_text(text))
        needed = {
            name: self._needed(name, sample, answer) for name in ("entry", "tests", "inputs") if name in self.paths
        }
        prelude = self._value("prelude", sample, answer)
        spec = _spec(sample, reader, self.config.image)
        program = None
        if code is not None:
            program = Program(
                self.config.mode,
                code,
                entry=_text(needed["entry"]) if "entry" in needed else None,
                prelude="" if prelude is None else _text(prelude),
                tests=tests_text(needed["tests"]) if "tests" in needed else "",
                stdin=texts(needed["inputs"], self.paths["inputs"]) if "inputs" in needed else (),
                command=self.config.command or (),
                file=self.config.file,
            )
        return BoxedProgram(program, self.limits, spec, wall_decides=self.config.compat == "official")

    def expected(self, sample: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
        """The expected outputs of a stdio program.

        Raises:
            CannotRun: the sample has none.
        """
        return texts(self._needed("outputs", sample, answer), self.paths["outputs"])

    def tests_of(self, sample: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
        """The tests of an answer for people: their code, or the inputs of a stdio program."""
        path = self.paths.get("tests") or self.paths["inputs"]
        value = path.get(sample, model_output=answer)
        return tests_text(value) if isinstance(value, str | list) else ""

    def _value(self, name: str, sample: Mapping[str, Any], answer: Mapping[str, Any]) -> Any:
        value = self.paths[name].get(sample, model_output=answer) if name in self.paths else None
        return None if value is MISSING else value

    def _needed(self, name: str, sample: Mapping[str, Any], answer: Mapping[str, Any]) -> Any:
        value = self._value(name, sample, answer)
        if value is None or value in ("", []):
            raise CannotRun(f"the sample has no {self.paths[name].text}, the program's {name}.")
        return value


def texts(value: Any, path: FieldPath) -> list[str]:
    """A list of texts.

    Raises:
        CannotRun: the field holds something else.
    """
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, Sequence) or not all(isinstance(item, str) for item in items):
        raise CannotRun(f"{path.text} is no list of texts.")
    return list(items)


def tests_text(value: Any) -> str:
    """Tests as one text: as they are, or a list of statements, one below the other."""
    return "\n".join(map(_text, value)) if isinstance(value, list) else _text(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise CannotRun(f"a program and its tests are texts, not {type(value).__name__}.")
    return value


def _sandbox(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """The surroundings that a sample sets; those of ``metadata.execution`` where it sets none."""
    own = sample.get("sandbox")
    if not own:
        metadata = sample.get("metadata")
        own = metadata.get("execution") if isinstance(metadata, Mapping) else None
    if not isinstance(own, Mapping):
        return {}
    wrong = [name for name in ("files", "env") if not isinstance(own.get(name) or {}, Mapping)]
    if wrong:
        raise CannotRun(f"metadata.execution.{wrong[0]} is no object.")
    return own


def _spec(sample: Mapping[str, Any], reader: MediaReader, image: str | None) -> BoxSpec:
    sandbox = _sandbox(sample)
    env = {name: str(value) for name, value in (sandbox.get("env") or {}).items()}
    for name, value in env.items():
        if value.startswith(_REFERENCES):
            raise CannotRun(f"sandbox.env.{name} refers to a secret ({value}), and no secret enters a box.")
    files: dict[str, bytes] = {}
    for path, address in (sandbox.get("files") or {}).items():
        if not inside(path):
            raise CannotRun(f"sandbox.files.{path} leads out of the working folder.")
        try:
            files[path] = reader.content(str(address))
        except RecordRejected as error:
            raise CannotRun(f"sandbox.files.{path}: {error.reason}") from None
    return BoxSpec(sandbox.get("image") or image, files, sandbox.get("setup") or None, env)
