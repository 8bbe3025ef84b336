"""No plug-in and no stage gives other results under the same version."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.pipeline.stages import ALL
from tools import lock
from tools.lock import Entry, differences, of_plugins

LOCKED = Entry(1, "vectors", "results")


@pytest.fixture(scope="module")
def current() -> tuple[dict[str, Entry], list[str]]:
    return lock.current()


def test_results_are_those_of_the_lock(current: tuple[dict[str, Entry], list[str]]) -> None:
    assert differences(lock.read(), current[0]) == {}


def test_vectors_test_every_built_in_plugin_and_stage(current: tuple[dict[str, Entry], list[str]]) -> None:
    entries, untested = current
    assert untested == []
    assert {f"stages:{name}" for name in ALL} == {name for name in entries if name.startswith("stages:")}


def test_a_plugin_whose_vectors_tell_nothing_apart_is_untested() -> None:
    vectors: dict[str, Any] = {
        "metrics": [{"metrics": ["contains", "gsm8k"], "rows": [["4", "4"], ["5", "4"], ["5", "5"]]}],
        "filters": {"calls": ["boxed", "letters"], "texts": [["A", "B"], ["A"]]},
        "verdict_parsers": {"calls": ["default"], "texts": ["SCORE: 1"]},
        "aggregations": {"calls": [{"name": "mean"}], "rows": [{"row_index": [0], "values": [n]} for n in (0, 1)]},
        "preprocessors": {"gsm8k": [[{}, {"question": "q", "answer": "#### 1"}], [{}, {}]]},
    }
    entries, untested = of_plugins(vectors)
    tested = {"metrics:contains", "metrics:gsm8k", "filters:boxed", "filters:letters", "aggregations:mean"}
    libraries = {"aggregations:lm_eval", "metrics:lm_eval", "metrics:bfcl_multi_turn", "metrics:rendered_text"}
    assert set(entries) - set(untested) == {*tested, "preprocessors:gsm8k", *libraries}


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (replace(LOCKED, results="others"), "Raise the version"),
        (replace(LOCKED, version=0), "only rise"),
        (replace(LOCKED, version=0, results="others"), "only rise"),
        (replace(LOCKED, version=2, results="others"), "make lock"),
        (replace(LOCKED, vectors="others", results="others"), "make lock"),
        (None, "make lock"),
    ],
)
def test_a_difference_says_what_to_do(now: Entry | None, words: str) -> None:
    changes = differences({"filters:x": LOCKED}, {} if now is None else {"filters:x": now})
    assert changes.keys() == {"filters:x"}
    assert words in changes["filters:x"]


def test_a_plugin_that_is_not_in_the_lock_is_a_difference() -> None:
    assert differences({}, {"filters:x": LOCKED}).keys() == {"filters:x"}


def test_the_last_digits_of_floats_and_sentences_are_no_results() -> None:
    def digest(value: float, explanation: str) -> str:
        return lock._digest({"values": [value], "explanation": explanation})

    assert digest(0.1 + 0.2, "one") == digest(0.3, "another")
    assert digest(0.3, "one") != digest(0.3001, "one")


@pytest.mark.parametrize(
    ("now", "untested", "code"),
    [
        (replace(LOCKED, results="others"), [], 2),
        (replace(LOCKED, version=0), [], 2),
        (replace(LOCKED, version=2), ["filters:x"], 2),
        (replace(LOCKED, version=2, results="others"), [], 0),
    ],
)
def test_only_results_of_a_new_version_are_recorded(
    now: Entry, untested: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "results.json"
    file.write_text('{"filters:x": {"version": 1, "vectors": "vectors", "results": "results"}}')
    monkeypatch.setattr(lock, "LOCK", file)
    monkeypatch.setattr(lock, "current", lambda: ({"filters:x": now}, untested))
    monkeypatch.setattr(lock.logging, "disable", lambda level: None)
    assert lock.main() == code
    assert lock.read() == {"filters:x": LOCKED if code else now}


def test_the_vectors_name_no_key_twice() -> None:
    """YAML takes the last of two equal keys and drops the vectors of the first."""
    nodes = [yaml.compose(lock.VECTORS.read_text(encoding="utf-8"))]
    while nodes:
        node = nodes.pop()
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value]
            assert len(keys) == len(set(keys)), keys
            nodes += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value
