"""support and infer: prepared rows → responses."""

from gage_eval.planning.asks import Asks
from gage_eval.planning.generate_spec import GenerateSpec
from gage_eval.stages.base import StageRun, stage
from gage_eval.stages.generation import check_errors, generate


@stage("support", check=check_errors)
def support(run: StageRun, spec: GenerateSpec) -> None:
    """Ask the support model, whose answers later prompts may use.

    Args:
        run: ``prepared`` and ``samples``; writes ``support_responses`` and ``support_response_telemetry``.
        spec: the support model, its prompt and parameters.
    """
    generate(run, Asks.implicit(spec.binding))


@stage("infer", check=check_errors)
def infer(run: StageRun, spec: GenerateSpec) -> None:
    """Ask the model under test.

    Args:
        run: ``prepared``, and where the prompt reads them ``samples`` and ``support_responses``; writes
            ``responses`` and ``response_telemetry``.
        spec: the model, its prompt and parameters.

    Raises:
        EndpointFailed: the endpoint cannot go on; what was answered is kept.
        RunFailed: more rows than allowed ended in an error.
    """
    generate(run, Asks.implicit(spec.binding))
