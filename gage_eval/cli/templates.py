"""gage distill, init."""

from pathlib import Path
from typing import Annotated, Literal

from gage_eval.base.files import write_new
from gage_eval.cli.main import app
from gage_eval.cli.options import Config, argument, flag, option

Modes = Literal["run-config", "pipeline-config"]


@app.command()
def distill(
    config: Config,
    name: Annotated[str, option("NAME", "Name of the suite.")],
    version: Annotated[str | None, option("vN", "Its version; the next free one by default.")] = None,
    force_merge: Annotated[bool, flag("Make one template of a config with several tasks.", "--force-merge")] = False,
    out: Annotated[Path | None, option("DIR", "Folder of suites; 'suites' by default.")] = None,
) -> None:
    """Make a suite out of a config, pinned by a digest."""
    from gage_eval.authoring.distill import distilled

    made = distilled(Path(config), name, version=version, force_merge=force_merge, folder=out)
    write_new(made.file, made.text)
    kind = "one template of all" if len(made.tasks) > 1 else "one task"
    print(f"{made.file}: {name} {made.version}, {kind} ({', '.join(made.tasks)}), digest {made.digest[:12]}.")
    print(f"Run it: gage run {made.file}    Make a RunConfig of it: gage init {made.file}")


@app.command()
def init(
    template: Annotated[str, argument("NAME|FILE", "A suite, or the file of a template.")],
    version: Annotated[str | None, option("vN", "Version of the suite; the newest by default.")] = None,
    mode: Annotated[
        Modes,
        option("run-config|pipeline-config", "A RunConfig that is pinned to the template, or a config of your own."),
    ] = "run-config",
    out: Annotated[Path | None, option("FILE", "The file to write.")] = None,
) -> None:
    """Start from a suite: write a RunConfig for it, or its config."""
    from gage_eval.authoring.init import initialised

    made = initialised(template, version=version, mode=mode, out=out)
    write_new(made.file, made.text)
    print(f"{made.file} is written. Fill it in, then: gage run {made.file}")
