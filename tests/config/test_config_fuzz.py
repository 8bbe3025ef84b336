"""Whatever stands in a file, it is a config or a config error: never another exception."""

from collections.abc import Sequence
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gage_eval.base.errors import ConfigError, InputError
from gage_eval.config import models
from gage_eval.config.load import parse_config

FIELDS = sorted(
    {
        name
        for spec in vars(models).values()
        if isinstance(spec, type) and issubclass(spec, models.ConfigModel)
        for name in [*spec.model_fields, *spec.ALIASES]
    }
)
WORDS = st.sampled_from(
    [
        "mine", "mine.jsonl", "dummy", "openai_http", "exact_match", "numeric_match", "default", "multi_choice",
        "jsonl", "inference", "judge", "dut_model", "judge_model", "PipelineConfig", "BuiltinTemplate", "${X}",
        "${X:-1}", "${", "$${", "env:X", "a.b:c", "m(a=1)", "m(", "", "\0", "replace", "extend",
    ]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS
KEYS = st.sampled_from(FIELDS) | WORDS | st.text(max_size=4)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)
SECTIONS = st.fixed_dictionaries({}, optional=dict.fromkeys(models.PipelineConfig.model_fields, TREES))

QUIET = settings(max_examples=2 * settings().max_examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def is_a_config_or_says_why_not(text: str, overrides: Sequence[str] = ()) -> bool:
    """Whether a text loads, or is refused with a line of words for each mistake."""
    try:
        loaded = parse_config(text, env={"X": "x"}, overrides=overrides)
        return len(loaded.tasks) == len(loaded.config.tasks) and bool(loaded.origins)
    except ConfigError as error:
        said = [problem.message for problem in error.problems]
    except InputError as error:
        said = [str(error)]
    return bool(said) and all(words.strip() and words.isprintable() for words in said)


@QUIET
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    assert is_a_config_or_says_why_not(text)


@QUIET
@given(SECTIONS)
def test_any_values_in_known_places(data: dict[str, Any]) -> None:
    assert is_a_config_or_says_why_not(yaml.safe_dump(data, allow_unicode=True))


GOOD: dict[str, Any] = {
    "datasets": [{"dataset_id": "mine", "params": {"path": "mine.jsonl", "preprocess_kwargs": {}}}],
    "backends": [{"backend_id": "local", "type": "dummy", "config": {}}],
    "role_adapters": [{"adapter_id": "a", "role_type": "dut_model", "backend_id": "local"}],
    "prompts": [{"prompt_id": "p", "template": [{"role": "user", "content": "x"}]}],
    "metrics": ["exact_match", {"numeric_match": {"tolerance": 0.1}}],
    "tasks": [{"task_id": "t", "dataset_id": "mine", "steps": [{"step": "inference"}]}],
}


def places(value: Any, loc: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [loc, *(place for key, item in inner for place in places(item, (*loc, key)))]


@QUIET
@given(st.sampled_from(places(GOOD)[1:]), TREES, st.none() | KEYS)
def test_a_good_config_with_one_place_changed(place: tuple[Any, ...], tree: Any, extra: str | None) -> None:
    data = yaml.safe_load(yaml.safe_dump(GOOD))
    parent = data
    for part in place[:-1]:
        parent = parent[part]
    if extra is not None and isinstance(parent, dict):
        parent[extra] = tree
    else:
        parent[place[-1]] = tree
    assert is_a_config_or_says_why_not(yaml.safe_dump(data, allow_unicode=True))


@QUIET
@given(st.text(alphabet="abdtsk.[]=0:{}'\"$ ", max_size=30), st.sampled_from(["", "tasks.", "backends.", "metrics."]))
def test_any_override(tail: str, head: str) -> None:
    assert is_a_config_or_says_why_not(yaml.safe_dump(GOOD), [head + tail])
