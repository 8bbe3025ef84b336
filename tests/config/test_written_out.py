"""`gage plan --expanded`: a whole config that runs like the short one, and what gave each value."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.config.effective import written_out_text
from gage_eval.config.environment import EnvironmentValue
from gage_eval.config.load import load_config, parse_config
from gage_eval.config.model_choice import ModelChoice
from gage_eval.config.suites.templates import SuiteInfo, list_suites
from gage_eval.config.yaml import lines as yaml_lines
from gage_eval.config.yaml.nodes import node_of
from gage_eval.config.yaml.text import yaml_text

SHORT = """\
datasets: [{task_type: short-answer, params: {path: "${DATA:-mine.jsonl}"}}]
backends: [{type: dummy}]
"""


def expanded(**changes: Any) -> str:
    return written_out_text(parse_config(SHORT, source="mine.yaml", env={}, **changes))


def line(text: str, key: str) -> str:
    lines = [text_line.strip() for text_line in text.splitlines()]
    (wanted,) = [stripped for stripped in lines if stripped.removeprefix("- ").startswith(f"{key}:")]
    return wanted


def test_each_value_names_its_rule_file_option_or_variable() -> None:
    text = expanded(
        overrides=["tasks.mine.replicates=2"], settings={"max_samples": EnvironmentValue("GAGE_EVAL_MAX_SAMPLES", 3)}
    )
    assert line(text, "path").endswith("# mine.yaml:1 with DATA")
    assert line(text, "replicates").endswith("# --set tasks.mine.replicates")
    assert line(text, "max_samples").endswith("# GAGE_EVAL_MAX_SAMPLES")
    assert "# rule loader: " in line(text, "loader")
    assert "# rule task-type: " in line(text, "preprocess")
    assert line(text, "seed").endswith("# default")


def test_every_value_has_a_comment() -> None:
    for written in expanded().splitlines():
        assert "# " in written or written.rstrip().endswith(":"), written


def test_it_reads_back_as_the_same_config() -> None:
    assert parse_config(expanded(), env={}).digest == parse_config(SHORT, env={}).digest


@pytest.mark.parametrize("suite", list_suites(), ids=lambda suite: suite.name)
def test_suites_read_back_as_the_same_config(suite: SuiteInfo) -> None:
    needs = suite.card.needs if suite.card is not None else []
    models = ModelChoice("m", endpoint="http://h/v1", engine="vllm", judges=("j",) if "judge" in needs else ())
    loaded = load_config(suite.path, env={}, models=models)
    again = parse_config(written_out_text(loaded), base_dir=loaded.base_dir, env={})
    assert again.digest == loaded.digest


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")) | st.sampled_from("\n:#{}[]$'\"- "))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc_1", min_size=1), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "on", "1"]), VALUES, max_size=3))
def test_any_values_read_back_as_they_were(values: dict[str, Any]) -> None:
    tree = node_of(values, "a test")
    text = yaml_text(tree)
    assert yaml_lines.as_written(yaml_lines.parse(text, "a test")) == yaml_lines.as_written(tree)


def test_comments_stand_above_texts_of_several_lines(tmp_path: Path) -> None:
    template = (
        'datasets: [{params: {path: m.jsonl, preprocess_kwargs: {template: "a\\nb"}}}]\nbackends: [{type: dummy}]'
    )
    text = written_out_text(parse_config(template, source="mine.yaml", env={}))
    lines = text.splitlines()
    at = next(index for index, text_line in enumerate(lines) if "template: |-" in text_line)
    assert lines[at - 1].strip() == "# template: mine.yaml:1"
    assert lines[at - 1].index("#") == lines[at].index("t")
    assert yaml.safe_load(text)["datasets"][0]["params"]["preprocess_kwargs"]["template"] == "a\nb"
