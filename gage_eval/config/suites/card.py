"""A suite's identity and its card: facts for users, in the section ``suite:`` of its template."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Need: TypeAlias = Literal["judge", "box", "likelihood", "images", "audio", "image_generation"]
LINE = r"^[^\n]+$"
Line: TypeAlias = Annotated[str, StringConstraints(min_length=1, pattern=LINE)]


@dataclass(frozen=True)
class SuiteIdentity:
    """The identity of a suite in a run.

    Attributes:
        name: the suite's name.
        version: ``v1``, ``v2``, …
        digest: of its definition, as it was released.
        modified: the values of its logic that the command line or the environment changed, as
            ``tasks[0].sampling_params.temperature``. A score of a modified suite is not the suite's.
        metric: the number that people quote, by its card; None without a card.
        attacks: how many attacks pass in mode ``script``, of how many, by its card; None where that is not known, or
            its tests were changed.
    """

    name: str
    version: str
    digest: str
    modified: tuple[str, ...] = ()
    metric: str | None = None
    attacks: tuple[int, int] | None = None


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, protected_namespaces=(), defer_build=True)


class ReferenceScore(_Model):
    """A published score to compare with."""

    model: Line = Field(description="The model that was evaluated.")
    score: float = Field(description="The score as it was published, as a share where the metric is one.")
    metric: Line | None = Field(None, description="The metric, where it is not the suite's.")
    setting: Line | None = Field(None, description="How it was asked, as 8-shot.")
    source: Line = Field(description="Where it was published: a paper's name and table, or a URL.")


class Cost(_Model):
    """The approximate cost of one run of the whole suite."""

    requests: int = Field(ge=0)
    prompt_tokens: int = Field(ge=0)
    answer_tokens: int = Field(ge=0)
    judge_requests: int = Field(0, ge=0)


class Attacks(_Model):
    """Programs that try to pass without solving, on the first ten problems of a suite."""

    passed: int = Field(ge=0, description="Attacks that pass at least one problem.")
    tried: int = Field(ge=1)


class SuiteCard(_Model):
    """Facts about a suite for its users. They are not part of its digest."""

    title: Line
    summary: Line = Field(description="What it measures, in one sentence.")
    licence: Line = Field(description="Licence of the data.")
    non_commercial: bool = Field(default=False, description="Whether the licence forbids commercial use.")
    needs: list[Need] = Field(
        [], description="What a model or the machine must have in addition to chat or completions."
    )
    metric: Line = Field(description="The metric that people quote, as exact_match,flexible-extract.")
    rows: int = Field(ge=1, description="Rows that are asked.")
    download_bytes: int = Field(ge=0, description="Size of the data files.")
    cost: Cost
    reference: list[ReferenceScore] = Field([], description="Published scores.")
    origins: list[str] = Field([], description="The pinned origins that its data come from.")
    hub: list[str] = Field([], description="Datasets of the Hugging Face hub that its data come from.")
    attacks: Attacks | None = Field(
        None, description="How many attacks of its self-test pass where its programs are tested in mode script."
    )
    exceptions: dict[str, Line] = Field({}, description="Problems whose own solution does not pass, with the reason.")
