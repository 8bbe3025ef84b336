"""The model of the command line: which backend it becomes, and what is told before anything is fetched."""

import textwrap
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import ConfigError, InputError
from gage_eval.config import model_choice
from gage_eval.config.load import LoadedConfig, parse_config
from gage_eval.config.model_choice import ModelChoice
from gage_eval.config.suites.templates import load_suite
from gage_eval.pipeline.plan import make_plan

ENDPOINT = "http://127.0.0.1:8000/v1"


def backend(choice: ModelChoice, suite: str = "gsm8k", **more: Any) -> tuple[str, dict[str, Any]]:
    """Type and config of the backend that a suite gets."""
    (entry,) = load_suite(suite, models=choice, env={}, **more).config.backends
    return entry.type, dict(entry.config)


def problems(suite: str, choice: ModelChoice) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load_suite(suite, models=choice, env={})
    return [problem.message for problem in refused.value.problems]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_choice, "_has_gpu", lambda: True)
    monkeypatch.setattr(model_choice, "find_spec", lambda name: object())


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_choice, "_has_gpu", lambda: False)


def test_an_endpoint_is_asked_by_its_url_and_name() -> None:
    made = backend(ModelChoice("mine", endpoint=f"{ENDPOINT}/chat/completions"))
    assert made == ("openai_http", {"base_url": ENDPOINT, "model": "mine"})


def test_the_key_of_an_endpoint_is_named_and_never_held() -> None:
    _, config = backend(ModelChoice("mine", endpoint=ENDPOINT, api_key_env="MY_KEY"))
    assert config["api_key"] == "env:MY_KEY"


def test_an_engine_can_be_a_running_server() -> None:
    assert backend(ModelChoice("mine", endpoint=ENDPOINT, engine="vllm"))[0] == "vllm"


@pytest.mark.usefixtures("gpu")
def test_with_a_gpu_a_model_of_the_hub_runs_on_vllm() -> None:
    assert backend(ModelChoice("owner/name")) == ("vllm", {"model_path": "owner/name"})


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_it_runs_on_transformers() -> None:
    assert backend(ModelChoice("owner/name")) == ("transformers", {"model_path": "owner/name"})
    assert backend(ModelChoice("owner/name"), "mmmu")[0] == "vlm_transformers"


@pytest.mark.usefixtures("no_gpu")
def test_a_folder_counts_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    assert backend(ModelChoice("model"))[1] == {"model_path": str(tmp_path / "model")}


def test_a_gguf_file_runs_on_llama_cpp(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.touch()
    type_, config = backend(ModelChoice(str(file)))
    assert (type_, config["model_path"]) == ("llama_cpp", str(file))


def test_the_name_of_a_packaged_model_names_its_engine() -> None:
    type_, config = backend(ModelChoice("smollm2-135m"))
    assert (type_, config["model"]) == ("llama_cpp", "smollm2-135m")


def test_the_choice_gives_the_keys_of_the_written_backend() -> None:
    def material(loaded: LoadedConfig) -> Any:
        return make_plan(loaded).tasks[0].infer.material()

    config = "{datasets: [{dataset_id: d, params: {records: [{question: a, answer: b}]}}], metrics: [exact_match], %s}"
    written = f"backends: [{{backend_id: b, type: openai_http, config: {{base_url: '{ENDPOINT}', model: mine}}}}]"
    other = "backends: [{backend_id: b, type: dummy}]"
    chosen = parse_config(config % other, models=ModelChoice("mine", endpoint=ENDPOINT))
    assert material(chosen) == material(parse_config(config % written))
    assert material(chosen) != material(parse_config(config % other))


def test_the_parameters_of_a_replaced_backend_stay() -> None:
    _, config = backend(ModelChoice("mine", endpoint=ENDPOINT), "demo")
    assert config["default_params"]["max_new_tokens"] == 24
    assert config["model"] == "mine"


def test_settings_of_the_chosen_model_can_be_set() -> None:
    _, config = backend(ModelChoice("mine", endpoint=ENDPOINT), overrides=["backends.dut.config.timeout=5"])
    assert config["timeout"] == 5


def test_a_judge_takes_the_endpoint_of_the_model_or_its_own() -> None:
    for choice, url, key in (
        (ModelChoice("m", endpoint=ENDPOINT, api_key_env="KEY", judges=("j",)), ENDPOINT, "env:KEY"),
        (
            ModelChoice("m", endpoint=ENDPOINT, api_key_env="KEY", judges=("j",), judge_endpoint="http://j/v1"),
            "http://j/v1",
            None,
        ),
    ):
        loaded = load_suite("local_judge", models=choice, env={})
        judge = next(backend for backend in loaded.config.backends if backend.backend_id == "judge")
        assert (judge.config["base_url"], judge.config["model"], judge.config.get("api_key")) == (url, "j", key)


def test_each_judge_has_its_seat_in_all_panels() -> None:
    models = ModelChoice("m", endpoint=ENDPOINT, judges=("a", "b", "c"))
    loaded = load_suite("mt_bench_panel", models=models, env={})
    model_of = {backend.backend_id: backend.config["model"] for backend in loaded.config.backends}
    backend_of = {adapter.adapter_id: adapter.backend_id for adapter in loaded.config.role_adapters}
    for task in loaded.config.tasks:
        assert [model_of[str(backend_of[name])] for name in task.judges] == ["a", "b", "c"]
    (said,) = problems("mt_bench_panel", ModelChoice("m", endpoint=ENDPOINT, judges=("a", "b")))
    assert "3 times, one for each seat of the panel, or 6 times" in said


class TestToldBeforeAnythingIsFetched:
    def test_no_model(self) -> None:
        (said,) = problems("gsm8k", ModelChoice())
        assert said.startswith("the suite needs a model: name it with --model")

    def test_everything_that_lacks_at_once(self) -> None:
        said = " ".join(problems("mt_bench", ModelChoice()))
        assert "needs a model" in said
        assert "--judge" in said

    def test_likelihood_on_an_endpoint_for_chat(self) -> None:
        (said,) = problems("piqa_likelihood", ModelChoice("mine", endpoint=ENDPOINT))
        assert "cannot answer likelihood requests" in said
        assert "--engine vllm" in said

    def test_images_on_a_model_of_texts(self) -> None:
        (said,) = problems("mmmu", ModelChoice("owner/name", engine="transformers"))
        assert "lacks 'images'" in said

    @pytest.mark.parametrize(
        ("choice", "said"),
        [
            (ModelChoice("gpt-4o"), "'gpt-4o' is neither a folder, a name on the hub"),
            (ModelChoice("./nowhere"), "'./nowhere' is neither a folder, a name on the hub"),
            (ModelChoice(endpoint=ENDPOINT), "--endpoint needs --model"),
            (ModelChoice("m", engine="vlllm"), "--engine vlllm: no such engine. Did you mean 'vllm'?"),
            (ModelChoice("m", engine="dummy"), "--engine dummy takes no model"),
            (ModelChoice("m", endpoint=ENDPOINT, judges=("j",)), "nothing here is judged: leave out --judge"),
            (
                ModelChoice(model_block="b", api_key_env="KEY"),
                "the block 'b' says it: leave out --api-key-env, or --model-block.",
            ),
        ],
    )
    def test_options_that_name_no_model(self, choice: ModelChoice, said: str) -> None:
        (problem,) = problems("gsm8k", choice)
        assert problem.startswith(said)


@pytest.mark.parametrize(("typed", "meant"), [("gsm9k", "gsm8k"), ("GSM8K ", "gsm8k"), ("math50", "math500")])
def test_a_slip_in_a_digit_of_a_suites_name_finds_the_suite(typed: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"Did you mean '{meant}'"):
        load_suite(typed)


class TestSeveralJudges:
    TWO = textwrap.dedent(
        """\
        datasets: [{dataset_id: rows, params: {records: [{id: a, question: "?", answer: "!"}]}}]
        backends: [{backend_id: model, type: dummy}]
        prompts: [{prompt_id: verdict, template: "{{ model_answer }}"}]
        role_adapters:
          - {adapter_id: dut, role_type: dut_model, backend_id: model}
          - {adapter_id: strict, role_type: judge_model, prompt_id: verdict}
          - {adapter_id: mild, role_type: judge_model, prompt_id: verdict}
        tasks:
          - {task_id: one, dataset_id: rows, steps: [inference, judge, auto_eval], judge_adapter_id: strict}
          - {task_id: two, dataset_id: rows, steps: [inference, judge, auto_eval], judge_adapter_id: mild}
        metrics: [judge_threshold]
        """
    )

    def models(self, *judges: str) -> dict[str, Any]:
        loaded = parse_config(self.TWO, models=ModelChoice(judges=judges, judge_endpoint=ENDPOINT), env={})
        backends = {backend.backend_id: backend.config.get("model") for backend in loaded.config.backends}
        return {adapter.adapter_id: backends[adapter.backend_id or ""] for adapter in loaded.config.role_adapters}

    def test_each_judge_of_the_config_gets_its_model_in_their_order(self) -> None:
        assert self.models("a", "b") == {"dut": None, "strict": "a", "mild": "b"}
        assert self.models("a") == {"dut": None, "strict": "a", "mild": "a"}

    def test_another_number_of_judges_is_refused_with_the_names_of_those_there_are(self) -> None:
        with pytest.raises(InputError, match=r"3 times, and there are 2 judges \('strict', 'mild'\): give"):
            self.models("a", "b", "c")
        (said,) = problems("local_judge", ModelChoice("m", endpoint=ENDPOINT, judges=("j", "k")))
        assert said.startswith("--judge is given 2 times, and there is one judge ('judge'): give it once.")
        assert "run once with each" in said

    def test_a_judge_with_a_model_of_its_own_is_named(self) -> None:
        text = self.TWO.replace("prompt_id: verdict}", "prompt_id: verdict, backend_id: model}")
        with pytest.raises(InputError, match="the config sets the model of its judge 'strict', 'mild': leave out"):
            parse_config(text, models=ModelChoice(judges=("a",), judge_endpoint=ENDPOINT), env={})


def test_an_unknown_suite_or_version_is_told_with_what_there_is() -> None:
    with pytest.raises(InputError, match=r"no suite 'hellaswagg'\. Suites: .*Did you mean 'hellaswag'\?"):
        load_suite("hellaswagg")
    with pytest.raises(InputError, match=r"has no version 'v9'\. Versions: v1"):
        load_suite("gsm8k", "v9")
