"""gage score."""

from typing import Annotated

from gage_eval.base.errors import InputError, RunFailed
from gage_eval.cli.main import app
from gage_eval.cli.options import OutputDir, RunId, Store, SummaryAsJson, argument, flag, option
from gage_eval.cli.output import shown_location
from gage_eval.cli.places import located


@app.command()
def score(
    run: Annotated[str, argument("RUN", "The run whose responses are scored.")],
    metric: Annotated[
        list[str],
        option(
            "METRIC",
            "A name as the table prints it, such as 'gsm8k pass@2', name(key='value', filters=['boxed']), or "
            "{name: {key: value}}. May be repeated.",
        ),
    ],
    task: Annotated[list[str] | None, option("ID", "Only this task. May be repeated.")] = None,
    save: Annotated[bool, flag("Save the scores as a separate run.", "--save")] = False,
    run_id: RunId = None,
    store: Store = None,
    output_dir: OutputDir = None,
    json: SummaryAsJson = False,
) -> None:
    """Score a stored run with other metrics."""
    from gage_eval.config.settings import load_settings
    from gage_eval.extend.tuning import tune_process
    from gage_eval.pipeline.score_row import metric_spec
    from gage_eval.report.console import print_scores
    from gage_eval.runs.rescore import as_in_run, rescore
    from gage_eval.runs.results.stored import StoredRun
    from gage_eval.store import Store as ArtifactStore

    if run_id is not None and not save:
        raise InputError("--run-id needs --save: it names the saved run.")
    tune_process()
    locations = located(store, output_dir)
    stored = StoredRun.open(locations, run)
    rescored = rescore(
        stored,
        ArtifactStore.open(locations.store),
        [as_in_run(stored, metric_spec(text)) for text in metric],
        tasks=task or (),
        processes=load_settings().autoeval_workers,
    )
    folder = rescored.save(run_id) if save else None
    if json:
        print(rescored.summary.model_dump_json(indent=2))
    else:
        print_scores(rescored.summary, report=shown_location(folder.location("report.html")) if folder else None)
        if folder:
            print(f"saved as run {folder.run_id}")
    if rescored.without_score:
        raise RunFailed("\n".join(rescored.without_score))
