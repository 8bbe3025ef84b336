"""Python's own parser, used by one thread at a time.

Up to Python 3.11 all threads share its counter of recursion. Where threads parse at once, some calls fail with
``SystemError: AST constructor recursion depth mismatch`` (python/cpython#106905).
"""

import ast
from threading import Lock

_lock = Lock()


def module_tree(code: bytes) -> ast.Module:
    """The tree of a module.

    Raises:
        SyntaxError, ValueError: it is not Python.
    """
    with _lock:
        return ast.parse(code)


def expression_tree(text: str) -> ast.expr:
    """The tree of one expression, which is not evaluated.

    Raises:
        SyntaxError, ValueError, MemoryError, RecursionError: it is not an expression of Python, or too deep.
    """
    with _lock:
        return ast.parse(text, mode="eval").body
