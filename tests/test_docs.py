"""What the documentation, the help and the messages speak of is there: commands, options, files, links, variables."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import typer

from gage_eval.cli.main import COMMANDS, app
from gage_eval.config.settings import PREFIX, REPLACED, Settings, variables_of
from gage_eval.extend import registry
from gage_eval.models.backends.base import BackendConfig
from gage_eval.models.backends.build import config_model

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# Typer may come with a Click of its own, whose classes it does not all name.
USAGE_ERROR = typer.BadParameter.__mro__[1]
PACKAGES = ("gage_eval", "flows", "tasks", "blocks")

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_SHELLS = ("", "bash", "sh", "shell", "console")
# Options of other programs that pages speak of.
_OF_OTHERS = {"--no-deps"}
# Of pip, make and the tools for developers, not of ours.
_PLACE = re.compile(r"(?:configs|docs|tests|tools|bench|gage_eval|flows|tasks|blocks|constraints|deployments)/[\w./-]+")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


@cache
def commands() -> dict[tuple[str, ...], Any]:
    """Every command by its words."""
    for name in COMMANDS:
        __import__(f"gage_eval.cli.{name}")

    def walk(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
        yield words, command
        if hasattr(command, "commands"):
            for name, inner in command.commands.items():
                yield from walk((*words, name), inner)

    return dict(walk((), typer.main.get_command(app)))


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that words begin with, and the rest."""
    size = max(size for size in range(len(words) + 1) if tuple(words[:size]) in commands())
    return commands()[tuple(words[:size])], words[size:]


def options_of(command: Any) -> set[str]:
    names = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    return names | {"--help", "--debug"}


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def shell_lines(page: Path) -> Iterator[list[str]]:
    """The ``gage`` commands of a page's blocks, as words after ``gage``."""
    for _, language, block in _FENCE.findall(text_of(page)):
        if language not in _SHELLS:
            continue
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            for part in re.split(r"&&|\||;", line.partition(" #")[0]):
                words = shlex.split(part.strip().removeprefix("$ "))
                while words and re.fullmatch(r"\w+=.*", words[0]):
                    words.pop(0)
                if words and Path(words[0]).name == "gage":
                    yield words[1:]


def spans(page: Path) -> Iterator[str]:
    yield from _SPAN.findall(_FENCE.sub("", text_of(page)))


@every_page
def test_every_command_in_a_block_is_one_that_can_be_given(page: Path) -> None:
    for words in shell_lines(page):
        command, rest = command_of(words)
        said = f"{name_of(page)}: gage {' '.join(words)}"
        if rest == ["--help"] or rest == ["--version"]:
            continue
        assert not hasattr(command, "commands"), said
        try:
            command.make_context("gage", [word for word in rest if word != "--debug"])
        except USAGE_ERROR as error:
            pytest.fail(f"{said}: {error.format_message()}")


@every_page
def test_every_command_and_option_in_the_text_exists(page: Path) -> None:
    known = set().union(*map(options_of, commands().values())) | _OF_OTHERS
    for span in spans(page):
        words = span.split()
        if words[0] == "gage":
            command, rest = command_of(words[1:])
            if hasattr(command, "commands"):
                assert not rest or not re.fullmatch(r"[a-z]+", rest[0]), f"{name_of(page)}: {span}"
            assert {*_OPTION.findall(" ".join(rest))} <= options_of(command), f"{name_of(page)}: {span}"
        elif words[0].startswith("--"):
            assert {*_OPTION.findall(span)} <= known, f"{name_of(page)}: {span}"


@every_page
def test_every_link_to_a_file_and_a_heading_leads_somewhere(page: Path) -> None:
    for link in _LINK.findall(_SPAN.sub("", _FENCE.sub("", text_of(page)))):
        if "://" in link or link.startswith("mailto:"):
            continue
        place, _, heading = unquote(link).partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), f"{name_of(page)}: {link}"
        if heading and target.suffix == ".md":
            assert heading in anchors(target), f"{name_of(page)}: {link}"


@every_page
def test_every_file_and_variable_that_is_named_exists(page: Path) -> None:
    text = _FENCE.sub("", text_of(page))
    for span in _SPAN.findall(text):
        if _PLACE.fullmatch(span):
            assert (ROOT / span).exists() or (ROOT / f"{span}.py").exists(), f"{name_of(page)}: {span}"
    for name in re.findall(rf"\b{PREFIX}[A-Z_]*[A-Z]\b", text):
        assert name in variables(), f"{name_of(page)}: {name}"
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for target in re.findall(r"`make ([\w-]+)", text):
        assert target in targets, f"{name_of(page)}: make {target}"


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(_FENCE.sub("", text_of(page)))
    plain = [re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@cache
def variables() -> set[str]:
    # A run that finds a replaced variable set says what there is instead.
    return {variable for name in Settings.model_fields for variable in variables_of(name)} | set(REPLACED)


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_the_help_of_a_command_names_only_what_exists(words: tuple[str, ...]) -> None:
    command = commands()[words]
    known = set().union(*map(options_of, commands().values()))
    texts = [command.help or "", *(getattr(param, "help", None) or "" for param in command.params)]
    for text in texts:
        assert {*_OPTION.findall(text)} <= known, text
        for said in re.findall(r"`?\bgage ([a-z]+)", text):
            assert (said,) in commands(), text


def test_the_messages_name_only_commands_that_exist() -> None:
    for file in (file for folder in PACKAGES for file in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for said in re.findall(r"(?<![-\w])gage ([a-z]+)", node.value):
                    assert (said,) in commands(), f"{file.relative_to(ROOT)}:{node.lineno}: gage {said}"
                for name in re.findall(rf"\b{PREFIX}[A-Z_]*[A-Z]\b", node.value):
                    assert name in variables(), f"{file.relative_to(ROOT)}:{node.lineno}: {name}"


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        (backend.name, name)
        for backend in registry.backends
        if backend.is_builtin
        for name in config_model(backend.name).model_fields
    ],
)
def test_every_setting_of_a_backend_is_on_its_page(backend: str, name: str) -> None:
    said = {word for span in spans(ROOT / "docs" / "backends.md") for word in re.findall(r"\w+", span)}
    blocks = " ".join(block for *_, block in _FENCE.findall(text_of(ROOT / "docs" / "backends.md")))
    assert name in said or re.search(rf"\b{name}:", blocks), f"docs/backends.md lacks {name} of {backend}"


@pytest.mark.parametrize("name", sorted(set(config_model("replay").model_fields) - set(BackendConfig.model_fields)))
def test_every_setting_of_replay_is_explained_in_its_section(name: str) -> None:
    section = text_of(ROOT / "docs" / "backends.md").partition("\n## replay\n")[2].partition("\n## ")[0]
    assert f"`{name}`" in section, section
