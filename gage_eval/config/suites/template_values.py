"""Values of a run, put into the definition of a template."""

import re
from collections.abc import Iterator
from dataclasses import replace

from gage_eval.config.problems import ConfigProblem, Loc, unknown
from gage_eval.config.suites.kinds import Parameter
from gage_eval.config.yaml.lines import Listing, Mapping, Node, Scalar, as_written
from gage_eval.config.yaml.nodes import (
    NAMED_SECTIONS,
    child,
    is_given,
    merged,
    named,
    node_of,
    text_of,
    with_items,
    with_scalars,
)

# ``$${`` is a literal ``${``.
_PLACEHOLDER = re.compile(r"\$\$\{|\$\{runtime\.(?P<path>[^{}:]+)(?::-(?P<default>[^{}]*))?\}")
_GROUPS = ("datasets", "backends", "tasks")
_DUT = ("dut_model", "dut", "inference")
_JUDGE = ("judge_model", "judge")


class Filler:
    """Puts values of a run into a template's definition.

    Attributes:
        problems: what is wrong with the template's parameters, by place in the template.
        wrong: what is wrong with the run's values, by place below ``runtime``.
    """

    def __init__(self, definition: Mapping, parameters: list[Parameter], source: str) -> None:
        self.definition = definition
        self.source = source
        self.problems: list[ConfigProblem] = []
        self.wrong: list[ConfigProblem] = []
        self._ids = {group: list(named(child(definition, group), NAMED_SECTIONS[group])) for group in _GROUPS}
        self._declared = {self.split(parameter.id.removeprefix("runtime.")): parameter for parameter in parameters}

    def split(self, path: str) -> tuple[str, ...]:
        """The parts of a parameter's name; an id in it may hold dots."""
        group, _, rest = path.partition(".")
        ids = [name for name in self._ids.get(group, ()) if rest == name or rest.startswith(f"{name}.")]
        if not ids:
            return (group, *filter(None, rest.split(".")))
        name = max(ids, key=len)
        return (group, name, *filter(None, rest[len(name) + 1 :].split(".")))

    def filled(self, runtime: Node | None) -> Mapping:
        """The definition with a run's values, and with the parameters' defaults for values that the run lacks."""
        empty: Node = Mapping({}, {}, 1, self.source)
        defaults = stated = empty
        for path, parameter in self._declared.items():
            default = _at(path, node_of(parameter.default, self.source))
            defaults = merged(defaults, default)
            # A parameter without a default changes nothing by itself.
            stated = stated if parameter.default is None else merged(stated, default)
        own = empty if runtime is None else runtime
        self._check(own, ())
        self._one_model(child(own, "backends"))
        values = merged(defaults, own)
        definition = with_scalars(self.definition, lambda loc, scalar: self._scalar(loc, scalar, values))
        assert isinstance(definition, Mapping)
        return self._merged(definition, merged(stated, own))

    def _scalar(self, loc: Loc, scalar: Scalar, values: Node) -> Node:
        if "${runtime." not in scalar.text:
            return scalar
        whole = _PLACEHOLDER.fullmatch(scalar.text)
        if whole is not None and whole["path"]:
            return self._value(loc, whole, values) or scalar

        def text(match: re.Match[str]) -> str:
            if not match["path"]:
                return match[0]
            value = self._value(loc, match, values)
            if value is None or isinstance(value, Scalar):
                return "" if value is None else value.text
            message = f"{match[0]} stands inside a text, and its value is not one; let it stand alone."
            self.problems.append(ConfigProblem(("definition", *loc), message))
            return ""

        return replace(scalar, text=_PLACEHOLDER.sub(text, scalar.text), plain=False)

    def _value(self, loc: Loc, match: re.Match[str], values: Node) -> Node | None:
        node: Node | None = values
        for part in self.split(match["path"]):
            node = child(node, part)
        if node is None and match["default"] is not None:
            return Scalar(match["default"], plain=True, line=1, source=self.source)
        if node is None:
            known = [parameter.id for parameter in self._declared.values()]
            message = unknown("parameter", f"runtime.{match['path']}", known)
            self.problems.append(ConfigProblem(("definition", *loc), message))
        return node

    def _check(self, node: Node, path: tuple[str, ...]) -> None:
        """Whether each value of a run has a place to go."""
        if parameter := self._declared.get(path):
            # What placeholders bring in is known later.
            written = as_written(node)
            problem = None if isinstance(written, str) and "${" in written else parameter.problem(written)
            if problem is not None:
                self.wrong.append(ConfigProblem(path, problem))
            return
        if self._has_place(path):
            if path[0] in ("datasets", "backends") and not isinstance(node, Mapping) and text_of(node) is not None:
                self.wrong.append(ConfigProblem(path, "must be a mapping of what differs from the template."))
            return
        inside = not path or [place for place in self._places() if place[: len(path)] == path] or path == ("backends",)
        if not inside:
            self.wrong.append(ConfigProblem(path, self._unknown(path)))
        elif isinstance(node, Mapping):
            for key, item in node.items.items():
                self._check(item, (*path, key))
        elif text_of(node) is not None:
            self.wrong.append(ConfigProblem(path, "must be a mapping."))

    def _one_model(self, backends: Node | None) -> None:
        """Check that a run names exactly one model under test if the template leaves it open, and none otherwise."""
        known = {*self._ids["backends"], *self.open_backends()}
        new = [name for name in (backends.items if isinstance(backends, Mapping) else ()) if name not in known]
        for name in new[1:] if self.wants_model() else ():
            message = f"the template asks one model, and '{new[0]}' is it already; remove one of them."
            self.wrong.append(ConfigProblem(("backends", name), message))

    def _places(self) -> Iterator[tuple[str, ...]]:
        yield from self._declared
        yield from (("datasets", name) for name in self._ids["datasets"])
        yield from (("backends", name) for name in (*self._ids["backends"], *self.open_backends()))
        yield from (("tasks", name, "max_samples") for name in self._ids["tasks"])
        if self._sinks():
            yield ("global", "output_path")

    def _has_place(self, path: tuple[str, ...]) -> bool:
        return path in self._places() or (len(path) == 2 and path[0] == "backends" and self.wants_model())

    def _unknown(self, path: tuple[str, ...]) -> str:
        if path[0] == "tasks" and len(path) > 2:
            return f"a run sets only 'max_samples' of a task; '{path[2]}' is what the template measures."
        if len(path) > 1 and path[0] in _GROUPS:
            known = [place[1] for place in self._places() if place[0] == path[0] and len(place) > 1]
            return f"{unknown(path[0].removesuffix('s'), path[1], dict.fromkeys(known))}"
        known = [".".join(place) for place in self._places() if place[0] == path[0]]
        known = known or list(dict.fromkeys(place[0] for place in self._places()))
        return unknown("parameter", ".".join(path), known)

    def _sinks(self) -> list[int]:
        sinks = child(child(self.definition, "observability"), "sinks")
        items = sinks.items if isinstance(sinks, Listing) else []
        return [at for at, sink in enumerate(items) if text_of(child(sink, "type")) == "file"]

    def _adapters(self) -> list[Node]:
        adapters = child(self.definition, "role_adapters")
        return adapters.items if isinstance(adapters, Listing) else []

    def _waiting(self) -> dict[int, Node]:
        """The adapters whose backend the template leaves to its runs, by their index."""
        return {
            at: adapter
            for at, adapter in enumerate(self._adapters())
            if not is_given(child(adapter, "backend"))
            and text_of(child(adapter, "backend_id")) not in self._ids["backends"]
        }

    def open_backends(self) -> dict[str, list[int]]:
        """The backends that a run brings for judges and helpers, with the adapters that each is for.

        A backend is for the adapter that names it, or that has its name; ``judge`` is for all judges.
        """
        out: dict[str, list[int]] = {}
        for at, adapter in self._waiting().items():
            role = text_of(child(adapter, "role_type"))
            if role in _DUT:
                continue
            names = [text_of(child(adapter, "backend_id")) or text_of(child(adapter, "adapter_id"))]
            names += ["judge"] if role in _JUDGE else []
            for name in dict.fromkeys(filter(None, names)):
                out.setdefault(str(name), []).append(at)
        return out

    def wants_model(self) -> bool:
        """Whether the template leaves the model under test to its runs."""
        if any(text_of(child(adapter, "role_type")) in _DUT for adapter in self._waiting().values()):
            return True
        if any(text_of(child(adapter, "role_type")) in _DUT for adapter in self._adapters()):
            return False
        return bool(self._adapters()) or not self._ids["backends"]

    def _merged(self, definition: Mapping, values: Node) -> Mapping:
        """The values of datasets, backends, tasks and sinks put over those of the definition."""
        for group in _GROUPS:
            entries = child(values, group)
            section = child(definition, group) or Listing([], 1, self.source)
            if not isinstance(entries, Mapping) or not isinstance(section, Listing):
                continue
            field = NAMED_SECTIONS[group]
            items = list(section.items)
            places = named(section, field)
            for name, item in entries.items.items():
                if not isinstance(item, Mapping):
                    continue
                if name in places:
                    items[places[name]] = merged(items[places[name]], item)
                elif group == "backends":
                    own = node_of(name, item.source, entries.lines.get(name, item.line))
                    items.append(with_items(item, {field: own}))
                    definition = self._with_backend(definition, own)
            definition = with_items(definition, {group: replace(section, items=items)})
        path = child(child(values, "global"), "output_path")
        if path is not None and self._sinks():
            definition = self._with_output(definition, path)
        return definition

    def _with_backend(self, definition: Mapping, backend: Node) -> Mapping:
        """The definition with a backend of the run bound to the adapters that it is for."""
        adapters = child(definition, "role_adapters") or Listing([], backend.line, backend.source)
        assert isinstance(adapters, Listing)
        items = list(adapters.items)
        bound = self.open_backends().get(text_of(backend) or "")
        if bound is None and self.wants_model():
            bound = [at for at, adapter in self._waiting().items() if text_of(child(adapter, "role_type")) in _DUT]
            if not bound:
                bound = [len(items)]
                name = "dut" if "dut" not in named(adapters, "adapter_id") else "model"
                items.append(node_of({"adapter_id": name, "role_type": "dut_model"}, backend.source, backend.line))
        for at in bound or ():
            adapter = items[at]
            assert isinstance(adapter, Mapping)
            items[at] = with_items(adapter, {"backend_id": backend})
        return with_items(definition, {"role_adapters": replace(adapters, items=items)})

    def _with_output(self, definition: Mapping, path: Node) -> Mapping:
        part = child(definition, "observability")
        sinks = child(part, "sinks")
        assert isinstance(part, Mapping)
        assert isinstance(sinks, Listing)
        items = list(sinks.items)
        for at in self._sinks():
            sink = items[at]
            assert isinstance(sink, Mapping)
            items[at] = with_items(sink, {"output_path": path})
        return with_items(definition, {"observability": with_items(part, {"sinks": replace(sinks, items=items)})})


def _at(path: tuple[str, ...], node: Node) -> Node:
    """A tree that holds a value at a path."""
    for key in reversed(path):
        node = Mapping({key: node}, {key: node.line}, node.line, node.source)
    return node
