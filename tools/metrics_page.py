"""Generates Generates docs/metrics.md from the registry.

python -m tools.metrics_page            write the page
python -m tools.metrics_page --check    check that it is up to date
"""

import argparse
import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gage_eval.extend import registry
from gage_eval.extend.registry import Plugin
from gage_eval.scoring.metrics.base import Definition, define, signature_of
from gage_eval.scoring.metrics.references import position
from gage_eval.scoring.metrics.scale import Scale
from tools.markdown import builtin, cell, plain, prose, text, type_name
from tools.metric_sources import SOURCES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"

_HEAD = """# Metrics, filters, verdict parsers and aggregations

Made from the code by `python -m tools.metrics_page`; change a docstring, not this page.

A metric reads *fields* and takes *parameters*. The parameter in brackets after a field changes where the field is read
from. A metric's version is part of the key: scores of another version are computed again. [Scoring](scoring.md) shows
metrics, filters and verdict parsers in use, and [Scores and their uncertainty](uncertainty.md) aggregations.
"""


def page() -> str:
    """The generated page."""
    lines = [_HEAD]
    lines.append("## Metrics\n")
    lines += _contents(registry.metrics)
    for plugin in builtin(registry.metrics):
        lines += _metric(plugin)
    lines.append(
        "## Filters\n\nA filter extracts the answer before a metric reads it. A metric with several filters has "
        "several scores; the model is asked once.\n"
    )
    for plugin in builtin(registry.filters):
        lines += _function(plugin)
    lines.append("## Verdict parsers\n\nA judge's adapter names one as `verdict_parser`. It reads the judge's text.\n")
    for plugin in builtin(registry.verdict_parsers):
        lines += _function(plugin)
    lines.append("## Aggregations\n")
    lines.append("| name | version | rule |\n|---|---|---|")
    for plugin in builtin(registry.aggregations):
        lines.append(f"| `{plugin.name}` | {plugin.version} | {cell(text(plugin.obj))} |")
    return "\n".join(lines).rstrip() + "\n"


def _contents(kind: registry.Registry[Any]) -> Iterator[str]:
    yield "| metric | values | in short |\n|---|---|---|"
    for plugin in builtin(kind):
        values = ", ".join(f"`{value}`" for value in plugin.info.get("values", ()))
        yield f"| [`{plugin.name}`](#{plugin.name}) | {values} | {cell(prose(plugin.summary))} |"
    yield ""


def _metric(plugin: Plugin[Any]) -> Iterator[str]:
    known = define(plugin)
    yield f"### {plugin.name}\n"
    yield text(plugin.obj) + "\n"
    for value in known.values:
        yield f"- value `{value}`: {_aggregate(known, value)}, {_scale(known.scale(value))}"
    for item in known.fields:
        spelled = ", ".join(f"`{spelling}`" for spelling in item.spellings)
        yield f"- reads {item.name}: `{item.path}`{'' if item.required else ', if it is there'} [{spelled}]"
    yield from _parameters(known.signature.parameters)
    for preset, params in plugin.info["presets"].items():
        set_to = ", ".join(f"`{name}: {plain(value)}`" for name, value in params.items())
        yield f"- preset `{preset}`: {set_to}"
    source = SOURCES[plugin.name]
    yield f"- source of the rule: {source.source}"
    yield f"- known difference: {source.difference or 'none'}"
    if position(known) is not None:
        yield f"- several references: {_several(plugin)}"
    yield f"- {_source(plugin)}\n"


def _several(plugin: Plugin[Any]) -> str:
    """How a metric reads several references."""
    if not plugin.info["alternatives"]:
        return "not read; such samples are unscored"
    needed = plugin.info["all_references"] is not None
    return "alternatives, or all needed (`references: all`)" if needed else "alternatives"


def _function(plugin: Plugin[Any]) -> Iterator[str]:
    yield f"### {plugin.name}\n"
    yield text(plugin.obj) + "\n"
    yield from _parameters(signature_of(plugin).parameters)
    yield f"- {_source(plugin)}\n"


def _parameters(parameters: Mapping[str, tuple[Any, Any]]) -> Iterator[str]:
    for name, (annotation, default) in parameters.items():
        needed = default is inspect.Parameter.empty
        shown = "needed" if needed else f"default `{'none' if default is None else plain(default)}`"
        yield f"- parameter `{name}` ({type_name(annotation)}): {shown}"


def _aggregate(known: Definition, value: str) -> str:
    own = known.aggregate
    if isinstance(own, Mapping):
        return own.get(value, "mean")
    return own if isinstance(own, str) else ", ".join(own)


def _scale(scale: Scale) -> str:
    better = {True: "higher is better", False: "lower is better", None: "neither higher nor lower is better"}
    if scale.binary:
        span = "0 or 1"
    elif scale.low is None:
        span = "any number"
    else:
        span = f"{scale.low:g} or more" if scale.high is None else f"{scale.low:g} to {scale.high:g}"
    right = (
        ""
        if scale.binary
        else "; no answer is right or wrong by it"
        if scale.perfect is None
        else (f"; {scale.perfect:g} is right")
    )
    return f"{span}, {better[scale.higher_is_better]}{right}"


def _source(plugin: Plugin[Any]) -> str:
    file = inspect.getsourcefile(inspect.unwrap(plugin.obj))
    assert file is not None, "built-in code has a file"
    file_name = Path(file).resolve().relative_to(PAGE.parents[1]).as_posix()
    libraries = ", ".join((*plugin.info.get("libraries", ()), *plugin.info.get("programs", ())))
    with_them = f", with {libraries}" if libraries else ""
    profiled = "; a scoring profile's normalisation goes before it" if plugin.info.get("normalized") else ""
    return f"version {plugin.version}, [{file_name}](../{file_name}){with_them}{profiled}"


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or compare it with ``--check``; returns 1 if it is out of date."""
    parser = argparse.ArgumentParser(prog="python -m tools.metrics_page")
    parser.add_argument("--check", action="store_true", help="only check that docs/metrics.md is up to date")
    wanted = page()
    if parser.parse_args(arguments).check:
        fresh = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == wanted
        if not fresh:
            sys.stderr.write("docs/metrics.md is out of date: python -m tools.metrics_page\n")
        return 0 if fresh else 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
