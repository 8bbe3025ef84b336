"""Data of the hub that a harness task loads are recorded with their commit, which `gage pin` fixes."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gage_eval.authoring.lm_eval import harness_suite
from gage_eval.base.errors import InputError
from gage_eval.base.hashing import file_digest
from gage_eval.extend.allowed_code import CodeRefused, allow_only
from gage_eval.runs import RunOptions
from gage_eval.runs.options import load
from gage_eval.scoring.harness import client
from gage_eval.scoring.harness.reads import FILE
from gage_eval.scoring.harness.sources import Sources, SourcesChanged
from tests.support.command import Command, command

pytest.importorskip("lm_eval")

HUB, FIRST, SECOND = "some/colours", "1" * 40, "2" * 40


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("GAGE_EVAL_DATA_CACHE", str(tmp_path / "cache"))
    return command(tmp_path, capsys, monkeypatch)


@pytest.fixture
def task(tmp_path: Path, gage: Command, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A task whose data are in the cache of `datasets` at `FIRST`, and no network."""
    json_builder = pytest.importorskip("datasets.packaged_modules.json.json").Json
    rows, cache = tmp_path / "rows.jsonl", tmp_path / "hub"
    rows.write_text('{"q": "Which colour has the sky?", "a": "blue"}\n')
    named = {"dataset_name": HUB.replace("/", "___"), "config_name": "default", "hash": FIRST}
    builder = json_builder(cache_dir=str(cache), data_files={"test": [str(rows)]}, **named)
    builder.download_and_prepare()
    place = at(cache, FIRST)
    place.parent.mkdir(parents=True)
    Path(builder.cache_dir).rename(place)
    (place / f"{named['dataset_name']}-test.arrow").rename(place / "colours-test.arrow")
    for name, value in (("HF_DATASETS_CACHE", str(cache)), ("HF_DATASETS_OFFLINE", "1")):
        monkeypatch.setenv(name, value)
    # The process has the environment of its start.
    client.shared_process().close()
    file = tmp_path / "colours.yaml"
    file.write_text(
        f"task: colours\ndataset_path: {HUB}\noutput_type: generate_until\ntest_split: test\n"
        "doc_to_text: q\ndoc_to_target: a\n"
    )
    yield file
    client.shared_process().close()


def at(cache: Path, commit: str) -> Path:
    return cache / HUB.replace("/", "___") / "default" / "0.0.0" / commit


def test_data_without_a_commit_are_recorded_and_pinned(task: Path, tmp_path: Path, gage: Command) -> None:
    moving = harness_suite(str(task), tmp_path / "cache")
    loaded = load(RunOptions.of({"config": str(moving), "engine": "dummy"}))
    assert [source.model_dump() for source in loaded.config.datasets[0].built_from] == [
        {"hub": HUB, "revision": "main", "commit": FIRST}
    ]
    assert loaded.unpinned == (HUB,)
    assert any(f"gage pin lm-eval:{task}" in warning for warning in loaded.warnings)
    assert gage("suite", f"lm-eval:{task}", "--engine", "dummy", "--run-id", "moving").code == 0
    assert "without a fixed commit" in gage("baseline", "set", "main", "moving").err

    assert gage("pin", f"lm-eval:{task}").out == f"pinned {HUB} at {FIRST}\n"
    assert gage("suite", f"lm-eval:{task}", "--engine", "dummy", "--run-id", "fixed").code == 0
    assert gage("baseline", "set", "main", "fixed").code == 0
    fixed = harness_suite(str(task), tmp_path / "cache", {HUB: FIRST})
    assert load(RunOptions.of({"config": str(fixed), "engine": "dummy"})).unpinned == ()
    assert file_digest(fixed.with_name(FILE)) == file_digest(moving.with_name(FILE)), "the task is the same"


def test_no_other_commit_is_taken_for_the_pinned_one(task: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"the data '{HUB}' are not here at commit {SECOND}"):
        harness_suite(str(task), tmp_path / "cache", {HUB: SECOND})
    suite = harness_suite(str(task), tmp_path / "cache", {HUB: FIRST})
    at(tmp_path / "hub", FIRST).rename(at(tmp_path / "hub", SECOND))
    client.shared_process().close()
    process = client.shared_process()
    process.load(file_digest(suite.with_name(FILE)), suite.parent)
    with pytest.raises(client.HarnessLost, match=f"the data '{HUB}' are not here at commit {FIRST}"):
        process.call("names")


def test_data_without_a_commit_are_asked_for_each_time(
    task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []
    call: Callable[..., Any] = client.HarnessProcess.call

    def counted(process: client.HarnessProcess, function: str, *arguments: Any, **named: Any) -> Any:
        built.append(function)
        return call(process, function, *arguments, **named)

    monkeypatch.setattr(client.HarnessProcess, "call", counted)
    for pins, times in (({}, 2), ({HUB: FIRST}, 1)):
        built.clear()
        for _ in range(2):
            harness_suite(str(task), tmp_path / "cache", pins)
        assert built.count("build") == times


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"name": "a"}',
        '{"name": "a", "files": {}, "data": {}, "more": 0}',
        '{"name": 1, "files": {}, "data": {}}',
        '{"name": "a", "files": ["a"], "data": {}}',
        '{"name": "a", "files": {"a": 1}, "data": {}}',
        '{"name": "../a", "files": {"../a": "0"}, "data": {}}',
        '{"name": "a", "files": {"/etc/passwd": "0"}, "data": {}}',
        '{"name": "/a.yaml", "files": {}, "data": {}}',
        '{"name": "lm_eval/tasks/a.yaml", "files": {"lm_eval/tasks/a.yaml": "0"}, "data": {}}',
        '{"name": "a", "files": {}, "data": {"0": 1}}',
        '{"name": "a", "files": {}, "data": {"0": {"path": "text", "files": {"test": ["/etc/passwd"]}}}}',
    ],
)
def test_sources_that_are_torn_or_lead_elsewhere_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(SourcesChanged, match="cannot be read"):
        Sources.of(tmp_path)


def test_code_of_a_task_needs_to_be_allowed_where_code_is(tmp_path: Path) -> None:
    code = {"task/a.yaml": "task: a\n", "task/a.py": "", "data/b.py": "raise SystemExit\n"}
    for name, text in code.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    entries = {name: f"sha256:{file_digest(tmp_path / name)}" for name in code}
    files = {name: entry.removeprefix("sha256:") for name, entry in entries.items() if name.startswith("task/")}
    sources = Sources("task/a.yaml", files, {})
    sources.check(tmp_path)
    try:
        for left_out in code:
            allow_only(entry for name, entry in entries.items() if name != left_out)
            with pytest.raises(CodeRefused, match=entries[left_out]):
                sources.check(tmp_path)
        allow_only(entries.values())
        sources.check(tmp_path)
    finally:
        allow_only(None)


def test_a_user_who_has_the_harness_from_its_repository_keeps_its_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    from gage_eval.scoring.harness import reads

    monkeypatch.setattr(reads.sysconfig, "get_path", lambda _: os.devnull)
    reads._foreign.cache_clear()
    try:
        package = reads.tasks_folder().parent
        assert not reads._is_own(package / "api" / "task.py")
        assert not reads._is_own(package / "tasks" / "manager.py")
        assert reads._is_own(package / "tasks" / "ifeval" / "utils.py")
    finally:
        reads._foreign.cache_clear()


def test_a_virtual_environment_behind_a_link_keeps_its_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gage_eval.scoring.harness import reads

    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "library.py").write_text("")
    (tmp_path / "link").symlink_to(packages)
    (tmp_path / "own.py").write_text("")
    library, own = ModuleType("library"), ModuleType("own")
    library.__file__, own.__file__ = str(tmp_path / "link" / "library.py"), str(tmp_path / "own.py")
    modules = {"library": library, "own": own}
    monkeypatch.setattr(reads, "_foreign", lambda: (packages.resolve(),))
    monkeypatch.setattr(reads, "sys", SimpleNamespace(modules=modules))
    reads._forget_modules()
    assert [*modules] == ["library"]
