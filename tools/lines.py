"""Counts the lines of code by package: those that are neither blank, comment nor docstring."""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

PRODUCT = ("gage_eval", "flows", "tasks", "blocks")
_WITHOUT_CODE = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(source: str) -> int:
    """How many lines of a module hold code."""
    lines = {
        number
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _WITHOUT_CODE
        for number in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def main() -> None:
    """Print the lines of each package of the folders that are named, by default those of the product."""
    counts: Counter[str] = Counter()
    for folder in sys.argv[1:] or PRODUCT:
        for path in Path(folder).rglob("*.py"):
            counts["/".join(path.parts[:2]) if len(path.parts) > 2 else folder] += code_lines(path.read_text("utf-8"))
    for package, count in (*counts.most_common(), ("in all", counts.total())):
        sys.stdout.write(f"{count:7,}  {package}\n")


if __name__ == "__main__":
    main()
