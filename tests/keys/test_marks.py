"""Every field says what a change of it computes, and keys are made of exactly what the marks say."""

from typing import Any, ClassVar

import pytest
from changes import MODELS
from pydantic import BaseModel, ConfigDict

from gage_eval.base.marks import identity, mark_of, nested, scheduling, semantic, semantic_values
from gage_eval.base.stages import STAGES
from gage_eval.config.settings import Settings
from gage_eval.extend import registry
from gage_eval.runs import RunOptions
from tests.support.marked_fields import walk_fields

BACKEND_CONFIGS = [plugin.info["config"] for plugin in registry.backends if plugin.origin == "builtin"]


@pytest.mark.parametrize(
    "model", [*MODELS.values(), *BACKEND_CONFIGS, RunOptions, Settings], ids=lambda model: model.__name__
)
def test_every_field_of_every_model_carries_a_mark(model: type[BaseModel]) -> None:
    for name, mark, stage in walk_fields(model):
        assert mark in {"semantic", "identity", "scheduling", "nested"}, name
        assert (stage in STAGES) == (mark in {"semantic", "identity"}), name


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.__name__)
def test_models_in_models_are_nested_so_that_their_own_marks_count(model: type[BaseModel]) -> None:
    # A prompt's messages are one value: the whole template goes into the key.
    whole = {"PromptConfig.template"}
    for name, field in model.model_fields.items():
        holds_models = any(f"models.{other}" in str(field.annotation) for other in MODELS)
        if holds_models and f"{model.__name__}.{name}" not in whole:
            assert mark_of(model, name)[0] == "nested", name


def test_backend_fields_belong_to_inference() -> None:
    for model in BACKEND_CONFIGS:
        assert {stage for _, _, stage in walk_fields(model)} <= {"infer", None}


class _Inner(BaseModel):
    depth: int = semantic("infer", 1)
    speed: int = scheduling(1)


class _Outer(BaseModel):
    model_config = ConfigDict(extra="allow")
    PASS_THROUGH: ClassVar[str] = "infer"

    early: int = semantic("load", 1)
    late: tuple[int, ...] = semantic("infer", (1, 2))
    file: str = identity("infer", "a")
    speed: int = scheduling(1)
    single: _Inner = nested(_Inner())
    many: list[_Inner] = nested([_Inner()])
    named: dict[str, _Inner] = nested({"x": _Inner()})


class _Unmarked(BaseModel):
    field: int = 1


def test_the_key_of_a_stage_holds_its_semantic_values_and_no_others() -> None:
    assert semantic_values(_Outer(), "load") == {"early": 1, "many": [{}], "named": {"x": {}}}
    inner = {"depth": 1}
    assert semantic_values(_Outer(), "infer") == {
        "late": [1, 2],
        "single": inner,
        "many": [inner],
        "named": {"x": inner},
    }


def test_undeclared_keys_count_for_the_stage_they_are_passed_to() -> None:
    model: Any = _Outer(new={"a": (1, 2)})
    assert semantic_values(model, "infer")["new"] == {"a": [1, 2]}
    assert "new" not in semantic_values(model, "load")


def test_a_field_without_a_mark_is_an_error_and_never_left_out() -> None:
    with pytest.raises(TypeError, match=r"_Unmarked\.field carries no mark"):
        semantic_values(_Unmarked(), "load")
