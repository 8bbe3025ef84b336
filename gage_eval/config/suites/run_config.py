"""From a RunConfig to the pipeline that it runs: its template, checked by digest, with the run's values."""

import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gage_eval.base.errors import ConfigError, InputError
from gage_eval.config.document import Document
from gage_eval.config.interpolate import fill
from gage_eval.config.problems import ConfigProblem
from gage_eval.config.suites.digest import changed_paths, definition_digest
from gage_eval.config.suites.kinds import LOGIC_SECTIONS, RunConfig
from gage_eval.config.suites.rebase import rebased
from gage_eval.config.suites.template_file import Template, read_template
from gage_eval.config.suites.template_places import find_template, is_file
from gage_eval.config.suites.template_values import Filler
from gage_eval.config.validation_messages import plain_words
from gage_eval.config.yaml.lines import Mapping, Node, as_written
from gage_eval.config.yaml.nodes import child, merged, node_of, with_items

_OF_TEMPLATE = ("name", "description", "version")
_MOST_PATHS = 12


def compiled(node: Node, source: str, folder: Path) -> tuple[Mapping, Template, list[str]]:
    """The pipeline of a RunConfig as a tree with the file of each value; its template; and warnings.

    Args:
        node: the RunConfig's tree.
        source: how errors call its file.
        folder: its folder; relative paths of the pipeline start there.

    Raises:
        ConfigError: the RunConfig, its template or its values are wrong; with all problems that can be found.
    """
    document = Document(fill(node, None), source)
    run = _checked(document)
    template = _template(document, run, folder)
    _pin(document, run, template)
    filler = Filler(template.definition, template.model.parameters, template.source)
    definition: Node = filler.filled(child(node, "runtime"))
    document.add(ConfigProblem(("runtime", *problem.loc), problem.message) for problem in filler.wrong)
    if document.problems:
        raise document.error()
    if template.path is not None:
        definition = rebased(definition, template.source, template.path.parent, folder)
    assert isinstance(definition, Mapping)
    said = template.model.metadata
    about: Node = node_of({key: value for key in _OF_TEMPLATE if (value := getattr(said, key))}, template.source)
    for own in (child(definition, "metadata"), child(node, "metadata")):
        about = about if own is None else merged(about, own)
    warnings = [] if run.template_digest else [_NOT_PINNED.format(template.digest)]
    return with_items(definition, {"metadata": about}), template, warnings


_NOT_PINNED = "the run is not pinned to its template: add 'template_digest: {}' to it."


def _checked(document: Document) -> RunConfig:
    """The RunConfig. It sets nothing that its template decides."""
    data: dict[str, Any] = document.whole
    document.add(ConfigProblem((key,), _LOGIC.format(key)) for key in data if key in LOGIC_SECTIONS)
    rest = {key: value for key, value in data.items() if key not in LOGIC_SECTIONS}
    try:
        run = RunConfig.model_validate(rest)
    except ValidationError as error:
        document.add(plain_words(error, rest, RunConfig))
        raise document.error() from None
    return run


_LOGIC = (
    "a RunConfig leaves '{}' to its template: change values under 'runtime', or make a config of your own with "
    "gage init --mode pipeline-config."
)


def _template(document: Document, run: RunConfig, folder: Path) -> Template:
    try:
        file = find_template(run.base_task, run.template_version, folder)
        return read_template(file, os.path.relpath(file) if is_file(run.base_task) else None, even_edited=True)
    except ConfigError as error:
        document.add([ConfigProblem(("base_task",), " ".join(str(error).split()), error)])
    except InputError as error:
        document.add([ConfigProblem(("base_task",), str(error), error)])
    raise document.error()


def _pin(document: Document, run: RunConfig, template: Template) -> None:
    """Refuse a template other than the one that the RunConfig was made for."""
    version = template.model.metadata.version
    if run.template_version is not None and version != run.template_version:
        message = f"{template.source} is version {version}, not {run.template_version}."
        document.add([ConfigProblem(("template_version",), message)])
        return
    if run.template_digest is None or run.template_digest.removeprefix("sha256:") == template.digest:
        if template.edited:
            document.add([ConfigProblem(("base_task",), f"{template.source}: {template.edited}")])
        return
    message = f"{template.source} was changed: its digest is {template.digest}"
    snapshot = run.template_snapshot
    if snapshot is None:
        message += "; undo the change."
    elif definition_digest(snapshot) != run.template_digest.removeprefix("sha256:"):
        message += "; what changed is unknown, because 'template_snapshot' was edited too."
    else:
        filler = Filler(template.definition, template.model.parameters, template.source)
        paths = changed_paths(snapshot, as_written(filler.filled(None)))
        more = f" and {len(paths) - _MOST_PATHS:,} more" if len(paths) > _MOST_PATHS else ""
        message += f". Changed: {', '.join(paths[:_MOST_PATHS])}{more}."
    message += " Undo the change, or make a new RunConfig with gage init." if snapshot is not None else ""
    document.add([ConfigProblem(("template_digest",), message)])
