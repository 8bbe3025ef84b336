"""``gage new``: a config for one's own data, from a look at the first rows."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gage_eval.authoring.data_preview import GSM8K, MEDIA, DataPreview, UnknownField
from gage_eval.authoring.first_rows import first_samples
from gage_eval.authoring.validation import validated
from gage_eval.base.errors import InputError, closest
from gage_eval.base.field_paths import reference_texts
from gage_eval.base.files import write_new
from gage_eval.config.model_choice import backend_for, key_reference
from gage_eval.config.models import is_id
from gage_eval.config.rules import name_of_file
from gage_eval.config.sugar import metric_form
from gage_eval.config.suites.card import Need
from gage_eval.config.suites.template_file import read_template
from gage_eval.config.suites.templates import list_suites
from gage_eval.config.yaml.lines import as_written
from gage_eval.config.yaml.nodes import node_of
from gage_eval.config.yaml.text import yaml_text
from gage_eval.data.standardize.default import ANSWER_FIELDS, QUESTION_FIELDS
from gage_eval.extend import registry
from gage_eval.pipeline.score_row import score
from gage_eval.runs.options import RunOptions
from gage_eval.runs.planned import planned
from gage_eval.scoring.metrics.bind import BoundMetric
from gage_eval.scoring.metrics.text_utils import as_text

_SCHEMA = ".gage/config.schema.json"
_TRIED = 20
# How a field of an answer is named to the model.
_TYPE_WORDS = {"number": "number", "boolean": "true or false", "list": "list", "json": "object"}
_SHORT_PROMPT = "Answer with a word, a number or a short phrase only."
_NUMBER_PROMPT = "Answer with the number only."
_ROOM = {"exact_match": 64, "classification": 64, "numeric_match": 64, "multi_choice_accuracy": 16}

# What counts as right, as a person says it.
RIGHT: Mapping[str, str] = {
    "exact_match": "the answer is the reference, upper and lower case alike",
    "contains": "the reference occurs in the answer",
    "numeric_match": "the number is the same",
    "multi_choice_accuracy": "the right option is chosen",
    "token_f1": "the words are the same, or many of them",
    "rouge": "the text is similar (ROUGE)",
    "classification": "the answer names the label",
    "json_fields": "the fields of the JSON are the same",
    "tool_call_match": "the same tools are called with the same arguments",
    "wer": "the words are those that are said (word error rate)",
}


class UnknownMetric(InputError):
    """A metric that does not exist or cannot be read."""


def new_config(
    seen: DataPreview,
    *,
    model: str | None,
    endpoint: str | None = None,
    engine: str | None = None,
    api_key_env: str | None = None,
    metric: str | None = None,
    out: Path | None = None,
) -> tuple[Path, str, list[str]]:
    """A config for the data: its path, its text, and notes for the user. Only rows of pictures are written, next to it.

    It is tried: on the first rows, an answer that is the reference must be right.

    Args:
        seen: what the data look like.
        model: the model under test: its name at the endpoint, a folder, a ``.gguf`` file or a name on the hub.
        endpoint: URL of an OpenAI-compatible server.
        engine: type of the backend.
        api_key_env: the variable that holds the endpoint's key.
        metric: what counts as right; what the data suggest unless given.
        out: the file that is meant; the data's name in the working folder unless given.

    Raises:
        InputError: the options name no model or metric, the file is there already, or the config would be wrong.
    """
    if model is None and engine is None:
        raise InputError("name the model with --model, and its server with --endpoint.")
    metric = metric or seen.metric
    implementation = _implementation(metric, seen)
    name = name_of_file(seen.file.name)
    out = out or Path(f"{name}.yaml")
    if os.path.exists(out):
        raise InputError(f"'{out}' is there already; choose another name with --out.")
    needs: tuple[Need, ...] = () if seen.medium is None or seen.kind == "audio" else ("images",)
    backend = backend_for(model, endpoint, engine, key_reference(api_key_env, None), needs)
    if seen.made_rows is not None:
        rows = out.with_name(f"{out.stem}-rows.jsonl")
        write_new(rows, seen.made_rows)
        seen = replace(seen, file=rows)
    # Paths that lead up out of a folder do not work before it is there: checked is the config for a folder that is.
    there = next(folder for folder in (out.parent, *out.absolute().parents) if os.path.isdir(folder))
    options = RunOptions.of({"config": str(there), "text": _text(seen, metric, implementation, backend, name, there)})
    warnings = validated(options).warnings
    _try(options)
    if seen.contexts is not None:
        warnings = [*warnings, "the judge is the model itself; name another one under backends, as 'judge'."]
    return out, _text(seen, metric, implementation, backend, name, out.parent), warnings


def _try(options: RunOptions) -> None:
    """Score the references of the first rows as answers.

    Raises:
        InputError: no such answer is right by the first metric.
    """
    task = planned(options).plan.tasks[0]
    samples = [sample for sample in first_samples(task) if isinstance(sample, dict)][:_TRIED]
    for metric in task.auto_eval.metrics[:1]:
        if not samples or metric.inputs - {"samples", "responses"} or metric.implementation not in RIGHT:
            return
        spec = {"implementation": metric.implementation, "params": dict(metric.recipe["params"])}
        results = [score(spec, sample=sample, model_output=_perfect(sample)) for sample in samples]
        if not any(_has_credit(metric, key, value) for result in results for key, value in result.values.items()):
            why = next(
                (str(result.metadata["explanation"]) for result in results if result.metadata["explanation"]), ""
            )
            raise InputError(
                f"an answer that is the reference is not right by {metric.implementation} in the first "
                f"{len(samples)} rows{f' ({why})' if why else ''}. Name another --metric or --answer."
            )


def _has_credit(metric: BoundMetric, key: str, value: float) -> bool:
    scale = metric.scale(key)
    return scale.is_right(value) if scale.higher_is_better is False else value > 0


def _perfect(sample: Mapping[str, Any]) -> dict[str, Any]:
    if trajectories := sample.get("golden_trajectories"):
        return {"tool_calls": [call for message in trajectories[0] for call in message.get("tool_calls") or ()]}
    texts = reference_texts(sample) or [as_text(sample.get("metadata", {}).get("reference"))]
    return {"answer": texts[0]}


def _text(
    seen: DataPreview, metric: str, implementation: str, backend: Mapping[str, Any], name: str, folder: Path
) -> str:
    """The config as YAML, with paths as they are seen from a folder."""
    params: dict[str, Any] = {"path": os.path.relpath(seen.file, folder), **_preprocess(seen, implementation)}
    params |= {key: value for key, value in seen.source.items() if key not in ("loader", "content_root")}
    params |= {} if seen.medium is None else MEDIA[seen.kind].params
    if "content_root" in seen.source:
        params["content_root"] = os.path.relpath(seen.source["content_root"], folder)
    loader = {"loader": seen.source["loader"]} if "loader" in seen.source else {}
    dataset = name if is_id(name) else "data"
    model = {**backend, "config": _backend_config(backend, implementation, folder)}
    scored = _metric_entry(seen, metric, implementation)
    config: dict[str, Any] = {
        "datasets": [{"dataset_id": dataset, **loader, "params": params}],
        "backends": [{"backend_id": "model", **model}],
    }
    if seen.contexts is None:
        config["metrics"] = [scored]
    else:
        config["backends"].append({"backend_id": "judge", **model})
        config |= _judged(seen, dataset, scored)
    head = (
        f"# yaml-language-server: $schema={_SCHEMA}\n"
        f"# Made by gage new from the {seen.shown_rows} of {seen.file.name}. Right is: "
        f"{RIGHT.get(implementation, f'what {metric} says')}.\n"
    )
    return yaml_text(node_of(config, name), head=head)


def _metric_entry(seen: DataPreview, metric: str, implementation: str) -> Any:
    """The metric with what the data say about it."""
    params: dict[str, Any] = {}
    if implementation == "classification" and seen.labels:
        params["labels"] = list(seen.labels)
    if implementation == "json_fields" and seen.types:
        params["fields"] = dict(seen.types)
    if seen.structured:
        params["label_field"] = "sample.metadata.reference"
    if metric != implementation or not params:
        return metric
    return {"metric_id": implementation, "implementation": implementation, "params": params}


def _judged(seen: DataPreview, dataset: str, scored: Any) -> dict[str, Any]:
    """Tasks for retrieved texts: the criteria of suite ``rag`` that the rows allow; the first one has the metric."""
    suite = as_written(read_template(next(suite.path for suite in list_suites() if suite.name == "rag")).definition)
    prompts, adapters, tasks = [], [], []
    for prompt, adapter, task in zip(suite["prompts"], suite["role_adapters"], suite["tasks"], strict=True):
        needs_reference = "sample.label" in prompt["template"]
        if needs_reference and seen.answer is None:
            continue
        template = prompt["template"]
        if not seen.several_contexts:
            template = template.replace("sample.metadata.contexts", "[sample.metadata.contexts]")
        prompts.append({**prompt, "template": template})
        adapters.append({**adapter, "backend_id": "judge"})
        tasks.append({**task, "dataset_id": dataset})
    dut = {"adapter_id": "model", "role_type": "dut_model", "backend_id": "model"}
    for task in tasks:
        task.pop("sampling_params", None)
    if seen.answer is not None:
        tasks[0]["metric_overrides"] = [scored, *tasks[0]["metric_overrides"]]
    return {"prompts": prompts, "role_adapters": [dut, *adapters], "tasks": tasks}


def _backend_config(backend: Mapping[str, Any], metric: str, folder: Path) -> dict[str, Any]:
    config = {key: _near(value, folder) for key, value in backend["config"].items()}
    if backend["type"] != "dummy":
        config["default_params"] = {"temperature": 0, "max_new_tokens": _ROOM.get(metric, 512)}
    return config


def _implementation(metric: str, seen: DataPreview) -> str:
    """The registered metric of a form such as ``numeric_match(tolerance=0.01)``.

    Raises:
        InputError: there is none, or the data have no reference for it.
    """
    try:
        name: str = metric_form(metric, ())["implementation"] if "(" in metric else metric
    except ValueError as error:
        raise UnknownMetric(f"--metric: {error}.") from error
    if name not in registry.metrics.names():
        known = ", ".join(RIGHT)
        raise UnknownMetric(f"no metric '{metric}'. The usual ones: {known}; all: gage list metrics."
                         f"{closest(metric, registry.metrics.names())}")  # fmt: skip
    if (
        seen.answer is None
        and name in RIGHT
        and not seen.last_turn
        and seen.contexts is None
        and (name != "tool_call_match")
    ):
        message = f"which field of '{seen.file}' is the reference? Name it with --answer."
        raise UnknownField(message, "answer", seen.fields)
    return name


def _preprocess(seen: DataPreview, metric: str) -> dict[str, Any]:
    """Preprocessor and prompt for the rows as they are."""
    made = _asked(seen, metric)
    if seen.medium is None:
        return made
    kwargs = made.get("preprocess_kwargs", {})
    return {**made, "preprocess_kwargs": {**kwargs, "fields": {**kwargs.get("fields", {}), seen.kind: seen.medium}}}


def _asked(seen: DataPreview, metric: str) -> dict[str, Any]:
    prompt = _instruction(seen, metric)
    said = {} if prompt is None else {"system_prompt": prompt}
    if seen.medium is not None and seen.question is None and seen.messages is None:
        asks = {"question": MEDIA[seen.kind].question, "answer_field": seen.answer}
        return {"preprocess": "simple", "preprocess_kwargs": {**asks, **said}}
    if seen.last_turn:
        return {"preprocess": "strip_assistant", "preprocess_kwargs": {"last_only": True}}
    if metric == "tool_call_match":
        own = {"question_field": seen.question} if seen.question not in (None, *QUESTION_FIELDS) else {}
        return {"preprocess": "agent", **({"preprocess_kwargs": own} if own else {})}
    if seen.choices is not None and seen.question is not None:
        named: dict[str, tuple[Any, Any]] = {
            "question_field": (seen.question, "question"),
            "choices_field": (seen.choices, "choices"),
            "answer_field": (seen.answer, "answer"),
            "answer_index_base": (seen.index_base, 0),
        }
        kwargs = {key: value for key, (value, default) in named.items() if value != default}
        return {"preprocess": "multi_choice", **({"preprocess_kwargs": kwargs} if kwargs else {})}
    if seen.worked and seen.question in QUESTION_FIELDS and seen.answer in ANSWER_FIELDS:
        return {"preprocess_kwargs": {"answer_split": GSM8K, "answer_strip": ",", **said}}
    if seen.contexts is not None:
        fields = {"metadata.question": seen.question or "", "metadata.contexts": seen.contexts}
        kwargs = {"question_field": seen.question, "answer_field": seen.answer, "template": _with_contexts(seen)}
        return {"preprocess": "simple", "preprocess_kwargs": {**kwargs, "fields": fields}}
    structured = {"fields": {"metadata.reference": seen.answer}} if seen.structured and seen.answer else {}
    usual_answer = seen.answer is None or seen.answer in (*ANSWER_FIELDS, "references")
    if seen.question is None:
        # Messages are sent as they are: a system prompt is for questions.
        renamed: dict[str, Any] = structured or ({} if usual_answer else {"answer_field": seen.answer})
        if seen.messages not in (None, "messages"):
            renamed = {"messages_field": seen.messages, **renamed}
        return {"preprocess_kwargs": renamed} if renamed else {}
    if seen.question in QUESTION_FIELDS and usual_answer and not structured:
        return {"preprocess_kwargs": said} if said else {}
    asks = {"question_field": seen.question, "answer_field": None if structured else seen.answer}
    return {"preprocess": "simple", "preprocess_kwargs": {**asks, **structured, **said}}


def _instruction(seen: DataPreview, metric: str) -> str | None:
    """The instruction on the form of an answer."""
    if metric == "classification" and seen.labels:
        what = "text" if seen.medium is None else seen.word
        return f"Which of these labels fits the {what}? Answer with the label only: {', '.join(seen.labels)}."
    if metric == "json_fields" and seen.types:
        named = ", ".join(f"{path} ({_TYPE_WORDS.get(kind, 'text')})" for path, kind in seen.types.items())
        return f"Answer with one JSON object and nothing else. Its fields, with dots for objects in it: {named}."
    return {"exact_match": _SHORT_PROMPT, "numeric_match": _NUMBER_PROMPT}.get(metric)


def _with_contexts(seen: DataPreview) -> str:
    place = f"record[{json.dumps(seen.contexts)}]"
    texts = (
        f"{{% for text in {place} %}}\nText {{{{ loop.index }}}}:\n{{{{ text }}}}\n{{% endfor %}}"
        if seen.several_contexts
        else f"\n{{{{ {place} }}}}\n"
    )
    return (
        "Answer the question from these texts, in a few words. If they do not say it, write that you do not know.\n"
        f"{texts}\nQuestion: {{{{ question }}}}"
    )


def _near(value: Any, folder: Path) -> Any:
    """A model's folder as the config names it; relative if it is below the config's folder."""
    if not isinstance(value, str) or not os.path.isabs(value):
        return value
    place = Path(value)
    return os.path.relpath(place, folder) if place.is_relative_to(folder.resolve()) else value


def write_schema(folder: Path) -> None:
    """Put the JSON Schema of configs where the header of a new config names it."""
    from gage_eval.config.schema import config_schema

    file = folder / _SCHEMA
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(config_schema(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"'{file}' cannot be written: {error.strerror}.") from error
