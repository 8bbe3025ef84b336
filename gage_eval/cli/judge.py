"""gage judge."""

from typing import Annotated

from gage_eval.base.errors import InputError
from gage_eval.cli.main import app
from gage_eval.cli.options import Inline, OutputDir, Prefect, Quiet, RunId, Store, SummaryAsJson, argument, flag, option
from gage_eval.cli.places import located


@app.command()
def judge(
    run: Annotated[str, argument("RUN", "The run whose answers are judged.")],
    only_failed: Annotated[
        bool, flag("In the same run, ask only for the verdicts that are missing.", "--only-failed")
    ] = False,
    judge: Annotated[
        str | None, option("NAME", "Another judge of the config, or the model that its judge is to have.")
    ] = None,
    judge_endpoint: Annotated[str | None, option("URL", "URL of the judge's server.")] = None,
    run_id: RunId = None,
    store: Store = None,
    output_dir: OutputDir = None,
    inline: Inline = False,
    prefect: Prefect = False,
    quiet: Quiet = False,
    json: SummaryAsJson = False,
) -> None:
    """Judge the stored answers of a run again, as a new run. The model under test is not asked."""
    from gage_eval.cli.runs import carry_out
    from gage_eval.runs.rejudge import judged_anew
    from gage_eval.runs.rejudge import only_failed as only_failed_of
    from gage_eval.runs.results.stored import StoredRun

    stored = StoredRun.open(located(store, output_dir), run)
    if only_failed:
        new = {"--judge": judge, "--judge-endpoint": judge_endpoint, "--run-id": run_id}
        option = next((name for name, value in new.items() if value is not None), None)
        if option is not None:
            raise InputError(f"--only-failed asks the run's own judge, in the same run: leave out {option}.")
        options = only_failed_of(stored)
    else:
        options = judged_anew(stored, judge, judge_endpoint, run_id)
    carry_out(options, inline=inline, prefect=prefect, submit=False, quiet=quiet, json=json)
