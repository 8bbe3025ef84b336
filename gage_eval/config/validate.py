"""The pass that checks the values: secrets, types and keys. The correct part of a wrong config is kept and checked
further, so that a mistake does not hide other mistakes."""

from pydantic import ValidationError

from gage_eval.base.errors import nearest
from gage_eval.config import secrets
from gage_eval.config.document import Document, copied, value_at
from gage_eval.config.interpolate import FilledTree
from gage_eval.config.models import PipelineConfig
from gage_eval.config.problems import Loc
from gage_eval.config.rules import apply_rules
from gage_eval.config.validation_messages import allowed_words, as_written, model_at, plain_words


def validate(document: Document) -> PipelineConfig | None:
    """The config; with mistakes, its correct part, or None if further checks could report wrong mistakes."""
    document.add(secrets.literals(document.whole, document.variables), whole=True)
    try:
        return PipelineConfig.model_validate(document.data)
    except ValidationError as error:
        document.add(plain_words(error, document.data, PipelineConfig))
        return _without_mistakes(document, error)


def _without_mistakes(document: Document, error: ValidationError) -> PipelineConfig | None:
    """The config without its unknown keys and wrong optional values, with rules applied again.

    A misspelled required word is replaced by the closest known one. None if something else that is required is
    missing or wrong.
    """
    data = copied(document.unruled)
    for item in error.errors(include_url=False):
        loc = tuple(item["loc"])
        needed = item["type"] != "extra_forbidden" and not _optional(loc)
        meant = nearest(str(item["input"]), allowed_words(item.get("ctx", {}))) if needed else None
        if needed and meant is None:
            return None
        written = as_written(loc, document.data)
        parent = value_at(data, written[:-1])
        if not isinstance(parent, dict) or written[-1] not in parent:
            return None
        if meant is not None:
            parent[written[-1]] = meant
        else:
            del parent[written[-1]]
    rest = Document(FilledTree(value=data), document.source)
    apply_rules(rest)
    try:
        return PipelineConfig.model_validate(rest.data)
    except ValidationError:
        return None


def _optional(loc: Loc) -> bool:
    if len(loc) < 2 or not isinstance(loc[-1], str):
        return False
    model = model_at(PipelineConfig, loc[:-1])
    return model is not None and loc[-1] in model.model_fields and not model.model_fields[loc[-1]].is_required()
