"""gage deploy."""

from pathlib import Path
from typing import Annotated

import typer

from gage_eval.cli.main import app
from gage_eval.cli.options import AsJson, Store


@app.command()
def deploy(
    pool: Annotated[
        str | None,
        typer.Option("--pool", metavar="NAME", help="Work pool of the runs: local, which is created if missing."),
    ] = None,
    gpu_pool: Annotated[
        str | None, typer.Option("--gpu-pool", metavar="NAME", help="Work pool of engines that need a GPU.")
    ] = None,
    store: Store = None,
    nightly: Annotated[
        Path | None,
        typer.Option("--nightly", metavar="FILE", help="Deploy this file of nightly runs too, with its schedule."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    json: AsJson = False,
) -> None:
    """Bring the flows to a Prefect server, one deployment per suite. What is there already stays untouched."""
    from dataclasses import asdict

    from gage_eval import launch
    from gage_eval.cli.output import print_json, print_table

    deployed = launch.deploy(pool=pool, gpu_pool=gpu_pool, store=store, nightly=nightly, dry_run=dry_run)
    if json:
        print_json({"dry_run": dry_run, "deployments": [asdict(one) for one in deployed]})
        return
    words = {"created": "to create", "updated": "to update"} if dry_run else {}
    changed = [one for one in deployed if one.change != "unchanged"]
    if changed:
        rows = [(one.name, one.pool, words.get(one.change, one.change)) for one in changed]
        print_table(("deployment", "pool", "change"), rows)
    counts = {change: sum(one.change == change for one in deployed) for change in ("created", "updated", "unchanged")}
    parts = [f"{count} {words.get(change, change)}" for change, count in counts.items() if count]
    nothing = "; nothing was changed" if dry_run else ""
    print(f"{len(deployed)} deployments and automations: {', '.join(parts)}{nothing}.")
