"""Promises of the filters that take a program out of an answer."""

import time
from collections.abc import Callable

import pytest

from gage_eval.scoring.extract.code import Take, before, between, code_block, sanitize

TWO_BLOCKS = "Try\n```python\nx = 1\n```\nor, better,\n~~~\nx = 1\ny = 2\n~~~\nor\n```py\nz = 3"
PROGRAM = """\
Sure, here it is:
```python
import math
from os import path

RADIUS = {"a": 1}
UNUSED = input()

def area(r):
    pass

@decorate
def area(r):
    return math.pi * square(r) * RADIUS["a"]

def square(x):
    return x * x

class Box:
    pass

print(area(1))
assert area(1) > 3
if __name__ == "__main__":
    area(2)
```
"""


@pytest.mark.parametrize(("take", "block"), [("first", "x = 1\n"), ("last", "z = 3"), ("longest", "x = 1\ny = 2\n")])
def test_of_several_blocks_the_one_that_is_asked_for_counts(take: Take, block: str) -> None:
    assert code_block(TWO_BLOCKS, take) == block


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("no code", None),
        ("```\n \n```", None),
        ("```x = 1```", None),
        ("1. So:\n   ```python\n   if x:\n       y\n   ```\n", "if x:\n    y\n"),
        ("````\n```\nx\n```\n````", "```\nx\n```\n"),
        ("```python\r\nx = 1\r\n```\r\n", "x = 1\r\n"),
    ],
)
def test_fences_are_those_of_markdown(text: str, block: str | None) -> None:
    assert code_block(text) == block


def test_a_stop_text_and_markers_cut_the_answer() -> None:
    assert before("return x\ndef g():\n", ["\nclass ", "\ndef "]) == "return x"
    assert before("\ndef g():\n", ["\ndef "]) is None
    assert between("So [BEGIN]\nx\n[DONE]\n[BEGIN]y", "[BEGIN]", "[DONE]") == "\nx\n"
    assert between("x\n[DONE] and more", "[BEGIN]", "[DONE]") == "x\n"
    assert between("[DONE]", "[BEGIN]", "[DONE]") is None


def test_sanitize_keeps_the_imports_and_what_the_function_needs() -> None:
    kept = 'import math\nfrom os import path\nRADIUS = {"a": 1}\n@decorate\ndef area(r):\n'
    kept += '    return math.pi * square(r) * RADIUS["a"]\ndef square(x):\n    return x * x\n'
    assert sanitize(PROGRAM, "area") == kept
    assert sanitize(PROGRAM) == kept + "class Box:\n    pass\n"
    assert sanitize(PROGRAM, "square") == "import math\nfrom os import path\ndef square(x):\n    return x * x\n"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("def f():\n    return 1\nprint(f())", "def f():\n    return 1\n"),
        ("It is:\ndef f():\n    return 1\nThat is all.\n", "def f():\n    return 1\n"),
        ("def f():\n    yield 1", "def f():\n    yield 1\n"),
        ("    return 1\n", "    return 1\n"),
        ("```\ndef f(:\n```", "def f(:\n"),
        ("def f():\n    return '\0'", "def f():\n    return '\0'"),
        ("def f():\n    return '\ud800'", "def f():\n    return '\ud800'"),
        (" \n", None),
    ],
)
def test_what_does_not_parse_is_left_as_it_is(text: str, left: str | None) -> None:
    assert sanitize(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n" * 1_700_000,
        "```\n" * 2_500_000,
        "def f(:\n" * 1_250_000,
        "(" * 10_000_000,
        "def f():\n\tx = (\n" * 12_000,
    ],
    ids=["long", "fences", "broken", "deep", "unclosed"],
)
@pytest.mark.parametrize("read", [code_block, sanitize], ids=["code_block", "sanitize"])
def test_ten_megabytes_take_seconds(text: str, read: Callable[[str], str | None]) -> None:
    begun = time.process_time()
    read(text)
    assert time.process_time() - begun < 20
