"""Code that a config names is run once, and nothing is called before it was seen to be what its place asks for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gage_eval.config.load import LoadedConfig

Load = Callable[..., LoadedConfig]
Small = Callable[..., str]
Refusal = Callable[..., list[str]]

_DUMMY = {"backend_id": "m", "type": "dummy"}


def of_every_kind(file: str) -> dict[str, Any]:
    """Sections that name a file in every place that takes code."""
    return {
        "datasets": [
            {
                "dataset_id": "mine",
                "loader": f"{file}:Loader",
                "params": {"preprocess": f"{file}:make", "doc_to_text": f"{file}:text"},
            }
        ],
        "backends": [{"backend_id": "m", "type": f"{file}:Backend"}],
        "role_adapters": [
            {"adapter_id": "a", "role_type": "dut_model", "backend_id": "m", "class_path": f"{file}:Hooks"},
            {"adapter_id": "j", "role_type": "judge_model", "backend_id": "m", "verdict_parser": f"{file}:verdict"},
        ],
        "tasks": [
            {
                "task_id": "t",
                "dataset_id": "mine",
                "execution": {
                    "mode": "calls",
                    "entry": "sample.metadata.entry",
                    "tests": "sample.metadata.tests",
                    "filters": [f"{file}:program"],
                },
            }
        ],
        "metrics": [
            {"metric_id": "own", "implementation": f"{file}:score"},
            {"metric_id": "f", "implementation": "exact_match", "filters": [f"{file}:shorten"]},
            {"metric_id": "g", "implementation": "exact_match", "aggregation": f"{file}:spread"},
        ],
    }


def test_code_that_fails_is_run_once_however_often_it_is_named(small: Small, refusal: Refusal, tmp_path: Path) -> None:
    log = tmp_path / "log"
    (tmp_path / "mine.py").write_text(f"open({str(log)!r}, 'a').write('x')\nraise ValueError('boom')\n")
    problems = refusal(small(**of_every_kind(f"{tmp_path}/mine.py")))
    assert len(problems) >= 9
    assert {line.partition(" (")[0].rpartition(": mine.py ")[2] for line in problems} == {"raised ValueError: boom"}
    assert log.read_text() == "x"


def test_a_module_that_fails_is_run_once(
    small: Small, refusal: Refusal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    (tmp_path / "my_broken_plugins.py").write_text(f"open({str(log)!r}, 'a').write('x')\nimport not_there_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    problems = refusal(small(**of_every_kind("my_broken_plugins")))
    assert len(problems) >= 9
    assert log.read_text() == "x"


def test_code_that_failed_is_tried_again_when_the_config_is_read_again(
    small: Small, load: Load, refusal: Refusal, tmp_path: Path
) -> None:
    needed = tmp_path / "needed"
    (tmp_path / "mine.py").write_text(f"open({str(needed)!r})\ndef score(prediction: str) -> float:\n    return 1.0\n")
    text = small(backends=[_DUMMY], metrics=[f"{tmp_path}/mine.py:score"])
    assert "FileNotFoundError" in refusal(text)[0]
    needed.touch()
    assert load(text).config.metrics[0].metric_id == "score"


@pytest.mark.parametrize(
    "sections",
    [
        {"datasets": [{"dataset_id": "d", "params": {
            "path": "a.jsonl", "preprocess": "my_alarm:ring", "preprocess_kwargs": {"command": "x"}}}]},
        {"datasets": [{"dataset_id": "d", "loader": "my_alarm:ring", "params": {"command": "x"}}]},
        {"backends": [{"backend_id": "m", "type": "my_alarm:ring", "config": {"command": "x"}}]},
        {"backends": [{"backend_id": "m", "type": "my_alarm:anything", "config": {"command": "x"}}]},
    ],
    ids=["preprocessor", "loader", "backend", "backend that takes anything"],
)  # fmt: skip
def test_a_function_of_the_standard_library_is_not_called(
    small: Small, refusal: Refusal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sections: dict[str, Any]
) -> None:
    rung: list[Any] = []
    (tmp_path / "my_alarm.py").write_text("def ring(command): ...\ndef anything(*args, **kwargs): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import my_alarm  # type: ignore[import-not-found]

    for name in ("ring", "anything"):

        def alarm(command: Any = None, *args: Any, **kwargs: Any) -> int:
            rung.append(command)
            return 0

        # As `os.system` is: a function whose home is a module of Python.
        alarm.__module__ = "posix"
        monkeypatch.setattr(my_alarm, name, alarm)
    (problem,) = refusal(small(**{"backends": [_DUMMY], **sections}))
    assert "belongs to Python's standard library" in problem
    assert rung == []


def test_os_system_is_nothing_that_a_config_can_have_called(small: Small, refusal: Refusal, tmp_path: Path) -> None:
    command = {"command": f"touch {tmp_path}/called"}
    datasets = [{"dataset_id": "d", "params": {"path": "a", "preprocess": "os:system", "preprocess_kwargs": command}}]
    datasets[0]["loader"] = "subprocess:run"
    problems = refusal(small(datasets=datasets, backends=[{"backend_id": "m", "type": "os:system", "config": command}]))
    assert len(problems) == 3
    assert not (tmp_path / "called").exists()
