"""Variables are named by what they hold."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "gage_eval"
# Folders beside the package.
BESIDE = ("bench", "blocks", "flows", "tasks", "tests", "tools")
PARTICIPLES = frozenset({"one", "found", "given", "asked"})


def names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every name that a module gives to a variable, parameter, loop variable or pattern, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, node.lineno


def vague_names(part: str) -> list[str]:
    place = (ROOT if part in BESIDE else PACKAGE) / part
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    return [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files
        for name, line in names(ast.parse(path.read_text(encoding="utf-8")))
        if name in PARTICIPLES
    ]


PARTS = sorted({path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")})


@pytest.mark.parametrize("part", [*PARTS, *BESIDE])
def test_no_variable_is_named_one_found_given_or_asked(part: str) -> None:
    assert vague_names(part) == []


@pytest.mark.parametrize(
    "text",
    [
        "one = 1",
        "for one in (): pass",
        "def call(*, given): pass",
        "lambda found: 1",
        "[1 for asked in ()]",
        "try: pass\nexcept OSError as found: pass",
        "match 1:\n    case [*found]: pass",
    ],
)
def test_the_rule_sees_every_kind_of_variable(text: str) -> None:
    assert PARTICIPLES & {name for name, _ in names(ast.parse(text))}
