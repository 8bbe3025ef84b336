"""The flow of an engine's server: it runs on a machine of a GPU pool as long as a run needs it."""

from typing import Any

from prefect import flow, runtime
from prefect.client.schemas import State
from prefect.states import Completed

from blocks import PrefectBlocks
from flows.log_lines import log_lines
from flows.worker import on_worker
from gage_eval.config.settings import load_settings
from gage_eval.engine.serving import serve as serve_engine
from gage_eval.store import Store


def run_name() -> str:
    """Name of the flow run: the engine's key and the server's name, both shortened."""
    parameters = runtime.flow_run.parameters
    return f"serve-{str(parameters.get('key', ''))[:8]}-{str(parameters.get('server', ''))[:4]}"


@flow(name="serve", flow_run_name=run_name, persist_result=False)
@on_worker
def serve(store: str, key: str, server: str) -> State[Any]:
    """Serve an engine: start it, announce it in the store, and end it when no run needs it any more.

    Runs that place a model on this work pool start it. There is no need to start it by hand.

    Args:
        store: URL of the store, which this machine can read and write.
        key: The engine's key; its spec is in the store.
        server: The name of the server.
    """
    with log_lines(runtime.flow_run.id):
        settings = load_settings()
        host, tls = settings.serve_host, settings.serve_tls
        why = serve_engine(Store.open(store), key, server, host=host, tls=tls, blocks=PrefectBlocks())
    return Completed(message=why)
