"""The flow of one task."""

from prefect import flow

from gage_eval.packaged import packages_beside
from gage_eval.runs import RunOptions

# A worker loads this file by its path, wherever its own folder stands on Python's path.
with packages_beside():
    from flows.runner import run_in_flow, run_name, task_runner


@flow(name="evaluate", flow_run_name=run_name, task_runner=task_runner(), persist_result=False)
def evaluate(
    config: str,
    text: str | None = None,
    store: str | None = None,
    run_id: str | None = None,
    output_dir: str | None = None,
    max_samples: int | None = None,
    sample_ids: list[str] | None = None,
    model_path: str | None = None,
    concurrency: int | None = None,
    overrides: list[str] | None = None,
    refresh: list[str] | None = None,
    resume: bool = False,
    only_errors: bool = False,
) -> str:
    """Evaluate one task: load, standardize, preprocess, infer, judge, score, report.

    Args:
        config: Path of a config file with one task, as the worker sees it.
        text: The config itself as YAML; its relative paths start from the folder given as config.
        store: Where artifacts live, a folder or s3://bucket/prefix.
        run_id: Name of the run; a fresh one by default.
        output_dir: Where run folders live; <store>/runs by default.
        max_samples: At most this many rows.
        sample_ids: Only these samples.
        model_path: Checkpoint, for engines that load one.
        concurrency: Requests in flight.
        overrides: Changes of the config, each as path=value.
        refresh: Stages to compute again although they are stored.
        resume: Go on with the run of that id.
        only_errors: Ask again only for rows that ended in an error.

    Returns:
        The run's folder.
    """
    return run_in_flow(RunOptions.of(locals()), single=True).folder.url
