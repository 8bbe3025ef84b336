"""Versions of suites never change: golden digests, released forms with their defaults, and edits that are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import ConfigError
from gage_eval.config.load import LoadedConfig
from gage_eval.config.model_choice import ModelChoice
from gage_eval.config.models import PipelineConfig
from gage_eval.config.suites import frozen
from gage_eval.config.suites.digest import definition_digest
from gage_eval.config.suites.frozen import SECTIONS, code_versions, completed, defaults, record_of, released_file
from gage_eval.config.suites.templates import load_suite
from gage_eval.pipeline.plan import make_plan
from tools import suites

MODEL = ModelChoice("owner/name", engine="vlm_transformers", judges=("judge",), judge_endpoint="http://judge/v1")
GOLDEN: dict[str, str] = json.loads(suites.GOLDEN.read_text(encoding="utf-8"))
TEMPLATE = """\
api_version: gage/v1alpha1
kind: BuiltinTemplate
metadata:
  name: mine
  version: v1
suite:
  title: Mine
  summary: What it measures.
  licence: MIT
  metric: exact_match
  rows: 1
  download_bytes: 1
  cost: {requests: 1, prompt_tokens: 1, answer_tokens: 1}
definition:
  datasets:
    - dataset_id: rows
      params: {path: rows.jsonl, shuffle: true}
  tasks:
    - {task_id: mine, dataset_id: rows, sampling_params: {temperature: 0}}
  metrics: [exact_match, "contains(case_sensitive=True)"]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of configs with one suite, in its written and its released form."""
    folder = tmp_path / "builtin_templates" / "mine"
    folder.mkdir(parents=True)
    (folder / "rows.jsonl").write_text('{"question": "1 + 1", "answer": "2"}\n')
    (folder / "v1.yaml").write_text(TEMPLATE)
    suites.write(folder / "v1.yaml")
    return tmp_path


def template(root: Path) -> Path:
    return root / "builtin_templates" / "mine" / "v1.yaml"


def expanded_form(name: str) -> dict[str, Any]:
    """What a suite means."""
    record = json.loads(released_file(suites.templates()[name]).read_text(encoding="utf-8"))
    whole = completed(record["definition"], defaults(record["defaults"]))
    assert isinstance(whole, dict)
    return whole


def loaded(root: Path, *overrides: str) -> LoadedConfig:
    return load_suite("mine", root=root, env={}, models=ModelChoice("m", endpoint="http://m/v1"), overrides=overrides)


@pytest.mark.parametrize("name", suites.templates())
def test_a_released_version_keeps_its_digest(name: str) -> None:
    file = suites.templates()[name]
    record = json.loads(released_file(file).read_text(encoding="utf-8"))
    assert GOLDEN.get(name) == record["digest"], "a released version never changes; make a new one"
    assert definition_digest(expanded_form(name)) == record["digest"]
    assert f"digest: {record['digest']}" in file.read_text(encoding="utf-8")
    assert record["written"] == record_of(suites.definition_of(file), record["defaults"])["written"], (
        f"if it is not released yet: python -m tools.suites --rewrite {name}"
    )


def test_every_golden_digest_has_its_template() -> None:
    assert GOLDEN.keys() == suites.templates().keys()


@pytest.mark.parametrize("name", suites.templates())
def test_the_code_that_a_suite_names_is_that_of_its_release(name: str) -> None:
    record = json.loads(released_file(suites.templates()[name]).read_text(encoding="utf-8"))
    assert code_versions(expanded_form(name)) == record["code"], (
        "a plug-in computes something else since the suite was released: release a new version of the suite"
    )


def test_the_newest_set_of_defaults_is_that_of_the_models() -> None:
    assert defaults(suites.newest_set()) == suites.current_defaults(), (
        "a default of a config model changed: python -m tools.suites makes a new set for new suites. While the newest "
        "set is not released, --rewrite writes it and the suites again."
    )


@pytest.mark.parametrize("name", suites.templates())
def test_a_set_of_defaults_is_whole(name: str) -> None:
    said = frozen.stated(suites.definition_of(suites.templates()[name]))
    whole = PipelineConfig.model_validate(said).model_dump(mode="json", include=set(SECTIONS))
    assert completed(said, suites.current_defaults()) == whole


def test_a_suite_keeps_the_defaults_of_its_set(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = loaded(root)
    assert before.suite is not None
    # As if a later release had another default: it has a later set, and the suite is of the first.
    changed = {**defaults(1), "datasets[].params": {**defaults(1)["datasets[].params"], "seed": 7}}
    monkeypatch.setattr(frozen, "defaults", {1: defaults(1), 2: changed}.__getitem__)
    assert loaded(root).digest == before.digest
    record = record_of(suites.definition_of(template(root)), 2)
    assert record["digest"] != before.suite.digest
    released_file(template(root)).write_text(json.dumps(record))
    template(root).write_text(template(root).read_text().replace(before.suite.digest, record["digest"]))
    assert loaded(root).config.datasets[0].params.seed == 7


def test_a_suite_of_a_later_release_says_what_is_missing(root: Path) -> None:
    file = released_file(template(root))
    file.write_text(json.dumps({**json.loads(file.read_text()), "defaults": 99}))
    with pytest.raises(ConfigError, match="later gage-eval"):
        loaded(root)


def test_another_default_of_a_set_is_not_what_was_released(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edited = {**defaults(1), "datasets[].params": {**defaults(1)["datasets[].params"], "seed": 7}}
    monkeypatch.setattr(frozen, "defaults", {1: edited}.__getitem__)
    with pytest.raises(ConfigError, match="not the form that this version was released with"):
        loaded(root)


def test_the_released_form_has_the_keys_of_the_written_one(root: Path) -> None:
    def materials() -> list[Any]:
        (task,) = make_plan(loaded(root)).tasks
        return [getattr(task, stage).material() for stage in ("load", "standardize", "preprocess", "auto_eval")]

    released = materials()
    released_file(template(root)).unlink()
    template(root).write_text(TEMPLATE)
    assert materials() == released


def test_a_suite_takes_no_value_from_variables(root: Path) -> None:
    template(root).write_text(TEMPLATE.replace("rows.jsonl", '"${HOME}/rows.jsonl"'))
    with pytest.raises(SystemExit, match="takes nothing from variables"):
        suites.write(template(root))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("temperature: 0", "temperature: 1", "it was edited: tasks[0].sampling_params.temperature."),
        (", shuffle: true", "", "it was edited: a value is gone."),
        ("[exact_match, ", "[", "it was edited: metrics"),
    ],
)
def test_an_edited_template_is_refused_with_what_changed(root: Path, old: str, new: str, said: str) -> None:
    text = template(root).read_text()
    assert old in text
    template(root).write_text(text.replace(old, new))
    with pytest.raises(ConfigError) as refused:
        loaded(root)
    assert said in str(refused.value)
    assert "gage distill" in str(refused.value)


def test_an_edited_released_form_is_refused(root: Path) -> None:
    file = released_file(template(root))
    file.write_text(file.read_text().replace('"shuffle": true', '"shuffle": false', 1))
    with pytest.raises(ConfigError, match=r"'v1\.released\.json' is not the form that this version was released with"):
        loaded(root)


@pytest.mark.parametrize(
    ("override", "modified"),
    [
        ("tasks.mine.sampling_params.temperature=1", ("tasks[0].sampling_params.temperature",)),
        ("tasks.mine.sampling_params.top_p=0.5", ("tasks[0].sampling_params.top_p",)),
        ("tasks.mine.replicates=2", ("tasks[0].replicates",)),
        ("metrics.exact_match.params.case_sensitive=true", ("metrics[0].params.case_sensitive",)),
        ("metrics=[contains]", ("metrics",)),
        ("datasets.rows.params.seed=5", ("datasets[0].params.seed",)),
        ("backends.dut.config.default_params.top_p=0.5", ("backends[0].config.default_params.top_p",)),
        # The same value, fewer rows, the model and its limits: still the suite.
        ("tasks.mine.sampling_params.temperature=0", ()),
        ("tasks.mine.max_samples=5", ()),
        ("tasks.mine.max_error_share=0.5", ()),
        ("backends.dut.config.timeout=5", ()),
        ("limits.tokens=1000", ()),
    ],
)
def test_a_change_of_the_logic_is_named(root: Path, override: str, modified: tuple[str, ...]) -> None:
    suite = loaded(root, override).suite
    assert suite is not None
    assert suite.modified == modified


def test_the_environment_does_not_change_what_a_suite_means(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gage_eval.config.settings import load_settings

    for name, value in {"SHUFFLE_SEED": "9", "IMAGE_MAX_PIXELS": "100", "EMBED_LOCAL_MEDIA": "1"}.items():
        monkeypatch.setenv(f"GAGE_EVAL_{name}", value)
    config = load_suite(
        "mine", root=root, models=ModelChoice("m", endpoint="http://m/v1"), settings=load_settings().values_set()
    )
    assert config.config.datasets[0].params.seed == 123
    assert config.config.datasets[0].params.image_max_pixels is None
    assert config.suite is not None
    assert config.suite.modified == ()
