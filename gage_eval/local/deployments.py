"""The deployments of the flows: one per suite, one for any config, and those for maintenance.

`all_deployments` is the one list. `gage deploy` brings it to a Prefect server (`flows.deploy`), and
``deployments/prefect.yaml`` is generated from it (`tools.deployment_files`). A new deployment is one entry here, and
its flow one entry of `gage_eval.local.entrypoints`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gage_eval.base.liveness import LOST_AFTER_S
from gage_eval.config.suites.templates import SuiteInfo, list_suites
from gage_eval.local.entrypoints import entrypoint
from gage_eval.models.backends.placement import HERE

# Every deployment has this tag, so that the UI can show ours alone.
TAG = "gage-eval"
MAINTENANCE_TAG = "maintenance"
POOL = "local"
AUTOMATION = "–"
# The variables of a server that have what forms propose: the store of the runs, and the work pool of engines.
STORE_VARIABLE = "gage_eval_store"
GPU_POOL_VARIABLE = "gage_eval_gpu_pool"
# The flows, by their names at the server, whose runs are marked as lost when their process is gone; and those that are
# then resumed. A lost server needs no resume: the runs that need it start another one.
WATCHED_FLOWS = ("suite", "evaluate", "nightly", "triage", "serve", "cache-gc", "cache-verify", "warm-models")
RESUMED_FLOWS = ("suite", "evaluate", "nightly")
# A run that a night or a triage carries out as a part of the night's or triage's flow run.
INNER_FLOW = "inner-run"

Change: TypeAlias = Literal["created", "updated", "removed", "unchanged"]


@dataclass(frozen=True)
class Deployment:
    """A flow that can be started from the Prefect UI.

    Attributes:
        flow: its flow, by its name in `gage_eval.local.entrypoints`.
        name: its name in the UI.
        description: Markdown that the UI shows above the form.
        tags: of the deployment and of its runs, in addition to `TAG`.
        parameters: the values that the form has at first, where they differ from the flow's own.
        job_variables: the job variables of its runs, where they differ from the pool's.
        pool: its work pool, None for that of ``--pool``.
        concurrency: how many of its runs run at once, None for any number. Further ones wait.
        cron: when it is started, None for only on demand.
        timezone: of ``cron``.
    """

    flow: str
    name: str
    description: str
    tags: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    job_variables: Mapping[str, Any] = field(default_factory=dict)
    pool: str | None = None
    concurrency: int | None = None
    cron: str | None = None
    timezone: str = "UTC"

    @property
    def entrypoint(self) -> str:
        """What Prefect imports to run it."""
        return entrypoint(self.flow)

    @property
    def all_tags(self) -> list[str]:
        """Its tags with `TAG`, sorted."""
        return sorted({TAG, *self.tags})


@dataclass(frozen=True, kw_only=True)
class DeployOptions:
    """What is brought to a server.

    Attributes:
        pool: the work pool of the runs; `POOL` is created if it is not there.
        gpu_pools: the work pools of engines, each with the deployments `serve`, `evaluate` and `warm-models`. The
            engines that forms start are served by the first one.
        box_pools: the work pools that run programs in boxes, each with the deployment `serve`.
        store: the store of the runs, unless a form names another one.
        working_dir: the folder of runs in the pool `POOL`, for the server of a folder.
        nightly: a file of nightly runs to deploy too. The files that its configs need go into the store.
        lost_after_s: a run that has sent no heartbeat for so long is lost.
        dry_run: change nothing.
    """

    store: str
    pool: str = POOL
    gpu_pools: Sequence[str] = ()
    box_pools: Sequence[str] = ()
    working_dir: str | None = None
    nightly: Path | None = None
    lost_after_s: int = LOST_AFTER_S
    dry_run: bool = False


@dataclass(frozen=True)
class DeploymentChange:
    """What was done with a deployment.

    Attributes:
        name: ``flow/name``, as Prefect names it; or the name of an automation.
        pool: its work pool; `AUTOMATION` for an automation, which has none.
        change: created, updated, removed or unchanged; with a dry run, what would be done.
    """

    name: str
    pool: str
    change: Change


EVALUATE = Deployment(
    flow="evaluate",
    name="evaluate",
    description="Evaluate a config of your own: the path of a file that the worker can read, or its text.",
)
# They have no schedule of their own, because only the operator knows when the store is idle.
MAINTENANCE = (
    Deployment(
        flow="cache_gc",
        name="cache-gc",
        description="Remove what no run and no baseline needs from the store.",
        tags=(MAINTENANCE_TAG,),
        concurrency=1,
    ),
    Deployment(
        flow="cache_verify",
        name="cache-verify",
        description="Read everything in the store again, and list what is damaged.",
        tags=(MAINTENANCE_TAG,),
        concurrency=1,
    ),
)


TRIAGE = Deployment(
    flow="triage",
    name="triage",
    description="Find out why a run is worse than its baseline: ask again, and list what differs.",
    tags=("regression",),
)


_ENGINES = "Serve models for the runs that place them on this work pool. Runs start it; do not start it by hand."
_BOX = "Run programs in boxes for the runs that place them on this work pool. Runs start it; do not start it by hand."


def all_deployments(gpu_pools: Iterable[str], box_pools: Iterable[str] = ()) -> list[Deployment]:
    """All deployments: those of the suites in the order of ``gage list suites``, and then the others.

    Args:
        gpu_pools: the work pools of engines. Each has a deployment of the flows `serve`, `evaluate` and `warm-models`.
        box_pools: the work pools of boxes. Each has a deployment of the flow `serve`.
    """
    engines = [deployment for pool in dict.fromkeys(gpu_pools) for deployment in _of_engines(pool)]
    boxes = [_serve(pool, "box", _BOX) for pool in dict.fromkeys(box_pools) if pool not in gpu_pools]
    return [*map(_of_suite, list_suites()), EVALUATE, *engines, *boxes, TRIAGE, *MAINTENANCE]


def evaluate_on(pool: str) -> str:
    """The name of the deployment whose runs are carried out on a GPU pool as a whole."""
    return f"evaluate-{pool}"


def _serve(pool: str, tag: str, description: str) -> Deployment:
    return Deployment(flow="serve", name=f"serve-{pool}", description=description, tags=(tag,), pool=pool)


def _of_engines(pool: str) -> tuple[Deployment, ...]:
    return (
        _serve(pool, "engine", _ENGINES),
        Deployment(
            flow="evaluate",
            name=evaluate_on(pool),
            description="Evaluate a config or a suite as a whole on this work pool, next to the engine that it starts.",
            tags=("engine",),
            parameters={"model": {"work_pool": HERE}},
            pool=pool,
        ),
        Deployment(
            flow="warm_models",
            name=f"warm-models-{pool}",
            description=(
                "Fetch models into the model cache of this work pool, so that engines there start without a download. "
                "It needs no GPU."
            ),
            tags=("engine", MAINTENANCE_TAG),
            job_variables={"gpus": 0},
            pool=pool,
            concurrency=1,
        ),
    )


def _of_suite(suite: SuiteInfo) -> Deployment:
    return Deployment(
        flow="suite_with_model" if suite.needs_model else "suite",
        name=suite.name,
        description=_description(suite),
        tags=("suite",),
        parameters={"suite": suite.name},
    )


def _description(suite: SuiteInfo) -> str:
    card = suite.card
    lines = [f"{suite.description}."]
    if card is not None:
        facts = {
            "Rows": f"{card.rows:,}",
            "Metric": f"`{card.metric}`",
            "Needs": ", ".join(card.needs),
            "Licence": card.licence,
        }
        lines += ["", *(f"- {name}: {text}" for name, text in facts.items() if text)]
    return "\n".join(lines)
