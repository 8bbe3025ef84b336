"""What the requests of a process took."""

from gage_eval.engine.runtime import Runtime
from gage_eval.report.timings import Consumption


def spent_by(runtime: Runtime) -> Consumption:
    """What the requests and engines of a runtime took so far."""
    budget = runtime.budget
    return Consumption(budget.prompt_tokens, budget.completion_tokens, budget.cost, runtime.gpu_seconds)
