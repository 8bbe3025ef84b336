"""The complete form of a config, as YAML that names the origin of each value."""

from typing import Any

from pydantic import BaseModel

from gage_eval.base.packaged import configs_dir
from gage_eval.config.load import LoadedConfig
from gage_eval.config.problems import Loc, path_text
from gage_eval.config.yaml.nodes import node_of
from gage_eval.config.yaml.text import yaml_text

_DEFAULT = "default"


def written_out(loaded: LoadedConfig) -> dict[str, Any]:
    """The sections of a config with everything filled in; values that are null or empty are left out."""
    whole: dict[str, Any] = _values(loaded.config, loaded.config.model_dump(mode="json"))
    return whole


def written_out_text(loaded: LoadedConfig) -> str:
    """`written_out` as a config that can be run, with the file, option, variable or rule of each value as a comment."""
    after: dict[Loc, str] = {}
    before: dict[Loc, str] = {}
    values = written_out(loaded)
    _comments(values, (), loaded, after, before)
    head = (
        f"# {loaded.source} with everything filled in. After each value: what gave it. Values that are null or empty\n"
        f"# are left out. Relative paths start from {loaded.base_dir.resolve()}.\n"
    )
    return yaml_text(node_of(values, loaded.source), after=after, before=before, head=head)


def _values(model: Any, dump: Any) -> Any:
    """The dump less what is null or empty in a model; free mappings stay as they are."""
    if isinstance(model, list):
        return [_values(item, value) for item, value in zip(model, dump, strict=True)]
    if not isinstance(model, BaseModel):
        return dump
    fields = type(model).model_fields
    out = {key: _values(getattr(model, key), value) if key in fields else value for key, value in dump.items()}
    return {key: value for key, value in out.items() if key not in fields or value not in (None, [], {})}


def _comments(value: Any, loc: Loc, loaded: LoadedConfig, after: dict[Loc, str], before: dict[Loc, str]) -> None:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        place = (*loc, key)
        if isinstance(item, dict | list) and item:
            _comments(item, place, loaded, after, before)
            continue
        origin = loaded.origins.get(path_text(place))
        said = _DEFAULT if origin is None else str(origin).replace(f"{configs_dir()}/builtin_templates/", "")
        if isinstance(item, str) and "\n" in item:
            before[place] = f"{key}: {said}"
        else:
            after[place] = said
