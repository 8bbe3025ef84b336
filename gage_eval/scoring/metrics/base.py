"""Define and register metrics and filters.

A metric is a small pure function. Its positional parameters are *fields*, read from the sample and the
model's output. Its keyword-only parameters are set by a config under ``params``. Both are read from
the signature:

    @metric("exact_match", version=1)
    def exact_match(prediction: str, reference: str, *, case_sensitive: bool = False) -> bool: ...

A field annotated ``str`` arrives as text, ``Sequence[str]`` as a list of texts, anything else as it is
stored. A row without a value for a field is `unscored`, unless the field has a default.
"""

import dataclasses
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias, TypeVar

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from gage_eval.base.canonical import JsonValue, canonical_text
from gage_eval.base.errors import InputError, closest
from gage_eval.base.statuses import REASONS, SCORE_STATUSES, USUAL_REASON, Reason, ScoreStatus
from gage_eval.extend.loading import plugin_errors
from gage_eval.extend.registry import Plugin, filters, metrics
from gage_eval.scoring.metrics.guarded import guarded, no_unicode
from gage_eval.scoring.metrics.scale import DEFAULT, Bounds, Scale, read_scales

FieldKind: TypeAlias = Literal["text", "texts", "value", "reference", "list_reference"]
F = TypeVar("F", bound=Callable[..., Any])

# The default path of a field, by the name of the function's parameter. The metric or the config may set another.
DEFAULT_PATHS: dict[str, str] = {
    "prediction": "model_output.answer",
    "reference": "sample.label",
    "text": "model_output.answer",
    "answers": "sample.metadata.answers",
    "options": "sample.metadata.option_map",
    "judge": "judge_output.score",
    "logprobs": "model_output.logprobs",
    "targets": "sample.targets",
}
# The names under which a config sets a field's path; every other field ``x`` is set by ``x_field``.
PATH_PARAMETERS: dict[str, tuple[str, ...]] = {
    "prediction": ("prediction_field", "pred_field"),
    "reference": ("label_field", "reference_field"),
    "answers": ("answers_field", "label_field"),
    "options": ("option_map_field",),
    "judge": ("judge_field", "score_field", "verdict_field"),
}


@dataclass(slots=True, unsafe_hash=True)
class Score:
    """A metric's result for one response. Do not change it: `dataclasses.replace` makes another one.

    It is not frozen, because a frozen class takes three times as long to make, and there is one for every answer.

    Attributes:
        value: the number, or several by value key; without meaning when `unscored`.
        status: ``scored``; ``unparsed``: no answer could be read, which counts as 0 unless ``value`` says
            otherwise; ``unscored``: there is no score, and the row is not in the mean.
        extracted: what was read from the answer (a letter, a number).
        reason: why it is not ``scored``, as data; by default `statuses.USUAL_REASON`.
        explanation: the same for people. Nothing is decided by it.
        metadata: further facts about the comparison, for people and exports; nothing is computed from them.
        components: further numbers for a corpus aggregate: ``{value key: [numbers]}``, equally many in every row.
    """

    value: float | Mapping[str, float] = 0.0
    status: ScoreStatus = "scored"
    extracted: str | None = None
    reason: Reason | None = None
    explanation: str | None = None
    components: JsonValue = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.reason is None:
            if self.status != "scored":
                self.reason = USUAL_REASON[self.status]
        elif self.reason not in REASONS:
            raise ValueError(f"a score's reason is {self.reason!r}, not one of {', '.join(REASONS)}")

    @classmethod
    def unparsed(
        cls, explanation: str, *, value: float | Mapping[str, float] = 0.0, reason: Reason | None = None
    ) -> "Score":
        """No answer could be read: wrong, and in n."""
        return cls(value, "unparsed", reason=reason, explanation=explanation)

    @classmethod
    def unscored(cls, explanation: str, *, reason: Reason | None = None) -> "Score":
        """The row cannot be scored for a reason outside the model: not in n.

        Too many such rows fail the run (``max_unscored_share``), unless their reason is one of `statuses.EXCUSED`.
        """
        return cls(0.0, "unscored", reason=reason, explanation=explanation)


PRESET = "preset"
"""The parameter that names a preset of a metric."""

FIRST_VERSION = "first_version"
"""The preset with the defaults of the first version of GAGE, where they differ from ours."""


def metric(
    name: str,
    *,
    value: str | Sequence[str] = "score",
    aggregate: str | Sequence[str] | Mapping[str, str] = "mean",
    version: int = 1,
    fields: Mapping[str, str] | None = None,
    set_by: Mapping[str, str] | None = None,
    libraries: Sequence[str] = (),
    programs: Mapping[str, str] | None = None,
    media: Sequence[str] = (),
    normalized: bool = False,
    chosen_by: str | None = None,
    binary: bool | Sequence[str] = False,
    higher_is_better: bool | Mapping[str, bool | None] | None = True,
    bounds: Bounds | Mapping[str, Bounds] | None = None,
    perfect: float | Mapping[str, float | None] | None = None,
    of_likelihoods: bool = False,
    alternatives: bool = True,
    all_references: Literal["each", "together"] | None = None,
    presets: Mapping[str, Mapping[str, Any]] | None = None,
) -> Callable[[F], F]:
    """Decorator: register a metric.

    Args:
        name: the name used in configs.
        value: key of the number it gives, or several when it returns a mapping. ``{x}`` in a key stands for the
            parameter ``x``. One key may be a pattern, as ``.*``: further keys that the answers decide have its scale.
        aggregate: the aggregation (`gage_eval.scoring.metrics.aggregations`), several of them, or one by value key;
            other keys then have ``mean``.
        version: increase it whenever a result can change.
        fields: default paths of fields that are not in `DEFAULT_PATHS`, or differ from it.
        set_by: by field, the parameter that sets the field's path in a config, where it is not ``<field>_field``.
        libraries: distributions whose version is part of the metric's identity.
        programs: programs whose version is, too, each with the Debian package that has it.
        media: fields that are addresses of media in the data. The content of files there is part of keys.
        normalized: it compares texts by a plain rule, so a scoring profile's normalisation is applied first. Metrics
            with an official rule keep to that.
        chosen_by: the parameter that leaves one of several numbers when it is set. It is set to the number's key
            without braces: ``hit@k`` for ``hit@{k}``.
        binary: its numbers are always 0 or 1, or those of these keys are: their mean has Wilson's interval.
        higher_is_better: False where less is better (errors, distances, perplexities, times), None where neither is. It
            may be given by value key, like the next two; keys that are not named then have the default.
        bounds: the smallest and the largest value that is possible, None for no end: ``(0, 100)``, ``(0, None)``.
            Intervals are cut there.
        perfect: the value of a fully right answer. By default the better end of 0..1, for values in that range or
            without bounds. A number with other bounds has none, and no answer is right or wrong by it.
        of_likelihoods: it compares log-likelihoods of candidates, which only tasks that ask for likelihoods have.
        alternatives: whether several references may be tried one after the other, the best result counting. False
            where the reference is the text that is measured.
        all_references: how it reads references that are all needed (``references: all``). ``each``: the answer must
            match every one; ``together``: ``reference`` is their JSON list, one set. None where it cannot.
        presets: parameters by the name under which a config asks for all of them, ``preset: NAME``.
    """
    info = dict(locals())
    values = (value,) if isinstance(value, str) else tuple(value)
    info |= {"values": values, "libraries": tuple(libraries), "media": tuple(media)}
    info |= {key: dict(info[key] or {}) for key in ("fields", "set_by", "programs", "presets")}
    scale = {key: info.pop(key) for key in ("higher_is_better", "bounds", "perfect", "binary")}
    info["scales"] = {key: asdict(scale) for key, scale in read_scales(values, **scale).items()}
    del info["value"]
    return metrics.register(**info)


def text_filter(name: str, *, version: int = 1) -> Callable[[F], F]:
    """Decorator: register a filter, a function from a text (and keyword-only parameters) to a text.

    It returns None when it finds nothing; the row is then `unparsed`.
    """
    return filters.register(name, version=version)


def sample_filter(name: str, *, version: int = 1) -> Callable[[F], F]:
    """Decorator: register a filter over the replicates of a sample.

    Its function takes the texts in order, None where an earlier filter found nothing. It returns the texts that
    stay, by position. Other replicates get no score.
    """
    return filters.register(name, version=version, per_sample=True)


@dataclass(frozen=True)
class Field:
    """One input of a metric.

    Attributes:
        name: the function's parameter.
        path: the default path.
        kind: the form in which the function wants the value.
        default: the value when nothing is there; `inspect.Parameter.empty` when the value is required.
        spellings: the parameters that set the path in a config.
    """

    name: str
    path: str
    kind: FieldKind
    default: Any
    spellings: tuple[str, ...]

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True)
class Signature:
    """The keyword-only parameters of a metric or filter: names, types and defaults.

    Attributes:
        owner: the plug-in's name, for messages.
        parameters: annotation and default by name; the default is `inspect.Parameter.empty` where there is none.
        also: further names that the plug-in's user may set, for messages.
    """

    owner: str
    parameters: Mapping[str, tuple[Any, Any]]
    also: tuple[str, ...] = ()

    def validate(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """All parameters with their values, including defaults.

        Raises:
            InputError: a parameter is unknown, has the wrong type, or is required and missing.
        """
        for name in params:
            if name not in self.parameters:
                raise InputError(
                    f"{self.owner} has no parameter '{name}'. {self._takes()}"
                    f"{closest(name, [*self.parameters, *self.also])}"
                )
        values: dict[str, Any] = {}
        for name, (annotation, default) in self.parameters.items():
            if name in params:
                values[name] = self._checked(name, annotation, params[name])
            elif default is inspect.Parameter.empty:
                raise InputError(f"{self.owner} needs the parameter '{name}'. {self._takes()}")
            else:
                values[name] = default
        return values

    def _checked(self, name: str, annotation: Any, value: Any) -> Any:
        try:
            return TypeAdapter(annotation).validate_python(value)
        except PydanticUserError as error:
            raise InputError(
                f"{self.owner}: parameter '{name}' has a type that cannot be checked: {annotation}."
            ) from error
        except ValidationError as error:
            reason = error.errors(include_url=False)[0]["msg"]
            raise InputError(f"{self.owner}: parameter '{name}' is {value!r}: {_sentence(reason)}") from error

    def _takes(self) -> str:
        shown = [
            name if default is inspect.Parameter.empty else f"{name} ({_shown(default)})"
            for name, (_, default) in self.parameters.items()
        ]
        return f"It takes: {', '.join([*shown, *self.also])}." if shown or self.also else "It takes no parameters."


@dataclass(frozen=True)
class Definition:
    """A metric or filter as its function declares it. Build it with `define`."""

    plugin: Plugin[Any]
    function: Callable[..., Any]
    fields: tuple[Field, ...]
    signature: Signature
    values: tuple[str, ...] = ("score",)
    aggregate: str | Sequence[str] | Mapping[str, str] = "mean"
    path_parameters: Mapping[str, str] = field(default_factory=dict)
    chosen_by: str | None = None

    def keys(self, params: Mapping[str, Any]) -> dict[str, str]:
        """The keys of its numbers under these parameters, by the declared keys."""
        chosen = params.get(self.chosen_by) if self.chosen_by is not None else None
        return {
            key: key.format_map(params)
            for key in self.values
            if key not in self.further_keys and (chosen is None or key.replace("{", "").replace("}", "") == chosen)
        }

    @cached_property
    def further_keys(self) -> tuple[str, ...]:
        """Patterns of keys that its answers decide."""
        return tuple(key for key in self.values if "*" in key)

    def with_preset(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters that are given, and those of their ``preset`` where they say nothing else.

        Raises:
            InputError: the metric has no such preset.
        """
        if PRESET not in params or PRESET in self.signature.parameters:
            return dict(params)
        own = {name: value for name, value in params.items() if name != PRESET}
        presets, name = self.plugin.info.get("presets") or {}, params[PRESET]
        if not isinstance(name, str) or name not in presets:
            known = f"Presets: {', '.join(presets)}.{closest(str(name), presets)}" if presets else "It has no presets."
            raise InputError(f"{self.plugin.name} has no preset {name!r}. {known}")
        return {**presets[name], **own}

    def scale(self, key: str) -> Scale:
        """The scale of a declared key."""
        return _scales(self.plugin).get(key, DEFAULT)

    @cached_property
    def filtered_field(self) -> int | None:
        """Position of the field that filters change: ``prediction``, else ``text``; None without one."""
        names = [item.name for item in self.fields if item.kind == "text"]
        chosen = next((name for name in ("prediction", "text") if name in names), None)
        return None if chosen is None else [item.name for item in self.fields].index(chosen)


def define(plugin: Plugin[Any]) -> Definition:
    """Read the signature of a registered metric or of a plain function given by its path.

    Raises:
        InputError: it takes ``*args`` or ``**kwargs``, or has a field without a path.
    """
    function = plugin.obj
    if inspect.isclass(function):
        function = _as_function(function, plugin.name)
    with plugin_errors(f"the signature of metric {plugin.location}"):
        hints, exact = typing.get_type_hints(function), typing.get_type_hints(function, include_extras=True)
        declared = inspect.signature(function).parameters.values()
    paths, set_by = plugin.info.get("fields", {}), plugin.info.get("set_by", {})
    read: list[Field] = []
    parameters: dict[str, tuple[Any, Any]] = {}
    for parameter in declared:
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise InputError(f"metric '{plugin.name}' takes *{parameter.name}: its parameters must be named.")
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            parameters[parameter.name] = (exact.get(parameter.name, Any), parameter.default)
            continue
        path = paths.get(parameter.name) or DEFAULT_PATHS.get(parameter.name)
        if path is None:
            raise InputError(
                f"metric '{plugin.name}' reads '{parameter.name}' from nowhere: give it a path in "
                f"@metric(fields={{'{parameter.name}': …}}), or make it keyword-only to be a parameter."
            )
        name = parameter.name
        spellings = (set_by[name],) if name in set_by else PATH_PARAMETERS.get(name, (f"{name}_field",))
        kind = _kind(hints.get(name, Any))
        if name == "reference" and kind == "text":
            kind = "list_reference" if plugin.info.get("all_references") == "together" else "reference"
        read.append(Field(name, path, kind, parameter.default, spellings))
    spelled = {spelling: item.name for item in read for spelling in item.spellings}
    return Definition(
        plugin,
        function
        if plugin.is_builtin
        else guarded(function, f"{plugin.location}()", partial(_no_score, _scales(plugin))),
        tuple(read),
        Signature(plugin.name, parameters, (*spelled, "default", *([PRESET] if plugin.info.get("presets") else ()))),
        tuple(plugin.info.get("values", ("score",))),
        plugin.info.get("aggregate", "mean"),
        spelled,
        plugin.info.get("chosen_by"),
    )


def _as_function(cls: type[Any], name: str) -> Callable[..., Any]:
    """Turn a metric's class into a function: its fields are the parameters, and ``score`` names what it reads.

    Raises:
        InputError: it has no ``score``, or lacks a step that its base class asks for.
    """
    score = getattr(cls, "score", None)
    if score is None or not dataclasses.is_dataclass(cls):
        raise InputError(
            f"metric '{name}' is a class without a method 'score': derive it from a base of metrics.families."
        )
    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        raise InputError(f"metric '{name}' lacks {', '.join(missing)}, which its base class asks for.")

    def function(*args: Any, **params: Any) -> Any:
        return score(cls(**params), *args)

    reads = [parameter for parameter in inspect.signature(score).parameters.values() if parameter.name != "self"]
    takes = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in inspect.signature(cls).parameters.values()]
    function.__signature__ = inspect.Signature([*reads, *takes])  # type: ignore[attr-defined]
    own = typing.get_type_hints(cls, include_extras=True)
    function.__annotations__ = {**typing.get_type_hints(score, include_extras=True), **own}
    return function


def signature_of(plugin: Plugin[Any]) -> Signature:
    """The parameters of a filter or verdict parser."""
    with plugin_errors(f"the signature of {plugin.singular} {plugin.location}"):
        hints = typing.get_type_hints(plugin.obj, include_extras=True)
        declared = inspect.signature(plugin.obj).parameters.values()
    parameters = {
        parameter.name: (hints.get(parameter.name, Any), parameter.default)
        for parameter in declared
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    return Signature(f"{plugin.singular} {plugin.name}", parameters)


def _scales(plugin: Plugin[Any]) -> dict[str, Scale]:
    return {key: Scale(**scale) for key, scale in plugin.info.get("scales", {}).items()}


def _no_score(scales: Mapping[str, Scale], result: Any) -> str | None:
    """What is wrong with the result of a plug-in's metric; None when nothing is."""
    score = result if isinstance(result, Score) else Score(result)
    values: list[Any] = list(score.value.values()) if isinstance(score.value, Mapping) else [score.value]
    for value in values:
        if not isinstance(value, int | float):
            return f"{type(value).__name__}, not a number or a Score"
        try:
            float(value)
        except OverflowError:
            return "a number that no float can hold"
    by_key = score.value if isinstance(score.value, Mapping) else dict(zip(scales, values, strict=False))
    for key, value in by_key.items():
        if score.status != "unscored" and not math.isnan(value) and not scales.get(key, DEFAULT).holds(value):
            return f"{value:g}, outside the bounds that it declares"
    if score.status not in SCORE_STATUSES:
        return f"a Score with the status {score.status!r}, not one of {', '.join(SCORE_STATUSES)}"
    for name in ("extracted", "explanation"):
        text = getattr(score, name)
        if text is not None and not isinstance(text, str):
            return f"a Score whose {name} is {type(text).__name__}, not a text"
        if text is not None and (why := no_unicode(text)) is not None:
            return f"a Score whose {name} is {why}"
    if isinstance(score.value, Mapping):
        for key in score.value:
            if (why := no_unicode(str(key))) is not None:
                return f"a Score with a key that is {why}"
    try:
        canonical_text([score.components, dict(score.metadata)])
    except (TypeError, ValueError) as error:
        return f"a Score whose components or metadata have no JSON form: {error}"
    return None


def _kind(annotation: Any) -> FieldKind:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        inner = [item for item in typing.get_args(annotation) if item is not type(None)]
        return _kind(inner[0]) if len(inner) == 1 else "value"
    if annotation is str:
        return "text"
    origin = typing.get_origin(annotation)
    return "texts" if origin in (list, tuple, Sequence) and typing.get_args(annotation)[0] is str else "value"


def _shown(default: Any) -> str:
    return default if isinstance(default, str) else "none" if default in (None, ()) else str(default).lower()


def _sentence(text: str) -> str:
    text = text[:1].lower() + text[1:]
    return text if text.endswith(".") else text + "."
