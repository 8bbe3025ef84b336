"""Judge the stored answers of a run. The model under test is not asked."""

import json
from collections.abc import Iterator

from gage_eval.base.errors import InputError
from gage_eval.config.model_choice import MODEL_FIELDS
from gage_eval.config.models import PipelineConfig, TaskConfig
from gage_eval.runs.options import RunOptions
from gage_eval.runs.planned import config_before, options_before
from gage_eval.runs.results.stored import StoredRun
from gage_eval.runs.resume import resumed


def only_failed(stored: StoredRun) -> RunOptions:
    """The options that resume a run for the verdicts that it lacks: failed requests, and answers without a verdict.

    Raises:
        InputError: the run cannot be resumed.
    """
    locations = stored.folder.locations
    options = resumed(stored.run_id, store=locations.store, output_dir=locations.runs)
    return options.model_copy(update={"judge_only": True})


def judged_anew(
    stored: StoredRun, judge: str | None = None, endpoint: str | None = None, run_id: str | None = None
) -> RunOptions:
    """The options of a new run that judges the answers of a stored one, with its config as it was.

    Args:
        stored: the run.
        judge: another judge of the config, or the model that its judge is to have; the same judge is asked again
            otherwise.
        endpoint: URL of that model's server.
        run_id: name of the new run.

    Raises:
        InputError: no task of the run has a judge, or the judge cannot be replaced by this one.
    """
    config = config_before(stored)
    judged = [task for task in config.tasks if task.judge_adapter_id is not None or task.judges]
    if not judged:
        raise InputError(f"no task of run {stored.run_id} has a judge: add one to its config and run it.")
    options = options_before(stored)
    update: dict[str, object] = {"run_id": run_id, "judge_only": True, "refresh": ()}
    if judge is None and endpoint is None:
        update["refresh"] = ("judge",)
    elif options.judges:
        update |= {} if judge is None else {"judges": (judge,)}
        update |= {} if endpoint is None else {"judge_endpoint": endpoint}
    else:
        update["overrides"] = (*options.overrides, *_changes(config, judged, judge, endpoint))
    return options.model_copy(update=update)


def _changes(
    config: PipelineConfig, judged: list[TaskConfig], judge: str | None, endpoint: str | None
) -> Iterator[str]:
    """Changes of the config that give its tasks another judge."""
    adapters = {adapter.adapter_id: adapter for adapter in config.role_adapters}
    panel = next((task.task_id for task in judged if task.judges), None)
    if panel is not None:
        raise InputError(f"task '{panel}' has a panel: change its judges in the config and run it; answers are reused.")
    if judge in adapters and adapters[judge].role_type == "judge_model" and endpoint is None:
        for task in judged:
            yield f"tasks.{task.task_id}.judge_adapter_id={judge}"
        return
    of_models = {adapter.backend_id for adapter in adapters.values() if adapter.role_type != "judge_model"}
    for name in dict.fromkeys(str(task.judge_adapter_id) for task in judged):
        adapter = adapters[name]
        inline = adapter.backend
        if inline is None and adapter.backend_id in of_models:
            raise InputError(
                f"judge '{name}' has the backend of the model under test: give it its own in the config and run it; "
                "answers are reused."
            )
        backend = inline or next(entry for entry in config.backends if entry.backend_id == adapter.backend_id)
        place = f"role_adapters.{name}.backend" if inline is not None else f"backends.{adapter.backend_id}"
        field = next((known for known in MODEL_FIELDS if known in backend.config), None)
        if judge is not None and field is None:
            raise InputError(f"backend type '{backend.type}' of judge '{name}' names no model: name another judge of "
                             "the config, or change the config and run it; answers are reused.")  # fmt: skip
        if judge is not None:
            yield f"{place}.config.{field}={json.dumps(judge)}"
        if endpoint is not None:
            yield f"{place}.config.base_url={json.dumps(endpoint)}"
