"""gage server start, stop, status."""

from typing import Annotated

from gage_eval.cli.main import command_group
from gage_eval.cli.options import AsJson, flag, option
from gage_eval.cli.output import print_json
from gage_eval.cli.places import located

server_app = command_group("server", "Start and stop a local Prefect server with UI and worker.")


@server_app.command("start")
def start(
    port: Annotated[
        int | None, option("N", "Port of the server; 4200, or a free one, by default.", min=1, max=65535)
    ] = None,
    no_worker: Annotated[bool, flag("Start no worker, and create no deployments.", "--no-worker")] = False,
    no_viewer: Annotated[bool, flag("Do not start the viewer of runs.", "--no-viewer")] = False,
    viewer_port: Annotated[
        int | None, option("N", "Port of the viewer; 4280, or a free one, by default.", min=1, max=65535)
    ] = None,
) -> None:
    """Start the server in the background, with a worker, a deployment per suite and the viewer."""
    from gage_eval.local import launch, server, viewer_service
    from gage_eval.local.deployments import AUTOMATION, POOL

    with server.one_at_a_time(port=port):
        running, fresh = server.start(port=port)
        # Runs whose server was gone at their end, or whose process was killed, have not been reported yet.
        launch.report_newest_ended_runs(located())
        state = "started" if fresh else "already running"
        print(f"Prefect server {state}: {running.url}", flush=True)
        print(f"The UI asks for this login once: {server.login()}", flush=True)
        if not no_worker:
            deployed = [deployment for deployment in launch.deploy(running.api_url) if deployment.pool != AUTOMATION]
            state = "started" if server.start_worker(running, POOL) else "already running"
            print(f"Worker {state}: it runs the {len(deployed)} deployments of the UI in this folder.")
        if not no_viewer:
            viewer, fresh = viewer_service.start(server.HOME, viewer_port)
            print(f"Viewer {'started' if fresh else 'already running'}: {viewer.link(server.HOME)}", flush=True)
    print("Stop it: gage server stop")


@server_app.command("stop")
def stop() -> None:
    """Stop the server, its worker and the viewer. Runs of the worker stop too; `gage resume` continues them."""
    from gage_eval.local import server

    print("Prefect server stopped." if server.stop() else "No Prefect server is running for this folder.")


@server_app.command("status")
def status(json: AsJson = False) -> None:
    """Show whether the server, its worker and the viewer are running."""
    from gage_eval.local import server
    from gage_eval.local.viewer_service import VIEWER

    running, worker, viewer = server.find(), server.WORKER.find(server.HOME), VIEWER.find(server.HOME)
    if json:
        urls = {"url": running and running.url, "viewer": viewer and viewer.url}
        print_json({"running": running is not None, "worker": worker is not None, **urls})
        return
    if running:
        print(f"Prefect server is running: {running.url} (process {running.pid}).")
        print(f"The login that its UI asks for once is in {server.login_file()}.")
        if worker is not None:
            print(f"Its worker is running (process {worker.pid}).")
        else:
            print("It has no worker: runs that the UI starts wait. Start one: gage server start")
    else:
        print("No Prefect server is running for this folder. Start one: gage server start")
    if viewer:
        print(f"The viewer is running: {viewer.link(server.HOME)} (process {viewer.pid}).")
    elif running:
        print("It has no viewer. Start one: gage server start")
