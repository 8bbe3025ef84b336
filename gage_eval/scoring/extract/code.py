"""Programs in a model's text: fenced blocks, markers, and the definitions that a function needs."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gage_eval.base.python_syntax import module_tree

Take: TypeAlias = Literal["first", "last", "longest"]

_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})([^`]*)")
# A tree needs several hundred times the memory of its text.
_LONGEST = 200_000
# How many characters the search for the lines that are a program parses, in sum: two seconds or so.
_MOST_PARSED = 2_000_000
_BEGINS = ("def ", "async def ", "class ", "import ", "from ", "@")


def code_blocks(text: str) -> list[str]:
    """The fenced blocks of a text, without their fences and their indent. One that is not closed ends with the text."""
    blocks: list[str] = []
    fence, indent, begun = "", 0, list[str]()
    for line in text.splitlines(keepends=True):
        mark = _FENCE.fullmatch(line)
        if not fence and mark is not None:
            fence, indent, begun = mark[2], len(mark[1]), []
        elif fence and mark is not None and mark[2].startswith(fence) and not mark[3].strip():
            blocks.append("".join(begun))
            fence = ""
        elif fence:
            begun.append(line[min(indent, len(line) - len(line.lstrip(" \t"))) :])
    return [*blocks, "".join(begun)] if fence else blocks


def code_block(text: str, take: Take = "first") -> str | None:
    """One of the fenced blocks that are not blank; None where there is none. The first of the longest counts."""
    blocks = [block for block in code_blocks(text) if block.strip()]
    if not blocks:
        return None
    return max(blocks, key=len) if take == "longest" else blocks[0 if take == "first" else -1]


def before(text: str, stops: Sequence[str]) -> str | None:
    """The text before the first of some stop strings; None where it is blank."""
    end = min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))
    return text[:end] if text[:end].strip() else None


def between(text: str, start: str, end: str) -> str | None:
    """The text between the first start marker and the next end marker; None where it is blank.

    A missing start marker is the start of the text, because the prompt may end with it; a missing end marker its end.
    """
    return before(text.partition(start)[2] if start in text else text, [end])


def sanitize(text: str, entry: str | None = None) -> str | None:
    """The imports of a program, and the definitions that a function needs, as evalplus reads answers.

    The program is the text, else its longest fenced block, else its longest run of lines that parses. Of its top level
    stay the imports and what is reachable by name from the function, without a name from every function and class. The
    first definition of a name counts, and a function needs a ``return`` or ``yield``; so a repeated signature is left
    out. Calls, prints and assertions go. A program that does not parse, or lacks the function, is returned whole; None
    where the text is blank.

    evalplus, which parses by tree-sitter, tries all runs of lines; here a run begins with a definition or an import.
    """
    block = code_block(text, "longest")
    for candidate in (text, block):
        if candidate is not None and (tree := python_tree(candidate)) is not None and _definitions(tree):
            return _needed(candidate, tree, entry)
    source = text if block is None else block
    run = _longest_run(source)
    if run is None:
        return source if source.strip() else None
    return _needed(run[0], run[1], entry)


@dataclass(frozen=True, slots=True)
class _Definition:
    node: ast.stmt
    names: tuple[str, ...]
    is_value: bool

    @property
    def uses(self) -> set[str]:
        return {node.id for node in ast.walk(self.node) if isinstance(node, ast.Name)}


def python_tree(code: str) -> ast.Module | None:
    """The tree of a program; None if it does not parse, or is too long."""
    if len(code) > _LONGEST:
        return None
    try:
        return module_tree(code.encode())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _definitions(tree: ast.Module) -> list[_Definition]:
    """The definitions of the top level, the first of each name."""
    taken: set[str] = set()
    definitions: list[_Definition] = []
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if _returns(node):
                definition = _Definition(node, (name,), is_value=False)
            case ast.ClassDef(name=name):
                definition = _Definition(node, (name,), is_value=False)
            case ast.Assign(targets=targets):
                definition = _Definition(node, tuple(_names(targets)), is_value=True)
            case ast.AnnAssign(target=target, value=ast.expr()):
                definition = _Definition(node, tuple(_names([target])), is_value=True)
            case _:
                continue
        if not taken.issuperset(definition.names):
            taken.update(definition.names)
            definitions.append(definition)
    return definitions


def _returns(node: ast.stmt) -> bool:
    return any(isinstance(inner, ast.Return | ast.Yield | ast.YieldFrom) for inner in ast.walk(node))


def _names(targets: Sequence[ast.expr]) -> Iterator[str]:
    for target in targets:
        yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _needed(code: str, tree: ast.Module, entry: str | None) -> str:
    """The lines of the imports and of what the entry point needs, in their order."""
    definitions = _definitions(tree)
    by_name = {name: definition for definition in definitions for name in definition.names}
    if not by_name or (entry is not None and entry not in by_name):
        return code
    roots = [entry] if entry is not None else [item.names[0] for item in definitions if not item.is_value]
    reached: set[str] = set()
    waiting = roots or list(by_name)
    while waiting:
        name = waiting.pop()
        if name not in reached and name in by_name:
            reached.add(name)
            waiting.extend(by_name[name].uses)
    kept = [item.node for item in definitions if reached.intersection(item.names)]
    kept += [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    lines = _lines(code)
    numbers = sorted({number for node in kept for number in range(_first_line(node), _last_line(node) + 1)})
    return "\n".join(lines[number - 1] for number in numbers) + "\n"


def _first_line(node: ast.stmt) -> int:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.decorator_list:
        return node.decorator_list[0].lineno
    return node.lineno


def _last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _lines(code: str) -> list[str]:
    """The lines as Python's parser counts them, which knows fewer line ends than `str.splitlines`."""
    return code.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _longest_run(code: str) -> tuple[str, ast.Module] | None:
    """The longest run of lines that parses and defines something, and its tree."""
    if len(code) > _LONGEST:
        return None
    lines = _lines(code)
    best: tuple[str, ast.Module] | None = None
    parsed = 0
    end_of_last = 0
    for start, line in enumerate(lines):
        if start < end_of_last or not line.startswith(_BEGINS):
            continue
        end = len(lines)
        while end > start and parsed < _MOST_PARSED:
            run = "\n".join(lines[start:end])
            parsed += len(run)
            try:
                tree = module_tree(run.encode())
            except SyntaxError as error:
                end = min(end - 1, start + max((error.lineno or 1) - 1, 0))
            except (ValueError, MemoryError, RecursionError):
                break
            else:
                end_of_last = end
                if _definitions(tree) and (best is None or len(run) > len(best[0])):
                    best = run, tree
                break
    return best
