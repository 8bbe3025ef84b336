"""gage view: stored runs in the browser."""

from pathlib import Path
from typing import Annotated

from gage_eval.base.errors import InputError
from gage_eval.base.files import local_path
from gage_eval.cli.main import app
from gage_eval.cli.options import OutputDir, Store, argument, flag, option
from gage_eval.cli.places import located, open_run


@app.command()
def view(
    runs: Annotated[list[str] | None, argument("[RUN]…", "Open this run; with several, compare them.")] = None,
    task: Annotated[str | None, option("ID", "Open this task.")] = None,
    sample: Annotated[str | None, option("ID", "Open this sample.")] = None,
    against: Annotated[str | None, option("RUN", "Open the answers that got worse since this run.")] = None,
    labels: Annotated[list[Path] | None, option("FILE", "Label the answers of this file; may be repeated.")] = None,
    port: Annotated[
        int | None, option("N", "Port of the viewer; 4280, or a free one, by default.", min=1, max=65535)
    ] = None,
    texts: Annotated[
        bool, flag("Make the texts of a store on S3 searchable, which fetches them all.", "--texts")
    ] = False,
    no_open: Annotated[bool, flag("Print the address, and open no browser.", "--no-open")] = False,
    store: Store = None,
    output_dir: OutputDir = None,
) -> None:
    """Look at runs in the browser: what is wrong, and why."""
    from urllib.parse import quote, urlencode

    from gage_eval.config.settings import load_settings
    from gage_eval.report.console import clean
    from gage_eval.runs.results.label_file import LabelFile
    from gage_eval.viewer.server import ViewerServer

    if not runs:
        options = {"--task": task, "--sample": sample, "--against": against}
        for option, value in options.items():
            if value is not None:
                raise InputError(f"{option} needs a run: gage view RUN {option} {value}")
    for file in labels or ():
        LabelFile(file).rows()
    locations = located(store, output_dir)
    settings = load_settings()
    for name in [*(runs or ()), *([against] if against is not None else [])]:
        reader = open_run(locations, name)
        if task is not None:
            reader.task(task)
    server = ViewerServer(
        locations,
        local_path(settings.viewer_cache, Path()),
        token=settings.viewer_token,
        public_url=settings.viewer_url,
        port=port,
        texts=texts,
        announce=lambda text: print(clean(text), flush=True),
        label_files=labels or (),
    )
    path = "/labels" if labels and not runs else "/"
    if runs:
        path += f"runs/{quote(runs[-1])}"
        flips = None if against is None else "flip:worse"
        parameters = (("task", task), ("id", sample), ("against", against), ("q", flips))
        query = {name: value for name, value in parameters if value is not None}
        if len(runs) > 1:
            path, query = f"{path}/compare", {**query, "with": ",".join(runs[:-1])}
        elif query:
            path += "/sample" if sample is not None else "/samples"
        path += f"?{urlencode(query)}" if query else ""
    shown = server.url + path if settings.viewer_token else server.link(path)
    print(f"gage view: {shown}")
    print("Stop it with Ctrl-C.", flush=True)
    if not no_open:
        import webbrowser

        webbrowser.open(server.link(path))
    server.serve()
