"""Problems in LiveCodeBench's form become samples, and no packed test runs anything."""

import base64
import json
import pickle
import signal
import zlib
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import InputError
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.sample.rules import normalise_sample
from gage_eval.data.standardize import livecodebench
from gage_eval.data.standardize.compose import build
from gage_eval.extend import registry

PUBLIC = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]
PRIVATE = [{"input": "4 5\n", "output": "9\n", "testtype": "stdin"}]


def packed(value: Any, protocol: int = 4) -> str:
    """As the data set packs private tests."""
    return base64.b64encode(zlib.compress(pickle.dumps(value, protocol))).decode()


def problem(**fields: Any) -> dict[str, Any]:
    return {
        "question_title": "Add",
        "question_content": "Add two numbers.",
        "platform": "atcoder",
        "question_id": "abc_1",
        "contest_date": "2024-09-14T00:00:00",
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(PUBLIC),
        "private_test_cases": packed(json.dumps(PRIVATE)),
        "metadata": "{}",
        **fields,
    }


def sample_of(record: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    return normalise_sample(build(registry.preprocessors.get("livecodebench"), kwargs)(record), default_id="x")


def reason(record: dict[str, Any]) -> str:
    with pytest.raises(RecordRejected) as caught:
        sample_of(record)
    return caught.value.reason


@pytest.mark.parametrize("protocol", range(6))
def test_public_and_packed_tests_come_in_order(protocol: int) -> None:
    sample = sample_of(problem(private_test_cases=packed(json.dumps(PRIVATE), protocol)))
    assert sample["id"] == "abc_1"
    assert (sample["metadata"]["inputs"], sample["metadata"]["outputs"]) == (["1 2\n", "4 5\n"], ["3\n", "9\n"])
    assert "Read the inputs from stdin" in sample["messages"][1]["content"][0]["text"]
    plain = sample_of(problem(private_test_cases=json.dumps(PRIVATE)))
    assert plain["metadata"] == sample["metadata"]


class Hostile:
    """Makes a file where it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return open, (str(self.marker), "w")


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_would_run_something_is_rejected_and_not_run(tmp_path: Path, protocol: int) -> None:
    marker = tmp_path / "ran"
    said = reason(problem(private_test_cases=packed(Hostile(marker), protocol)))
    assert "is not run" in said
    assert not marker.exists()
    both = packed([json.dumps(PRIVATE), Hostile(marker)], protocol)
    assert "is not run" in reason(problem(private_test_cases=both))
    assert not marker.exists()


def test_what_cannot_be_read_is_rejected_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    text = packed(json.dumps(PRIVATE))
    cut = base64.b64encode(zlib.compress(pickle.dumps("[]")[:-3])).decode()
    for private, said in (
        ("!", "packed by pickle"),
        (base64.b64encode(b"no zlib").decode(), "packed by pickle"),
        (base64.b64encode(zlib.compress(b"broken pickle")).decode(), "pickle"),
        (cut, "broken pickle"),
        (packed("no JSON"), "must be JSON"),
        (packed('{"a": 1}'), "list of tests"),
        (packed(json.dumps([{"input": "1"}])), "output"),
        (packed(json.dumps([1])), "list of tests"),
        (packed(None), "is not run"),
        (packed("\ud800"), "must be JSON"),
        (base64.b64encode(zlib.compress(b"\x80\x04" + b"\x8c\x02[]" * 2 + b".")).decode(), "one text"),
        (base64.b64encode(zlib.compress(b"\x80\x04\x8c\x02[]" + b"\x94" * 9_000_000 + b".")).decode(), "one text"),
    ):
        assert said in reason(problem(private_test_cases=private)), private
    monkeypatch.setattr(livecodebench, "_LARGEST", 10)
    assert "MiB" in reason(problem(private_test_cases=text))


def test_a_problem_without_tests_or_with_a_strange_date_is_rejected() -> None:
    assert "there is no test" in reason(problem(public_test_cases=None, private_test_cases=""))
    assert reason(problem(contest_date="soon")).startswith("contest_date: ")


def test_a_method_to_write_is_called_with_the_lines_of_its_tests() -> None:
    record = problem(
        starter_code="class Solution:\n    def add(self, a, b):\n        ",
        metadata='{"func_name": "add"}',
        public_test_cases=json.dumps([{"input": "1\n2", "output": "3"}]),
        private_test_cases=None,
    )
    sample = sample_of(record)
    assert "inputs" not in sample["metadata"]
    assert sample["metadata"]["tests"].endswith("check('1\\n2', '3')\n")
    assert sample["data_tag"]["kind"] == "functional"
    assert "starter code" in sample["messages"][1]["content"][0]["text"]
    assert "must be JSON" in reason({**record, "public_test_cases": json.dumps([{"input": "x y", "output": "3"}])})


@pytest.mark.parametrize(
    ("day", "window"),
    [
        ("2024-07-31", "before 2024-08-01"),
        ("2024-08-01T00:00:00", "from 2024-08-01 to 2025-01-31"),
        ("2025-01-31T23:59:59", "from 2024-08-01 to 2025-01-31"),
        ("2025-02-01", "from 2025-02-01"),
    ],
)
def test_the_window_of_a_contest_is_a_tag(day: str, window: str) -> None:
    sample = sample_of(problem(contest_date=day), windows=["2025-02-01", "2024-08-01"])
    tags = {"kind": "stdin", "platform": "atcoder", "difficulty": "easy", "month": day[:7], "window": window}
    assert sample["data_tag"] == tags
    assert "window" not in sample_of(problem(contest_date=day))["data_tag"]


def test_a_window_that_is_no_day_is_refused() -> None:
    with pytest.raises(InputError, match="windows: write days"):
        build(registry.preprocessors.get("livecodebench"), {"windows": ["August"]})


def test_a_call_has_seconds_of_its_own() -> None:
    handler = signal.getsignal(signal.SIGPROF)
    source = livecodebench._CALL.format(name="f").replace("ITIMER_PROF, 6", "ITIMER_PROF, 0.05")
    scope: dict[str, Any] = {}
    exec(source + "def f(n):\n    while n: pass\n    return n", scope)
    try:
        assert scope["livecodebench_call"](0) == 0
        with pytest.raises(TimeoutError):
            scope["livecodebench_call"](1)
        assert scope["livecodebench_call"](0) == 0
        assert signal.getitimer(signal.ITIMER_PROF)[0] == 0
    finally:
        signal.signal(signal.SIGPROF, handler)
