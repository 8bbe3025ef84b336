"""``include`` and ``defaults``: shared values are written once, and no file outside the folder is read."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.base.errors import ConfigError
from gage_eval.config.environment import EnvironmentValue
from gage_eval.config.load import load_config, parse_config

BASE = """\
datasets: [{dataset_id: mine, params: {path: mine.jsonl, limit: 5}}]
backends: [{backend_id: model, type: dummy, config: {mode: fixed, answer: "${ANSWER:-1}"}}]
metrics: [exact_match]
"""


def write(folder: Path, **files: str) -> Path:
    """Files by name, ``__`` for a slash; the first is returned."""
    for name, text in files.items():
        file = folder / f"{name.replace('__', '/')}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder / f"{next(iter(files)).replace('__', '/')}.yaml"


def problems(file: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(file, env={})
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


class TestInclude:
    def test_own_values_count_first_and_items_of_one_name_are_merged(self, tmp_path: Path) -> None:
        main = "include: shared/base.yaml\ndatasets: [{dataset_id: mine, params: {limit: 2}}]\nmetrics: [contains]\n"
        config = load_config(write(tmp_path, main=main, shared__base=BASE), env={}).config
        (dataset,) = config.datasets
        assert (dataset.params.path, dataset.params.limit) == ("mine.jsonl", 2)
        assert [metric.metric_id for metric in config.metrics] == ["exact_match", "contains"]

    def test_of_several_includes_the_last_counts(self, tmp_path: Path) -> None:
        first, two = (f"datasets: [{{dataset_id: mine, params: {{limit: {number}}}}}]" for number in (7, 8))
        file = write(tmp_path, main="include: [base.yaml, one.yaml, two.yaml]", base=BASE, one=first, two=two)
        assert load_config(file, env={}).config.datasets[0].params.limit == 8

    def test_each_value_knows_its_file_and_line(self, tmp_path: Path) -> None:
        file = write(tmp_path, main="include: base.yaml\nmetrics: [contains]\n", base=BASE)
        origins = load_config(file, env={"ANSWER": "2"}).origins
        assert str(origins["metrics[1].metric_id"]) == f"{file}:2"
        assert str(origins["datasets[0].params.limit"]) == f"{tmp_path / 'base.yaml'}:1"
        assert str(origins["backends[0].config.answer"]) == f"{tmp_path / 'base.yaml'}:2 with ANSWER"

    def test_a_mistake_in_an_included_file_names_it(self, tmp_path: Path) -> None:
        file = write(tmp_path, main="include: base.yaml\n", base=BASE.replace("limit: 5", "limit: many"))
        (said,) = problems(file)
        assert said.endswith(f"(in {tmp_path / 'base.yaml'}:1)")

    def test_the_run_keeps_one_config_without_includes(self, tmp_path: Path) -> None:
        file = write(tmp_path, main="include: base.yaml\n", base=BASE)
        text = load_config(file, env={}).text
        assert "include" not in text
        assert "${ANSWER:-1}" in text
        assert parse_config(text, base_dir=tmp_path, env={}).digest == load_config(file, env={}).digest

    def test_files_that_include_each_other_are_named(self, tmp_path: Path) -> None:
        file = write(tmp_path, main="include: a.yaml", a="include: b.yaml", b="include: a.yaml")
        (said,) = problems(file)
        a, b = tmp_path / "a.yaml", tmp_path / "b.yaml"
        assert said == f"include: files include each other: {a} includes {b} includes {a}."

    def test_two_files_may_include_the_same_file(self, tmp_path: Path) -> None:
        file = write(tmp_path, main="include: [a.yaml, b.yaml]", a="include: c.yaml", b="include: c.yaml", c=BASE)
        assert load_config(file, env={}).config.datasets

    @pytest.mark.parametrize(
        ("include", "message"),
        [
            ("../secret.yaml", "'../secret.yaml' leads out of the config's folder; move the file into it."),
            ("/etc/hosts", "'/etc/hosts' leads out of the config's folder; move the file into it."),
            ("link.yaml", "'link.yaml' leads out of the config's folder; move the file into it."),
            ("sub/up.yaml", "'../../secret.yaml' leads out of the config's folder; move the file into it."),
            ("${HOME}/x.yaml", "is not a file below the config's folder"),
            ("http://h/x.yaml", "is not a file below the config's folder"),
            ("base.yml", "no config file '"),
            ("sub", "/sub' is not a file; name a config file."),
            ("run.yaml", "is a RunConfig; only a PipelineConfig is included."),
            ("list.yaml", "is not a mapping; only a PipelineConfig is included."),
            ("[5, {}]", "'include' is a file or a list of files."),
            ('"a\\0b"', "is not a file name"),
        ],
    )
    def test_what_cannot_be_included_is_refused(self, tmp_path: Path, include: str, message: str) -> None:
        write(tmp_path, secret="password: hunter2")
        home = tmp_path / "home"
        files = {"base": BASE, "sub__up": "include: ../../secret.yaml", "run": "kind: RunConfig", "list": "[1]"}
        file = write(home, main=f"include: {include}\n", **files)
        os.symlink(tmp_path / "secret.yaml", home / "link.yaml")
        said = problems(file)
        assert message in " ".join(said)
        assert "hunter2" not in " ".join(said)

    def test_all_wrong_includes_are_reported_at_once(self, tmp_path: Path) -> None:
        said = problems(write(tmp_path, main="include: [a.yaml, ../b.yaml]\n"))
        assert [sentence.partition(":")[0] for sentence in said] == ["include[0]", "include[1]"]

    def test_includes_that_grow_without_bound_are_refused(self, tmp_path: Path) -> None:
        many = yaml.safe_dump({"export": list(range(5000))})
        files = {f"f{at}": f"include: [{', '.join([f'f{at + 1}.yaml'] * 10)}]" for at in range(6)}
        file = write(tmp_path, main="include: f0.yaml", **files, f6=many)
        assert any("values; include less." in problem for problem in problems(file))


def loaded(text: str, **options: Any) -> Any:
    return parse_config(text, source="mine.yaml", env={}, **options)


class TestDefaults:
    TEXT = """\
defaults:
  tasks: {max_samples: 9, sampling_params: {temperature: 0, stop: [x]}}
  datasets: {params: {limit: 50, preprocess_kwargs: {system_prompt: Hello}}}
  backends: {type: dummy}
datasets: [{dataset_id: a, params: {path: a.jsonl}}, {dataset_id: b, params: {path: b.jsonl, max_samples: 3}}]
backends: [{backend_id: model}]
metrics: [exact_match]
tasks:
  - {task_id: one, dataset_id: a}
  - {task_id: two, dataset_id: b, max_samples: 1, generation_params: {temperature: 1}}
"""

    def test_they_fill_in_what_items_do_not_set(self) -> None:
        config = loaded(self.TEXT).config
        assert [task.max_samples for task in config.tasks] == [9, 1]
        assert config.tasks[0].sampling_params == {"temperature": 0, "stop": ["x"]}
        # Another spelling of a key is the same key.
        assert config.tasks[1].sampling_params == {"temperature": 1, "stop": ["x"]}
        assert [dataset.params.limit for dataset in config.datasets] == [50, 3]
        assert config.backends[0].type == "dummy"

    def test_they_count_for_implied_tasks_before_the_environment(self) -> None:
        text = self.TEXT[: self.TEXT.index("tasks:\n")]
        settings = {"max_samples": EnvironmentValue("GAGE_EVAL_MAX_SAMPLES", 4)}
        config = loaded(text, settings=settings)
        assert [task.max_samples for task in config.config.tasks] == [9, 9]
        assert str(config.origins["tasks[0].max_samples"]) == "mine.yaml:2"

    def test_the_command_line_counts_first(self) -> None:
        assert loaded(self.TEXT, overrides=["tasks.one.max_samples=2"]).config.tasks[0].max_samples == 2

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("  tasks: {", "  task: {", "defaults.task: no section 'task' with defaults."),
            ("max_samples: 9", "max_sample: 9", "defaults.tasks.max_sample: unknown key 'max_sample'."),
            ("max_samples: 9", "task_id: t", "defaults.tasks.task_id: names are different for each item; remove it."),
            ("max_samples: 9", "max_samples: many", "tasks[0].max_samples: must be a whole number, not 'many'."),
            ("{type: dummy}", "[1]", "defaults.backends: must be a mapping of values for each item."),
        ],
    )
    def test_a_mistake_in_them_is_named(self, old: str, new: str, message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            loaded(self.TEXT.replace(old, new, 1))
        said = [f"{problem.path}: {problem.message}" for problem in caught.value.problems]
        assert any(sentence.startswith(message) for sentence in said), said


class TestShortConfigs:
    def test_a_data_file_a_backend_and_a_metric_are_a_whole_config(self) -> None:
        loaded_config = loaded("datasets: [my data.v2.jsonl]\nbackends: [{type: dummy}]\nmetrics: [exact_match]\n")
        (dataset,), (backend,), (task,) = (
            loaded_config.config.datasets,
            loaded_config.config.backends,
            loaded_config.config.tasks,
        )
        assert (dataset.dataset_id, dataset.loader, backend.backend_id) == ("my_data", "jsonl", "model")
        assert (task.task_id, task.adapter_id) == ("my_data", "dut")
        said = {path: origin.rule for path, origin in loaded_config.origins.items() if origin.kind == "rule"}
        assert said["datasets[0].dataset_id"] == "dataset-name"
        assert said["backends[0].backend_id"] == "backend-name"
        assert said["tasks[0].task_id"] == "implied-tasks"

    @pytest.mark.parametrize(
        ("task_type", "preprocess", "metric"),
        [
            ("multiple-choice", "multi_choice", "multi_choice_accuracy"),
            ("short_answer", "default", "exact_match"),
            ("doc-qa", "docvqa", "docvqa_anls"),
            ("agent", "agent", "tool_call_match"),
        ],
    )
    def test_a_task_type_chooses_preprocessor_prompt_and_metric(
        self, task_type: str, preprocess: str, metric: str
    ) -> None:
        dataset = f"{{task_type: {task_type}, params: {{path: mine.jsonl}}}}"
        loaded_config = loaded(f"datasets: [{dataset}]\nbackends: [{{type: dummy}}]\n")
        assert loaded_config.config.datasets[0].params.preprocess == preprocess
        assert [metric.implementation for metric in loaded_config.config.tasks[0].metric_overrides] == [metric]
        assert loaded_config.origins["datasets[0].params.preprocess"].rule == "task-type"

    def test_every_task_type_loads(self) -> None:
        from gage_eval.config.task_types import TASK_TYPES

        assert len(TASK_TYPES) == 14
        for name in TASK_TYPES.keys() - {"preference"}:  # it needs a judge
            loaded(f"datasets: [{{task_type: {name}, params: {{path: m.jsonl}}}}]\nbackends: [{{type: dummy}}]\n")

    def test_what_is_set_stays(self) -> None:
        dataset = "{task_type: short-answer, params: {path: m.jsonl, preprocess: simple}}"
        config = loaded(f"datasets: [{dataset}]\nbackends: [{{type: dummy}}]\nmetrics: [contains]\n").config
        assert (config.datasets[0].params.preprocess, config.datasets[0].params.preprocess_kwargs) == ("simple", {})
        assert config.tasks[0].metric_overrides == []

    def test_an_unknown_task_type_is_named(self) -> None:
        with pytest.raises(ConfigError) as caught:
            loaded("datasets: [{task_type: short-anser, params: {path: m.jsonl}}]\nbackends: [{type: dummy}]\n")
        (problem,) = caught.value.problems
        assert (problem.path, problem.line) == ("datasets[0].task_type", 1)
        assert problem.message.endswith("Did you mean 'short-answer'?")
