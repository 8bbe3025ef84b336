"""From a file to a `LoadedConfig`: the passes over a config. All mistakes of the file are reported together.

A mistake does not hide other mistakes, but mistakes that only follow from another one are not reported.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

from gage_eval.base.canonical import digest
from gage_eval.base.errors import InputError
from gage_eval.config.blocks import use_blocks
from gage_eval.config.compatibility import check_fit, doubtful_judges
from gage_eval.config.compose import compose
from gage_eval.config.defaults import apply_defaults
from gage_eval.config.document import Document, Origin, leaves
from gage_eval.config.environment import set_from_environment
from gage_eval.config.files import read_config
from gage_eval.config.interpolate import fill
from gage_eval.config.legacy_names import read_spellings
from gage_eval.config.merge import merge_template, read_card
from gage_eval.config.metrics import BoundMetrics, bind_metrics
from gage_eval.config.model_choice import ModelChoice, choose_models
from gage_eval.config.models import PipelineConfig
from gage_eval.config.overrides import Changes, apply_overrides
from gage_eval.config.pins import apply_pins, unpinned
from gage_eval.config.plugin_paths import located
from gage_eval.config.plugins import check_plugins
from gage_eval.config.problems import ConfigProblem, path_text
from gage_eval.config.resolve import Resolution, ResolvedTask, resolve
from gage_eval.config.rules import apply_rules, name_parts
from gage_eval.config.suites.card import SuiteIdentity
from gage_eval.config.validate import validate
from gage_eval.config.validation_messages import as_written
from gage_eval.config.yaml.text import yaml_text
from gage_eval.extend.loading import forget_failures
from gage_eval.models.backends.base import BackendContext, Blocks
from gage_eval.scoring.metrics import BoundMetric

_LOADERS_OF_FILES = frozenset({"jsonl", "json", "csv", "tsv", "parquet"})


@dataclass(frozen=True)
class LoadedConfig:
    """A config that was read and checked.

    Attributes:
        config: the complete config, with all values from the command line, the environment and the rules.
        tasks: its tasks with everything they refer to.
        metrics: the bound metrics of each task, by task id.
        context: what backends are built with. It holds the built backends.
        text: the config with its placeholders as written, which a run stores: the file's text, or one
            file made of it and of those that it includes or runs.
        source: the file, as given.
        digest: sha256 of the canonical form of ``config``.
        origins: where each value came from, by path such as ``tasks[0].max_samples``. Other values are defaults.
            Origins are in no digest.
        warnings: things that work but are probably not intended, one sentence each.
        base_dir: the folder that relative paths of the config start from.
        suite: which suite it is; None for a config that neither is nor runs a template.
        unpinned: datasets of the hub that have no fixed commit.
        blocks: the backends that Prefect blocks gave, by the block's name.
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
    suite: SuiteIdentity | None = None
    unpinned: tuple[str, ...] = ()
    blocks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def load_config(
    path: str | Path, *, context: BackendContext | None = None, with_data: bool = False, **changes: Unpack[Changes]
) -> LoadedConfig:
    """Read and check a PipelineConfig, or the definition of a BuiltinTemplate.

    Args:
        path: the YAML file.
        context: what backends may ask of their surroundings; its folder is the config's.
        with_data: to the problems of a wrong config belong data files that are not on this machine.
        changes: what differs from the file.

    Raises:
        InputError: the file cannot be read, or an override has no place to go.
        ConfigError: the config is wrong; all its problems, each with its line.
    """
    file = Path(path)
    text = read_config(file)
    return parse_config(text, source=str(path), base_dir=file.parent, context=context, with_data=with_data, **changes)


def parse_config(
    text: str,
    *,
    source: str = "config",
    base_dir: Path | None = None,
    context: BackendContext | None = None,
    with_data: bool = False,
    **changes: Unpack[Changes],
) -> LoadedConfig:
    """`load_config` for a text in memory, with the same arguments and errors."""
    folder = base_dir or Path()
    surroundings = replace(context or BackendContext(), base_dir=folder, built={})
    document, config = read_document(text, source, folder, blocks=surroundings.blocks, **changes)
    here = located(config, folder)
    resolved, metrics = resolve_document(document, here, surroundings)
    if document.problems:
        document.add(_missing_data(here, folder) if with_data else ())
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
        suite=document.suite,
        unpinned=tuple(unpinned(config.datasets, folder)),
        blocks=document.blocks,
    )


def read_document(
    text: str, source: str, folder: Path, *, blocks: Blocks | None = None, **changes: Unpack[Changes]
) -> tuple[Document, PipelineConfig]:
    """The passes up to the validated config, without checking references. The arguments are those of `parse_config`.

    Raises:
        ConfigError: the config has so many mistakes that further checks could report wrong ones.
    """
    forget_failures()
    composed = compose(text, source, folder)
    env = changes.get("env")
    document = Document(fill(composed.node, os.environ if env is None else env), source, composed.templates)
    document.text = text if composed.alone else yaml_text(composed.node)
    document.files = composed.files
    document.problems += composed.problems
    document.warnings += composed.warnings
    merge_template(document)
    read_spellings(document)
    read_card(document, composed.card)
    name_parts(document)
    apply_defaults(document)
    apply_pins(document, changes.get("pins"), folder)
    needs = document.card.needs if document.card is not None else None
    choose_models(document, changes.get("models") or ModelChoice(), needs)
    document.blocks = use_blocks(document, blocks)
    apply_overrides(document, folder, changes)
    set_from_environment(document, changes.get("settings") or {})
    apply_rules(document)
    config = validate(document)
    if config is None:
        raise document.error()
    if composed.template is not None:
        from gage_eval.config.suites.identity import suite_identity

        document.suite = suite_identity(document, composed.template)
    return document, config


def resolve_document(
    document: Document, config: PipelineConfig, context: BackendContext
) -> tuple[Resolution, BoundMetrics]:
    """Resolve the tasks and their metrics, and check everything they refer to: sections, plug-ins, folders."""
    resolved = resolve(config, context.base_dir)
    document.add(resolved.problems)
    document.warnings += resolved.warnings
    if document.suite is not None:
        document.add(_frames_of_engines(config))
    problems, warnings = check_plugins(config, context)
    document.add(problems)
    document.warnings += warnings
    metrics = bind_metrics(config, resolved.tasks)
    document.add(metrics.problems)
    document.add(check_fit(config, resolved, metrics.by_task, context))
    document.warnings += [said for task in resolved.tasks.values() for said in doubtful_judges(task)]
    return resolved, metrics


def _frames_of_engines(config: PipelineConfig) -> Iterator[ConfigProblem]:
    """Videos of a suite of which an engine, which changes, would choose the frames."""
    for index, dataset in enumerate(config.datasets):
        params = dataset.params
        fields = params.preprocess_kwargs.get("fields")
        if isinstance(fields, dict) and "video" in fields and params.video_frames is None and params.video_fps is None:
            loc = ("datasets", index, "params")
            yield ConfigProblem(loc, "a suite names the frames of its videos: set video_frames or video_fps.")


def _missing_data(config: PipelineConfig, folder: Path) -> Iterator[ConfigProblem]:
    """Local data files that are not there."""
    from gage_eval.data.datasets.reading import find_files

    for index, dataset in enumerate(config.datasets):
        paths = dataset.params.path
        is_local = dataset.hub is None and dataset.params.origin is None and dataset.loader in _LOADERS_OF_FILES
        for path in [paths] if isinstance(paths, str) else paths or []:
            try:
                if is_local and "://" not in path:
                    find_files(path, folder)
            except InputError as error:
                yield ConfigProblem(("datasets", index, "params", "path"), str(error))


def origins_of(config: PipelineConfig, document: Document) -> dict[str, Origin]:
    """The origins of a config's stated values, by path. Defaults are left out."""
    out = {}
    for loc, _ in leaves(config.model_dump(mode="json")):
        written = as_written(loc, document.data)
        origin = document.origin(written)
        if origin is None:
            # The value is part of a short form: a mapping in full form would have its key.
            around = next(end for end in range(len(written) - 1, -1, -1) if document.origin(written[:end]) is not None)
            if not isinstance(document.value(written[:around]), dict):
                origin = document.origin(written[:around])
        if origin is not None:
            out[path_text(loc)] = origin
    return out
