"""The environment sets what neither config nor command line says, and is read strictly."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.authoring.preview import preview_requests
from gage_eval.base.errors import ConfigError, InputError
from gage_eval.config.load import LoadedConfig, parse_config
from gage_eval.config.settings import REPLACED, Settings, load_settings, unknown_variables, variables_of
from gage_eval.runs.options import RunOptions
from tests.support.marked_fields import walk_fields
from tests.support.pictures import write_image
from tests.support.workspace import write_config


def loaded(
    variables: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    params: dict[str, Any] | None = None,
    task: dict[str, Any] | None = None,
    **sections: Any,
) -> LoadedConfig:
    """A config as it is loaded where some variables are set."""
    data: dict[str, Any] = {
        "datasets": [{"dataset_id": "mine", "params": {"path": "mine.jsonl", **(params or {})}}],
        "backends": [{"backend_id": "b", "type": "dummy"}],
        "tasks": [] if task is None else [{"task_id": "t", "dataset_id": "mine", **task}],
        **sections,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return parse_config(yaml.safe_dump(data), env={}, settings=load_settings().values_set())


def test_every_setting_carries_a_mark() -> None:
    for name, mark, stage in walk_fields(Settings):
        assert (stage is not None) == (mark != "scheduling"), name


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
    monkeypatch.setenv("GAGE_EVAL_THREADS", "8")
    assert load_settings().threads == 8


def test_names_of_variables_may_be_in_lower_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("gage_eval_max_samples", "5")
    assert load_settings().max_samples == 5


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
        ("CONCURRENCY", "0", "GAGE_EVAL_CONCURRENCY must be at least 1, not '0'."),
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


# Every variable that the user's architecture document names (lines 635-710 and 1795-1797).
OF_THE_DOCUMENT = """
GAGE_EVAL_THREADS GAGE_EVAL_MAX_SAMPLES GAGE_EVAL_SHUFFLE GAGE_EVAL_SHUFFLE_SEED GAGE_EVAL_PREFETCH_FACTOR
GAGE_EVAL_MAX_INFLIGHT GAGE_EVAL_SEQUENTIAL GAGE_EVAL_FF_MODE GAGE_EVAL_SAVE_DIR GAGE_EVAL_DISABLE_BUFFERED_WRITER
GAGE_EVAL_ENABLE_BUFFERED_WRITER GAGE_EVAL_BUFFER_THRESHOLD GAGE_EVAL_BUFFER_BATCH_SIZE GAGE_EVAL_BUFFER_FLUSH_S
GAGE_EVAL_DATA_CACHE GAGE_EVAL_EMBED_LOCAL_MEDIA GAGE_EVAL_EMBED_MEDIA_THREADS GAGE_EVAL_IMAGE_MIN_PIXELS
GAGE_EVAL_IMAGE_MAX_PIXELS GAGE_EVAL_IMAGE_FACTOR GAGE_VISUAL_CACHE_DIR GAGE_VISUAL_PROCESSPOOL
GAGE_VISUAL_PROCESSPOOL_THRESHOLD GAGE_EVAL_OBSERVABILITY GAGE_EVAL_REPORT_HTTP_URL GAGE_EVAL_REPORT_HTTP_BATCH
GAGE_EVAL_REPORT_HTTP_FAIL_PCT GAGE_EVAL_REPORT_HTTP_TIMEOUT GAGE_EVAL_INMEMORY_TRACE GAGE_EVAL_ENABLE_LOG_SINK
GAGE_EVAL_LOG_SINK_LEVEL GAGE_EVAL_AUTOEVAL_WORKERS GAGE_EVAL_ENABLE_ASYNC_HTTP GAGE_EVAL_VLLM_ISOLATED
GAGE_EVAL_VLLM_STRICT_MM GAGE_EVAL_VLLM_PROMPT_ONLY VLLM_NATIVE_MODEL_PATH LOCAL_DATASETS_ROOT DOCVQA_JSONL_PATH
DOCVQA_IMAGE_ROOT GAGE_EVAL_BLOCK_ON_FULL GAGE_EVAL_QUEUE_BLOCK_S GAGE_EVAL_FUTURE_TIMEOUT
""".split()


def test_every_variable_of_the_document_works_or_is_said_to_be_replaced(repo_root: Path) -> None:
    page = (repo_root / "docs" / "environment.md").read_text(encoding="utf-8")
    assert len(OF_THE_DOCUMENT) == 43
    assert [name for name in OF_THE_DOCUMENT if f"`{name}`" not in page] == []
    known = {variable for name in Settings.model_fields for variable in variables_of(name)}
    assert not known & set(REPLACED)


def test_a_replaced_variable_says_what_there_is_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGE_EVAL_FF_MODE", "1")
    monkeypatch.setenv("GAGE_VISUAL_CACHE_DIR", "x")
    monkeypatch.setenv("GAGE_EVAL_SHUFLE", "1")
    first, second, third = unknown_variables()
    assert first == "GAGE_EVAL_FF_MODE has no effect: requests are always sent without waiting for each other."
    assert second.startswith("GAGE_VISUAL_CACHE_DIR has no effect: media are stored once")
    assert third.endswith("Did you mean 'GAGE_EVAL_SHUFFLE'?")


ROWS = {"GAGE_EVAL_MAX_SAMPLES": "5", "GAGE_EVAL_SHUFFLE": "1", "GAGE_EVAL_SHUFFLE_SEED": "7"}


class TestWhereTheConfigLeavesItUnset:
    def test_values_that_change_results_go_into_the_config(self, monkeypatch: pytest.MonkeyPatch) -> None:
        (task,) = loaded(ROWS, monkeypatch).config.tasks
        assert (task.max_samples, task.shuffle, task.shuffle_seed) == (5, True, 7)

    def test_the_config_s_own_word_counts_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        own = {"max_samples": 9, "shuffle": False, "shuffle_seed": 1}
        (task,) = loaded(ROWS, monkeypatch, task=own).config.tasks
        assert (task.max_samples, task.shuffle, task.shuffle_seed) == (9, False, 1)
        (task,) = loaded(ROWS, monkeypatch, params={"shuffle": False, "shuffle_seed": 1}).config.tasks
        assert (task.shuffle, task.shuffle_seed) == (None, None)

    def test_what_the_environment_does_not_say_changes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        (task,) = loaded({}, monkeypatch, task={}).config.tasks
        assert not {"max_samples", "shuffle", "shuffle_seed"} & task.model_fields_set

    def test_threads_are_the_concurrency_of_backends_that_say_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        said = [
            {"backend_id": "silent", "type": "dummy"},
            {"backend_id": "own", "type": "dummy", "config": {"async_max_concurrency": 64}},
        ]
        adapters = [
            {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "own"},
            {"adapter_id": "judge", "role_type": "judge_model", "backend": {"type": "dummy"}},
        ]
        variables = {"GAGE_EVAL_THREADS": "3"}
        config = loaded(variables, monkeypatch, backends=said, role_adapters=adapters).config
        assert [backend.config for backend in config.backends] == [
            {"max_concurrency": 3},
            {"async_max_concurrency": 64},
        ]
        assert config.role_adapters[1].backend is not None
        assert config.role_adapters[1].backend.config == {"max_concurrency": 3}

    def test_media_of_every_dataset_are_sent_as_it_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        variables = {"GAGE_EVAL_IMAGE_MAX_PIXELS": "900", "GAGE_EVAL_EMBED_LOCAL_MEDIA": "1"}
        (dataset,) = loaded(variables, monkeypatch, params={"image_max_pixels": 400}).config.datasets
        assert (dataset.params.image_max_pixels, dataset.params.embed_local_media) == (400, True)

    def test_a_time_limit_is_that_of_backends_that_set_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        backends = [
            {"backend_id": "b", "type": "dummy"},
            {"backend_id": "c", "type": "dummy", "config": {"timeout": 9.0}},
        ]
        config = loaded({"GAGE_EVAL_FUTURE_TIMEOUT": "3.5"}, monkeypatch, backends=backends, task={"adapter_id": "b"})
        assert [backend.config["timeout"] for backend in config.config.backends] == [3.5, 9.0]

    @pytest.mark.parametrize(("name", "export"), [("DISABLE", "per_sample_json"), ("ENABLE", "jsonl")])
    def test_the_writer_of_samples_is_an_export(self, monkeypatch: pytest.MonkeyPatch, name: str, export: str) -> None:
        variable = {f"GAGE_EVAL_{name}_BUFFERED_WRITER": "true"}
        assert loaded(variable, monkeypatch).config.export == [export]
        assert loaded(variable, monkeypatch, export=["parquet"]).config.export == ["parquet"]

    def test_a_value_that_does_not_fit_names_its_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(ConfigError) as caught:
            loaded({"GAGE_EVAL_CONCURRENCY": "5000"}, monkeypatch)
        assert str(caught.value).splitlines()[1:] == [
            "  backends[0].config.max_concurrency: must be at most 4096, not 5000. (given by GAGE_EVAL_CONCURRENCY)"
        ]


class TestTheModelOfVllmNative:
    BACKENDS = ({"backend_id": "b", "type": "vllm_native", "config": {"model_path": "old"}},)

    def test_the_variable_beats_the_config(self, monkeypatch: pytest.MonkeyPatch) -> None:
        variables = {"VLLM_NATIVE_MODEL_PATH": "org/new"}
        config = loaded(variables, monkeypatch, backends=list(self.BACKENDS))
        assert config.config.backends[0].config["model_path"] == "org/new"
        assert str(config.origins["backends[0].config.model_path"]) == "VLLM_NATIVE_MODEL_PATH"

    def test_the_command_line_beats_the_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("VLLM_NATIVE_MODEL_PATH", "org/new")
        data = {"datasets": [{"dataset_id": "d", "params": {"path": "d.jsonl"}}], "backends": list(self.BACKENDS)}
        text, settings = yaml.safe_dump(data), load_settings().values_set()
        for changes in ({"model_path": "org/mine"}, {"overrides": ["backends.b.config.model_path=org/mine"]}):
            config = parse_config(text, env={}, settings=settings, **changes).config
            assert config.backends[0].config["model_path"] == "org/mine"

    def test_other_backends_keep_their_model(self, monkeypatch: pytest.MonkeyPatch) -> None:
        backends = [{"backend_id": "b", "type": "vllm", "config": {"model_path": "old"}}]
        config = loaded({"VLLM_NATIVE_MODEL_PATH": "org/new"}, monkeypatch, backends=backends).config
        assert config.backends[0].config["model_path"] == "old"


def test_a_prompt_of_text_alone_sends_no_images(tmp_path: Path) -> None:
    """What docs/environment.md says in the place of GAGE_EVAL_VLLM_PROMPT_ONLY."""
    write_image(tmp_path / "page.png")
    row = {"id": "a", "question": "What does it say?", "image": "page.png", "answers": ["x"]}
    dataset = {"dataset_id": "pages", "params": {"records": [row], "preprocess": "docvqa", "content_root": "."}}
    of_text = "{{ sample.messages[-1].content | selectattr('type', 'eq', 'text') | map(attribute='text') | join }}"
    prompt = {"prompt_id": "text", "template": of_text}
    adapter = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"}

    def content(**more: str) -> str:
        file = write_config(
            tmp_path, datasets=[dataset], prompts=[prompt], role_adapters=[{**adapter, **more}], metrics=["docvqa_anls"]
        )
        options = RunOptions(config=str(file), store=str(tmp_path / "store"))
        (request,) = preview_requests(options, 1, None).requests
        return str(request.rendered.body["messages"])

    assert "image_url" in content()
    without = content(prompt_id="text")
    assert "image" not in without
    assert "What does it say?" in without
