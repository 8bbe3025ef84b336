"""What `STAGES` says of the stages is what the graph, Prefect's tasks and the stages themselves do."""

import inspect
from typing import get_args

import pytest

from gage_eval.base.inputs import INPUTS
from gage_eval.base.stages import STAGES, Stage, stages_before, writer_of
from gage_eval.pipeline import stages
from gage_eval.pipeline.keys import VERSIONS
from tasks.stages import STAGE_TASKS


def test_every_table_of_stages_has_the_same_stages() -> None:
    assert list(STAGES) == list(get_args(Stage))
    assert STAGES.keys() == stages.ALL.keys() == VERSIONS.keys() == STAGE_TASKS.keys()


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_takes_the_inputs_that_it_states(stage: Stage) -> None:
    first, *inputs = inspect.signature(STAGE_TASKS[stage].fn).parameters
    assert first == "compute"
    assert set(inputs) == set(STAGES[stage].inputs)


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_stage_reads_was_written_before(stage: Stage) -> None:
    for name in STAGES[stage].inputs:
        output = {"few_shot": "samples"}.get(name, name)
        assert writer_of(output) in stages_before(stage)


def test_no_two_stages_write_an_output_of_one_name() -> None:
    outputs = [output for info in STAGES.values() for output in info.outputs]
    assert len(outputs) == len(set(outputs))


def test_inputs_of_metrics_are_outputs_of_their_stage() -> None:
    assert {name: kind.stage for name, kind in INPUTS.items()} == {name: writer_of(name) for name in INPUTS}
