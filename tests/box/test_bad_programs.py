"""What no program should be, and surroundings that cannot be made: each has a status and a sentence, and no traceback.

Answers without a program, too long ones and samples with secrets or missing files: `tests/pipeline/test_executions.py`.
"""

import asyncio
import re
from dataclasses import dataclass, field

import pytest
from support.boxes import NEEDS_BOX

from gage_eval.box.executors import ExecutorSettings, open_executor
from gage_eval.box.types import BoxSpec, Execution, Limits, Program
from gage_eval.scoring.extract.code import sanitize

pytestmark = NEEDS_BOX

RIGHT = "def f(x): return 2 * x"


@dataclass(frozen=True)
class Bad:
    """A program in its surroundings, and what it ends with."""

    status: str
    reason: str
    said: str
    code: str = RIGHT
    tests: str = "assert f(4) == 8"
    spec: BoxSpec = field(default_factory=BoxSpec)
    stdin: tuple[str, ...] = ()
    wall_s: float = 60.0


CASES = {
    "syntax error": Bad("failed", "exception", "SyntaxError", "def f(x) return 2"),
    "lone surrogates": Bad("failed", "exception", "surrogates not allowed", f"{RIGHT}\nname = '\ud800'"),
    "no entry point": Bad("failed", "no entry", "no function 'f'", "def g(x): return x"),
    "an entry point that is no function": Bad("failed", "no entry", "no function 'f'", "f = 2"),
    "tests that pass what is not data": Bad("refused", "form", "cannot be passed", tests="assert f(lambda: 4) == 8"),
    "a setup that fails": Bad("box_error", "setup", "exit 3: gone", spec=BoxSpec(setup="echo gone >&2; exit 3")),
    "a setup that hangs": Bad("box_error", "setup", "idle|starved", spec=BoxSpec(setup="sleep 60"), wall_s=4.0),
    "an unknown image": Bad("box_error", "image", "execution.roots", spec=BoxSpec(image="nowhere/nothing")),
    "a variable that is none": Bad("box_error", "spec", "A=B", spec=BoxSpec(env={"A=B": "x"})),
    "output that is not UTF-8": Bad("passed", "", "", "import os\nos.write(1, b'\\xff\\xfe caf\\xe9')", stdin=("",)),
    "numpy, which is not there": Bad("failed", "exception", "No module named 'numpy'", f"import numpy as np\n{RIGHT}"),
}


@pytest.fixture(scope="module")
def executions() -> dict[str, Execution]:
    async def run() -> dict[str, Execution]:
        executor = open_executor(ExecutorSettings("bubblewrap", slots=2))
        programs = {
            name: Program("stdio" if bad.stdin else "calls", bad.code, "f", tests=bad.tests, stdin=bad.stdin)
            for name, bad in CASES.items()
        }
        try:
            done = [
                executor.execute(program, Limits(1.0, CASES[name].wall_s), CASES[name].spec)
                for name, program in programs.items()
            ]
            return dict(zip(CASES, await asyncio.gather(*done), strict=True))
        finally:
            await executor.close()

    return asyncio.run(run())


@pytest.mark.parametrize("name", CASES)
def test_it_has_a_status_and_a_sentence(name: str, executions: dict[str, Execution]) -> None:
    bad, execution = CASES[name], executions[name]
    assert (execution.status, execution.reason) == (bad.status, bad.reason), execution
    assert re.search(bad.said, execution.text)
    assert "Traceback" not in execution.text


def test_output_that_is_not_utf8_is_shown_with_marks(executions: dict[str, Execution]) -> None:
    assert executions["output that is not UTF-8"].outputs == ("\ufffd\ufffd caf\ufffd",)


def test_of_several_blocks_the_longest_is_run() -> None:
    text = "First:\n```python\nprint(1)\n```\nBetter:\n```python\ndef f(x):\n    return 2 * x\n```\nDone."
    assert sanitize(text, "f") == "def f(x):\n    return 2 * x\n"
