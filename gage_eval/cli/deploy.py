"""gage deploy."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from gage_eval.base.liveness import LEAST_LOST_AFTER_S, LOST_AFTER_S
from gage_eval.cli.main import app
from gage_eval.cli.options import AsJson, Store, flag, option
from gage_eval.cli.output import print_json, print_table


@app.command()
def deploy(
    pool: Annotated[
        str | None, option("NAME", "Work pool of the runs; by default local, which is created if it is missing.")
    ] = None,
    gpu_pools: Annotated[
        list[str] | None, option("NAME", "Work pool of engines that need a GPU. May be repeated.", "--gpu-pool")
    ] = None,
    box_pools: Annotated[
        list[str] | None, option("NAME", "Work pool that runs programs in boxes. May be repeated.", "--box-pool")
    ] = None,
    store: Store = None,
    nightly: Annotated[
        Path | None, option("FILE", "Also deploy the nightly runs of this file, with their schedule.")
    ] = None,
    lost_after: Annotated[
        int,
        option(
            "SECONDS", "A run without a heartbeat for this long is lost, and is resumed once.", min=LEAST_LOST_AFTER_S
        ),
    ] = LOST_AFTER_S,
    dry_run: Annotated[bool, flag("Only show what would change.", "--dry-run")] = False,
    json: AsJson = False,
) -> None:
    """Create or update deployments on a Prefect server, one per suite.

    Other deployments stay as they are.
    """
    from gage_eval.local import launch
    from gage_eval.regression.nightly import Nightly
    from gage_eval.report.console import clean

    if nightly is not None:
        # Its mistakes are reported also where no server is there.
        Nightly.read(nightly)
    deployed = launch.deploy(
        pool=pool,
        gpu_pools=gpu_pools or (),
        box_pools=box_pools or (),
        store=store,
        nightly=nightly,
        lost_after_s=lost_after,
        dry_run=dry_run,
        tell=lambda note: typer.echo(f"note: {clean(note)}", err=True),
    )
    if json:
        print_json({"dry_run": dry_run, "deployments": deployed})
        return
    words = {"created": "to create", "updated": "to update", "removed": "to remove"} if dry_run else {}
    changed = [deployment for deployment in deployed if deployment.change != "unchanged"]
    if changed:
        rows = [
            (deployment.name, deployment.pool, words.get(deployment.change, deployment.change))
            for deployment in changed
        ]
        print_table(("deployment", "pool", "change"), rows)
    counts: Counter[str] = Counter(deployment.change for deployment in deployed)
    order = ("created", "updated", "removed", "unchanged")
    parts = [f"{counts[change]} {words.get(change, change)}" for change in order if counts[change]]
    nothing = "; nothing was changed" if dry_run else ""
    print(f"{len(deployed)} deployments and automations: {', '.join(parts)}{nothing}.")
