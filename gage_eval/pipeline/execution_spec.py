"""The programs of a task: from a sample and an answer to what a box runs, and what that determines in keys."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import JsonValue, decode, given, sha256_hex
from gage_eval.base.errors import InputError
from gage_eval.base.field_paths import MISSING, compile_path
from gage_eval.base.field_paths import Path as FieldPath
from gage_eval.base.marks import semantic_values
from gage_eval.box.executors import ExecutorSettings
from gage_eval.box.types import Execution, Limits, Program
from gage_eval.config.execution import ExecutionConfig, ExecutionLimitsConfig
from gage_eval.data.prepare.media import MediaReader, MediaRules
from gage_eval.models.backends.placement import HERE
from gage_eval.models.client.types import BoxedProgram
from gage_eval.pipeline.boxes import Boxes, CannotRun, limited, sandbox_identity, sandboxes, surroundings
from gage_eval.scoring.metrics.pipelines import FilterPipeline, read_steps
from gage_eval.store import Artifact

_LARGEST_EXPECTED_KB = 16 << 10


@dataclass(frozen=True, slots=True)
class FinalState:
    """The final state of an episode, as `gage_eval.engine.final_state` writes it."""

    files: Mapping[str, Mapping[str, Any]]
    problem: str | None
    text: str


class StoredFiles(Mapping[str, bytes]):
    """Files by path. Each is read when it is used, because those of many answers are larger than the memory.

    Args:
        files: with the address of each.
        reader: reads what is stored.
    """

    def __init__(self, files: Mapping[str, Mapping[str, Any]], reader: MediaReader) -> None:
        self._files, self._reader = files, reader

    def __getitem__(self, path: str) -> bytes:
        return self._reader.content(str(self._files[path]["url"]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


@dataclass(frozen=True)
class ExecutionSpec:
    """How a task's programs are run.

    Attributes:
        config: the task's section.
        media: where the files of samples are.
        check: the file with the check of a final state.
    """

    config: ExecutionConfig
    media: MediaRules = field(default_factory=MediaRules)
    check: Path | None = None

    @cached_property
    def boxes(self) -> Boxes:
        """The boxes that they run in."""
        config = self.config
        roots = {image: Path(root) for image, root in config.roots.items()}
        pool = None if config.work_pool == HERE else config.work_pool
        settings = (config.executor, config.slots, config.allow_unsafe, roots, pool, config.replicas)
        return Boxes(ExecutorSettings(*settings))

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
        names = ("program", "entry", "prelude", "tests", "expected", "inputs", "outputs")
        return {name: compile_path(path) for name in names if (path := getattr(self.config, name)) is not None}

    @cached_property
    def sample_columns(self) -> list[str]:
        """The columns of samples that it reads."""
        read = frozenset().union(*(path.sample_columns for path in self.paths.values()))
        return sorted(read | {"row_index", "sandbox", "metadata"})

    def material(self, samples: Artifact) -> dict[str, JsonValue]:
        """What determines the executions, besides samples and answers: the section, the box, the samples' files."""
        check = None if self.check is None else sha256_hex(self._check.encode())
        return {
            **semantic_values(self.config, "auto_eval"),
            "filters": self.filters.identity(),
            "box": self.boxes.identity,
            **given(check=check, files=self.files_identity(samples)),
        }

    def files_identity(self, samples: Artifact) -> JsonValue:
        """The content of the files and images that samples put into their boxes; None where they put in none."""
        return sandbox_identity(sandboxes(samples), self.media, self.boxes, self.config.image)

    @cached_property
    def _check(self) -> str:
        """The text of the check; empty if there is none."""
        if self.check is None:
            return ""
        try:
            return self.check.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"execution.check: '{self.check}' cannot be read: {error}") from None

    @property
    def expects(self) -> bool:
        """Whether a program of each sample prints what its tests compare with.

        Not where the tests run in the answer's process, which could read it there.
        """
        return self.config.expected is not None and self.config.mode == "calls"

    def expected_program(self, sample: Mapping[str, Any], reader: MediaReader) -> BoxedProgram:
        """The program of a sample that prints what its tests compare with.

        Raises:
            CannotRun: the sample has none, or its surroundings cannot be made.
        """
        program = Program("stdio", _text(self._needed("expected", sample, {})), stdin=("",))
        limits = replace(self.limits, output_kb=max(self.limits.output_kb, _LARGEST_EXPECTED_KB))
        limits = limited(limits, sample, "tests_s")
        return BoxedProgram(program, limits, surroundings(sample, reader.content, self.config.image))

    def boxed(
        self, sample: Mapping[str, Any], answer: Mapping[str, Any], reader: MediaReader, expected: str | None = None
    ) -> BoxedProgram:
        """What is run for an answer; the reader reads the files that the sample names.

        Args:
            sample: the sample.
            answer: the answer.
            reader: reads files.
            expected: what the tests compare with, where a program has printed it.

        Raises:
            CannotRun: the sample lacks a field, or its surroundings cannot be made.
            Exception: a filter failed on the answer.
        """
        if self.config.mode == "final_state":
            return self._state_check(sample, answer, reader)
        text = self._value("program", sample, answer)
        code = None if text is None else self.filters.apply(_text(text))
        needed = {
            name: self._needed(name, sample, answer) for name in ("entry", "tests", "inputs") if name in self.paths
        }
        prelude = self._value("prelude", sample, answer)
        spec = surroundings(sample, reader.content, self.config.image)
        program = None
        if code is not None:
            program = Program(
                self.config.mode,
                code,
                entry=_text(needed["entry"]) if "entry" in needed else None,
                prelude="" if prelude is None else _text(prelude),
                tests=_tests(needed["tests"], expected) if "tests" in needed else "",
                stdin=texts(needed["inputs"], self.paths["inputs"]) if "inputs" in needed else (),
                command=self.config.command or (),
                file=self.config.file,
            )
        limits = limited(self.limits, sample, "tests_s")
        return BoxedProgram(program, limits, spec, wall_decides=self.config.compat == "official")

    def final_state(self, answer: Mapping[str, Any]) -> FinalState | Execution:
        """The final state of an answer; the verdict on one that is not checked.

        Raises:
            CannotRun: the answer has none.
        """
        if not (text := answer["artifacts"]):
            raise CannotRun("the answer has no final state: its model had no box, or declared no artifacts.")
        state = FinalState(**decode(text))
        if state.problem is not None:
            return Execution("tampered" if state.problem == "link" else "failed", state.problem, state.text)
        file = self.config.file
        if any(path == file or path.startswith(f"{file}/") for path in state.files):
            return Execution("tampered", "grader_path", f"'{file}' is the path of the check")
        return state

    def _state_check(self, sample: Mapping[str, Any], answer: Mapping[str, Any], reader: MediaReader) -> BoxedProgram:
        """The check of an answer's final state, in a box that has its files and nothing else."""
        state, limits = self.final_state(answer), limited(self.limits, sample, "tests_s")
        spec = replace(surroundings(sample, reader.content, self.config.image), files={}, setup=None)
        if isinstance(state, Execution):
            return BoxedProgram(None, limits, spec)
        tests = tests_text(self._needed("tests", sample, answer)) if "tests" in self.paths else ""
        command = self.config.command or ("python3", "-I", self.config.file)
        code = "\n".join(filter(None, (self._check, tests)))
        program = Program("stdio", code, stdin=("",), command=command, file=self.config.file)
        return BoxedProgram(program, limits, replace(spec, files=StoredFiles(state.files, reader)))

    def expected(self, sample: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
        """The expected outputs of a stdio program.

        Raises:
            CannotRun: the sample has none.
        """
        return texts(self._needed("outputs", sample, answer), self.paths["outputs"])

    def tests_of(self, sample: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
        """The tests of an answer for people: their code, or the inputs of a stdio program."""
        path = self.paths.get("tests") or self.paths.get("inputs")
        if path is None:
            return ""
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


def _tests(value: Any, expected: str | None) -> str:
    """Tests with the output of the program that says what they expect."""
    return tests_text(value) if expected is None else f"EXPECTED = {expected!r}\n{tests_text(value)}"


def tests_text(value: Any) -> str:
    """Tests as one text: as they are, or a list of statements, one below the other."""
    return "\n".join(map(_text, value)) if isinstance(value, list) else _text(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise CannotRun(f"a program and its tests are texts, not {type(value).__name__}.")
    return value
