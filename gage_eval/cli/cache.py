"""gage cache ls, verify, gc."""

from typing import Annotated

import typer

from gage_eval.cli.main import command_group
from gage_eval.cli.options import AsJson, OutputDir, Store, flag, option
from gage_eval.cli.output import print_json, print_table, say
from gage_eval.cli.places import located

cache_app = command_group("cache", "List, check and clean up what the store holds.")


@cache_app.command("ls")
def ls(store: Store = None, json: AsJson = False) -> None:
    """List the artifacts, oldest first."""
    from gage_eval.report.console import counted, size_text
    from gage_eval.store import Store as ArtifactStore

    listed = ArtifactStore.open(located(store).store, read_only=True).ls()
    if json:
        print_json(listed)
        return
    print_table(
        ("artifact", "table", "rows", "size", "written", "of"),
        [
            (
                artifact.id[:8],
                (artifact.table or "damaged") + ("" if artifact.complete or not artifact.table else " (incomplete)"),
                f"{artifact.rows:,}",
                size_text(artifact.bytes),
                f"{artifact.written:%Y-%m-%d %H:%M}",
                ", ".join(sorted({action.partition("/")[0] for action in artifact.actions})) or "–",
            )
            for artifact in listed
        ],
        right=("rows", "size"),
    )
    print(f"{counted(len(listed), 'artifact')}, {size_text(sum(artifact.bytes for artifact in listed))}.")


@cache_app.command("verify")
def verify(
    store: Store = None,
    remove: Annotated[bool, flag("Delete damaged objects; the next run computes them again.", "--remove")] = False,
    json: AsJson = False,
) -> None:
    """Read everything again and list what is damaged.

    Exits with 1 if anything is damaged.
    """
    import shlex

    from gage_eval.runs.maintenance import verify_store

    findings = verify_store(located(store).store, remove=remove)
    if json:
        print_json(findings)
    else:
        for finding in findings:
            say(f"{finding.path}: {finding.problem}")
        if not findings:
            print("Nothing is damaged.")
        elif remove:
            print(f"{len(findings):,} damaged, removed. The next run computes them again.")
        else:
            there = "" if store is None else f" --store {shlex.quote(store)}"
            print(f"{len(findings):,} damaged. Remove them: gage cache verify --remove{there}")
    if findings:
        raise typer.Exit(1)


@cache_app.command("gc")
def gc(
    store: Store = None,
    output_dir: OutputDir = None,
    dry_run: Annotated[bool, flag("Only show what would be removed.", "--dry-run")] = False,
    min_age: Annotated[str, option("AGE", "Keep everything younger than this: 90s, 30m, 12h, 7d, 4w.")] = "30d",
    forget: Annotated[
        str | None, option("DIR", "A runs root that is gone for good: its runs keep nothing.", "--forget-root")
    ] = None,
    json: AsJson = False,
) -> None:
    """Remove what no run and no baseline needs."""
    from gage_eval.local.launch import deleted_deployments
    from gage_eval.runs.maintenance import collect_garbage

    collected = collect_garbage(
        located(store, output_dir),
        min_age=min_age,
        forget=forget,
        find_deleted=deleted_deployments,
        dry_run=dry_run,
    )
    if not json:
        for line in collected.lines:
            print(line)
        return
    report, roots = collected.report, collected.roots
    print_json(
        {
            **vars(report),
            "runs": roots.runs,
            "folders": list(roots.folders),
            "under_way": list(roots.under_way),
            "deleted_deployments": [record.deployment for record in roots.deleted],
            "unknown": roots.unknown,
        }
    )
