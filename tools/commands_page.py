"""docs/commands.md, made from the command line.

python -m tools.commands_page    write the page
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from gage_eval.cli.main import COMMANDS, app
from tools.markdown import cell

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"

_HEAD = """# Reference: command line

Made from the code by `python -m tools.commands_page`; change a text there, not on this page.

Every command takes `--help`, and `--debug`, which shows tracebacks. [Exit codes](errors-and-exit-codes.md#exit-codes)
say what scripts can rely on.
"""


def page() -> str:
    """The page as it should be."""
    for name in COMMANDS:
        importlib.import_module(f"gage_eval.cli.{name}")
    lines = [line for words, command in _commands((), typer.main.get_command(app)) for line in _section(words, command)]
    return _HEAD + "\n".join(lines).replace("<", "\\<") + "\n"


def _commands(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if hasattr(command, "commands"):
        for name, inner in sorted(command.commands.items()):
            yield from _commands((*words, name), inner)
    else:
        yield words, command


def _section(words: tuple[str, ...], command: Any) -> Iterator[str]:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [
        parameter
        for parameter in command.params
        if parameter.param_type_name == "option" and "--help" not in parameter.opts
    ]
    shown = " ".join(_argument(argument) for argument in arguments)
    yield ""
    yield f"## gage {' '.join(words)}"
    yield ""
    yield " ".join((command.help or "").split())
    yield ""
    yield f"    gage {' '.join(words)}{' [OPTIONS]' * bool(options)}{f' {shown}' if shown else ''}"
    if not arguments and not options:
        return
    yield ""
    yield "| | default | |"
    yield "|---|---|---|"
    for argument in arguments:
        text = cell(getattr(argument, "help", None) or "")
        yield f"| `{argument.metavar or argument.human_readable_name}` | – | {text} |"
    for option in options:
        names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
        value = "" if option.is_flag else f" `{cell(option.metavar or 'VALUE')}`"
        yield f"| {names}{value} | {_default(option)} | {cell(option.help or '')} |"


def _argument(argument: Any) -> str:
    name = argument.metavar or argument.human_readable_name
    return name if argument.required else f"[{name}]"


def _default(option: Any) -> str:
    return "–" if option.default in (None, False, (), []) or callable(option.default) else f"`{option.default}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
