"""A model session: an engine, the steps it is to answer, and what of them is missing, as a text that can be sent away.

An engine starts once for all steps of a session. Any number of workers may serve one session at a time: each claims
chunks, answers them and commits them to the store; whoever holds the stage puts the parts together.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gage_eval.canonical import canonical_text, decode
from gage_eval.errors import InputError
from gage_eval.marks import Stage

FORMAT = 1


@dataclass(frozen=True)
class EngineSpec:
    """Who answers.

    Attributes:
        type: the backend's type.
        config: its config; keys in it are references, never values.
        base_dir: folder that relative paths of the config are relative to.
    """

    type: str
    config: Mapping[str, Any]
    base_dir: str


@dataclass(frozen=True)
class MissingChunk:
    """Rows ``start`` to ``stop`` (exclusive) of a part that nobody has answered yet."""

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
        asks: digest of who is asked what, but for the rows: the same wherever it is served.
        work_key: key of its work in progress.
        requests: how its requests are rendered, in the words of the stage.
        inputs: artifact ids by input.
        missing: chunks to answer; a hint of how much there is, as others may be at it.
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
    """An engine and the steps it is to answer.

    Attributes:
        store: URL of the store.
        engine: who answers.
        workers: how many processes share the chunks, so that all cut them alike.
        steps: in the order in which they are worked.
    """

    store: str
    engine: EngineSpec
    workers: int
    steps: tuple[SessionStep, ...]

    @property
    def missing_rows(self) -> int:
        """Rows of all steps that were unanswered when the session was made."""
        return sum(chunk.stop - chunk.start for step in self.steps for chunk in step.missing)

    def to_json(self) -> str:
        """The session as canonical JSON text."""
        return canonical_text({"format": FORMAT, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> "ModelSession":
        """The session of a text.

        Raises:
            InputError: the text is no session, or one of another version.
        """
        try:
            value = decode(text)
            found = value.pop("format")
            if found == FORMAT:
                engine = EngineSpec(**value.pop("engine"))
                steps = tuple(_step(step) for step in value.pop("steps"))
                return cls(engine=engine, steps=steps, **value)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"the text is no model session ({type(error).__name__}: {error}).") from error
        raise InputError(f"the model session has format {found}, and this version reads {FORMAT}: update gage-eval.")


def _step(value: dict[str, Any]) -> SessionStep:
    missing = tuple(MissingChunk(**chunk) for chunk in value.pop("missing"))
    return SessionStep(missing=missing, **value)
