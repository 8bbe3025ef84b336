"""A config is read whole, and everything wrong with it is said at once, in place and in plain words."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from gage_eval.base.canonical import digest
from gage_eval.base.errors import ConfigError, InputError
from gage_eval.config.load import LoadedConfig, load_config, parse_config
from gage_eval.config.validation_messages import plain_words

Load = Callable[..., LoadedConfig]
Refusal = Callable[..., list[str]]
Small = Callable[..., str]

FORWARD = """
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from nowhere import Field
def make(record, *, field: Field | None = None):
    return record
"""
FIRST_CONFIG = """\
datasets:
  - {dataset_id: mine, params: {path: "${DATA:-mine.jsonl}"}}
backends:
  - backend_id: local
    type: openai_http
    config: {base_url: http://127.0.0.1:8000/v1, model: my-model}
metrics: [exact_match]
"""


def test_a_first_config_has_ten_lines_at_most(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(FIRST_CONFIG)
    loaded = load_config(file, env={})
    assert len(FIRST_CONFIG.splitlines()) <= 10
    assert loaded.config.datasets[0].loader == "jsonl"
    assert loaded.config.datasets[0].params.path == "mine.jsonl"
    assert loaded.text == FIRST_CONFIG
    assert loaded.base_dir == tmp_path
    assert loaded.warnings == ()


def test_the_digest_is_that_of_what_the_config_says(load: Load, small: Small) -> None:
    loaded = load(small())
    assert loaded.digest == digest(loaded.config.model_dump(mode="json"))
    assert load("# a comment\n" + small()).digest == loaded.digest
    assert load(small(metrics=["contains"])).digest != loaded.digest


def test_older_spellings_mean_the_same(load: Load, small: Small) -> None:
    new = small(tasks=[{"task_id": "t", "dataset_id": "mine", "replicates": 2, "sampling_params": {"top_p": 1}}])
    old = small(tasks=[{"task_id": "t", "dataset_id": "mine", "epochs": 2, "generation_params": {"top_p": 1}}])
    assert load(old).config == load(new).config


def test_a_key_with_nothing_after_it_is_absent(load: Load) -> None:
    text = FIRST_CONFIG + "tasks:\nprompts:\nobservability:\nmodels: []\nparameters: {}\n"
    assert load(text).config == load(FIRST_CONFIG).config


def test_the_mistakes_of_a_file_are_said_at_once() -> None:
    text = """\
datasets:
  - dataset_id: piqa_val
    params:
      path: piqa.jsonl
      preproces: default
backends:
  - {backend_id: local, type: openai_http, config: {base_url: "http://h/v1", model: m}}
metrics:
  - exact_match
  - metric_id: number
    implementation: numeric_match
    params:
      tolerence: 0.1
tasks:
  - task_id: first
    dataset_id: piqa_vall
    max_samples: some
    max_eror_share: 0.5
"""
    with pytest.raises(ConfigError) as caught:
        load_config_text(text)
    lines = str(caught.value).splitlines()
    assert lines[0] == "mine.yaml has 5 problems:"
    assert lines[1] == (
        "  line 5  datasets[0].params.preproces: loader 'jsonl' has no parameter 'preproces'. "
        "Did you mean 'preprocess'?"
    )
    assert lines[2].startswith(
        "  line 13  metrics[1].params.tolerence: numeric_match has no parameter 'tolerence'. It takes: "
    )
    assert lines[3] == (
        "  line 16  tasks[0].dataset_id: no dataset 'piqa_vall' here. Known: piqa_val. Did you mean 'piqa_val'?"
    )
    assert lines[4] == "  line 17  tasks[0].max_samples: must be a whole number, not 'some'."
    assert lines[5] == (
        "  line 18  tasks[0].max_eror_share: unknown key 'max_eror_share'. Did you mean 'max_error_share'?"
    )


def test_missing_data_stand_among_the_other_mistakes_of_a_file(small: Small, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(small(metrics=["exact_mtch"]), base_dir=tmp_path, with_data=True)
    assert [problem.path for problem in caught.value.problems] == [
        "datasets[0].params.path",
        "metrics[0].implementation",
    ]


def test_sampling_parameters_that_no_engine_takes_are_named_with_their_place(small: Small, refusal: Refusal) -> None:
    wrong = {"temperature": "hot", "top_p": 7, "max_tokens": 0, "stop": [1], "seed": 1.5, "own": "anything"}
    config = {"base_url": "http://h/v1", "model": "m", "default_params": wrong}
    said = refusal(small(backends=[{"backend_id": "local", "type": "openai_http", "config": config}]))
    wanted = [f"backends[0].config.default_params.{name}" for name in wrong if name != "own"]
    assert [line.partition(":")[0] for line in said] == wanted
    task = {"task_id": "t", "dataset_id": "mine", "sampling_params": {"temperature": True, "top_k": None}}
    (line,) = refusal(small(tasks=[task]))
    assert line.startswith("tasks[0].sampling_params.temperature: ")


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("task: x\nprocess_docs: !function utils.f\noutput_type: generate_until\n", "lm-eval"),
        ("prompts: ['{{x}}']\nproviders: [openai:m]\ntests: []\n", "promptfoo"),
        ("model_path: m\njudge_model_path: j\n", "llm-eval"),
    ],
)
def test_the_config_of_another_tool_is_recognised_in_one_sentence(text: str, tool: str, refusal: Refusal) -> None:
    (line,) = refusal(text)
    assert tool in line
    assert ("gage suite lm-eval:" if tool == "lm-eval" else "gage migrate") in line


def load_config_text(text: str) -> LoadedConfig:

    return parse_config(text, source="mine.yaml", env={})


DATASET = {"dataset_id": "mine", "params": {"path": "mine.jsonl"}}


@pytest.mark.parametrize(
    ("sections", "line"),
    [
        ({"metricks": []}, "metricks: unknown key 'metricks'. Did you mean 'metrics'?"),
        (
            {"export": ["jsonll"]},
            "export[0]: must be one of jsonl, csv, parquet, per_sample_json, canonical_answers, media, lm-eval, "
            "inspect, atif, every-eval-ever, eval-results, otel, not 'jsonll'. Did you mean 'jsonl'?",
        ),
        ({"datasets": "mine.jsonl"}, "datasets: must be a list, not 'mine.jsonl'."),
        ({"datasets": [5]}, "datasets[0]: must be a mapping, not 5."),
        ({"datasets": [{"params": {"records": []}}]}, "datasets[0]: 'dataset_id' is missing."),
        (
            {"datasets": [{**DATASET, "dataset_id": 5}]},
            "datasets[0].dataset_id: must be text, not 5. Put it in quotes.",
        ),
        (
            {"datasets": [{**DATASET, "dataset_id": "../up"}]},
            "datasets[0].dataset_id: '../up' cannot be an id: letters, digits and . _ - + @ only, "
            "at most 128, beginning with a letter or digit.",
        ),
        (
            {"datasets": [{**DATASET, "dataset_id": "a" * 129}]},
            f"datasets[0].dataset_id: '{'a' * 57}…' cannot be an id: letters, digits and . _ - + @ only, "
            "at most 128, beginning with a letter or digit.",
        ),
        (
            {"tasks": [{"task_id": "t", "dataset_id": "piqa", "parse_schema": [{"field": "a b", "type": "text"}]}]},
            "tasks[0].parse_schema[0].field: 'a b' cannot be a field: letters, digits and _ only, beginning with a "
            "letter or _.",
        ),
        (
            {"backends": [{"backend_id": "m", "type": "transformers", "config": {"model_path": "m", "dtype": "fp16"}}]},
            "backends[0].config.dtype: must be one of auto, bfloat16, float16, float32, not 'fp16'.",
        ),
        (
            {"datasets": [{"dataset_id": "a", "params": {"path": "a.docx"}}]},
            "datasets[0]: no loader is known for the ending of 'a.docx'; name one with 'loader', "
            "or use .jsonl, .ndjson, .json, .csv, .tsv, .parquet, .xlsx.",
        ),
        (
            {"datasets": [{"dataset_id": "a"}]},
            "datasets[0]: needs 'loader' and 'params', or 'params.path' with a file.",
        ),
        (
            {"datasets": [{"dataset_id": "a", "params": {"path": "a.jsonl", "limit": 0}}]},
            "datasets[0].params.limit: must be at least 1, not 0.",
        ),
        (
            {"datasets": [{"dataset_id": "a", "params": {"path": "a.jsonl", "shuffle": "yes"}}]},
            "datasets[0].params.shuffle: must be true or false, not 'yes'.",
        ),
        (
            {"datasets": [{"dataset_id": "a", "params": {"path": "a.jsonl", "max_reject_share": 1.5}}]},
            "datasets[0].params.max_reject_share: must be at most 1.0, not 1.5.",
        ),
        (
            {"datasets": [{"dataset_id": "a", "params": {"path": "a.jsonl", "seed": 1, "shuffle_seed": 2}}]},
            "datasets[0].params: 'seed' and 'shuffle_seed' are the same setting; keep 'seed'.",
        ),
        ({"models": [1]}, "models: nothing reads this section any more; remove it."),
        ({"api_version": "gage/v9"}, "api_version: must be gage/v1alpha1, not 'gage/v9'."),
        ({"metrics": [5]}, "metrics[0]: must be a mapping, not 5."),
        (
            {"metrics": ["regex_match(pattern=open('x'))"]},
            "metrics[0]: cannot read \"regex_match(pattern=open('x'))\": "
            "write values as in Python: name(key='text', other=0.5, third=True).",
        ),
        (
            {"prompts": [{"prompt_id": "p", "template": [{"role": "sytem", "content": "x"}]}]},
            "prompts[0].template[0].role: must be one of system, user, assistant, not 'sytem'. Did you mean 'system'?",
        ),
        (
            {"prompts": [{"prompt_id": "p", "template": 5}]},
            "prompts[0].template: must be text, not 5. Put it in quotes.",
        ),
        (
            {"tasks": [{"task_id": "t", "dataset_id": "mine", "epochs": "two"}]},
            "tasks[0].epochs: must be a whole number, not 'two'.",
        ),
        (
            {"tasks": [{"task_id": "t", "dataset_id": "mine", "steps": []}]},
            "tasks[0].steps: must not be empty.",
        ),
    ],
)
def test_a_wrong_value_is_said_in_plain_words(
    small: Small, refusal: Refusal, sections: dict[str, object], line: str
) -> None:
    assert refusal(small(**sections)) == [line]


def test_an_unset_variable_is_one_problem_with_its_line() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config_text(FIRST_CONFIG.replace("${DATA:-mine.jsonl}", "${DATA}"))
    assert str(caught.value) == (
        "mine.yaml has 1 problem:\n"
        "  line 2  datasets[0].params.path: DATA is not set; set it, or write a default: ${DATA:-value}."
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("- a\n", "a config is a mapping of sections such as 'datasets' and 'backends'."),
        ("{}", "datasets: a config needs at least one dataset."),
        (
            "kind: BuiltinTemplate\n",
            "definition: a BuiltinTemplate needs a 'definition', the mapping of a pipeline.",
        ),
        (
            "kind: Pipeline\n",
            "kind: must be PipelineConfig, not 'Pipeline'.",
        ),
        ("kind: RunConfig\n", "'base_task' is missing."),
    ],
)
def test_what_is_no_pipeline_is_refused(refusal: Refusal, text: str, line: str) -> None:
    assert line in refusal(text)


LOADER = """
class Loader:
    def __init__(self, params, base_dir): ...
    def identity(self): return "one"
    def records(self): return iter(())
"""


class TestPlugins:
    def test_an_unknown_name_lists_what_there_is(self, small: Small, refusal: Refusal) -> None:
        (line,) = refusal(small(backends=[{"backend_id": "b", "type": "openai_htp"}]))
        assert line.startswith("backends[0].type: no backend 'openai_htp'. Known: ")
        assert line.endswith("Did you mean 'openai_http'?")
        (line,) = refusal(small(metrics=["exact_mach"]))
        assert line.startswith("metrics[0].implementation: no metric 'exact_mach'. gage list metrics shows all ")
        (line,) = refusal(small(datasets=[{**DATASET, "loader": "jsonll"}]))
        assert line.startswith("datasets[0].loader: no loader 'jsonll'. Known: ")

    def test_a_loader_that_declares_no_parameters_takes_all_but_near_misses(
        self, small: Small, refusal: Refusal, load: Load, tmp_path: Path
    ) -> None:
        (tmp_path / "mine.py").write_text(LOADER)

        def text(key: str) -> str:
            params = {"path": "a.bin", key: "x"}
            return small(datasets=[{"dataset_id": "a", "loader": f"{tmp_path}/mine.py:Loader", "params": params}])

        assert load(text("table")).config.datasets[0].params.model_extra == {"table": "x"}
        assert refusal(text("preproces")) == [
            "datasets[0].params.preproces: unknown key 'preproces'. Did you mean 'preprocess'?"
        ]

    def test_a_preprocessor_names_its_parameters_and_their_defaults(self, small: Small, refusal: Refusal) -> None:
        params = {
            "path": "a.jsonl",
            "preprocess": "multi_choice",
            "preprocess_kwargs": {"question_fild": "q"},
        }
        (line,) = refusal(small(datasets=[{"dataset_id": "a", "params": params}]))
        assert line.startswith(
            "datasets[0].params.preprocess_kwargs.question_fild: "
            "multi_choice has no parameter 'question_fild'. It takes: fields (none), question_field (question), "
        )
        assert line.endswith("Did you mean 'question_field'?")

    def test_a_preprocessor_s_arguments_have_types(self, small: Small, refusal: Refusal) -> None:
        params = {
            "path": "a.jsonl",
            "preprocess": "multi_choice",
            "preprocess_kwargs": {"answer_index_base": "1"},
        }
        assert refusal(small(datasets=[{"dataset_id": "a", "params": params}])) == [
            "datasets[0].params.preprocess_kwargs.answer_index_base: must be a whole number, not '1'."
        ]

    def test_arguments_of_a_preprocessor_that_cannot_work_are_refused_with_the_config(
        self, small: Small, refusal: Refusal
    ) -> None:
        params = {"path": "a.jsonl", "preprocess_kwargs": {"answer_split": ""}}
        assert refusal(small(datasets=[{"dataset_id": "a", "params": params}])) == [
            "datasets[0].params.preprocess_kwargs: answer_split: it is empty; name the text before the final answer."
        ]

    @pytest.mark.parametrize(
        "code",
        [FORWARD, "class make:\n    __signature__ = 0\n    def to_sample(self, record): ...\n"],
        ids=["a type for type checkers", "no signature"],
    )
    def test_what_a_preprocessor_does_not_say_of_its_arguments_is_not_checked(
        self, small: Small, load: Load, tmp_path: Path, code: str
    ) -> None:
        (tmp_path / "mine.py").write_text(code)
        params = {"path": "a.jsonl", "preprocess": f"{tmp_path}/mine.py:make", "preprocess_kwargs": {"field": 1}}
        loaded = load(small(datasets=[{"dataset_id": "a", "params": params}]))
        assert loaded.config.datasets[0].params.preprocess_kwargs == {"field": 1}

    def test_a_function_gets_the_record_and_its_other_arguments_are_checked(
        self, small: Small, load: Load, refusal: Refusal, tmp_path: Path
    ) -> None:
        code = "def make(record, *, field='q', times: int = 1): ...\ndef own(): ...\ndef all(record, field): ..."
        (tmp_path / "mine.py").write_text(code)

        def config(name: str, **kwargs: Any) -> str:
            params = {"path": "a.jsonl", "preprocess": f"{tmp_path}/mine.py:{name}", "preprocess_kwargs": kwargs}
            return small(datasets=[{"dataset_id": "a", "params": params}])

        assert load(config("make", field="x", times=2)).config.datasets[0].params.preprocess_kwargs["field"] == "x"
        (unknown,) = refusal(config("make", record=1))
        assert "has no parameter 'record'. It takes: field (q), times (1)." in unknown
        (typed,) = refusal(config("make", times="2"))
        assert "preprocess_kwargs.times: must be a whole number" in typed
        (lacking,) = refusal(config("all"))
        assert lacking.endswith("mine.py:all needs 'field'.")
        (nothing,) = refusal(config("own"))
        assert nothing.startswith("datasets[0].params.preprocess: ")
        assert "must take a record" in nothing

    def test_a_mistake_with_braces_is_said_as_it_stands(self) -> None:
        class One(BaseModel):
            kind: Literal["one"]

        class Two(BaseModel):
            kind: Literal["two"]

        class Outer(BaseModel):
            shape: Annotated[One | Two, Field(discriminator="kind")]

        data = {"shape": {"kind": "{0}{x}"}}
        with pytest.raises(ValidationError) as caught:
            Outer.model_validate(data)
        (problem,) = plain_words(caught.value, data, Outer)
        assert "'{0}{x}'" in problem.message

    def test_a_backend_s_config_is_checked_by_its_model(self, small: Small, refusal: Refusal) -> None:
        config = {"base_url": "http://h/v1", "model": "m", "timeout": "long"}
        assert refusal(small(backends=[{"backend_id": "b", "type": "openai_http", "config": config}])) == [
            "backends[0].config.timeout: must be a number, not 'long'."
        ]

    def test_an_undeclared_key_that_every_request_holds_is_named(self, small: Small, load: Load) -> None:
        config = {"base_url": "http://h/v1", "model": "m", "max_concurency": 4, "vendor_option": 1}
        loaded = load(small(backends=[{"backend_id": "b", "type": "openai_http", "config": config}]))
        assert loaded.config.backends[0].config == config
        assert loaded.warnings == (
            "backends[0].config.max_concurency: 'b' passes 'max_concurency' on to the model as it is. "
            "Did you mean 'max_concurrency'?",
            "backends[0].config.vendor_option: 'b' passes 'vendor_option' on to the model as it is.",
        )

    def test_an_undeclared_key_of_an_engine_is_named_when_it_looks_like_a_slip(
        self, small: Small, load: Load, tmp_path: Path
    ) -> None:
        config = {"model_path": str(tmp_path), "max_model_lenn": 4, "enforce_eager": True}
        (warning,) = load(small(backends=[{"backend_id": "b", "type": "vllm", "config": config}])).warnings
        assert warning.endswith("Did you mean 'max_model_len'?")

    def test_an_inline_backend_is_checked_too(self, small: Small, refusal: Refusal) -> None:
        adapter = {"adapter_id": "a", "role_type": "dut_model", "backend": {"type": "nope"}}
        (line,) = refusal(small(role_adapters=[adapter], backends=None))
        assert line.startswith("role_adapters[0].backend.type: no backend 'nope'. Known: ")

    def test_a_plug_in_whose_module_fails_is_a_problem_of_the_config(
        self, small: Small, refusal: Refusal, tmp_path: Path
    ) -> None:
        file = tmp_path / "broken.py"
        file.write_text("1 / 0\n")
        (line,) = refusal(small(metrics=[{"metric_id": "m", "implementation": f"{file}:x"}]))
        assert line.endswith(
            "cannot load 'broken.py:x': broken.py raised ZeroDivisionError: division by zero (broken.py, line 1)."
        )

    @pytest.mark.parametrize("name", [":", "a..b", ".:x", "..", "json:nothing", "no.such.module"])
    def test_a_strange_class_path_is_a_problem_of_the_config(self, small: Small, refusal: Refusal, name: str) -> None:
        lines = refusal(small(metrics=[{"metric_id": "m", "implementation": name}]))
        assert lines[0].startswith("metrics[0].implementation: ")


class TestFiles:
    def test_a_missing_file_names_the_closest_one(self, tmp_path: Path) -> None:
        (tmp_path / "mine.yaml").write_text(FIRST_CONFIG)
        with pytest.raises(InputError) as caught:
            load_config(tmp_path / "mime.yaml")
        assert str(caught.value) == f"no config file '{tmp_path / 'mime.yaml'}'. Did you mean 'mine.yaml'?"

    def test_a_missing_folder_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InputError) as caught:
            load_config(tmp_path / "no" / "mine.yaml")
        assert str(caught.value).endswith(f"There is no folder '{tmp_path / 'no'}' either.")

    def test_a_folder_is_no_config(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="is a folder; name a config file in it"):
            load_config(tmp_path)

    def test_bytes_that_are_no_text_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").write_bytes(b"a: \xff\n")
        with pytest.raises(InputError, match=r"is not UTF-8 text \(byte 3\); save it as UTF-8"):
            load_config(tmp_path / "a.yaml")

    def test_a_byte_order_mark_is_passed_over(self, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbf" + FIRST_CONFIG.encode())
        assert load_config(tmp_path / "a.yaml", env={}).config.metrics[0].metric_id == "exact_match"

    def test_a_file_too_large_is_no_config(self, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").write_bytes(b"#" * (2**20 + 1))
        with pytest.raises(InputError, match="is larger than 1 MiB; that is not a config"):
            load_config(tmp_path / "a.yaml")

    def test_a_name_no_file_can_have_is_refused(self) -> None:
        with pytest.raises(InputError, match="is not a file name"):
            load_config("a\0b.yaml")


class TestTemplates:
    TEXT = "api_version: gage/v1alpha1\nkind: BuiltinTemplate\nmetadata: {name: demo, version: v1, monolithic: true}\n"

    def test_a_template_is_its_definition_with_its_name(self, load: Load) -> None:
        body = "".join(f"  {line}\n" for line in FIRST_CONFIG.splitlines())
        loaded = load(f"{self.TEXT}parameters: []\ndefinition:\n{body}")
        assert (loaded.config.metadata.name, loaded.config.metadata.version) == ("demo", "v1")
        assert loaded.config.datasets == load(FIRST_CONFIG).config.datasets

    def test_problems_of_a_template_have_the_path_and_line_of_the_file(self) -> None:
        with pytest.raises(ConfigError) as caught:
            load_config_text(f"{self.TEXT}definition:\n  datasets: 5\n")
        assert "  line 5  definition.datasets: must be a list, not 5." in str(caught.value)
