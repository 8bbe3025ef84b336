"""Which models a run asks, as run.json and summary.json keep it, and the name under which they are shown."""

import re
from collections.abc import Iterable
from pathlib import PurePath

from pydantic import Field

from gage_eval.base.strict_model import StrictModel

UNDER_TEST = "dut_model"


class ModelRun(StrictModel):
    """A model that a run asks, with its role in some tasks."""

    role: str = Field(description="dut_model for the model under test, judge_model, or support.")
    name: str = Field(description="Its name at an endpoint or on the hub, or its file or folder; with a LoRA adapter.")
    quantisation: str | None = Field(default=None, description="How its weights are quantised, as configured.")
    engine: str = Field(description="The type of its backend.")
    identity: str | None = Field(
        default=None, description="Digest of what it is: files, parameters, a declared revision. Null until the end."
    )
    tasks: tuple[str, ...] = Field(default=(), description="The tasks in which it has this role.")

    @property
    def title(self) -> str:
        """As it is shown: ``Qwen/Qwen3-8B · fp8 · vllm``. What the name says already is not repeated.

        >>> ModelRun(role="dut_model", name="smol-Q4_K_M.gguf", quantisation="q4_k_m", engine="llama_cpp").title
        'smol-Q4_K_M.gguf · llama_cpp'
        """
        named = self.name.casefold()
        extra = [text for text in (self.quantisation, self.engine) if text and text.casefold() not in named]
        return " · ".join((self.name, *extra))


def model_name(declared: str, *, is_place: bool) -> str:
    """The short name of a model: of a file or folder its last part, of a snapshot in the hub's cache the hub's name.

    Args:
        declared: what the config says.
        is_place: whether it is a file or folder here, not a name at an endpoint or on the hub.

    >>> model_name("/models/qwen3-8b/", is_place=True), model_name("Qwen/Qwen3-8B", is_place=False)
    ('qwen3-8b', 'Qwen/Qwen3-8B')
    >>> model_name("hub/models--Qwen--Qwen3-8B/snapshots/b968826d", is_place=True)
    'Qwen/Qwen3-8B'
    """
    path = PurePath(declared)
    cached = next((part for part in path.parts if part.startswith("models--")), None)
    if cached is not None:
        return cached.removeprefix("models--").replace("--", "/", 1)
    # Servers often name a model by its folder there.
    return (path.name or declared) if is_place or path.is_absolute() else declared


def kinship(declared: str | None, other: str | None) -> str | None:
    """What a judge is to the model under test, by their declared names; None for nothing, and where one has no name.

    >>> kinship("Qwen/Qwen3-32B", "qwen2.5-7b-instruct"), kinship("gpt-4.1", "gpt-4.1"), kinship("gpt-4.1", "o3-mini")
    ("perhaps of the model's family (both names begin with 'qwen')", 'the model under test', None)
    """
    if declared is None or other is None:
        return None
    names = [name.casefold().rstrip("/").rpartition("/")[2] for name in (declared, other)]
    if names[0] == names[1]:
        return "the model under test"
    families = [re.match("[a-z]+", name) for name in names]
    first, second = [family and family[0] for family in families]
    if first is None or first != second:
        return None
    return f"perhaps of the model's family (both names begin with '{first}')"


def under_test(models: Iterable[ModelRun], task_id: str | None = None) -> list[ModelRun]:
    """The models under test; of one task, if it is named."""
    return [model for model in models if model.role == UNDER_TEST and task_id in (None, *model.tasks)]


def role_titles(models: Iterable[ModelRun]) -> list[tuple[str, str]]:
    """Each model with its role in a word: ``("judge", "gpt-oss-120b · openai_http")``."""
    words = {UNDER_TEST: "model", "judge_model": "judge"}
    return list(dict.fromkeys((words.get(model.role, model.role), model.title) for model in models))


def models_line(models: Iterable[ModelRun]) -> str:
    """All models with their roles: ``model Qwen/Qwen3-8B · vllm, judge gpt-oss-120b · openai_http``; empty for none."""
    return ", ".join(f"{role} {title}" for role, title in role_titles(models))


def model_title(models: Iterable[ModelRun], task_id: str | None = None) -> str | None:
    """The models under test in a few words: the first, and how many more. None where none is known.

    Args:
        models: that a run asks.
        task_id: of this task only.
    """
    titles = list(dict.fromkeys(model.title for model in under_test(models, task_id)))
    if len(titles) > 1:
        return f"{titles[0]} and {len(titles) - 1} more"
    return titles[0] if titles else None
