"""Some samples of a run, asked again with its own options."""

from collections.abc import Sequence

from gage_eval.runs.options import RunOptions
from gage_eval.runs.planned import options_before
from gage_eval.runs.results.reading import RunReader


def options_again(run: RunReader, task_id: str, ids: Sequence[str], why: str, *overrides: str) -> RunOptions:
    """The run's own options, for a few samples of one task.

    Args:
        run: the run.
        task_id: the task.
        ids: the samples; at least one, because none would stand for all.
        why: part of the freshness of the answers, so that they are not those of the run itself.
        overrides: further ones, as ``tasks.gsm8k.replicates=5``.
    """
    options = options_before(run.stored)
    update = {
        "run_id": None,
        "task_ids": (task_id,),
        "sample_ids": tuple(ids),
        "quick": None,
        "overrides": (*options.overrides, *overrides),
        "freshness": f"{options.freshness or ''} {why}".strip(),
        "resume": False,
        "only_errors": False,
        "refresh": (),
    }
    return options.model_copy(update=update)
