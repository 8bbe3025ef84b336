"""Everything wrong with a config is said at once, before data are fetched or a model is asked."""

from pathlib import Path

import pytest

from gage_eval.base.errors import ConfigError, InputError
from gage_eval.data.datasets import download
from gage_eval.runs import RunOptions
from gage_eval.runs.inline import run_inline
from tests.support.runs import gage

WRONG = """\
datasets:
  - {dataset_id: sums, params: {origin: gsm8k, path: grade_school_math/data/test.jsonl, limit: many}}
backends: [{backend_id: model, type: openai_http, config: {base_url: "http://127.0.0.1:9/v1", model: m, timeout: soon}}]
prompts: [{prompt_id: p, template: [{role: user, content: [1]}]}]
tasks:
  - {task_id: one, dataset_id: sums}
  - {task_id: one, dataset_id: sums, sampling_params: {}}
  - {task_id: two, dataset_id: sumz}
metrics: [{metric_id: judged, implementation: judge_rating}]
"""


@pytest.fixture(autouse=True)
def _nothing_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was fetched")

    for name in (
        attribute
        for attribute in vars(download)
        if callable(getattr(download, attribute)) and not attribute.startswith("_")
    ):
        if getattr(getattr(download, name), "__module__", "") == download.__name__:
            monkeypatch.setattr(download, name, refuse)
    monkeypatch.chdir(tmp_path)


def problems(text: str) -> list[str]:
    Path("wrong.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        run_inline(RunOptions.of({"config": "wrong.yaml", "store": "store"}))
    return [f"{problem.line} {problem.path}: {problem.message}" for problem in caught.value.problems]


def test_all_mistakes_are_said_at_once() -> None:
    said = problems(WRONG)
    assert any(sentence.startswith("2 datasets[0].params.limit: must be a whole number") for sentence in said), said
    assert any("prompts[0].template[0].content" in sentence for sentence in said), said
    # What is wrong with a needed value hides what follows from it; without it, the rest is said too.
    rest = problems(WRONG.replace("[{role: user, content: [1]}]", "hello").replace("many", "5"))
    for start in (
        "3 backends[0].config.timeout: must be a number",
        "7 tasks[1]: the id 'one' is taken by tasks[0]",
        "8 tasks[2].dataset_id: no dataset 'sumz' here. Known: sums. Did you mean 'sums'?",
        "6 tasks[0]: metric 'judged' reads a judge's verdicts, and the task has no judge.",
    ):
        assert any(sentence.startswith(start) for sentence in rest), (start, rest)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("suite:gsm8", "no suite 'gsm8'."),
        ("suite:gsm8k@v99", "has no version 'v99'. Versions: v1"),
        ("suite:../gsm8k", "no suite '../gsm8k'."),
    ],
)
def test_an_unknown_suite_or_version_is_named(config: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        run_inline(RunOptions.of({"config": config, "store": "store"}))
    assert message in str(caught.value)


def test_a_circle_of_includes_has_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("include: b.yaml\n")
    (tmp_path / "b.yaml").write_text("include: a.yaml\n")
    done = gage(tmp_path, "run", "a.yaml", "--inline", check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "files include each other: " in done.stderr
    assert "a.yaml" in done.stderr
    assert "b.yaml" in done.stderr
