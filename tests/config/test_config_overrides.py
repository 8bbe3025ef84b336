"""What the command line gives counts before the file, and a path to nothing is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import ConfigError, InputError
from gage_eval.config.document import Document
from gage_eval.config.interpolate import fill
from gage_eval.config.load import LoadedConfig, load_config, parse_config
from gage_eval.config.models import PipelineConfig
from gage_eval.config.overrides import apply_overrides
from gage_eval.config.yaml import lines

Load = Callable[..., LoadedConfig]
Small = Callable[..., str]


def test_values_are_set_by_id_index_and_name(load: Load, small: Small) -> None:
    config = load(
        small(tasks=[{"task_id": "gsm8k", "dataset_id": "mine"}, {"task_id": "b", "dataset_id": "mine"}]),
        overrides=[
            "backends.local.config.model=x",
            "backends[0].config.timeout=30",
            "tasks.gsm8k.max_samples=5",
            "tasks.1.sampling_params={temperature: 0.5, stop: ['\\n']}",
            "tasks.b.sampling_params.seed=1",
            "metadata.name='5'",
            "metrics.exact_match.params.case_sensitive=true",
        ],
    ).config
    assert config.backends[0].config["model"] == "x"
    assert config.backends[0].config["timeout"] == 30
    assert config.tasks[0].max_samples == 5
    assert config.tasks[1].sampling_params == {"temperature": 0.5, "stop": ["\\n"], "seed": 1}
    assert config.metadata.name == "5"
    assert config.metrics[0].params == {"case_sensitive": True}


@pytest.mark.parametrize(
    ("written", "override", "place"),
    [
        ({"datasets": [{"dataset_id": "mine", "params": {"path": "a.jsonl", "max_samples": 9}}]},
         "datasets.mine.params.limit=3", ("datasets", 0, "params", "limit")),
        ({"datasets": [{"dataset_id": "mine", "params": {"path": "a.jsonl", "limit": 9}}]},
         "datasets.mine.params.max_samples=3", ("datasets", 0, "params", "limit")),
        ({"tasks": [{"task_id": "t", "dataset_id": "mine", "epochs": 9}]},
         "tasks.t.replicates=3", ("tasks", 0, "replicates")),
        ({"tasks": [{"task_id": "t", "dataset_id": "mine", "generation_params": {"n": 9, "seed": 1}}]},
         "tasks.t.sampling_params.n=3", ("tasks", 0, "sampling_params", "n")),
        ({"tasks": [{"task_id": "t", "dataset_id": "mine", "metrics": [{"regex_match": {"n": 9, "pattern": "a"}}]}]},
         "tasks.t.metric_overrides.regex_match.params.n=3", ("tasks", 0, "metric_overrides", 0, "params", "n")),
        ({"tasks": [{"task_id": "t", "dataset_id": "mine", "few_shot": {"k": 1, "as": "text"}}]},
         "tasks.t.few_shot.form=chat", ("tasks", 0, "few_shot", "form")),
        ({"backends": [{"backend_id": "m", "type": "dummy", "config": {"async_max_concurrency": 9}}]},
         "backends.m.config.max_concurrency=3", ("backends", 0, "config", "async_max_concurrency")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_value_replaces_the_one_that_the_file_gives_in_another_spelling(
    small: Small, written: dict[str, Any], override: str, place: tuple[str | int, ...]
) -> None:
    document = Document(fill(lines.parse(small(**written), "mine.yaml"), {}), "mine.yaml")
    apply_overrides(document, Path(), {"overrides": [override]})
    value = PipelineConfig.model_validate(document.data).model_dump()
    for part in place:
        value = value[part]
    assert str(value) == override.partition("=")[2]


def test_an_id_may_hold_dots(load: Load, small: Small) -> None:
    backend = {"backend_id": "qwen2.5", "type": "dummy"}
    loaded = load(small(backends=[backend]), overrides=["backends.qwen2.5.config.x.y=1"])
    assert loaded.config.backends[0].config == {"x": {"y": 1}}


def test_implied_tasks_can_be_set(load: Load, small: Small) -> None:
    loaded = load(small(), overrides=["tasks.mine.max_samples=5"])
    assert [(task.task_id, task.dataset_id, task.max_samples) for task in loaded.config.tasks] == [("mine", "mine", 5)]


def test_an_override_changes_the_digest_and_not_the_text(load: Load, small: Small) -> None:
    plain, changed = load(small()), load(small(), overrides=["backends.local.config.model=x"])
    assert changed.digest != plain.digest
    assert changed.text == plain.text


def test_a_placeholder_on_the_command_line_is_text(load: Load, small: Small) -> None:
    loaded = load(small(), env={"X": "secret"}, overrides=["metadata.description=${X}"])
    assert loaded.config.metadata.description == "${X}"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("a.b", "--set a.b: write path=value, as in backends.local.config.model=name."),
        ("a..b=1", "--set a..b=1: write path=value, as in backends.local.config.model=name."),
        ("=1", "--set =1: write path=value, as in backends.local.config.model=name."),
        (
            "backends.locl.type=x",
            "--set backends.locl.type=x: no 'locl' in 'backends'. It holds: local. Did you mean 'local'?",
        ),
        ("backends[7].type=x", "--set backends[7].type=x: no '7' in 'backends'. It holds: local."),
        (
            f"backends.{'7' * 5_000}.type=x",
            f"--set backends.{'7' * 5_000}.type=x: no '{'7' * 5_000}' in 'backends'. It holds: local.",
        ),
        (
            "backends.local.type.x=1",
            "--set backends.local.type.x=1: 'backends[0].type' is a single value without fields.",
        ),
        (
            "metadata.name=[1",
            "--set metadata.name=[1: not valid YAML: a list '[…]' that is never closed, or lacks a comma (column 3)",
        ),
    ],
)
def test_an_override_without_a_place_is_refused(load: Load, small: Small, override: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(small(), overrides=[override])
    assert str(caught.value) == message


def test_all_overrides_without_a_place_are_named_at_once(load: Load, small: Small) -> None:
    with pytest.raises(ConfigError) as caught:
        load(small(), overrides=["nope", "metadata.name=mine", "backends.locl.type=x"])
    assert [problem.message.partition(":")[0] for problem in caught.value.problems] == [
        "--set nope",
        "--set backends.locl.type=x",
    ]


@pytest.mark.parametrize("change", [{"freshness": "2030"}, {"model_path": "m"}])
def test_an_option_does_not_hide_a_config_that_is_no_mapping(small: Small, change: dict[str, Any]) -> None:
    backends = [{"backend_id": "m", "type": "transformers", "config": "oops"}]
    with pytest.raises(ConfigError, match=r"backends\[0\].config: must be a mapping, not 'oops'\."):
        parse_config(small(backends=backends), env={}, **change)


def test_a_wrong_value_says_that_the_command_line_gave_it(small: Small) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(small(), source="mine.yaml", env={}, overrides=["datasets.mine.params.limit=many"])
    assert str(caught.value) == (
        "mine.yaml has 1 problem:\n"
        "  datasets[0].params.limit: must be a whole number, not 'many'. (given by --set datasets.mine.params.limit)"
    )


def test_a_secret_is_refused_on_the_command_line_too(small: Small) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(small(), env={}, overrides=["backends.local.config.api_key=canary4711"])
    assert "a config must not contain a literal secret" in str(caught.value)
    assert "canary4711" not in str(caught.value)


def test_max_samples_counts_before_every_task_s_own(small: Small) -> None:
    text = small(
        tasks=[{"task_id": "a", "dataset_id": "mine", "max_samples": 9}, {"task_id": "b", "dataset_id": "mine"}]
    )
    config = parse_config(text, env={}, max_samples=3).config
    assert [task.max_samples for task in config.tasks] == [3, 3]
    with pytest.raises(InputError, match="--max-samples 0: give a number of samples, 1 or more"):
        parse_config(text, env={}, max_samples=0)


class TestModelPath:
    def test_it_is_the_model_of_the_only_backend(self, small: Small) -> None:
        config = parse_config(small(), env={}, model_path="org/name").config
        assert config.backends[0].config["model"] == "org/name"

    def test_it_is_the_model_under_test_not_the_judge(self, small: Small) -> None:
        backends = [
            {"backend_id": name, "type": "openai_http", "config": {"base_url": "http://h/v1", "model": name}}
            for name in ("judge", "dut")
        ]
        adapters = [
            {"adapter_id": "j", "role_type": "judge_model", "backend_id": "judge"},
            {"adapter_id": "d", "role_type": "inference", "backend_id": "dut"},
        ]
        config = parse_config(small(backends=backends, role_adapters=adapters), env={}, model_path="x").config
        assert [backend.config["model"] for backend in config.backends] == ["judge", "x"]

    def test_a_local_path_counts_from_the_working_folder(
        self, small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "weights.gguf").write_bytes(b"")
        monkeypatch.chdir(tmp_path)
        text = small(backends=[{"backend_id": "b", "type": "llama_cpp", "config": {"model_path": "old.gguf"}}])
        config = parse_config(text, env={}, model_path="weights.gguf").config
        assert config.backends[0].config["model_path"] == str(tmp_path / "weights.gguf")

    def test_several_models_under_test_are_ambiguous(self, small: Small) -> None:
        backends = [{"backend_id": name, "type": "dummy"} for name in ("a", "b")]
        with pytest.raises(InputError) as caught:
            parse_config(small(backends=backends), env={}, model_path="x")
        assert str(caught.value) == ("--model-path: the config does not have exactly one model under test; use --set.")

    def test_a_backend_without_a_model_is_said(self, small: Small) -> None:
        backends = [{"backend_id": "b", "type": "replay", "config": {"path": "x.jsonl"}}]
        with pytest.raises(InputError) as caught:
            parse_config(small(backends=backends), env={}, model_path="x")
        assert str(caught.value) == "--model-path: backend type 'replay' takes no model; use --set for its settings."


def test_overrides_reach_a_file(tmp_path: Path, small: Small) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(small())
    assert load_config(file, env={}, overrides=["metadata.name=x"]).config.metadata.name == "x"
