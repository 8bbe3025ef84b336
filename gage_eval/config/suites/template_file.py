"""A template's file, read and checked: its definition, its parameters and its digest."""

from dataclasses import dataclass
from pathlib import Path

from gage_eval.base.errors import ConfigError, InputError, Problem
from gage_eval.config.files import read_config
from gage_eval.config.model_of import model_of
from gage_eval.config.problems import ConfigProblem
from gage_eval.config.suites.digest import definition_digest
from gage_eval.config.suites.frozen import with_expanded
from gage_eval.config.suites.kinds import BuiltinTemplate
from gage_eval.config.suites.template_values import Filler
from gage_eval.config.yaml import lines
from gage_eval.config.yaml.lines import Mapping, Node, as_written
from gage_eval.config.yaml.nodes import child, text_of


@dataclass(frozen=True)
class Template:
    """A template as its file has it.

    Attributes:
        source: how errors call the file.
        path: the file; None for a text.
        model: what it says.
        definition: the tree of its definition, placeholders as written.
        digest: digest of the definition with the parameters' defaults put in.
        edited: the sentence for a definition that was edited after its digest was taken; empty for one that was not.
    """

    source: str
    path: Path | None
    model: BuiltinTemplate
    definition: Mapping
    digest: str
    edited: str = ""

    @property
    def name(self) -> str:
        """Its name, or that of its file."""
        return self.model.metadata.name or (self.path.stem if self.path is not None else "template")


def read_template(file: Path, shown: str | None = None, *, even_edited: bool = False) -> Template:
    """A template's file.

    Args:
        file: where it is.
        shown: how errors call it, if not by its path.
        even_edited: take a template whose digest is not that of its definition; `Template.edited` says so.

    Raises:
        InputError: it cannot be read.
        ConfigError: it is not a template, or its digest is not that of its definition.
    """
    source = shown or str(file)
    node = lines.parse(read_config(file, source), source)
    return parse_template(node, source, file, file.parent, even_edited=even_edited)


def parse_template(
    node: Node, source: str, path: Path | None = None, folder: Path | None = None, *, even_edited: bool = False
) -> Template:
    """`read_template` for a tree; ``folder`` is that of its file."""
    kind = child(node, "kind")
    if text_of(kind) != "BuiltinTemplate":
        line = None if kind is None else kind.line
        raise ConfigError(source, [Problem("kind", "this is not a BuiltinTemplate.", line)])
    model, document = model_of(node, source, BuiltinTemplate)
    definition = child(node, "definition")
    assert isinstance(definition, Mapping)
    try:
        definition = with_expanded(definition, source, model.metadata, folder or Path(source).parent)
    except InputError as error:
        document.add([ConfigProblem(("definition",), str(error))])
        raise document.error() from error
    filler = Filler(definition, model.parameters, source)
    expanded = filler.filled(None)
    document.add(filler.problems)
    digest = definition_digest(as_written(expanded))
    stated = model.metadata.digest
    edited = ""
    if stated is not None and stated.removeprefix("sha256:") != digest:
        edited = _EDITED.format(stated, digest)
        document.add([] if even_edited else [ConfigProblem(("metadata", "digest"), edited)])
    if document.problems:
        raise document.error()
    return Template(source, path, model, definition, digest, edited)


_EDITED = (
    "the definition was edited after its digest {} was taken; it is {} now. Undo the edit, or make a new version with "
    "gage distill."
)
