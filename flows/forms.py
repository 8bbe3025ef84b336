"""The forms of the flows: nested models, of which the Prefect UI makes a card each, and the options that they give.

Titles, texts, defaults and limits are those of `RunOptions`. A form has names of its own, because a field stands in its
card: the name in the card *Model* is the option ``model``. Only plain types are used: the UI shows an optional text, a
number, a choice and a list as fields, but a union of models as raw JSON.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from blocks import open_store
from gage_eval.base.errors import InputError
from gage_eval.base.stages import Stage
from gage_eval.config.overrides import refuse_secrets
from gage_eval.config.secrets import KEY_SHAPES, MASK, holds_literals, scrub
from gage_eval.config.suites.template_places import suite_folders
from gage_eval.config.suites.templates import suite_info
from gage_eval.config.validation_messages import plain_words
from gage_eval.runs.names import NAME_PATTERN
from gage_eval.runs.options import SUITE_PREFIX, Locations, RunOptions, suite_of
from gage_eval.runs.options_dict import LEAST, TEXTS

Engine: TypeAlias = Literal[
    "openai_http", "vllm", "vllm_native", "transformers", "vlm_transformers", "llama_cpp",
    "openai_images", "openai_speech", "openai_transcriptions", "openai_videos",
]  # fmt: skip

# Patterns, and not validators, so that the server refuses a wrong value when the form is sent.
Url: TypeAlias = Annotated[str, StringConstraints(pattern=r"^(https?://.+)?$")]
# Names as they are usual, and no keys: those mix cases, or letters and digits.
VARIABLE_NAME = r"^([A-Z_][A-Z0-9_]*|[a-z_]+[0-9]{0,2})?$"
VariableName: TypeAlias = Annotated[str, StringConstraints(pattern=VARIABLE_NAME)]
RunName: TypeAlias = Annotated[str, StringConstraints(pattern=f"^({NAME_PATTERN})?$")]


_WITHOUT_KEY = {"not": {"type": "string", "pattern": KEY_SHAPES}}
ConfigText: TypeAlias = Annotated[str, Field(json_schema_extra=_WITHOUT_KEY)]


def _of(option: str, title: str | None = None) -> Any:
    """A form's field for an option of a run, with a title other than its name where that is too long for its card."""
    default = RunOptions.model_fields[option].default
    title = title or option.replace("_", " ").capitalize()
    return Field(default, title=title, description=TEXTS[option], ge=LEAST.get(option))


class Form(BaseModel):
    """Some options of a run as one card.

    Attributes:
        OPTIONS: the option of each field that has another name than its option.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    OPTIONS: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """The form for some options.

        Raises:
            InputError: a value does not fit.
        """
        values = {field: options[cls.OPTIONS.get(field, field)] for field in cls.model_fields}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            wrong = plain_words(error, values, cls)[0]
            option = cls.OPTIONS.get(str(wrong.loc[0]), str(wrong.loc[0])).replace("_", "-")
            raise InputError(f"--{option}: {wrong.message}") from error

    @model_serializer(mode="wrap")
    def _given(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in dump(self).items() if value is not None}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """An optional field as a plain one that may be missing. The UI would draw a switch between *str* and *None*.

        The server refuses texts with a key in a well-known form, and so does not keep them.
        """
        schema = handler.resolve_ref_schema(handler(core))
        for field in schema["properties"].values():
            kinds = [kind for kind in field.get("anyOf", ()) if kind != {"type": "null"}]
            if len(kinds) == 1:
                del field["anyOf"], field["default"]
                field |= kinds[0]
            for text in (field, field.get("items", {})):
                if text.get("type") == "string":
                    text |= _WITHOUT_KEY
        return schema

    @field_validator("*", mode="before")
    @classmethod
    def _cleared(cls, value: Any) -> Any:
        """A text field that was cleared in the UI is an empty text."""
        return None if value == "" else value

    def options(self) -> dict[str, Any]:
        """The options for the values of the form."""
        return {self.OPTIONS.get(field, field): getattr(self, field) for field in type(self).model_fields}


class ModelForm(Form, title="Model"):
    """The model to evaluate: behind an endpoint, or started by an engine."""

    OPTIONS: ClassVar[Mapping[str, str]] = {
        "name": "model",
        "path": "model_path",
        "key_block": "api_key_block",
        "key_variable": "api_key_env",
        "block": "model_block",
    }

    name: str | None = _of("model", "Name")
    endpoint: Url | None = _of("endpoint")
    key_variable: VariableName | None = _of("api_key_env", "Key variable")
    key_block: str | None = _of("api_key_block", "Key block")
    engine: Engine | None = _of("engine")
    path: str | None = _of("model_path", "Path")
    work_pool: str | None = _of("work_pool")
    block: str | None = _of("model_block", "Block")


# The UI draws a choice for `anyOf` of the card itself, and leaves a condition to the server.
_WITH_MODEL: dict[str, Any] = {
    "if": {"not": {"anyOf": [{"required": ["path"]}, {"required": ["block"]}]}},
    "then": {"required": ["name"]},
}


class RequiredModelForm(ModelForm, title="Model"):
    """The model to evaluate, by its name, its path or the block that describes it."""

    model_config = ConfigDict(json_schema_extra=_WITH_MODEL)


class JudgeForm(Form, title="Judge"):
    """The model that judges answers, for suites and configs that need one."""

    OPTIONS: ClassVar[Mapping[str, str]] = {
        "names": "judges",
        "endpoint": "judge_endpoint",
        "key_block": "judge_api_key_block",
        "key_variable": "judge_api_key_env",
    }

    names: tuple[str, ...] = _of("judges", "Names")
    endpoint: Url | None = _of("judge_endpoint", "Endpoint")
    key_block: str | None = _of("judge_api_key_block", "Key block")
    key_variable: VariableName | None = _of("judge_api_key_env", "Key variable")


class DataForm(Form, title="Data"):
    """Which samples are asked."""

    OPTIONS: ClassVar[Mapping[str, str]] = {"samples": "max_samples", "seed": "shuffle_seed", "folder": "data_dir"}

    samples: int | None = _of("max_samples", "Samples")
    quick: int | None = _of("quick", "Quick")
    seed: int | None = _of("shuffle_seed", "Seed")
    task_ids: tuple[str, ...] = _of("task_ids")
    sample_ids: tuple[str, ...] = _of("sample_ids")
    folder: str | None = _of("data_dir", "Folder")


class RunForm(Form, title="Run"):
    """How the run is carried out. Its name is the name of its flow run."""

    concurrency: int | None = _of("concurrency")
    freshness: str | None = _of("freshness")
    refresh: tuple[Stage, ...] = _of("refresh")
    overrides: tuple[str, ...] = _of("overrides")
    verify: bool = _of("verify")
    resume: RunName | None = Field(
        None, title="Resume", description="Name of a run to resume: what it has computed is kept, and so is its name."
    )
    only_errors: bool = _of("only_errors")
    judge_only: bool = _of("judge_only")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        return super().of({**options, "resume": options["run_id"] if options["resume"] else None})

    def options(self) -> dict[str, Any]:
        return {**super().options(), "resume": self.resume is not None, "run_id": self.resume}


class StorageForm(Form, title="Storage"):
    """Where results are stored."""

    OPTIONS: ClassVar[Mapping[str, str]] = {"runs": "output_dir"}

    store: str | None = _of("store")
    runs: str | None = _of("output_dir", "Folder of runs")

    def places(self) -> Locations:
        """The locations, of which a block may name the store.

        Raises:
            InputError: there is no such block, or the URL names no store.
        """
        return Locations.at(open_store(self.store), self.runs)


# The cards of a run, by parameter.
FORMS: Mapping[str, type[Form]] = {
    "model": ModelForm,
    "data": DataForm,
    "run": RunForm,
    "judge": JudgeForm,
    "storage": StorageForm,
}
MODEL, JUDGE, DATA, RUN, STORAGE = ModelForm(), JudgeForm(), DataForm(), RunForm(), StorageForm()

# A command up to the next comma, or an option outside of one.
_OPTION = re.compile(r"(?P<command>\bgage [^,]*)|--(?P<option>[a-z][a-z-]*)")
# The field of each option: *Model › Name*.
_FIELDS = {
    form.OPTIONS.get(name, name): f"{parameter.capitalize()} › {field.title}"
    for parameter, form in FORMS.items()
    for name, field in form.model_fields.items()
} | {"run_id": "Run Name", "set": "Run › Overrides"}

SuiteName = Annotated[str, WithJsonSchema({"type": "string", "enum": sorted(suite_folders())})]

_SUITE = {
    "suite": "Name of the suite.",
    "version": "Version of the suite, as v1; the newest by default.",
}

Function = TypeVar("Function", bound=Callable[..., Any])


def described(function: Function) -> Function:
    """Add an ``Args:`` section to the docstring of a flow: the form shows it for parameters that are not cards."""
    texts = {**_SUITE, **TEXTS}
    names = [name for name in inspect.signature(function).parameters if name not in FORMS]
    lines = [f"    {name}: {texts[name]}" for name in names]
    function.__doc__ = "\n".join([f"{inspect.getdoc(function)}\n", "Args:", *lines])
    return function


def parameters_of(options: RunOptions, *, as_config: bool = False) -> tuple[str, dict[str, Any]]:
    """(flow, its parameters) for some options.

    Args:
        options: of the run.
        as_config: use the flow of any config for a suite, too.
    """
    values = options.model_dump(mode="json")
    cards = {name: form.of(values).model_dump(mode="json") for name, form in FORMS.items()}
    if options.config.startswith(SUITE_PREFIX) and options.text is None and not as_config:
        name, version = suite_of(options.config)
        # The form of a suite wants a model (`RequiredModelForm`). Without one here, the overrides may name it.
        if options.model or options.model_path or options.model_block or not suite_info(name).needs_model:
            return "suite", {"suite": name, "version": version or "", **cards}
    return "evaluate", {"config": options.config, "text": options.text or "", **cards}


def options_of(config: str, text: str = "", **forms: Form) -> RunOptions:
    """The options for the values of the forms.

    Raises:
        InputError: a value does not fit.
    """
    values: dict[str, Any] = {"config": config, "text": text or None}
    for form in forms.values():
        values |= form.options()
    return RunOptions.of(values)


def in_words_of_forms(message: str) -> str:
    """A message for people at a form: it names fields where the command line has options. Commands stay as they are."""

    def field(match: re.Match[str]) -> str:
        return match["command"] or _FIELDS.get((match["option"] or "").replace("-", "_"), match[0])

    return _OPTION.sub(field, message)


def suite_config(suite: str, version: str) -> str:
    """The config of a suite, as a run's options name it."""
    return f"{SUITE_PREFIX}{suite}{f'@{version}' if version else ''}"


def without_secrets(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a flow run, as the API has them, with every literal secret that a run refuses masked."""
    kept: dict[str, Any] = scrub(parameters)
    if holds_literals(str(kept.get("text") or "")):
        kept["text"] = MASK
    for card in (kept[name] for name in FORMS if isinstance(kept.get(name), dict)):
        if isinstance(variable := card.get("key_variable"), str) and not re.match(VARIABLE_NAME, variable):
            card["key_variable"] = MASK
        if isinstance(overrides := card.get("overrides"), list):
            card["overrides"] = [MASK if _is_secret(override) else override for override in overrides]
    return kept


def _is_secret(override: Any) -> bool:
    try:
        refuse_secrets([str(override)])
    except InputError:
        return True
    return False
