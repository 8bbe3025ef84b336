"""gage migrate."""

from pathlib import Path
from typing import Annotated

from gage_eval.cli.main import app
from gage_eval.cli.options import argument, option
from gage_eval.cli.output import print_table, say


@app.command()
def migrate(
    file: Annotated[Path, argument("FILE", "A config of promptfoo, llm-eval or GAGE; samples of OpenAI Evals.")],
    tool: Annotated[
        str | None, option("TOOL", "gage, llm-eval, openai-evals or promptfoo; told by the content.", "--from")
    ] = None,
    to: Annotated[Path | None, option("DIR", "The folder for config, data and report.")] = None,
) -> None:
    """Turn another tool's config into ours, with a report of each key."""
    from gage_eval.authoring.migrate import migrate as migrated
    from gage_eval.authoring.migration import CONFIG, REPORT, write_migration

    migration = migrated(file, tool)
    folder = to or Path("migrated") / file.name.split(".")[0]
    write_migration(migration, file, folder)
    rows = [(str(finding.line or ""), finding.key, finding.state, finding.text) for finding in migration.report]
    print_table(("line", "key", "", ""), rows, right=("line",), stack=True)
    say(f"written to {folder / CONFIG}, with {REPORT} next to it")
    say(f"check it: gage validate {folder / CONFIG}")
