"""gage-eval: evaluate language and multimodal models as a cached, resumable Prefect workflow.

``gage_eval.run(config)`` runs a config, ``gage_eval.open_run(run_id)`` opens an earlier run; both give a
`gage_eval.api.Run`. ``gage_eval.list_runs()``, ``gage_eval.compare(a, b)`` and ``gage_eval.sql(query)`` look at stored
runs. ``gage_eval.score(metric, …)`` scores one row. `GageError` is the base of all errors with a message for people.
Nothing heavy is loaded before one of these is used.
"""

from typing import TYPE_CHECKING, Any

from gage_eval.base.version import __version__

if TYPE_CHECKING:
    from gage_eval.api import Run, compare, list_runs, open_run, run, sql
    from gage_eval.base.errors import GageError
    from gage_eval.pipeline.score_row import ScoreResult, score

__all__ = ["GageError", "Run", "ScoreResult", "__version__", "compare", "list_runs", "open_run", "run", "score", "sql"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name in ("Run", "compare", "list_runs", "open_run", "run", "sql"):
        from gage_eval import api

        return getattr(api, name)
    if name == "GageError":
        from gage_eval.base import errors

        return errors.GageError
    if name in ("ScoreResult", "score"):
        from gage_eval.pipeline import score_row

        return getattr(score_row, name)
    raise AttributeError(f"module 'gage_eval' has no attribute '{name}'")
