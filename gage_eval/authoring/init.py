"""``gage init``: a template made into a RunConfig to fill in, or into a config of one's own."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gage_eval.base.errors import InputError
from gage_eval.base.packaged import configs_dir
from gage_eval.config.compose import compose
from gage_eval.config.files import read_config
from gage_eval.config.problems import Loc
from gage_eval.config.suites.rebase import rebased, relative_name, relative_path
from gage_eval.config.suites.template_file import Template, read_template
from gage_eval.config.suites.template_places import BUILTIN_PREFIX, find_template, suite_folders, version_name
from gage_eval.config.suites.template_values import Filler
from gage_eval.config.yaml.lines import Mapping, Node, as_written, parse
from gage_eval.config.yaml.nodes import child, node_of, text_of, with_items
from gage_eval.config.yaml.text import yaml_text

Mode: TypeAlias = Literal["run-config", "pipeline-config"]

# Longer lists are cut in comments.
_SHOWN = 6


@dataclass(frozen=True)
class GeneratedFile:
    """A file that ``gage init`` made: its text, and where it belongs."""

    text: str
    file: Path


def initialised(
    name: str, *, version: str | None = None, mode: Mode = "run-config", out: Path | None = None
) -> GeneratedFile:
    """Make a RunConfig or a PipelineConfig of a template; nothing is written.

    Args:
        name: a suite, the file of a template, or of a RunConfig for a pipeline-config.
        version: of the suite; the newest unless given.
        mode: what to make.
        out: the file that is meant; a free name in ``run_configs`` or ``pipelines`` unless given.

    Raises:
        InputError: there is no such template or version, or the file is there already.
        ConfigError: the template is wrong.
    """
    file = find_template(name, version, Path())
    if out is not None and os.path.exists(out):
        raise InputError(f"'{out}' is there already; choose another name with --out.")
    if mode == "pipeline-config":
        return _pipeline(file, out)
    template = read_template(file)
    if version is not None and template.model.metadata.version != version_name(version):
        raise InputError(f"{file} is version {template.model.metadata.version}, not {version}.")
    made = out or _free(Path("run_configs"), f"{template.name}_run")
    return GeneratedFile(_run_config(template, made.parent), made)


def _pipeline(file: Path, out: Path | None) -> GeneratedFile:
    text, source = read_config(file), str(file)
    kind = text_of(child(parse(text, source), "kind"))
    if kind == "RunConfig":
        made = out or _free(Path("pipelines"), file.stem)
        composed = compose(text, source, file.parent)
        tree: Node = rebased(composed.node, source, file.parent, made.parent)
        for template_file in composed.templates:
            tree = rebased(tree, template_file, file.parent, made.parent)
        return GeneratedFile(yaml_text(tree, head=f"# Made from {file.name} by gage init.\n"), made)
    template = read_template(file)
    version = template.model.metadata.version or ""
    made = out or _free(Path("pipelines"), f"{template.name}_from_{version.upper() or 'template'}")
    definition: Node = Filler(template.definition, template.model.parameters, template.source).filled(None)
    definition = rebased(definition, template.source, file.parent, made.parent)
    said = {
        key: value for key in ("name", "description", "version") if (value := getattr(template.model.metadata, key))
    }
    head = {"api_version": "gage/v1alpha1", "kind": "PipelineConfig", "metadata": said}
    whole = node_of(head, template.source)
    assert isinstance(whole, Mapping)
    assert isinstance(definition, Mapping)
    filled = {key: item for key, item in definition.items.items() if as_written(item) not in (None, [], {})}
    text = f"# Made from {template.name} {version} by gage init. It is yours: no digest pins it.\n"
    return GeneratedFile(yaml_text(with_items(whole, filled), head=text), made)


def _run_config(template: Template, folder: Path) -> str:
    """The RunConfig of a template: its parameters with their defaults, and what it measures as a comment."""
    assert template.path is not None
    filler = Filler(template.definition, template.model.parameters, template.source)
    snapshot = as_written(filler.filled(None))
    runtime: dict[str, Any] = {}
    before: dict[Loc, str] = {}
    declared = template.model.parameters
    for parameter in declared:
        path = filler.split(parameter.id.removeprefix("runtime."))
        place = runtime
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = _own_values(template, path, parameter.default)
        if parameter.description:
            before[("runtime", *path)] = parameter.description
    needs = (template.model.suite or {}).get("needs") or ()
    _open_backends(filler, runtime, before, "vllm" if "likelihood" in needs else "openai_http")
    if not declared:
        before[("template_snapshot",)] = "\n".join(_examples(snapshot))
    base = _base_task(template.path, folder)
    about = {"name": template.name, "description": template.model.metadata.description}
    content = {
        "api_version": "gage/v1alpha1",
        "kind": "RunConfig",
        "metadata": {key: value for key, value in about.items() if value},
        "base_task": base,
        "template_version": template.model.metadata.version,
        "template_digest": template.digest,
        "runtime": runtime,
        "template_snapshot": snapshot,
    }
    before[("runtime",)] = (
        "\nValues of this run. Each is put over the template's value; what is left out stays as it is there.\n"
        "Relative paths start from this file's folder."
    )
    note = "\nThe template when this file was made, to name what changed in an edited one. Not read otherwise."
    before[("template_snapshot",)] = before.get(("template_snapshot",), "") + note
    tree = node_of({key: value for key, value in content.items() if value is not None}, template.source)
    head = "".join(f"# {line}".rstrip() + "\n" for line in _summary(template, base, snapshot))
    return yaml_text(tree, before=before, head=head)


def _own_values(template: Template, path: Sequence[str], default: Any) -> Any:
    """A default without the paths that start from the template's folder: the template finds them itself."""
    assert template.path is not None
    if path[0] not in ("datasets", "backends") or not isinstance(default, dict):
        return default
    folder = template.path.parent
    around = as_written(child(template.definition, path[0]) or node_of([], ""))
    loc: Loc = (path[0], len(around), *path[2:])
    whole = node_of({path[0]: [*around, default]}, template.source)
    return _without_paths(whole, default, loc, folder)


def _without_paths(whole: Node, value: Any, loc: Loc, folder: Path) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_paths(whole, item, (*loc, key), folder) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None or value[key] is None}
    if isinstance(value, str) and relative_path(whole, loc, value, folder):
        return None
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return None if any(relative_path(whole, (*loc, at), item, folder) for at, item in enumerate(value)) else value
    return value


def _open_backends(filler: Filler, runtime: dict[str, Any], before: dict[Loc, str], model_type: str) -> None:
    """Backends that the template leaves to its runs, as endpoints to fill in."""
    wanted = [("dut", "the model under test", "MODEL")] if filler.wants_model() else []
    adapters = {tuple(at): name for name, at in filler.open_backends().items()}
    wanted += [(name, "a model that judges or helps", "JUDGE") for name in adapters.values()]
    for name, words, variable in wanted:
        backends = runtime.setdefault("backends", {})
        if name in backends:
            continue
        backends[name] = {
            "type": model_type if variable == "MODEL" else "openai_http",
            "config": {
                "base_url": f"${{{variable}_BASE_URL:-http://127.0.0.1:8000/v1}}",
                "model": f"${{{variable}_NAME:-my-model}}",
            },
        }
        before[("runtime", "backends", name)] = words


def _examples(snapshot: dict[str, Any]) -> Iterator[str]:
    """Lines that show what else a RunConfig can set."""
    ids = {
        section: [str(entry[field]) for entry in snapshot.get(section) or () if field in entry]
        for section, field in (("datasets", "dataset_id"), ("backends", "backend_id"), ("tasks", "task_id"))
    }
    yield "Under 'runtime' you can also set, for example:"
    yield from (f"  datasets: {{{name}: {{params: {{limit: 100}}}}}}" for name in ids["datasets"][:1])
    yield from (f"  backends: {{{name}: {{config: {{max_concurrency: 8}}}}}}" for name in ids["backends"][:1])
    yield from (f"  tasks: {{{name}: {{max_samples: 100}}}}" for name in ids["tasks"][:1])


def _summary(template: Template, base: str, snapshot: dict[str, Any]) -> Iterator[str]:
    about = template.model.metadata
    yield f"A run of {base} {about.version or ''}".rstrip() + (f": {about.description}" if about.description else "")
    yield ""
    yield "What the template does (read-only; it is pinned by template_digest):"
    for section, field in (
        ("datasets", "dataset_id"),
        ("backends", "backend_id"),
        ("role_adapters", "adapter_id"),
        ("prompts", "prompt_id"),
        ("tasks", "task_id"),
    ):
        if names := [str(entry.get(field)) for entry in snapshot.get(section) or ()]:
            yield f"  {section:<14}{_listed(names)}"
    if metrics := list(dict.fromkeys(_metrics(snapshot))):
        yield f"  {'metrics':<14}{_listed(metrics)}"
    steps = [step for task in snapshot.get("tasks") or () for step in task.get("steps") or ()]
    names = [step if isinstance(step, str) else str(step.get("step")) for step in steps]
    yield f"  {'steps':<14}{', '.join(dict.fromkeys(names)) or 'inference, auto_eval'}"
    yield ""
    yield "Run it:  gage run THIS_FILE"


def _metrics(snapshot: dict[str, Any]) -> Iterator[str]:
    lists = [snapshot.get("metrics") or ()]
    lists += [task.get(key) or () for task in snapshot.get("tasks") or () for key in ("metrics", "metric_overrides")]
    for metric in (item for items in lists for item in items):
        yield str(metric.get("metric_id") or next(iter(metric), "")) if isinstance(metric, dict) else str(metric)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _base_task(file: Path, folder: Path) -> str:
    """How a RunConfig in a folder names a template."""
    suite = file.parent.name
    if file.parent.parent.resolve() == configs_dir() / "builtin_templates":
        return BUILTIN_PREFIX + suite
    if suite_folders().get(suite) == file.parent:
        return suite
    return relative_name(file, folder)


def _free(folder: Path, stem: str) -> Path:
    """A name in a folder that is free yet."""
    number = 1
    while (file := folder / f"{stem}_{number}.yaml").exists():
        number += 1
    return file
