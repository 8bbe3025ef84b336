"""The flow of a shard: it serves a model session on the machine of a work pool."""

from typing import Any

from prefect import flow, runtime
from prefect.client.schemas import State
from prefect.logging import get_run_logger
from prefect.states import Cancelled, Completed

from blocks import PrefectBlocks
from flows.log_lines import log_lines
from flows.worker import on_worker
from gage_eval.errors import RunCancelled
from gage_eval.runs.shard import serve_at


def run_name() -> str:
    """Name of the flow run: the session and the shard's number."""
    session = str(runtime.flow_run.parameters.get("session", "")).rstrip("/").rpartition("/")[2]
    return f"session-{session[:8]}-{runtime.flow_run.parameters.get('shard', 0)}"


@flow(name="generate", flow_run_name=run_name, persist_result=False)
@on_worker
def generate(session: str, shard: int = 0) -> State[Any]:
    """Serve a model session: start its engine once and answer its requests, together with other shards.

    Runs that place a model on this work pool start it. There is no need to start it by hand.

    Args:
        session: URL of the session, in a store that this machine can read and write.
        shard: The number of the shard, counted from 0.
    """
    log = get_run_logger()
    with log_lines(lambda text, level: log.log(level, "%s", text)):
        try:
            sent = serve_at(session, shard, blocks=PrefectBlocks())
        except RunCancelled as ended:
            return Cancelled(message=f"The session has ended: {ended}")
    return Completed(message=f"{sent:,} requests sent")
