"""gage server start, stop, status."""

from typing import Annotated

import typer

from gage_eval.cli.main import app
from gage_eval.cli.options import AsJson

server_app = typer.Typer(help="A local Prefect server with its UI.", no_args_is_help=True)
app.add_typer(server_app, name="server")


@server_app.command("start")
def start(
    port: Annotated[
        int | None, typer.Option("--port", metavar="N", min=1, max=65535, help="4200, or a free one.")
    ] = None,
) -> None:
    """Start the server in the background and wait until it answers."""
    from gage_eval import server

    running, fresh = server.start(port=port)
    state = "started" if fresh else "already running"
    print(f"Prefect server {state}: {running.ui_url}. Stop it: gage server stop")


@server_app.command("stop")
def stop() -> None:
    """Stop the server."""
    from gage_eval import server

    print("Prefect server stopped." if server.stop() else "No Prefect server is running for this folder.")


@server_app.command("status")
def status(json: AsJson = False) -> None:
    """Show whether the server is running."""
    from gage_eval import server
    from gage_eval.cli.output import print_json

    running = server.find()
    if json:
        print_json({"running": running is not None, "url": running.ui_url if running else None})
    elif running:
        print(f"Prefect server is running: {running.ui_url} (process {running.pid}).")
    else:
        print("No Prefect server is running for this folder. Start one: gage server start")
