"""The pass that finds the pipeline in a file: the file itself, or the definition of a template."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gage_eval.base.packaged import configs_dir
from gage_eval.config.document import Document
from gage_eval.config.problems import ConfigProblem
from gage_eval.config.suites.card import SuiteCard
from gage_eval.config.validation_messages import plain_words

_SHARED = ("name", "description", "version")


def merge_template(document: Document) -> None:
    """Find the pipeline: the file itself, or the ``definition`` of a BuiltinTemplate with the template's metadata.

    Raises:
        ConfigError: the file has none.
    """
    data = document.whole
    if not isinstance(data, dict):
        document.add([ConfigProblem((), "a config is a mapping of sections such as 'datasets' and 'backends'.")])
        raise document.error()
    if data.get("kind") != "BuiltinTemplate":
        return
    read_card(document, data.get("suite"))
    definition, metadata = data.get("definition"), data.get("metadata")
    if not isinstance(definition, dict):
        message = "a BuiltinTemplate needs a 'definition', the mapping of a pipeline."
        document.add([ConfigProblem(("definition",), message)])
        raise document.error()
    if isinstance(metadata, dict) and Path(document.source).is_relative_to(configs_dir()):
        document.title = f"suite {metadata.get('name')} {metadata.get('version')}"
    origins = {key: document.nearest(("metadata", key)) for key in _SHARED}
    document.enter("definition")
    if isinstance(metadata, dict) and "metadata" not in definition:
        definition["metadata"] = {}
        for key, origin in origins.items():
            if metadata.get(key) is not None and origin is not None:
                document.put(("metadata", key), metadata[key], replace(origin, kind="template"))


def read_card(document: Document, card: Any) -> None:
    """Note the card of the suite that a config runs; None for a config that runs none."""
    if card is None:
        return
    try:
        document.card = SuiteCard.model_validate(card)
    except ValidationError as error:
        document.add(plain_words(error, card, SuiteCard, ("suite",)), whole=True)
