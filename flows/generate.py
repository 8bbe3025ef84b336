"""The flow of a shard: it serves model sessions on the machine of a work pool."""

from typing import Any

from prefect import flow, runtime
from prefect.client.schemas import State
from prefect.states import Cancelled, Completed

from blocks import PrefectBlocks
from flows.flow_run import log_lines
from flows.worker import on_worker
from gage_eval.base.errors import RunCancelled
from gage_eval.runs.shard import serve_at


def run_name() -> str:
    """Name of the flow run: the group and the shard's number."""
    group = str(runtime.flow_run.parameters.get("group", "")).rstrip("/").rpartition("/")[2]
    return f"shard-{group[:8]}-{runtime.flow_run.parameters.get('shard', 0)}"


@flow(name="generate", flow_run_name=run_name, persist_result=False)
@on_worker
def generate(group: str, shard: int = 0) -> State[Any]:
    """Serve model sessions: start the engine once and answer the requests, together with other shards.

    Runs that place a model on this work pool start it. There is no need to start it by hand.

    Args:
        group: URL of the group of shards, in a store that this machine can read and write.
        shard: The number of the shard, counted from 0.
    """
    with log_lines(runtime.flow_run.id):
        try:
            sent = serve_at(group, shard, blocks=PrefectBlocks())
        except RunCancelled as ended:
            return Cancelled(message=f"The session has ended: {ended}")
    return Completed(message=f"{sent:,} requests sent")
