"""A pydantic model from the tree of a YAML file, with the line of every mistake."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from gage_eval.config.document import Document
from gage_eval.config.interpolate import fill
from gage_eval.config.validation_messages import plain_words
from gage_eval.config.yaml.lines import Node

M = TypeVar("M", bound=BaseModel)


def model_of(node: Node, source: str, model: type[M], implied: Mapping[str, Any] | None = None) -> tuple[M, Document]:
    """The model, and the document, to which further problems may be added.

    Args:
        node: the whole file.
        source: the file's name in errors.
        model: what the file holds.
        implied: values of keys that the file may leave out.

    Raises:
        ConfigError: a value is not allowed; all mistakes at once.
    """
    document = Document(fill(node, None), source)
    data = {**implied, **document.whole} if implied and isinstance(document.whole, dict) else document.whole
    try:
        return model.model_validate(data), document
    except ValidationError as error:
        document.add(plain_words(error, data, model))
        raise document.error() from None
