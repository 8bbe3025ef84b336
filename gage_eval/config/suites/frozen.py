"""The expanded form of a built-in template: what a suite means, with every default filled in.

``vN.yaml`` is what people read. ``vN.released.json`` next to it is what runs: the values that the definition and the
rules state, and the number of the set of defaults for all others (``defaults-N.json``). So a later release with another
default runs the suite as it was. `python -m tools.suites` writes both once; a test holds the digest of the whole.
"""

from collections.abc import Mapping as AnyMapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import decode
from gage_eval.base.errors import InputError
from gage_eval.base.packaged import configs_dir
from gage_eval.config.document import Document, copied
from gage_eval.config.interpolate import FilledTree
from gage_eval.config.models import PipelineConfig
from gage_eval.config.plugin_paths import code_of
from gage_eval.config.rules import apply_rules_without_model
from gage_eval.config.suites.digest import changed_paths, definition_digest
from gage_eval.config.suites.kinds import TemplateMetadata
from gage_eval.config.yaml.lines import Listing, Mapping, Node, as_written
from gage_eval.config.yaml.nodes import node_of
from gage_eval.extend import registry

SUFFIX = ".released.json"
# What a suite is about. The rest is the run's own: limits, exports, where events go.
SECTIONS = ("datasets", "backends", "role_adapters", "prompts", "metrics", "builtin", "custom", "tasks", "groups")


def released_file(template: Path) -> Path:
    """The file of a template's released form."""
    return template.with_name(f"{template.stem}{SUFFIX}")


@cache
def defaults(number: int) -> AnyMapping[str, AnyMapping[str, Any]]:
    """A set of defaults: by the path of a section, such as ``datasets[].params``, the defaults of its fields.

    Raises:
        InputError: this release has no such set.
    """
    file = configs_dir() / "builtin_templates" / f"defaults-{number}.json"
    if not file.is_file():
        raise InputError(f"the suite needs the defaults {number}, which come with a later gage-eval: install that.")
    sections: dict[str, dict[str, Any]] = decode(file.read_bytes())
    return sections


def completed(value: Any, sections: AnyMapping[str, AnyMapping[str, Any]], path: str = "") -> Any:
    """The definition's value at a path, completed with the defaults of fields that it does not state.

    Args:
        value: in the spelling of `stated`.
        sections: a set of defaults. Mappings at other paths are the plug-ins' own.
        path: of the value; empty for the whole definition.
    """
    if isinstance(value, list):
        return [completed(item, sections, f"{path}[]") for item in value]
    if not isinstance(value, dict) or path not in sections:
        return value
    return {
        key: completed(item, sections, f"{path}.{key}".lstrip(".")) for key, item in {**sections[path], **value}.items()
    }


def stated(definition: AnyMapping[str, Any]) -> dict[str, Any]:
    """The values that a definition and the model-independent rules state, spelled as in the expanded form.

    Raises:
        ValidationError: it is wrong.
    """
    config = PipelineConfig.model_validate(_ruled(definition))
    return config.model_dump(mode="json", include=set(SECTIONS), exclude_unset=True)


def record_of(definition: AnyMapping[str, Any], number: int) -> dict[str, Any]:
    """The content of ``vN.released.json``.

    ``written`` is the digest of the definition as the template writes it, ``digest`` that of the expanded one. ``code``
    holds the versions of the plug-ins that it names.

    Args:
        definition: as the template writes it.
        number: of the set of defaults.

    Raises:
        ValidationError: the definition is wrong.
    """
    said = stated(definition)
    whole = completed(said, defaults(number))
    return {
        "written": definition_digest(definition),
        "digest": definition_digest(whole),
        "defaults": number,
        "code": code_versions(whole),
        "definition": said,
    }


def code_versions(whole: AnyMapping[str, Any]) -> dict[str, int]:
    """The versions of the built-in plug-ins that an expanded definition names, as ``metrics/gsm8k: 1``."""
    _, named = code_of(PipelineConfig.model_validate(whole), Path())
    plugins = {(code.kind, code.name) for code in named if code.kind is not None and code.kind != "backends"}
    versions = {f"{kind}/{name}": registry.ALL[kind].get(name).version for kind, name in plugins}
    return {name: version for name, version in sorted(versions.items()) if version is not None}


def with_expanded(definition: Mapping, source: str, metadata: TemplateMetadata, folder: Path) -> Mapping:
    """The expanded definition in the place of the written one, where the template has one.

    Args:
        definition: as the file writes it.
        source: the template's file.
        metadata: of the template.
        folder: of the template.

    Returns:
        A tree; the values that the file writes keep their lines.

    Raises:
        InputError: the template and its expanded form are not those that were released together.
    """
    file = folder / f"{metadata.version}{SUFFIX}"
    record = _read(file)
    if record is None:
        return definition
    whole, written = completed(record["definition"], defaults(record["defaults"])), as_written(definition)
    as_released = metadata.digest == record.get("digest") == definition_digest(whole)
    if as_released and definition_digest(written) == record.get("written"):
        tree = _lined(node_of(whole, source, definition.line), definition)
        assert isinstance(tree, Mapping)
        return tree
    if not Path(source).is_file() or definition_digest(written) == metadata.digest:
        # The config of an earlier run, whose text stands for itself; or one that is written out already.
        return definition
    if as_released:
        reason = (
            f"it was edited: {', '.join(changed_paths(whole, _merged(whole, stated(written)))) or 'a value is gone'}."
        )
    else:
        reason = f"'{file.name}' is not the form that this version was released with."
    raise InputError(
        f"{reason} A released version never changes: install gage-eval again, or make a suite of your own with gage "
        "distill."
    )


def _lined(tree: Node, written: Node | None) -> Node:
    """A tree with the lines of the values that a file writes."""
    if written is None:
        return tree
    if isinstance(tree, Mapping) and isinstance(written, Mapping):
        items = {key: _lined(item, written.items.get(key)) for key, item in tree.items.items()}
        lines = {**tree.lines, **{key: line for key, line in written.lines.items() if key in items}}
        return replace(tree, items=items, lines=lines, line=written.line, source=written.source)
    if isinstance(tree, Listing) and isinstance(written, Listing) and len(tree.items) == len(written.items):
        items_of = [_lined(item, other) for item, other in zip(tree.items, written.items, strict=True)]
        return replace(tree, items=items_of, line=written.line, source=written.source)
    return replace(tree, line=written.line, source=written.source)


def _read(file: Path) -> dict[str, Any] | None:
    try:
        record = decode(file.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("defaults"), int):
        return None
    return record if isinstance(record.get("definition"), dict) else None


def _ruled(definition: AnyMapping[str, Any]) -> Any:
    """The definition after the rules that need no model."""
    sections = {key: copied(definition[key]) for key in SECTIONS if key in definition}
    document = Document(FilledTree(value=sections), "definition")
    apply_rules_without_model(document)
    return document.data


def _merged(base: Any, over: Any) -> Any:
    """A value with what another one states put over it; lists are taken item by item where their lengths agree."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {key: _merged(base.get(key), over[key]) if key in over else base[key] for key in {**base, **over}}
    if isinstance(base, list) and isinstance(over, list) and len(base) == len(over):
        return [_merged(item, other) for item, other in zip(base, over, strict=True)]
    return over
