"""A model session: an engine, the steps it serves and their missing chunks, as a text for another process or machine.

An engine starts once for all steps of a session. Any number of workers may serve one session at a time: each claims
chunks, answers them and commits them to the store. The process that runs the stage assembles the parts.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gage_eval.canonical import canonical_text, decode
from gage_eval.errors import InputError
from gage_eval.marks import Stage

FORMAT = 2


@dataclass(frozen=True)
class EngineSpec:
    """The engine that answers.

    Attributes:
        type: the backend's type.
        config: its config; secrets in it are references, never values.
        base_dir: folder that relative paths of the config are relative to.
    """

    type: str
    config: Mapping[str, Any]
    base_dir: str


@dataclass(frozen=True)
class MissingChunk:
    """The asks ``start`` to ``stop`` (exclusive) of a part, still without answers."""

    part: int
    start: int
    stop: int


@dataclass(frozen=True)
class SessionStep:
    """One generate step.

    Attributes:
        task_id: its task.
        stage: support, infer or judge.
        key: key of the stage's action.
        asks: digest of the bindings that are asked, the same on all machines.
        work_key: key of the work in progress.
        requests: how the requests are rendered, as plain values.
        inputs: artifact ids by input.
        missing: chunks to answer; other workers may answer some of them in the meantime.
    """

    task_id: str
    stage: Stage
    key: str
    asks: str
    work_key: str
    requests: Mapping[str, Any]
    inputs: Mapping[str, str]
    missing: tuple[MissingChunk, ...] = ()


@dataclass(frozen=True)
class ModelSession:
    """An engine and the steps it serves.

    Attributes:
        store: URL of the store.
        engine: the engine that answers.
        workers: number of processes that share the chunks; all cut the same chunks.
        steps: in the order of serving.
    """

    store: str
    engine: EngineSpec
    workers: int
    steps: tuple[SessionStep, ...]

    def to_json(self) -> str:
        """The session as canonical JSON text."""
        return canonical_text({"format": FORMAT, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> "ModelSession":
        """Read a session from its JSON text.

        Raises:
            InputError: the text is not a session, or has another version.
        """
        try:
            value = decode(text)
            found = value.pop("format")
            if found == FORMAT:
                engine = EngineSpec(**value.pop("engine"))
                steps = tuple(_step(step) for step in value.pop("steps"))
                return cls(engine=engine, steps=steps, **value)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"the text is not a model session ({type(error).__name__}: {error}).") from error
        raise InputError(f"the model session has format {found}, and this version reads {FORMAT}: update gage-eval.")


def _step(value: dict[str, Any]) -> SessionStep:
    missing = tuple(MissingChunk(**chunk) for chunk in value.pop("missing"))
    return SessionStep(missing=missing, **value)
