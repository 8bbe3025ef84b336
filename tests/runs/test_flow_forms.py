"""The flows take what a run can be asked: their forms in the Prefect UI show every option with its words."""

from typing import Any

import pytest
from prefect import Flow

from flows.evaluate import evaluate
from flows.suite import suite
from gage_eval.runs import RunOptions


@pytest.mark.parametrize("flow", [evaluate, suite], ids=lambda flow: flow.name)
def test_a_flow_has_a_described_parameter_for_every_option(flow: Flow[..., Any]) -> None:
    shown = flow.parameters.properties
    assert shown.keys() == RunOptions.model_fields.keys()
    assert flow.parameters.required == ["config"]
    assert [name for name, one in shown.items() if not one.get("description")] == []
