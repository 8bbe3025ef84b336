"""The Sample contract: one shape for every record that is evaluated, from loading to the report.

`Sample` is the contract as a typed model, with a JSON Schema (`json_schema`) for editors and converters. The
pipeline itself uses plain dicts for speed: `normalise_sample` applies the same rules to a dict, and
`samples_to_table` and `rows_of` convert dicts to Arrow and back without loss.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    field_validator,
    model_validator,
)

from gage_eval.base.canonical import canonical_text
from gage_eval.data.sample.rules import (
    DROPPED_FIELDS,
    FEW_SHOT_FORBIDDEN,
    SCHEMA_VERSION,
    inside,
    label_fits,
    normalise_sample,
    option_letter,
)

JsonObject: TypeAlias = dict[str, JsonValue]
Name: TypeAlias = Annotated[str, StringConstraints(min_length=1)]
Text: TypeAlias = str | int | float | bool


class _ClosedModel(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class _OpenModel(BaseModel):
    """Keys beyond the declared ones are kept."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)
    __pydantic_extra__: dict[str, JsonValue]


class Medium(_OpenModel):
    """The location of an image, a recording, a video or a document."""

    url: Name = Field(description="Address, path relative to the dataset's folder, or media://sha256/<hex>.")


class TextSegment(_OpenModel):
    """Text."""

    type: Literal["text"]
    text: str


class ImageSegment(_OpenModel):
    """An image."""

    type: Literal["image_url"]
    image_url: Medium | Name


class AudioSegment(_OpenModel):
    """A recording."""

    type: Literal["audio_url"]
    audio_url: Medium | Name


class VideoSegment(_OpenModel):
    """A video."""

    type: Literal["video_url"]
    video_url: Medium | Name


class FileSegment(_OpenModel):
    """A document."""

    type: Literal["file_url"]
    file_url: Medium | Name


Segment: TypeAlias = Annotated[
    TextSegment | ImageSegment | AudioSegment | VideoSegment | FileSegment, Field(discriminator="type")
]
Content: TypeAlias = str | list[Segment]


class Message(_OpenModel):
    """One message in OpenAI's form. A string as content stands for one text segment."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content | None = None
    tool_calls: list[JsonObject] | None = None
    tool_call_id: str | None = None
    name: str | None = None

    @model_validator(mode="after")
    def _has_content(self) -> Self:
        if self.content is None and not (self.role == "assistant" and self.tool_calls):
            raise ValueError("content: only an assistant's message with tool_calls may lack it")
        return self


class Option(_ClosedModel):
    """A candidate answer of a multiple-choice question. Options are shown in the list's order."""

    id: Text
    content: Text


class Reference(_ClosedModel):
    """A correct final answer. A string or number stands for one text segment."""

    answer: Text | list[Segment]
    meta: JsonObject | None = None


class Sandbox(_OpenModel):
    """The environment in which a sample's code or agent runs."""

    image: str = Field("", description="Container image.")
    files: dict[str, str] = Field({}, description="Path inside the working folder → URI or local path.")
    setup: str = Field("", description="Script run first.")
    env: dict[str, str] = Field({}, description="Environment variables.")

    @field_validator("files")
    @classmethod
    def _inside(cls, files: dict[str, str]) -> dict[str, str]:
        for path in files:
            if not inside(path):
                raise ValueError(f"{path!r} leads out of the working folder")
        return files


class _SampleBase(_OpenModel):
    """Fields that samples and few-shot examples share."""

    messages: list[Message] = Field(description="The question; empty where a prompt of the config renders it.")
    options: list[Option | Text] | None = Field(None, description="Candidates; plain texts get the ids A, B, …")
    references: list[Reference | Text] | None = Field(None, description="Correct final answers; may be empty.")
    label: Text | None = Field(None, description="String form of references[0]; for media its path or id.")
    tools: list[JsonObject] | None = Field(None, description="Tool definitions in OpenAI's form.")
    tool_choice: str | JsonObject | None = Field(None, description="Which tool the model may or must call.")

    @model_validator(mode="after")
    def _label_and_references(self) -> Self:
        if self.references is None and self.label is None:
            raise ValueError("references: missing; write an empty list when there are none")
        if (
            self.label is not None
            and self.references
            and not label_fits(_string(self.label), _plain(self.references[0]))
        ):
            raise ValueError("label: it is not the first reference")
        return self

    @model_validator(mode="after")
    def _option_ids_differ(self) -> Self:
        options = self.options or []
        ids = [
            _string(option.id) if isinstance(option, Option) else option_letter(index)
            for index, option in enumerate(options)
        ]
        if len(set(ids)) < len(ids):
            raise ValueError("options: two have the same id")
        return self


class FewShot(_SampleBase):
    """A solved example, shown before the question. It has neither examples nor runtime fields."""

    @model_validator(mode="after")
    def _compact(self) -> Self:
        for name in FEW_SHOT_FORBIDDEN:
            if name in (self.model_extra or {}):
                raise ValueError(f"a few-shot example cannot hold {name}")
        return self


class Sample(_SampleBase):
    """One item of an evaluation. Keys that are not listed are kept under ``extra``."""

    schema_version: Name | None = Field(SCHEMA_VERSION, description="Version of this contract.")
    id: Name | int = Field(description="Unique within the dataset.")
    task_type: Name | None = Field(None, description="multiple-choice, short-answer, dialogue, image-qa, agent, …")
    few_shot_examples: list[FewShot] | None = Field(None, description="Examples that belong to this sample.")
    golden_trajectories: list[list[Message]] | None = Field(None, description="Traces of a correct process.")
    sandbox: Sandbox | None = None
    metadata: JsonObject | None = Field(None, description="About the task: source ids, split, option_map, …")
    data_tag: JsonObject | None = Field(None, description="Labels to slice by.")
    raw_assets: JsonObject | None = Field(None, description="Large raw objects; never visible to prompts.")
    sampling_params: JsonObject | None = Field(None, description="Sampling parameters of this sample.")
    generation_params: JsonObject | None = Field(None, description="Generation parameters of this sample.")
    eval_config: JsonObject | None = Field(None, description="Overrides of judge and metrics for this sample.")
    unconditioned_input: str | list[JsonValue] | None = Field(None, description="The input that PMI compares with.")
    predict_result: list[JsonValue] | None = Field(None, description="Written by a run: what the model answered.")
    eval_result: JsonObject | None = Field(None, description="Written by a run: verdicts and scores.")
    choices_role: Literal["options", "reference"] | None = Field(
        None, description="What the source's own `choices` held."
    )
    extra: JsonObject | None = Field(None, description="Keys this contract does not know.")

    @model_validator(mode="before")
    @classmethod
    def _without_prompts(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            return {key: value for key, value in data.items() if key not in DROPPED_FIELDS}
        return data

    @model_validator(mode="after")
    def _extra_is_extra(self) -> Self:
        for name in self.extra or {}:
            if name in type(self).model_fields or name in (self.model_extra or {}):
                raise ValueError(f"extra.{name}: it is a field outside extra, or given twice")
        return self


def json_schema() -> dict[str, Any]:
    """JSON Schema of `Sample`, short forms included."""
    return Sample.model_json_schema()


def _string(value: Text) -> str:
    return value if isinstance(value, str) else canonical_text(value)


def _plain(reference: Reference | Text) -> dict[str, Any]:
    """A reference in the form that `label_fits` reads."""
    record = reference.model_dump() if isinstance(reference, Reference) else reference
    plain: dict[str, Any] = normalise_sample({"id": "-", "messages": [], "references": [record]})["references"][0]
    return plain
