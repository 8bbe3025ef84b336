"""Generates Generates docs/preprocessors.md from the registry.

python -m tools.preprocessors_page    write the page
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gage_eval.data.standardize.base import options_of
from gage_eval.extend import registry
from gage_eval.extend.registry import Plugin
from tools.markdown import builtin, cell, plain, text, type_name

PAGE = Path(__file__).resolve().parents[1] / "docs" / "preprocessors.md"

_HEAD = """# Preprocessors and their options

Made from the code by `python -m tools.preprocessors_page`; change a description there, not on this page.

A preprocessor turns a record into a Sample. `preprocess:` of a dataset names it, `preprocess_kwargs:` sets its options.
A field may be a path such as `review.text` or `choices.0.text`. [Bringing a dataset](datasets.md) has worked examples.
You can also write [your own preprocessor](plugins/preprocessor.md).

Every preprocessor takes `fields`, which copies more fields of the record into the Sample. For example
`{data_tag.topic: subject}` copies the record's `subject` into `data_tag.topic`.
"""


def page() -> str:
    """The generated page."""
    lines = [_HEAD]
    for plugin in builtin(registry.preprocessors):
        lines += _preprocessor(plugin)
    return "\n".join(lines).rstrip() + "\n"


def _preprocessor(plugin: Plugin[Any]) -> Iterator[str]:
    yield f"## {plugin.name}\n\n{text(plugin.obj)}\n"
    yield "| option | type | default | for |\n|---|---|---|---|"
    for name, annotation, default, description in options_of(plugin.obj):
        if name != "fields":
            shown = "none" if default is None else f"`{cell(plain(default))}`"
            yield f"| `{name}` | {type_name(annotation)} | {shown} | {cell(description)} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
