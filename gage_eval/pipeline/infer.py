"""support and infer: prepared rows → responses."""

from gage_eval.pipeline.action import StageRun, stage
from gage_eval.pipeline.asks import Asks
from gage_eval.pipeline.generate_spec import GenerateSpec
from gage_eval.pipeline.generation import check_errors, generate


@stage("support", check=check_errors)
def support(run: StageRun, spec: GenerateSpec) -> None:
    """Ask the support model. Later prompts may show its answers.

    Args:
        run: reads ``prepared`` and ``samples``; writes ``support_responses`` and ``support_response_telemetry``.
        spec: the support model, its prompt and parameters.
    """
    generate(run, Asks.implicit(spec.binding))


@stage("infer", check=check_errors)
def infer(run: StageRun, spec: GenerateSpec) -> None:
    """Ask the model under test.

    Args:
        run: reads ``prepared``, and ``samples`` and ``support_responses`` if the prompt shows them; writes
            ``responses`` and ``response_telemetry``.
        spec: the model, its prompt and parameters.

    Raises:
        EndpointFailed: the endpoint cannot answer any more; the answers so far are kept.
        RunFailed: more rows than allowed ended in an error.
    """
    generate(run, Asks.implicit(spec.binding))
