"""The digest of a template's definition: it identifies a suite's version.

It is computed from the definition in the template's file, as plain values with placeholders as written. Comments, the
order of keys and the YAML style do not matter. A released version takes the defaults of its release, so a new default
in the software does not change the digest. The suite's card and the template's parameters are not part of it, because
the definition alone determines a run.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gage_eval.base.canonical import digest, normalise
from gage_eval.config.problems import Loc, path_text

_ABSENT = object()
# Fields with the ids of list items: items are compared by id, so a moved item does not change those after it. Those of
# items that refer to others come first: a task has a `task_id` and the `dataset_id` of its dataset.
_IDS = ("task_id", "step", "adapter_id", "metric_id", "group_id", "prompt_id", "backend_id", "dataset_id")


def definition_digest(definition: Mapping[str, Any]) -> str:
    """sha256 of a definition in canonical form, as hexadecimal digits.

    Args:
        definition: the ``definition`` of a template as plain values, placeholders as written.
    """
    return digest(definition)


def changed_paths(was: Any, now: Any) -> list[str]:
    """Paths where two definitions differ, such as ``tasks[0].max_samples``, in the order of the new one.

    List items are compared by their ids, if they have ids.
    """
    return list(dict.fromkeys(path_text(loc) for loc in _changed(normalise(was), normalise(now), ())))


def _changed(was: Any, now: Any, loc: Loc) -> Iterator[Loc]:
    if isinstance(was, dict) and isinstance(now, dict):
        for key in (*now, *(key for key in was if key not in now)):
            yield from _changed(was.get(key, _ABSENT), now.get(key, _ABSENT), (*loc, key))
    elif isinstance(was, list) and isinstance(now, list):
        old, new = _named(was), _named(now)
        for index, name in enumerate(new):
            yield from _changed(was[old[name]] if name in old else _ABSENT, now[index], (*loc, index))
        for index, name in enumerate(old):
            if name not in new:
                yield (*loc, index)
        if [name for name in old if name in new] != [name for name in new if name in old]:
            yield loc
    elif was != now or isinstance(was, bool) is not isinstance(now, bool):
        yield loc


def _named(items: list[Any]) -> dict[tuple[str, Any], int]:
    """The place of each item by its name: its id, else its place."""
    out: dict[tuple[str, Any], int] = {}
    for index, item in enumerate(items):
        ids = (("id", item[key]) for key in _IDS if isinstance(item, dict) and isinstance(item.get(key), str))
        name = next(ids, ("place", index))
        out[name if name not in out else ("place", index)] = index
    return out
