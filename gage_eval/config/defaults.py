"""``defaults``: values for every item of a section that does not set them.

``defaults: {tasks: {max_samples: 100}}`` limits every task that sets no limit itself. Mappings are merged; a list or a
single value of an item stays as it is.
"""

from typing import Any

from gage_eval.base.errors import closest
from gage_eval.config.document import Document, copied
from gage_eval.config.models import PipelineConfig
from gage_eval.config.problems import ConfigProblem, Loc
from gage_eval.config.rules import write_out_metric
from gage_eval.config.validation_messages import model_at, spellings_of
from gage_eval.config.yaml.nodes import NAMED_SECTIONS

SECTIONS = tuple(name for name in NAMED_SECTIONS if name != "groups")


def apply_defaults(document: Document) -> None:
    """Put the config's own defaults into the items of its sections."""
    if not isinstance(document.data, dict) or "defaults" not in document.data:
        return
    sections = document.take(("defaults",))
    if sections is None:
        return
    if not isinstance(sections, dict):
        document.add([ConfigProblem(("defaults",), f"must be a mapping of sections: {', '.join(SECTIONS)}.")])
        return
    for section, values in sections.items():
        loc: Loc = ("defaults", section)
        if section not in SECTIONS:
            known = ", ".join(SECTIONS)
            message = f"no section '{section}' with defaults. Sections: {known}.{closest(section, SECTIONS)}"
            document.add([ConfigProblem(loc, message)])
        elif isinstance(values, dict):
            _check_names(document, section, values)
            _of_section(document, section, values)
        elif values is not None:
            document.add([ConfigProblem(loc, "must be a mapping of values for each item.")])


def _check_names(document: Document, section: str, values: dict[str, Any]) -> None:
    """Refuse defaults for unknown keys and for names, even if the section has no items."""
    model = model_at(PipelineConfig, (section,))
    known = {name for names in spellings_of(model) for name in names} if model is not None else set()
    known |= {"task_type"} if section == "datasets" else set()
    for key in values:
        if key == NAMED_SECTIONS[section]:
            document.add([ConfigProblem(("defaults", section, key), "names are different for each item; remove it.")])
        elif key not in known:
            message = f"unknown key '{key}'.{closest(key, known)}"
            document.add([ConfigProblem(("defaults", section, key), message)])


def _of_section(document: Document, section: str, values: dict[str, Any]) -> None:
    usable = {key: value for key, value in values.items() if key != NAMED_SECTIONS[section]}
    items = document.value((section,))
    for index in range(len(items) if isinstance(items, list) else 0):
        if section == "metrics":
            write_out_metric(document, (section, index))
        if isinstance(document.value((section, index)), dict):
            _fill(document, (section, index), usable, ("defaults", section))


def _fill(document: Document, loc: Loc, values: dict[str, Any], source: Loc) -> None:
    item = document.value(loc)
    model = model_at(PipelineConfig, loc)
    spellings = spellings_of(model) if model is not None else []
    for key, value in values.items():
        names = next((names for names in spellings if key in names), (key,))
        own = next((name for name in names if item.get(name) is not None), None)
        origin = document.origin((*source, key))
        if own is None:
            if origin is None:
                continue
            if isinstance(value, dict) and value:
                document.put((*loc, key), {}, origin)
                _fill(document, (*loc, key), value, (*source, key))
            else:
                document.put((*loc, key), copied(value), origin)
        elif isinstance(item[own], dict) and isinstance(value, dict):
            _fill(document, (*loc, own), value, (*source, key))
