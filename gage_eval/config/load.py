"""From a file to a `LoadedConfig`: the passes over a config, each once, with all mistakes of the file said together.

A mistake at one place does not hide those at other places; what follows from a mistake that was said is not said again.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gage_eval.backends.base import BackendContext
from gage_eval.canonical import digest
from gage_eval.config.compose import compose
from gage_eval.config.document import Document, Origin
from gage_eval.config.environment import Given, set_from_environment
from gage_eval.config.files import read_config
from gage_eval.config.fit import check_fit
from gage_eval.config.interpolate import fill
from gage_eval.config.located import located
from gage_eval.config.merge import merge_template, read_card
from gage_eval.config.metrics import BoundMetrics, bind_metrics
from gage_eval.config.model_choice import ModelChoice, choose_models
from gage_eval.config.models import PipelineConfig
from gage_eval.config.overrides import apply_overrides
from gage_eval.config.plain_words import as_written
from gage_eval.config.plugins import check_plugins
from gage_eval.config.problems import Loc, path_text
from gage_eval.config.resolve import Resolved, ResolvedTask, resolve
from gage_eval.config.rules import apply_rules, name_implied_tasks
from gage_eval.config.validate import validate
from gage_eval.config.yaml_text import yaml_text
from gage_eval.foreign import forget_failures
from gage_eval.metrics import BoundMetric


@dataclass(frozen=True)
class LoadedConfig:
    """A config that was read and checked.

    Attributes:
        config: what it says, with everything written out that the command line, the environment and the rules give.
        tasks: its tasks with all they refer to.
        metrics: the metrics of each task, bound, by the task's id.
        context: what the backends may ask of their surroundings; it holds those that were built.
        text: the config with its placeholders as written, which is what a run keeps: the file as it stands, or one
            file made of it and of those that it includes or runs.
        source: the file, as it was named.
        digest: sha256 of the canonical form of ``config``.
        origins: where each value came from, by path, as ``tasks[0].max_samples``; a value that is not there is the
            default. No digest holds them.
        warnings: what works but is rarely meant, one sentence each.
        base_dir: the folder that relative paths of the config start from.
    """

    config: PipelineConfig
    tasks: tuple[ResolvedTask, ...]
    metrics: Mapping[str, tuple[BoundMetric, ...]]
    context: BackendContext
    text: str
    source: str
    digest: str
    origins: Mapping[str, Origin]
    warnings: tuple[str, ...]
    base_dir: Path


def load_config(
    path: str | Path,
    *,
    env: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    max_samples: int | None = None,
    model_path: str | None = None,
    models: ModelChoice | None = None,
    settings: Mapping[str, Given] | None = None,
    context: BackendContext | None = None,
) -> LoadedConfig:
    """Read and check a PipelineConfig, or the definition of a BuiltinTemplate.

    Args:
        path: the YAML file.
        env: what placeholders are filled from; the process's environment unless given.
        overrides: ``a.b=c`` each, as with ``--set``; they count before the file.
        max_samples: at most so many samples of every task (``--max-samples``).
        model_path: the model of the backend under test (``--model-path``).
        models: the models that the command line chooses, for a suite or in place of the config's.
        context: what backends may ask of their surroundings; its folder is the config's.
        settings: what the environment sets where the config does not (`gage_eval.settings.Settings.given`).

    Raises:
        InputError: the file cannot be read, or an override has no place to go.
        ConfigError: the config is wrong; all its problems, each with its line.
    """
    file = Path(path)
    return parse_config(
        read_config(file),
        source=str(path),
        base_dir=file.parent,
        env=env,
        overrides=overrides,
        max_samples=max_samples,
        model_path=model_path,
        models=models,
        settings=settings,
        context=context,
    )


def parse_config(
    text: str,
    *,
    source: str = "config",
    base_dir: Path | None = None,
    env: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    max_samples: int | None = None,
    model_path: str | None = None,
    models: ModelChoice | None = None,
    settings: Mapping[str, Given] | None = None,
    context: BackendContext | None = None,
) -> LoadedConfig:
    """`load_config` for a text that is in memory; the arguments and errors are the same."""
    folder = base_dir or Path()
    document, config = read_document(
        text,
        source,
        folder,
        env=env,
        overrides=overrides,
        max_samples=max_samples,
        model_path=model_path,
        models=models,
        settings=settings,
    )
    here = located(config, folder)
    surroundings = replace(context or BackendContext(), base_dir=folder, built={})
    resolved, metrics = resolve_document(document, here, surroundings)
    if document.problems:
        raise document.error()
    return LoadedConfig(
        config=here,
        tasks=tuple(resolved.tasks.values()),
        metrics=metrics.by_task,
        context=surroundings,
        text=document.text,
        source=source,
        digest=digest(config.model_dump(mode="json")),
        origins=origins_of(config, document),
        warnings=tuple(dict.fromkeys(document.warnings)),
        base_dir=folder,
    )


def read_document(
    text: str,
    source: str,
    folder: Path,
    *,
    env: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    max_samples: int | None = None,
    model_path: str | None = None,
    models: ModelChoice | None = None,
    settings: Mapping[str, Given] | None = None,
) -> tuple[Document, PipelineConfig]:
    """The passes up to the validated config; nothing that it refers to was looked at. Arguments as of `parse_config`.

    Raises:
        ConfigError: so much is wrong that what would be said further might not be true.
    """
    forget_failures()
    composed = compose(text, source, folder)
    document = Document(fill(composed.node, os.environ if env is None else env), source, composed.templates)
    document.text = text if composed.alone else yaml_text(composed.node)
    document.problems += composed.problems
    document.warnings += composed.warnings
    merge_template(document)
    read_card(document, composed.card)
    name_implied_tasks(document)
    choose_models(document, models or ModelChoice(), document.card.needs if document.card is not None else None)
    apply_overrides(document, overrides, max_samples=max_samples, model_path=model_path, base_dir=folder)
    set_from_environment(document, settings or {})
    apply_rules(document)
    config = validate(document)
    if config is None:
        raise document.error()
    return document, config


def resolve_document(
    document: Document, config: PipelineConfig, context: BackendContext
) -> tuple[Resolved, BoundMetrics]:
    """The tasks and their metrics, and what is wrong with all they refer to: parts of the config, plug-ins, folders."""
    resolved = resolve(config, context.base_dir)
    document.add(resolved.found)
    document.warnings += resolved.warnings
    if "observability" in config.model_fields_set:
        document.warnings.append("observability: has no effect yet; events.jsonl in the run's folder holds all events.")
    found, warnings = check_plugins(config, context)
    document.add(found)
    document.warnings += warnings
    metrics = bind_metrics(config, resolved.tasks)
    document.add(metrics.found)
    document.add(check_fit(config, resolved, metrics.by_task, context))
    return resolved, metrics


def origins_of(config: PipelineConfig, document: Document) -> dict[str, Origin]:
    """Where the values of a config came from, by path; those that nobody gave are left out."""
    out = {}
    for loc in _leaves(config.model_dump(mode="json"), ()):
        written = as_written(loc, document.data)
        origin = document.origin(written)
        if origin is None:
            # A short form holds it; a mapping that is written out would have its key.
            around = next(end for end in range(len(written) - 1, -1, -1) if document.origin(written[:end]) is not None)
            if not isinstance(document.given(written[:around]), dict):
                origin = document.origin(written[:around])
        if origin is not None:
            out[path_text(loc)] = origin
    return out


def _leaves(value: Any, loc: Loc) -> Iterator[Loc]:
    """The places of single values and of what is empty."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not items:
        yield loc
    for key, item in items:
        yield from _leaves(item, (*loc, key))
