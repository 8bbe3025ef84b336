"""``gage distill``: make a template from a config, with its evaluation pinned by a digest.

The definition is the config after includes, defaults and rules. Everything that determines results is written out, so
that a later change of a default does not change it. Placeholders for environment variables are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.base.marks import mark_of
from gage_eval.config.compose import compose
from gage_eval.config.document import Document
from gage_eval.config.files import read_config
from gage_eval.config.load import read_document
from gage_eval.config.models import PipelineConfig, is_id
from gage_eval.config.problems import Loc
from gage_eval.config.suites.digest import definition_digest
from gage_eval.config.suites.rebase import rebased
from gage_eval.config.suites.template_places import is_version_name, version_name, versions_in
from gage_eval.config.validation_messages import as_written as written_place
from gage_eval.config.yaml.lines import Mapping, Node, Scalar, as_written
from gage_eval.config.yaml.nodes import child, node_of, text_of, with_items, with_scalars
from gage_eval.config.yaml.text import yaml_text

_NOT_LOGIC = ("api_version", "kind", "metadata", "models", "parameters")


@dataclass(frozen=True)
class NewTemplate:
    """A new template.

    Attributes:
        text: the template as YAML.
        file: the path to write it to.
        version: its version.
        digest: of its definition.
        tasks: its tasks.
    """

    text: str
    file: Path
    version: str
    digest: str
    tasks: Sequence[str]


def distilled(
    config: Path,
    name: str,
    *,
    version: str | None = None,
    force_merge: bool = False,
    folder: Path | None = None,
) -> NewTemplate:
    """Make a template from a config, without writing it.

    Args:
        config: the config's file.
        name: the suite's name.
        version: ``v2`` or ``2``; by default the one after the newest in the folder.
        force_merge: make one template of several tasks.
        folder: the folder of suites; by default ``suites`` in the working folder.

    Raises:
        InputError: the name cannot be used, the config has several tasks, or the version exists already.
        ConfigError: the config is wrong.
    """
    source = str(config)
    text = read_config(config)
    composed = compose(text, source, config.parent)
    if text_of(child(composed.node, "kind")) == "BuiltinTemplate":
        raise InputError(f"'{config}' is a template already; distill makes one from a config.")
    if not is_id(name) or "@" in name:
        raise InputError(f"'{name}' cannot be the name of a suite: use letters, digits and . _ -.")
    place = (folder or Path("suites")) / name
    version = _version(place, version)
    document, pipeline = read_document(text, source, config.parent)
    if document.problems:
        raise document.error()
    tasks = [task.task_id for task in pipeline.tasks]
    if len(tasks) > 1 and not force_merge:
        raise InputError(
            f"'{config}' has {len(tasks)} tasks ({', '.join(tasks[:5])}{', …' if len(tasks) > 5 else ''}); a template "
            "holds one. Distill one config for each, or pass --force-merge for one template of all."
        )
    tree = with_placeholders(node_of(expanded(pipeline), source), composed.node, document)
    tree = rebased(tree, source, config.parent, place)
    digest = definition_digest(as_written(tree))
    about = {
        "name": name,
        "version": version,
        "description": pipeline.metadata.description,
        "digest": digest,
        "source_tasks": tasks,
        "monolithic": len(tasks) > 1,
    }
    head = (
        f"# {name} {version}, made from {config.name} by gage distill. The digest pins the definition: make a new\n"
        "# version instead of editing it.\n"
    )
    text = yaml_text(_template(about, tree, source), head=head)
    return NewTemplate(text, place / f"{version}.yaml", version, digest, tasks)


def _template(about: dict[str, Any], definition: Node, source: str) -> Node:
    """The tree of a template.

    Args:
        about: its metadata; without what is None.
        definition: the tree of its definition.
        source: the file that it is made from.
    """
    template = {
        "api_version": "gage/v1alpha1",
        "kind": "BuiltinTemplate",
        "metadata": {key: value for key, value in about.items() if value is not None},
        "parameters": inferred_parameters(as_written(definition)),
    }
    whole = node_of(template, source)
    assert isinstance(whole, Mapping)
    return with_items(whole, {"definition": definition})


def with_placeholders(tree: Node, file: Node, document: Document) -> Node:
    """The tree of a validated config, with the file's placeholders in place of their values."""

    def change(loc: Loc, scalar: Scalar) -> Node:
        node: Node | None = file
        for part in written_place(loc, document.data):
            node = child(node, part)
        return node if isinstance(node, Scalar) and "${" in node.text else scalar

    return with_scalars(tree, change)


def expanded(config: PipelineConfig) -> dict[str, Any]:
    """The sections of a config that determine results, with all such values, including defaults.

    Scheduling values, which say where and how fast, are included only if they were given.
    """
    whole = config.model_dump(mode="json")
    stated = config.model_dump(mode="json", exclude_unset=True)
    out = {}
    for section in PipelineConfig.model_fields:
        value = _expanded(getattr(config, section), whole[section], stated.get(section))
        if section not in _NOT_LOGIC and value not in (None, [], {}):
            out[section] = value
    return out


def _expanded(model: Any, whole: Any, stated: Any) -> Any:
    """A value as plain data, without scheduling values that were not given, and without null and empty values."""
    from pydantic import BaseModel

    if isinstance(model, list):
        said = stated if isinstance(stated, list) else [None] * len(model)
        return [_expanded(item, dump, at) for item, dump, at in zip(model, whole, said, strict=True)]
    if not isinstance(model, BaseModel):
        return whole
    out = {}
    for key, value in whole.items():
        own = stated.get(key) if isinstance(stated, dict) else None
        is_given = isinstance(stated, dict) and key in stated
        if key in type(model).model_fields:
            mark, _ = mark_of(type(model), key)
            inner = _expanded(getattr(model, key), value, own)
            if inner in (None, [], {}) or (mark == "scheduling" and not is_given):
                continue
            out[key] = inner
        else:
            out[key] = value
    return out


def inferred_parameters(definition: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameters of a definition: its datasets, its backends, each task's limit, and the file that events go to."""
    out: list[dict[str, Any]] = []

    def add(path: str, type_: str, default: Any, description: str) -> None:
        out.append({"id": f"runtime.{path}", "type": type_, "default": default, "description": description})

    for section, field, words in (("datasets", "dataset_id", "dataset"), ("backends", "backend_id", "backend")):
        for item in definition.get(section, ()):
            block = {key: value for key, value in item.items() if key != field}
            add(f"{section}.{item[field]}", "obj", block, f"the {words} '{item[field]}'")
    for task in definition.get("tasks", ()):
        limit = task.get("max_samples")
        add(f"tasks.{task['task_id']}.max_samples", "int", limit, f"most samples of '{task['task_id']}'")
    sinks = definition.get("observability", {}).get("sinks", ())
    for path in [sink.get("output_path") for sink in sinks if sink.get("type") == "file"][:1]:
        add("global.output_path", "str", path, "the file that events are written to")
    return out


def _version(place: Path, version: str | None) -> str:
    there = versions_in(place)
    if version is None:
        return f"v{int(there[-1][1:]) + 1}" if there else "v1"
    wanted = version_name(version)
    if not is_version_name(wanted):
        raise InputError(f"--version {version}: write v1, v2 and so on.")
    if wanted in there:
        raise InputError(f"{place} has a version {wanted} already, and versions never change; choose another one.")
    return wanted
