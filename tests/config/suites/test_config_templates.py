"""Built-in suites are found by name and version, and only there."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.base.errors import ConfigError, InputError
from gage_eval.config.model_choice import ModelChoice
from gage_eval.config.suites.template_places import find_template, suite_file, versions_in
from gage_eval.config.suites.templates import list_suites, load_suite
from gage_eval.config.yaml.lines import as_written, parse
from gage_eval.config.yaml.nodes import node_of
from gage_eval.config.yaml.text import yaml_text

TEMPLATE = """\
kind: BuiltinTemplate
metadata: {name: NAME, version: VERSION, description: "What it is.\\nMore."}
definition:
  datasets: [{dataset_id: mine, params: {path: data.jsonl}}]
  backends: [{backend_id: b, type: dummy}]
  metrics: [exact_match]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, versions in {"demo": ["v1"], "piqa": ["v2", "v10"], "empty": []}.items():
        folder = tmp_path / "builtin_templates" / name
        folder.mkdir(parents=True)
        for version in versions:
            (folder / f"{version}.yaml").write_text(TEMPLATE.replace("NAME", name).replace("VERSION", version))
        (folder / "notes.yaml").write_text("not a version")
    return tmp_path


def test_suites_are_listed_with_their_versions_in_order(root: Path) -> None:
    demo, piqa = list_suites(root)
    assert (demo.name, demo.versions, demo.description) == ("demo", ("v1",), "What it is.")
    assert (piqa.name, piqa.versions, piqa.path.name) == ("piqa", ("v2", "v10"), "v10.yaml")


def test_the_newest_version_is_the_default(root: Path) -> None:
    assert load_suite("piqa", root=root).config.metadata.version == "v10"
    assert load_suite("piqa", "v2", root=root).config.metadata.version == "v2"
    assert load_suite("piqa", "2", root=root).config.metadata.version == "v2"


def test_paths_of_a_suite_count_from_its_file(root: Path) -> None:
    assert load_suite("demo", root=root).base_dir == root / "builtin_templates" / "demo"


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        ("piqaa", None, "no suite 'piqaa'. Suites: demo, piqa. Did you mean 'piqa'?"),
        ("empty", None, "no suite 'empty'. Suites: demo, piqa."),
        ("../builtin_templates/demo", None, "no suite '../builtin_templates/demo'. Suites: demo, piqa."),
        ("piqa", "v3", "suite 'piqa' has no version 'v3'. Versions: v2, v10."),
        ("piqa", "../demo/v1", "suite 'piqa' has no version '../demo/v1'. Versions: v2, v10."),
    ],
)
def test_a_name_that_is_not_there_is_refused(root: Path, name: str, version: str | None, message: str) -> None:
    with pytest.raises(InputError) as caught:
        suite_file(name, version, root=root)
    assert message in str(caught.value)


def test_without_templates_there_are_no_suites(tmp_path: Path) -> None:
    assert list_suites(tmp_path) == []
    with pytest.raises(InputError, match=r"no suite 'demo'\. Suites: none\."):
        suite_file("demo", root=tmp_path)


def test_every_suite_of_the_checkout_loads() -> None:
    suites = list_suites()
    assert suites
    for suite in suites:
        for version in suite.versions:
            needs = suite.card.needs if suite.card is not None else ()
            judges = ("judge",) if "judge" in needs else ()
            models = ModelChoice("owner/name", engine="vlm_transformers", judges=judges, judge_endpoint="http://j/v1")
            assert load_suite(suite.name, version, env={}, models=models).config.datasets


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"metadata: {name: \xe4}\n", "is not UTF-8 text (byte 17); save it as UTF-8."),
        (b"suite: {title: 5}\n", "suite.title: must be text, not 5. Put it in quotes."),
        (b"suite: {title: 5}\n", "suite: 'licence' is missing."),
    ],
)
def test_a_suite_that_cannot_be_read_is_named_with_all_its_mistakes(
    content: bytes, message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "builtin_templates" / "mine"
    folder.mkdir(parents=True)
    (folder / "v1.yaml").write_bytes(content)
    with pytest.raises(InputError) as caught:
        list_suites(tmp_path)
    assert str(folder / "v1.yaml") in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["[]", "a", "definition: {datasets: 5, tasks: x}", "definition: []"])
def test_a_suite_of_another_form_is_listed_with_nothing_in_it(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "builtin_templates" / "mine"
    folder.mkdir(parents=True)
    (folder / "v1.yaml").write_text(text)
    (suite,) = list_suites(tmp_path)
    assert (suite.name, suite.tasks, suite.card) == ("mine", 0, None)


def test_only_files_called_like_a_version_are_versions(tmp_path: Path) -> None:
    folder = tmp_path / "builtin_templates" / "mine"
    folder.mkdir(parents=True)
    for name in ("v1", "v2", "v02", "v0", "v٣", "v" + "9" * 30, "v3-draft"):
        (folder / f"{name}.yaml").write_text("kind: BuiltinTemplate\n")
    assert versions_in(folder) == ["v1", "v2"]
    assert suite_file("mine", root=tmp_path) == folder / "v2.yaml"


def test_a_folder_without_a_template_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no template: a suite's folder has v1\.yaml"):
        find_template(str(tmp_path), None, tmp_path)


@given(
    st.dictionaries(
        st.text(st.sampled_from("a :#-?'\"\n\t\x85\u2028\ufeff\x00{}$é"), max_size=6),
        st.text(st.sampled_from("a :#-?'\"\n\t\x85\u2028\ufeff\x00{}$é"), max_size=6),
        max_size=3,
    )
)
def test_any_keys_and_texts_are_written_so_that_they_read_back(values: dict[str, str]) -> None:
    tree = node_of({"all": values, "one": [*values]}, "mine.yaml")
    assert as_written(parse(yaml_text(tree), "mine.yaml")) == {"all": values, "one": [*values]}


def test_a_suite_does_not_let_the_engine_choose_the_frames_of_its_videos() -> None:
    model = ModelChoice("mine", endpoint="http://127.0.0.1:8000/v1")
    load_suite("video_mc", models=model, env={}, overrides=["datasets.video_mc.params.video_frames=8"])
    with pytest.raises(ConfigError, match="video_frames or video_fps"):
        load_suite("video_mc", models=model, env={}, overrides=["datasets.video_mc.params.video_frames=null"])
