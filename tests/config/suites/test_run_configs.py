"""A RunConfig runs its template: it has the same keys as the resulting pipeline, and sets only its own values."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.authoring.distill import distilled
from gage_eval.authoring.init import Mode, initialised
from gage_eval.base.errors import ConfigError, InputError
from gage_eval.base.files import write_new
from gage_eval.config.load import load_config
from gage_eval.config.model_choice import ModelChoice
from gage_eval.config.suites.digest import definition_digest
from gage_eval.config.suites.identity import is_logic
from gage_eval.config.suites.templates import SuiteInfo, list_suites
from gage_eval.pipeline.forecast import forecast
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.planned import planned, planned_before
from gage_eval.runs.results.stored import StoredRun
from gage_eval.runs.resume import resumed
from tests.support.runs import stage_states
from tests.support.workspace import write_config, write_rows

SINKS = {"sinks": [{"type": "file", "output_path": "events.jsonl"}]}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    return tmp_path


@pytest.fixture
def template(here: Path) -> Path:
    """A template that was distilled from a small config, in another folder than its data."""
    made = distilled(write_config(here, observability=SINKS), "small")
    write_new(made.file, made.text)
    return made.file


def made(name: str | Path, mode: Mode = "run-config", out: str | None = None) -> Path:
    generated = initialised(str(name), mode=mode, out=None if out is None else Path(out))
    write_new(generated.file, generated.text)
    return generated.file


def change(file: Path, **values: Any) -> Path:
    """Put values into a RunConfig, or a template."""
    data = yaml.safe_load(file.read_text())
    for key, value in values.items():
        if value is None:
            data.pop(key)
        elif isinstance(value, dict) and isinstance(data.get(key), dict):
            data[key] = {**data[key], **value}
        else:
            data[key] = value
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return file


def keys(config: Path | str, **options: Any) -> list[tuple[str, str, str]]:
    """The key of each stage whose key is known, after the config was run."""
    from gage_eval.runs.inline import run_inline

    options_of_run = RunOptions.of({"config": str(config), "store": "store", **options})
    run_inline(options_of_run)
    run = planned(options_of_run)
    return [(stage.task_id, stage.stage, stage.key or "") for stage in forecast(run.store, run.plan)]


def problems(config: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(config, env={})
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


def test_a_run_config_has_the_keys_of_the_config_its_template_was_made_of(here: Path, template: Path) -> None:
    expected = keys(here / "mine.yaml")
    assert all(key for _, _, key in expected)
    run_config = made(template)
    assert keys(run_config) == expected
    assert keys(template) == expected
    assert keys(made(run_config, "pipeline-config")) == expected
    assert keys(made(template, "pipeline-config", "elsewhere/other.yaml")) == expected


def test_a_run_keeps_the_whole_pipeline(here: Path, template: Path) -> None:
    loaded = load_config(made(template))
    kept = yaml.safe_load(loaded.text)
    assert kept["kind"] == "PipelineConfig"
    assert "${" not in loaded.text
    (again := here / "again.yaml").write_text(loaded.text)
    # Paths in the text start from the RunConfig's folder.
    assert load_config(again).config.backends == loaded.config.backends


class TestValuesOfARun:
    CASES = (
        ({"datasets": {"sums": {"params": {"limit": 2}}}}, lambda config: config.datasets[0].params.limit, 2),
        (
            {"backends": {"model": {"config": {"answer": "3"}}}},
            lambda config: config.backends[0].config,
            {"mode": "fixed", "answer": "3", "default_params": {"temperature": 0}},
        ),
        ({"tasks": {"sums": {"max_samples": 4}}}, lambda config: config.tasks[0].max_samples, 4),
        (
            {"global": {"output_path": "other.jsonl"}},
            lambda config: config.observability.sinks[0].output_path,
            "other.jsonl",
        ),
    )

    @pytest.mark.parametrize(("runtime", "value", "expected"), CASES, ids=["dataset", "backend", "task", "global"])
    def test_an_edit_is_in_the_config_and_in_its_digest(
        self, template: Path, runtime: dict[str, Any], value: Callable[[Any], Any], expected: object
    ) -> None:
        file = made(template)
        before = load_config(file)
        after = load_config(change(file, runtime=runtime))
        assert value(after.config) == expected != value(before.config)
        assert after.digest != before.digest

    def test_an_edit_says_where_it_came_from(self, template: Path) -> None:
        file = change(made(template), runtime={"tasks": {"sums": {"max_samples": 4}}})
        origins = load_config(file).origins
        said = origins["tasks[0].max_samples"]
        assert (said.kind, said.source) == ("file", str(file))
        assert "max_samples: 4" in file.read_text().splitlines()[(said.line or 0) - 1]
        assert (origins["metrics[0].implementation"].kind) == "template"
        assert str(origins["metrics[0].implementation"]).startswith(str(template))

    @pytest.mark.parametrize(
        ("runtime", "message"),
        [
            (
                {"datasets": {"sum": {}}},
                "runtime.datasets.sum: no dataset 'sum' here. Known: sums. Did you mean 'sums'?",
            ),
            (
                {"backends": {"modle": {}}},
                "runtime.backends.modle: no backend 'modle' here. Known: model. Did you mean 'model'?",
            ),
            ({"tasks": {"other": {"max_samples": 1}}}, "runtime.tasks.other: no task 'other' here. Known: sums."),
            (
                {"tasks": {"sums": {"metrics": ["contains"]}}},
                "runtime.tasks.sums.metrics: a run sets only 'max_samples' of a task; 'metrics' is what the template "
                "measures.",
            ),
            ({"tasks": {"sums": {"max_samples": "4"}}}, "runtime.tasks.sums.max_samples: must be a whole number."),
            ({"tasks": 5}, "runtime.tasks: must be a mapping."),
            ({"globals": {}}, "runtime.globals: no parameter 'globals' here."),
        ],
    )
    def test_what_the_template_does_not_have_is_refused(
        self, template: Path, runtime: dict[str, Any], message: str
    ) -> None:
        (said,) = problems(change(made(template), runtime=runtime))
        assert said.startswith(message)

    def test_all_problems_are_reported_at_once(self, template: Path) -> None:
        runtime = {"datasets": {"sum": {}}, "tasks": {"sums": {"max_samples": "4"}}}
        file = change(made(template), runtime=runtime, template_digest="0" * 64)
        assert [problem.partition(":")[0] for problem in problems(file)] == [
            "template_digest",
            "runtime.datasets.sum",
            "runtime.tasks.sums.max_samples",
        ]


HOLES: dict[str, Any] = {
    "kind": "BuiltinTemplate",
    "metadata": {"name": "holes", "version": "v1"},
    "parameters": [
        {"id": "runtime.datasets.sums.params.path", "type": "str", "default": "rows.jsonl"},
        {"id": "runtime.answer", "type": "str", "default": "2"},
        {"id": "runtime.limit", "type": "int"},
    ],
    "definition": {
        "datasets": [{"dataset_id": "sums", "params": {"path": "${runtime.datasets.sums.params.path}"}}],
        "backends": [
            {
                "backend_id": "model",
                "type": "dummy",
                "config": {"mode": "fixed", "answer": "It is ${runtime.answer}"},
            }
        ],
        "tasks": [{"task_id": "sums", "dataset_id": "sums", "max_samples": "${runtime.limit}"}],
        "metrics": ["exact_match"],
    },
}


@pytest.mark.parametrize("info", list_suites(), ids=lambda info: info.name)
def test_every_suite_runs_by_a_run_config_as_by_its_name(info: SuiteInfo, here: Path) -> None:
    suite = info.name
    needs = info.card.needs if info.card is not None else []
    judges = ("j",) if "judge" in needs else ()
    engine = "vllm" if "likelihood" in needs else None
    models = ModelChoice(model="m", endpoint="http://h/v1", engine=engine, judges=judges) if suite != "demo" else None
    direct = load_config(info.path, env={}, models=models)
    file = made(suite)
    data = yaml.safe_load(file.read_text())
    for name, backend in (data["runtime"].get("backends") or {}).items():
        data["runtime"]["backends"][name] = {
            "type": backend["type"],
            "config": {"base_url": "http://h/v1", "model": "m"},
        }
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    loaded = load_config(file, env={})
    assert loaded.suite == direct.suite
    assert loaded.suite is None or loaded.suite.modified == ()
    for mine, theirs in zip(loaded.config.tasks, direct.config.tasks, strict=True):
        assert mine.model_dump(exclude={"adapter_id", "judge_adapter_id"}) == theirs.model_dump(
            exclude={"adapter_id", "judge_adapter_id"}
        )
    assert loaded.config.metrics == direct.config.metrics
    assert loaded.config.prompts == direct.config.prompts


def test_a_run_config_that_changes_the_suite_s_logic_is_modified(here: Path) -> None:
    runtime: dict[str, Any] = {"tasks": {"gsm8k": {"max_samples": 5}}}
    backends = {"dut": {"type": "dummy"}}
    file = change(made("gsm8k"), runtime={"backends": backends, **runtime})
    suite = load_config(file, env={}).suite
    assert suite is not None
    assert (suite.name, suite.modified) == ("gsm8k", ())
    kwargs = {"datasets": {"gsm8k_test": {"params": {"preprocess_kwargs": {"template": "{{ question }}"}}}}}
    suite = load_config(change(file, runtime=kwargs), env={}).suite
    assert suite is not None
    assert suite.modified == ("datasets[0].params.preprocess_kwargs.template",)


class TestPlaceholders:
    @pytest.fixture
    def holes(self, here: Path) -> Path:
        file = here / "holes.yaml"
        file.write_text(yaml.safe_dump(HOLES, sort_keys=False))
        return file

    def test_defaults_fill_them(self, holes: Path) -> None:
        for file in (holes, made(holes)):
            config = load_config(file, env={}).config
            assert config.backends[0].config["answer"] == "It is 2"
            assert config.tasks[0].max_samples is None
            assert str(config.datasets[0].params.path).endswith("rows.jsonl")

    def test_values_of_a_run_fill_them(self, holes: Path) -> None:
        runtime = {"answer": "${ANSWER:-5}", "limit": 3}
        config = load_config(change(made(holes), runtime=runtime), env={"ANSWER": "7"}).config
        assert (config.backends[0].config["answer"], config.tasks[0].max_samples) == ("It is 7", 3)

    def test_a_value_of_the_wrong_type_is_refused(self, holes: Path) -> None:
        file = change(made(holes), runtime={"limit": "many"})
        assert problems(file) == ["runtime.limit: must be a whole number."]

    def test_an_unknown_one_is_refused(self, holes: Path) -> None:
        data = {**HOLES, "definition": {**HOLES["definition"], "metrics": ["${runtime.metrik}"]}}
        holes.write_text(yaml.safe_dump(data))
        assert problems(holes)[0].startswith("definition.metrics[0]: no parameter 'runtime.metrik' here.")


class TestTheDigest:
    def test_an_edited_template_is_refused_with_what_changed(self, template: Path) -> None:
        file = made(template)
        data = yaml.safe_load(template.read_text())
        data["definition"]["metrics"][0]["params"] = {"ignore_case": True}
        data["definition"]["datasets"][0]["params"]["limit"] = 1
        data["metadata"]["digest"] = definition_digest(data["definition"])
        template.write_text(yaml.safe_dump(data, sort_keys=False))
        (said,) = problems(file)
        assert said.startswith(f"template_digest: {template} was changed: its digest is ")
        assert "Changed: datasets[0].params.limit, metrics[0].params." in said

    def test_an_edited_template_is_refused_although_it_states_the_old_digest(self, template: Path) -> None:
        file = made(template)
        template.write_text(template.read_text().replace("answer: '2'", "answer: '3'"))
        (said,) = problems(file)
        assert said.startswith("template_digest: ")
        assert "Changed: backends[0].config.answer." in said
        change(file, template_digest=None)
        assert "the definition was edited after its digest" in problems(file)[0]
        assert "the definition was edited after its digest" in problems(template)[0]

    def test_comments_and_style_do_not_count_as_an_edit(self, template: Path) -> None:
        file = made(template)
        template.write_text("# A note.\n" + yaml.safe_dump(yaml.safe_load(template.read_text())))
        loaded = load_config(file)
        assert loaded.suite is not None
        assert loaded.suite.modified == ()

    def test_another_version_is_refused(self, template: Path) -> None:
        file = change(made(template), template_version="v2")
        assert "is version v1, not v2." in problems(file)[0]

    def test_an_edited_snapshot_is_detected(self, template: Path) -> None:
        file = change(made(template), template_snapshot={"tasks": []}, template_digest="0" * 64)
        assert "'template_snapshot' was edited too" in problems(file)[0]

    def test_a_run_without_a_digest_gives_a_warning(self, template: Path) -> None:
        loaded = load_config(change(made(template), template_digest=None))
        assert any("not pinned to its template" in warning for warning in loaded.warnings)


@pytest.mark.parametrize("section", ["datasets", "backends", "tasks", "custom", "builtin", "observability", "metrics"])
def test_a_run_config_holds_no_logic(template: Path, section: str) -> None:
    file = change(made(template), **{section: [1]})
    (said,) = problems(file)
    assert said.startswith(f"{section}: a RunConfig leaves '{section}' to its template")


def test_a_suite_in_a_folder_of_the_variable_is_found_by_name(
    template: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAGE_EVAL_SUITES", str(here / "suites"))
    file = made("small")
    assert yaml.safe_load(file.read_text())["base_task"] == "small"
    assert keys(file) == keys("suite:small") == keys(here / "mine.yaml")


def test_unknown_suites_and_versions_are_named(template: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGE_EVAL_SUITES", str(here / "suites"))
    file = made("small")
    assert "no suite 'smal'" in problems(change(file, base_task="smal"))[0]
    assert "Did you mean 'small'?" in problems(file)[0]
    assert "has no version 'v7'. Versions: v1." in problems(change(file, base_task="small", template_version="v7"))[0]


class TestOpenPlaces:
    """A template that leaves the models to its runs."""

    def write(self, here: Path, adapters: list[dict[str, Any]]) -> Path:
        definition = {
            "datasets": [{"dataset_id": "sums", "params": {"path": "rows.jsonl"}}],
            "role_adapters": adapters,
            "metrics": ["exact_match"],
        }
        file = here / "open.yaml"
        about = {"name": "open", "version": "v1"}
        data = {"kind": "BuiltinTemplate", "metadata": about, "definition": definition}
        file.write_text(yaml.safe_dump(data))
        return file

    def test_a_run_brings_the_model_under_test(self, here: Path) -> None:
        file = made(self.write(here, []))
        assert "type: openai_http" in file.read_text()
        config = load_config(file, env={"MODEL_NAME": "mine"}).config
        (adapter,) = config.role_adapters
        assert (adapter.role_type, adapter.backend_id) == ("dut_model", "dut")
        assert config.backends[0].config["model"] == "mine"

    def test_a_run_brings_the_judge(self, here: Path) -> None:
        judge = {"adapter_id": "strict", "role_type": "judge_model", "prompt_id": "p"}
        file = made(self.write(here, [judge]))
        data = yaml.safe_load(file.read_text())
        assert list(data["runtime"]["backends"]) == ["dut", "judge"]
        change(file, runtime={"backends": {"dut": {"type": "dummy"}, "judge": {"type": "dummy"}}})
        with pytest.raises(ConfigError) as caught:
            load_config(file, env={})
        # The template's own mistake is the only one left.
        assert [problem.path for problem in caught.value.problems] == ["role_adapters[0].prompt_id"]

    def test_there_is_one_model_under_test(self, here: Path) -> None:
        runtime = {"backends": {"one": {"type": "dummy"}, "two": {"type": "dummy"}}}
        file = change(made(self.write(here, [])), runtime=runtime)
        assert problems(file) == [
            "runtime.backends.two: the template asks one model, and 'one' is it already; remove one of them."
        ]


class TestDistill:
    def test_several_tasks_are_refused_and_merged_by_force(self, here: Path) -> None:
        both = [{"dataset_id": name, "params": {"path": "rows.jsonl"}} for name in ("a", "b")]
        file = write_config(here, datasets=both)
        with pytest.raises(InputError, match=r"2 tasks \(a, b\).*--force-merge"):
            distilled(file, "both")
        made = yaml.safe_load(distilled(file, "both", force_merge=True).text)
        assert (made["metadata"]["monolithic"], made["metadata"]["source_tasks"]) == (True, ["a", "b"])

    def test_versions_count_up_and_do_not_change(self, template: Path, here: Path) -> None:
        second = distilled(here / "mine.yaml", "small")
        assert (second.version, second.file.name) == ("v2", "v2.yaml")
        with pytest.raises(InputError, match="has a version v1 already"):
            distilled(here / "mine.yaml", "small", version="v1")

    def test_defaults_are_written_out(self, template: Path) -> None:
        definition = yaml.safe_load(template.read_text())["definition"]
        assert definition["datasets"][0]["params"]["seed"] == 123
        assert definition["metrics"][0]["on_missing_field"] == "warn"
        assert "max_concurrency" not in definition["backends"][0]["config"]

    def test_placeholders_stay(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ANSWER", "secret-9")
        backend = {"backend_id": "model", "type": "dummy", "config": {"mode": "fixed", "answer": "${ANSWER}"}}
        text = distilled(write_config(here, backends=[backend]), "small").text
        assert "${ANSWER}" in text
        assert "secret-9" not in text

    def test_a_wrong_config_is_refused(self, here: Path) -> None:
        with pytest.raises(ConfigError, match="tusk_id"):
            distilled(write_config(here, tasks=[{"tusk_id": "t", "dataset_id": "sums"}]), "small")


@pytest.mark.parametrize(
    "implementation", ["own_score:same", "own_score.same", "own_score.py:same"], ids=["colon", "dot", "file"]
)
def test_code_beside_a_template_is_found_from_a_run_config_in_another_folder(
    here: Path, implementation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder, elsewhere = here / "suites" / "own", here / "mine"
    folder.mkdir(parents=True)
    elsewhere.mkdir()
    (folder / "own_score.py").write_text(
        "import own_score_helper\n\n\ndef same(prediction: str, reference: str) -> float:\n"
        "    return own_score_helper.equal(prediction, reference)\n"
    )
    (folder / "own_score_helper.py").write_text("def equal(one, other):\n    return float(one == other)\n")
    source = write_config(folder, metrics=[{"metric_id": "same", "implementation": implementation}])
    write_rows(folder)
    template = distilled(source, "own")
    write_new(folder / "v1.yaml", template.text)
    run_config = made(folder / "v1.yaml", out=str(elsewhere / "run.yaml"))
    loaded = load_config(run_config, env={})
    assert loaded.suite is not None
    assert loaded.suite.modified == ()
    monkeypatch.chdir(elsewhere)
    outcome = run_inline(RunOptions(config="run.yaml", store="store", run_id="first"))
    (number,) = [metric for metric in outcome.summary.metrics if metric.metric_id == "same"]
    assert number.value == pytest.approx(1 / 6)
    sys.modules.pop("own_score", None)
    assert stage_states(run_inline(resumed("first", store="store")).folder) == {"cached"}
    # The record of the run has no template, and its code is still found.
    assert planned_before(StoredRun.open(Locations.at("store"), "first")).plan.tasks[0].auto_eval.metrics


@pytest.mark.parametrize(
    ("path", "logic"),
    [
        (("box", "memory_mb"), True),
        (("box", "slots"), False),
        (("simulator", "max_turns"), True),
        (("mcp_servers", 0, "timeout_s"), False),
        (("params", "limit"), True),
        (("backend_id",), False),
    ],
)
def test_the_box_and_the_user_of_an_adapter_are_logic_but_not_where_it_runs(
    path: tuple[str | int, ...], *, logic: bool
) -> None:
    assert is_logic(("role_adapters", 0, *path)) is logic
