"""The environment sets what neither config nor command line says, and is read strictly."""

from typing import Any

import pytest

from gage_eval.config import PipelineConfig
from gage_eval.errors import InputError
from gage_eval.marks import walk_fields
from gage_eval.settings import Settings, fold, load_settings


def config(*, params: dict[str, Any] | None = None, task: dict[str, Any] | None = None) -> PipelineConfig:
    data: dict[str, Any] = {
        "datasets": [{"dataset_id": "mine", "params": {"path": "mine.jsonl", **(params or {})}}],
        "backends": [{"backend_id": "b", "type": "dummy"}],
        "tasks": [] if task is None else [{"task_id": "t", "dataset_id": "mine", **task}],
    }
    return PipelineConfig.model_validate(data)


def test_every_setting_carries_a_mark() -> None:
    for name, mark, stage in walk_fields(Settings):
        assert (stage is not None) == (mark == "semantic"), name


def test_defaults() -> None:
    settings = load_settings()
    assert settings.store == ".gage"
    assert settings.shuffle_seed == 123
    assert (settings.threads, settings.concurrency) == (None, None)


def test_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "STORE": "s3://bucket/x",
        "SAVE_DIR": "runs",
        "THREADS": "8",
        "MAX_SAMPLES": "5",
        "SHUFFLE": "true",
        "MAX_INFLIGHT": "",
    }.items():
        monkeypatch.setenv(f"GAGE_EVAL_{name}", value)
    settings = load_settings()
    assert (settings.store, settings.save_dir) == ("s3://bucket/x", "runs")
    assert (settings.threads, settings.max_samples, settings.shuffle) == (8, 5, True)
    assert settings.max_inflight is None


def test_concurrency_is_another_name_for_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGE_EVAL_CONCURRENCY", "4")
    assert load_settings().threads == 4


def test_sequential_means_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGE_EVAL_SEQUENTIAL", "1")
    monkeypatch.setenv("GAGE_EVAL_THREADS", "8")
    assert load_settings().concurrency == 1


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MAX_SAMPLES", "many", "GAGE_EVAL_MAX_SAMPLES must be a whole number, not 'many'."),
        ("MAX_SAMPLES", "0", "GAGE_EVAL_MAX_SAMPLES must be at least 1, not '0'."),
        ("SHUFFLE", "perhaps", "GAGE_EVAL_SHUFFLE must be true or false, not 'perhaps'."),
        ("THREADS", "-1", "GAGE_EVAL_THREADS must be at least 1, not '-1'."),
    ],
)
def test_a_bad_value_names_its_variable(monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str) -> None:
    monkeypatch.setenv(f"GAGE_EVAL_{name}", value)
    with pytest.raises(InputError) as caught:
        load_settings()
    assert str(caught.value) == message


def test_bad_values_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGE_EVAL_SHUFFLE", "perhaps")
    monkeypatch.setenv("GAGE_EVAL_MAX_SAMPLES", "many")
    with pytest.raises(InputError) as caught:
        load_settings()
    assert "GAGE_EVAL_SHUFFLE" in str(caught.value)
    assert "GAGE_EVAL_MAX_SAMPLES" in str(caught.value)


def test_effective_values_say_where_they_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGE_EVAL_THREADS", "8")
    monkeypatch.setenv("GAGE_EVAL_STORE", "s3://key:canary4711@bucket/x")
    rows = {name: (value, where) for name, value, where in load_settings().effective()}
    assert rows["GAGE_EVAL_THREADS"] == ("8", "environment")
    assert rows["GAGE_EVAL_SHUFFLE"] == ("False", "default")
    assert rows["GAGE_EVAL_SAVE_DIR"] == ("", "default")
    assert "canary4711" not in str(rows)
    assert len(rows) == len(Settings.model_fields)


class TestFold:
    def test_values_that_change_results_go_into_the_config(self) -> None:
        settings = Settings(max_samples=5, shuffle=True, shuffle_seed=7)
        (task,) = fold(settings, config()).tasks
        assert (task.max_samples, task.shuffle, task.shuffle_seed) == (5, True, 7)

    def test_the_config_s_own_word_counts_first(self) -> None:
        settings = Settings(max_samples=5, shuffle=True, shuffle_seed=7)
        own = {"max_samples": 9, "shuffle": False, "shuffle_seed": 1}
        (task,) = fold(settings, config(task=own)).tasks
        assert (task.max_samples, task.shuffle, task.shuffle_seed) == (9, False, 1)
        (task,) = fold(settings, config(params={"shuffle": False, "seed": 1})).tasks
        assert (task.shuffle, task.shuffle_seed) == (None, None)

    def test_what_the_environment_does_not_say_changes_nothing(self) -> None:
        plain = config(task={})
        assert fold(Settings(), plain).tasks == plain.tasks

    def test_threads_are_the_concurrency_of_backends_that_say_none(self) -> None:
        said = [
            {"backend_id": "silent", "type": "dummy"},
            {"backend_id": "own", "type": "dummy", "config": {"async_max_concurrency": 64}},
        ]
        inline = {"adapter_id": "judge", "role_type": "judge_model", "backend": {"type": "dummy"}}
        whole = config().model_dump(mode="json") | {"backends": said, "role_adapters": [inline]}
        folded = fold(Settings(threads=3), PipelineConfig.model_validate(whole))
        assert [backend.config for backend in folded.backends] == [
            {"max_concurrency": 3},
            {"async_max_concurrency": 64},
        ]
        assert folded.role_adapters[0].backend is not None
        assert folded.role_adapters[0].backend.config == {"max_concurrency": 3}

    def test_folding_twice_changes_nothing(self) -> None:
        settings = Settings(max_samples=5, shuffle=True, threads=3)
        once = fold(settings, config())
        assert fold(settings, once) == once
