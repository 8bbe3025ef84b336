"""The flow of many tasks."""

from prefect import flow

from gage_eval.packaged import packages_beside
from gage_eval.runs import RunOptions

# A worker loads this file by its path, wherever its own folder stands on Python's path.
with packages_beside():
    from flows.runner import run_in_flow, run_name, task_runner


@flow(name="suite", flow_run_name=run_name, task_runner=task_runner(), persist_result=False)
def suite(
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
    """Evaluate all tasks of a config or of a built-in suite, side by side.

    Args:
        config: Path of a config file as the worker sees it, or suite:NAME for a built-in suite.
        text: The config itself as YAML; its relative paths start from the folder given as config.
        store: Where artifacts live, a folder or s3://bucket/prefix.
        run_id: Name of the run; a fresh one by default.
        output_dir: Where run folders live; <store>/runs by default.
        max_samples: At most this many rows of each task.
        sample_ids: Only these samples.
        model_path: Checkpoint, for engines that load one.
        concurrency: Requests in flight, for every endpoint.
        overrides: Changes of the config, each as path=value.
        refresh: Stages to compute again although they are stored.
        resume: Go on with the run of that id.
        only_errors: Ask again only for rows that ended in an error.

    Returns:
        The run's folder.
    """
    return run_in_flow(RunOptions.of(locals())).folder.url
