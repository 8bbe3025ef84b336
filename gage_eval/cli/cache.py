"""gage cache ls, verify, gc."""

import re
from typing import Annotated

import typer

from gage_eval.cli.main import app
from gage_eval.cli.options import AsJson, OutputDir, Store

cache_app = typer.Typer(help="What the store holds.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")

_AGE = re.compile(r"(\d{1,9})\s*([smhdw]?)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@cache_app.command("ls")
def ls(store: Store = None, json: AsJson = False) -> None:
    """List the artifacts, oldest first."""
    from datetime import UTC, datetime

    from gage_eval.cli.output import print_json, print_table
    from gage_eval.report.console import counted, size_text
    from gage_eval.runs.options import Locations
    from gage_eval.store import Store as ArtifactStore

    listed = ArtifactStore.open(Locations.at(store).store, read_only=True).ls()
    if json:
        print_json(
            [
                {
                    "id": one.id,
                    "table": one.table,
                    "rows": one.rows,
                    "complete": one.complete,
                    "bytes": one.bytes,
                    "written": datetime.fromtimestamp(one.mtime, UTC).isoformat(timespec="seconds"),
                    "actions": list(one.actions),
                }
                for one in listed
            ]
        )
        return
    print_table(
        ("artifact", "table", "rows", "size", "written", "of"),
        [
            (
                one.id[:8],
                (one.table or "damaged") + ("" if one.complete or not one.table else " (incomplete)"),
                f"{one.rows:,}",
                size_text(one.bytes),
                datetime.fromtimestamp(one.mtime, UTC).strftime("%Y-%m-%d %H:%M"),
                ", ".join(sorted({action.partition("/")[0] for action in one.actions})) or "–",
            )
            for one in listed
        ],
        right=("rows", "size"),
    )
    print(f"{counted(len(listed), 'artifact')}, {size_text(sum(one.bytes for one in listed))}.")


@cache_app.command("verify")
def verify(
    store: Store = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Delete damaged objects; the next run computes them again.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Read everything again and list what is damaged.

    Exits with 1 if anything is damaged.
    """
    import shlex

    from gage_eval.cli.output import print_json
    from gage_eval.report.console import clean
    from gage_eval.runs.options import Locations
    from gage_eval.store import Store as ArtifactStore

    findings = ArtifactStore.open(Locations.at(store).store, read_only=not remove).verify(remove=remove)
    if json:
        print_json([{"path": finding.path, "problem": finding.problem} for finding in findings])
    else:
        for finding in findings:
            print(clean(f"{finding.path}: {finding.problem}"))
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    min_age: Annotated[
        str, typer.Option("--min-age", metavar="AGE", help="Keep everything younger than this: 90s, 30m, 12h, 7d, 4w.")
    ] = "30d",
    forget: Annotated[
        str | None,
        typer.Option("--forget-root", metavar="DIR", help="A runs root that is gone for good: its runs keep nothing."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Remove what no run and no baseline needs."""
    import time

    from gage_eval.cli.output import print_json
    from gage_eval.report.console import counted, size_text
    from gage_eval.runs.options import Locations
    from gage_eval.runs.roots import find_roots, forget_root
    from gage_eval.store import Store as ArtifactStore

    age = _seconds(min_age)
    locations = Locations.at(store, output_dir)
    ArtifactStore.open(locations.store, read_only=True)  # an empty store is not created only for gc
    opened = ArtifactStore.open(locations.store)
    roots = find_roots(opened, locations, gone=forget)
    if forget is not None and not dry_run:
        forget_root(opened, forget)
    if roots.since is not None:
        age = max(age, time.time() - roots.since)
    report = opened.gc(roots.artifacts, unfinished=roots.unfinished, dry_run=dry_run, min_age_s=age)
    if json:
        print_json(
            {
                "dry_run": report.dry_run,
                "objects": report.objects,
                "bytes": report.bytes,
                "kept": report.kept,
                "paths": list(report.paths),
                "runs": roots.runs,
                "folders": list(roots.folders),
                "under_way": list(roots.under_way),
            }
        )
        return
    if roots.under_way:
        print(f"Running: {', '.join(roots.under_way)}. Nothing younger than the start of the oldest one is removed.")
    word = "would be removed" if dry_run else "removed"
    kept = counted(report.kept, "artifact")
    print(
        f"{counted(report.objects, 'object')}, {size_text(report.bytes)} {word}; {kept} kept "
        f"({counted(roots.runs, 'run')} in {', '.join(roots.folders)} read)."
    )


def _seconds(text: str) -> float:
    from gage_eval.errors import InputError

    match = _AGE.fullmatch(text.strip().lower())
    if match is None:
        raise InputError(
            f"--min-age '{text}' is not an age: give a number with a unit, such as 90s, 30m, 12h, 7d or 4w."
        )
    return float(int(match[1]) * _UNITS[match[2]])
