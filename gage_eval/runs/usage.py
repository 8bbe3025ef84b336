"""What the requests of a process took."""

from gage_eval.engine.runtime import Runtime
from gage_eval.report.timings import Spent


def spent_by(runtime: Runtime) -> Spent:
    """What the requests and engines of a runtime took so far."""
    budget = runtime.budget
    return Spent(budget.prompt_tokens, budget.completion_tokens, budget.cost, runtime.gpu_seconds)
