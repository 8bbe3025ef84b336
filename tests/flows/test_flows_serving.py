"""What a job on a work pool is asked for: as many GPUs as its engine needs, and none that another job has."""

from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import WorkPool

from flows.serving import _job_variables, device_ids
from gage_eval.base.errors import InputError
from tools import work_pools


def pool(template: str, *, limit: int | None = None, type_: str = "docker", **defaults: Any) -> WorkPool:
    made = work_pools.templates()[f"{template}.json"]
    for name, value in defaults.items():
        made["variables"]["properties"][name]["default"] = value
    return WorkPool(id=uuid4(), name="gpus", type=type_, base_job_template=made, concurrency_limit=limit)


def test_a_pod_gets_the_gpus_of_its_engine() -> None:
    cluster = pool("kubernetes-gpu-s3", type_="kubernetes")
    assert _job_variables(cluster, 8) == {"gpus": 8}
    assert device_ids(cluster) is None


def test_a_container_has_the_gpus_of_its_pool_and_an_engine_that_needs_more_is_refused() -> None:
    machine = pool("docker-gpu", limit=1, device_ids=["2", "3"])
    assert _job_variables(machine, 2) == {}
    with pytest.raises(InputError, match=r"needs 4 GPUs .* work pool 'gpus' gets 2: 2, 3\."):
        _job_variables(machine, 4)


@pytest.mark.parametrize("limit", [None, 2])
def test_a_pool_whose_containers_would_share_gpus_is_refused(limit: int | None) -> None:
    machine = pool("docker-gpu", limit=limit)
    for ask in (lambda: _job_variables(machine, 1), lambda: device_ids(machine)):
        with pytest.raises(InputError, match="set-concurrency-limit gpus 1"):
            ask()


def test_a_pool_without_a_number_of_gpus_serves_no_large_engine() -> None:
    with pytest.raises(InputError, match="has no variable 'gpus'"):
        _job_variables(pool("docker"), 2)
    assert _job_variables(pool("process", type_="process"), 8) == {}
