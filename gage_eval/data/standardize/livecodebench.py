"""The preprocessor of problems in LiveCodeBench's form: programs that read stdin, and methods that are called."""

import base64
import binascii
import json
import pickletools
import zlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import Annotated, Any

from pydantic import Field

from gage_eval.base.errors import InputError
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.standardize.base import BuiltInPreprocessor
from gage_eval.data.standardize.fields import carry_over, object_of, read, text_of
from gage_eval.data.standardize.options import IdField, QuestionField, SystemPrompt
from gage_eval.extend import registry

_TESTS = ("public_test_cases", "private_test_cases")
# Bytes of a row's tests once they are unpacked.
_LARGEST = 256 << 20
_MOST_CODES = 16
_TEXT_CODES = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"})
_OTHER_CODES = frozenset({"PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "STOP"})

# The names that the official executor gives to every program (`testing_util.py`, `import_string`).
_MODULES = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "sys", "json"),
)
_PRELUDE = "".join(f"from {name} import *\n" for name in (*_MODULES, "builtins", "typing")) + (
    f"import {', '.join(_MODULES)}\nsys.setrecursionlimit(50000)\n"
)
# One object serves all tests of a problem. A call has six seconds, as each test of the official executor. An answer
# that removes this limit still has that of the task.
_CALL = """
def livecodebench_call(*arguments):
    import signal

    def end(number, frame):
        raise TimeoutError("a call took more than 6 s of CPU time")

    scope = globals()
    if "Solution" in scope and "livecodebench_object" not in scope:
        scope["livecodebench_object"] = scope["Solution"]()
    method = getattr(scope["livecodebench_object"], {name!r}) if "Solution" in scope else scope[{name!r}]
    signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, 6)
    try:
        return method(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
"""
_CHECK = """
def check(lines, output):
    arguments, expected = [json.loads(line) for line in lines.split("\\n")], json.loads(output)
    value = livecodebench_call(*arguments)
    value = list(value) if isinstance(value, tuple) else value
    assert value == expected, f"expected {expected!r:.200}, got {value!r:.200} for {arguments!r:.200}"

"""


@registry.preprocessors.register("livecodebench", version=1)
class LiveCodeBench(BuiltInPreprocessor):
    """Problems in LiveCodeBench's form (Jain et al. 2024), with their public and private tests.

    A problem with ``func_name`` in its ``metadata`` is a method to write: ``metadata`` gets ``entry_point`` and
    ``tests``. Any other is a program that reads stdin: ``metadata`` gets ``inputs`` and ``outputs``. Both get
    ``prelude``. ``data_tag`` gets ``kind`` (``functional`` or ``stdin``), ``platform``, ``difficulty``, the ``month``
    of the contest and, with ``windows``, the ``window`` of its date. Private tests may be packed (base64, zlib,
    pickle); the pickle of a text is read, and never run.
    """

    question_field: QuestionField = "question_content"
    id_field: IdField = "question_id"
    system_prompt: SystemPrompt = (
        "You are an expert Python programmer. You will be given a question (problem specification) and will generate a "
        "correct Python program that matches the specification and passes all tests."
    )
    template: Annotated[str, Field(description="Jinja text of the user message; it sees `question` and `record`.")] = (
        "### Question:\n{{ question }}\n\n### Format: {% if record.starter_code %}You will use the following starter "
        "code to write the solution to the problem and enclose your code within delimiters.\n```python\n"
        "{{ record.starter_code }}\n```{% else %}Read the inputs from stdin solve the problem and write the answer to "
        "stdout (do not directly test on the sample inputs). Enclose your code within delimiters as follows. Ensure "
        "that when the python program runs, it reads the inputs, runs the algorithm and writes output to STDOUT.\n"
        "```python\n# YOUR CODE HERE\n```{% endif %}\n\n### Answer: (use the provided format with backticks)\n\n\n"
    )
    windows: Annotated[
        Sequence[str],
        Field(description="First days of periods, as 2024-08-01: `data_tag.window` says in which a contest was."),
    ] = ()

    def check(self) -> None:
        super().check()
        _ = self._starts

    @cached_property
    def _starts(self) -> list[date]:
        try:
            return sorted(date.fromisoformat(day) for day in self.windows)
        except ValueError as error:
            raise InputError(f"windows: write days as 2024-08-01: {error}.") from None

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        question = text_of(read(record, self.question_field), self.question_field)
        facts, name = self._tests(record)
        sample = carry_over(record, (*_TESTS, self.question_field, self.id_field, "metadata", "label", "messages"))
        assert self.user_message is not None
        text = self.user_message.render(question, [], record)
        tags = {"kind": "stdin" if name is None else "functional", **self._period(record)}
        tags |= {tag: text_of(record[tag], tag) for tag in ("platform", "difficulty") if record.get(tag) is not None}
        sample["data_tag"] = {**object_of(sample, "data_tag"), **tags}
        return self.finished(record, sample, text, [], "code-generation", facts)

    def _tests(self, record: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
        """What the metadata get, and the name of the method."""
        own = _parsed(record.get("metadata") or {}, "metadata")
        name = own.get("func_name") if type(own) is dict else None
        tests = [test for field in _TESTS for test in _tests_in(record.get(field), field)]
        if not tests:
            raise RecordRejected("public_test_cases, private_test_cases: there is no test.")
        inputs, outputs = [test[0] for test in tests], [test[1] for test in tests]
        if name is None:
            return {"prelude": _PRELUDE, "inputs": inputs, "outputs": outputs}, None
        name = text_of(name, "metadata.func_name")
        for value in (*(line for text in inputs for line in text.split("\n")), *outputs):
            _parsed(value, "public_test_cases, private_test_cases")
        facts = {
            "entry_point": "livecodebench_call",
            "prelude": _PRELUDE + _CALL.format(name=name),
            "tests": _CHECK + "".join(f"check({lines!r}, {output!r})\n" for lines, output in tests),
        }
        return facts, name

    def _period(self, record: Mapping[str, Any]) -> dict[str, str]:
        """The tags of the contest's date."""
        value = read(record, "contest_date")
        if value is None:
            return {}
        try:
            day = datetime.fromisoformat(text_of(value, "contest_date")).date()
        except ValueError:
            raise RecordRejected("contest_date: it must be a date, as 2024-08-01.") from None
        month = {"month": f"{day:%Y-%m}"}
        if not self._starts:
            return month
        place = bisect_right(self._starts, day)
        if place == 0:
            return {**month, "window": f"before {self._starts[0]}"}
        end = self._starts[place] - timedelta(days=1) if place < len(self._starts) else None
        return {**month, "window": f"from {self._starts[place - 1]}" + ("" if end is None else f" to {end}")}


def _tests_in(value: Any, field: str) -> list[tuple[str, ...]]:
    """The tests of a field: input and output of each."""
    if value is None or value == "":
        return []
    try:
        tests = _parsed(value, field)
    except RecordRejected:
        tests = _parsed(_unpacked(value, field), field)
    if type(tests) is not list or not all(type(test) is dict for test in tests):
        raise RecordRejected(f"{field}: it must be a list of tests.")
    return [
        (text_of(test.get("input"), f"{field}: input"), text_of(test.get("output"), f"{field}: output"))
        for test in tests
    ]


def _parsed(value: Any, field: str) -> Any:
    if type(value) is not str:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise RecordRejected(f"{field}: it must be JSON.") from None


def _unpacked(text: str, field: str) -> str:
    """The text of a packed field: base64 of zlib of a pickle. The pickle is disassembled and never run."""
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text, validate=True), _LARGEST)
    except (binascii.Error, ValueError, zlib.error):
        raise RecordRejected(f"{field}: it must be JSON, or a text packed by pickle, zlib and base64.") from None
    if unpacker.unconsumed_tail:
        raise RecordRejected(f"{field}: its tests have more than {_LARGEST >> 20} MiB.")
    try:
        # The pickle of a text has at most six codes.
        codes = list(islice(pickletools.genops(data), _MOST_CODES))
    except (ValueError, IndexError) as error:
        raise RecordRejected(f"{field}: it holds a broken pickle: {error}.") from None
    others = [code.name for code, _, _ in codes if code.name not in _TEXT_CODES | _OTHER_CODES]
    if others:
        raise RecordRejected(f"{field}: its pickle holds more than a text ({others[0]}), and is not run.")
    texts = [str(argument) for code, argument, _ in codes if code.name in _TEXT_CODES]
    if len(texts) != 1 or codes[-1][0].name != "STOP":
        raise RecordRejected(f"{field}: its pickle must hold one text and no more.")
    return texts[0]
