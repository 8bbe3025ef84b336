"""The base job templates of work pools: fresh, accepted by the workers that use them, and by Kubernetes' schemas."""

import copy
import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest

kubernetes_worker = pytest.importorskip("prefect_kubernetes.worker", reason="needs prefect-kubernetes")
docker_worker = pytest.importorskip("prefect_docker.worker", reason="needs prefect-docker")
kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate")

from kubernetes_validate.utils import ValidationError, all_versions  # noqa: E402
from prefect.client.schemas.objects import FlowRun  # noqa: E402
from prefect.utilities.schema_tools import ValidationError as WrongValue  # noqa: E402
from prefect.utilities.schema_tools import validate  # noqa: E402
from prefect.workers.process import ProcessJobConfiguration  # noqa: E402

from gage_eval.config.settings import load_settings  # noqa: E402
from tools import work_pools  # noqa: E402

Template = dict[str, Any]
BOX = ("kubernetes-box-pvc", "kubernetes-box-s3")
KUBERNETES = ("kubernetes-pvc", "kubernetes-s3", "kubernetes-gpu-pvc", "kubernetes-gpu-s3", *BOX)
GPU = ("kubernetes-gpu-pvc", "kubernetes-gpu-s3")
ALL = ("process", "docker", "docker-gpu", *KUBERNETES)
# With an address of this machine the worker asks its Docker daemon how containers reach it.
API = {"PREFECT_API_URL": "https://prefect.example/api"}
LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
PLACEHOLDER = re.compile(r"\{\{ (\w+) \}\}")


def template(name: str) -> Template:
    file = work_pools.FOLDER / f"{name}.json"
    content: Template = json.loads(file.read_text(encoding="utf-8"))
    return content


def flow_run() -> FlowRun:
    return FlowRun(id=uuid4(), flow_id=uuid4(), name="calm-otter", parameters={})


async def configuration(class_: Any, name: str, **values: Any) -> Any:
    """What a worker makes of a template for a flow run. It has no block to look up, so it needs no server."""
    made = await class_.from_template_and_values(template(name), values, client=Mock())
    made.prepare_for_flow_run(flow_run())
    return made


async def job(name: str, **values: Any) -> dict[str, Any]:
    made = await configuration(kubernetes_worker.KubernetesWorkerJobConfiguration, name, **values)
    manifest: dict[str, Any] = made.job_manifest
    return manifest


def container(manifest: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = manifest["spec"]["template"]["spec"]["containers"][0]
    return first


def env_of(manifest: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry["value"] for entry in container(manifest)["env"] if "value" in entry}


def test_the_files_are_what_the_module_makes(repo_root: Path) -> None:
    folder = repo_root / "deployments" / "work_pools"
    files = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.json")}

    assert files == {name: work_pools.text(made) for name, made in work_pools.templates().items()}, (
        "deployments/work_pools is stale; write it by python -m tools.work_pools"
    )
    assert set(files) == {f"{name}.json" for name in ALL}


@pytest.mark.parametrize("name", ALL)
def test_every_placeholder_has_a_variable_and_every_variable_a_place(name: str) -> None:
    content = template(name)
    used = set(PLACEHOLDER.findall(json.dumps(content["job_configuration"])))
    variables = content["variables"]["properties"]

    # The worker merges `env` into what the template sets.
    assert used | {"env"} == set(variables)
    assert all(entry.get("title") for entry in variables.values() if "$ref" not in json.dumps(entry))


@pytest.mark.parametrize("name", ALL)
def test_defaults_fit_their_own_schema(name: str) -> None:
    variables = template(name)["variables"]
    values = {key: entry["default"] for key, entry in variables["properties"].items() if "default" in entry}
    validate(values, variables, preprocess=True)


# Older clusters have no user namespaces with a whole /proc.
LEAST = {name: 30 if name in BOX else 27 for name in KUBERNETES}


@pytest.mark.parametrize(
    ("name", "version"),
    [(name, v) for name in KUBERNETES for v in all_versions() if float(v.split(".")[1]) >= LEAST[name]],
)
async def test_jobs_fit_the_schemas_of_kubernetes(name: str, version: str) -> None:
    manifest = await job(name, store="s3://bucket/evals") if name.endswith("s3") else await job(name)
    kubernetes_validate.validate(manifest, version, strict=True)


async def test_the_schemas_find_a_misspelt_field() -> None:
    manifest = await job("kubernetes-gpu-s3")
    manifest["spec"]["template"]["spec"]["tolerationz"] = []
    with pytest.raises(ValidationError, match="tolerationz"):
        kubernetes_validate.validate(manifest, all_versions()[-1], strict=True)


@pytest.mark.parametrize("name", GPU)
async def test_a_gpu_job_gets_an_h100_shared_memory_and_its_node(name: str) -> None:
    manifest = await job(name)
    pod = manifest["spec"]["template"]["spec"]

    for side in ("requests", "limits"):
        assert container(manifest)["resources"][side]["nvidia.com/gpu"] == 1
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert LABEL.fullmatch(pod["nodeSelector"]["nvidia.com/gpu.product"]), "Kubernetes takes it as a label"
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in pod["tolerations"]
    memory = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}
    assert memory in pod["volumes"]
    assert {"name": "shm", "mountPath": "/dev/shm"} in container(manifest)["volumeMounts"]


async def test_what_a_deployment_asks_for_reaches_the_job() -> None:
    tolerations = [{"key": "team", "operator": "Equal", "value": "evals", "effect": "NoExecute"}]
    manifest = await job(
        "kubernetes-gpu-s3",
        gpus=8,
        gpu_product="NVIDIA-H200",
        shm_size="64Gi",
        tolerations=tolerations,
        store="s3://bucket/evals",
        env={"HF_HOME": "/mine"},
    )
    pod = manifest["spec"]["template"]["spec"]

    assert container(manifest)["resources"]["limits"]["nvidia.com/gpu"] == 8
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H200"}
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}} in pod["volumes"]
    assert pod["tolerations"] == tolerations
    assert env_of(manifest).items() >= {"GAGE_EVAL_STORE": "s3://bucket/evals", "HF_HOME": "/mine"}.items()
    kubernetes_validate.validate(manifest, all_versions()[-1], strict=True)


@pytest.mark.parametrize("name", ["kubernetes-pvc", "kubernetes-s3"])
async def test_a_job_without_gpus_is_bound_to_no_gpu_node(name: str) -> None:
    manifest = await job(name)
    assert "nodeSelector" not in manifest["spec"]["template"]["spec"]
    assert "nvidia" not in json.dumps(manifest)


@pytest.mark.parametrize(
    ("values", "source"),
    [
        ({}, {"emptyDir": {"sizeLimit": "200Gi"}}),
        *(({"model_cache": volume}, volume) for volume in work_pools.templates()["kubernetes-gpu-s3.json"]["variables"][
            "properties"]["model_cache"]["examples"]),
    ],
    ids=["lost with the pod", "claim", "folder of the node"],
)  # fmt: skip
@pytest.mark.parametrize("name", KUBERNETES)
async def test_models_lie_in_a_cache_that_later_pods_find(name: str, values: Any, source: Any) -> None:
    manifest = await job(name, store="s3://bucket/evals", **values)
    (volume,) = [entry for entry in manifest["spec"]["template"]["spec"]["volumes"] if entry["name"] == "models"]
    (mount,) = [entry for entry in container(manifest)["volumeMounts"] if entry["name"] == "models"]

    assert volume.items() >= source.items()
    assert env_of(manifest)["HF_HOME"].startswith(f"{mount['mountPath']}/")
    kubernetes_validate.validate(manifest, all_versions()[-1], strict=True)


def test_a_model_cache_has_the_name_that_is_mounted() -> None:
    variables = template("kubernetes-gpu-s3")["variables"]
    other = {"name": "weights", "persistentVolumeClaim": {"claimName": "mine"}}
    with pytest.raises(WrongValue, match="models"):
        validate({"model_cache": other}, variables, raise_on_error=True, preprocess=False, ignore_required=True)


@pytest.mark.parametrize("name", KUBERNETES)
async def test_a_pod_may_have_a_priority_and_the_secret_of_its_registry(name: str) -> None:
    secrets = [{"name": "registry"}]
    pod = (await job(name, image_pull_secrets=secrets, priority_class="nightly"))["spec"]["template"]["spec"]
    assert (pod["imagePullSecrets"], pod["priorityClassName"]) == (secrets, "nightly")

    plain = (await job(name))["spec"]["template"]["spec"]
    assert plain["imagePullSecrets"] == []
    assert plain.get("priorityClassName") is None


@pytest.mark.parametrize("name", KUBERNETES)
async def test_a_pod_may_wait_a_day_for_its_gpus_and_is_sure_of_some_disk(name: str) -> None:
    made = await configuration(kubernetes_worker.KubernetesWorkerJobConfiguration, name, disk_request="300Gi")
    assert made.pod_watch_timeout_seconds >= 24 * 3600
    assert container(made.job_manifest)["resources"]["requests"]["ephemeral-storage"] == "300Gi"


async def test_a_pod_of_a_gpu_pool_that_only_fetches_takes_no_gpu() -> None:
    manifest = await job("kubernetes-gpu-s3", gpus=0)
    assert container(manifest)["resources"]["limits"]["nvidia.com/gpu"] == 0
    validate({"gpus": 0}, template("kubernetes-gpu-s3")["variables"], raise_on_error=True, ignore_required=True)


@pytest.mark.parametrize("name", KUBERNETES)
async def test_kubernetes_repeats_no_job_and_prefect_resumes_an_evicted_one(name: str) -> None:
    manifest = await job(name)
    assert manifest["spec"]["backoffLimit"] == 0
    assert manifest["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert env_of(manifest)["PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"] == "reschedule"


@pytest.mark.parametrize("name", KUBERNETES)
async def test_pods_run_as_a_user_without_privileges(name: str) -> None:
    manifest = await job(name)
    assert manifest["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container(manifest)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        **({"procMount": "Unmasked"} if name in BOX else {}),
    }


@pytest.mark.parametrize("name", BOX)
async def test_a_pod_of_boxes_lets_bubblewrap_make_namespaces_and_has_no_account(name: str) -> None:
    pod = (await job(name, store="s3://bucket/evals"))["spec"]["template"]["spec"]
    assert (pod["hostUsers"], pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False, False)
    for profile in ("seccompProfile", "appArmorProfile"):
        assert pod["securityContext"][profile] == {"type": "Unconfined"}
    address = {"name": "GAGE_EVAL_SERVE_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    assert address in pod["containers"][0]["env"]


@pytest.mark.parametrize("name", KUBERNETES)
async def test_the_store_is_a_claim_or_a_bucket(name: str) -> None:
    manifest = await job(name)
    claims = [volume for volume in manifest["spec"]["template"]["spec"]["volumes"] if "persistentVolumeClaim" in volume]

    if name.endswith("pvc"):
        assert [claim["persistentVolumeClaim"]["claimName"] for claim in claims] == ["gage-eval-store"]
        assert {"name": "store", "mountPath": "/store"} in container(manifest)["volumeMounts"]
        assert env_of(manifest)["GAGE_EVAL_STORE"] == "/store"
    else:
        assert claims == []
        assert "GAGE_EVAL_STORE" not in env_of(manifest), "a run without a store in its form says so"


@pytest.mark.parametrize("name", KUBERNETES)
async def test_secrets_are_named_never_written(name: str) -> None:
    manifest = await job(name, secret="team-keys")
    assert container(manifest)["envFrom"] == [{"secretRef": {"name": "team-keys", "optional": True}}]


@pytest.mark.parametrize("name", ALL)
def test_no_template_asks_for_the_value_of_a_secret(name: str) -> None:
    ours = template(name)["job_configuration"].get("env", {})
    assert not re.search(r"(_KEY|_PASSWORD|_TOKEN)\b", json.dumps(ours))


def container_arguments(made: Any) -> dict[str, Any]:
    """What the Docker worker would send to the daemon."""
    from docker.models.containers import _create_container_args

    worker = Mock()
    settings = docker_worker.DockerWorker._build_container_settings(worker, Mock(), made)
    arguments: dict[str, Any] = _create_container_args({**copy.deepcopy(settings), "version": "1.43"})
    return arguments


@pytest.mark.parametrize("name", ["docker", "docker-gpu"])
async def test_the_docker_worker_takes_the_template(name: str) -> None:
    made = await configuration(docker_worker.DockerWorkerJobConfiguration, name, env=API)
    host = container_arguments(made)["host_config"]

    assert made.env["GAGE_EVAL_STORE"] == "/store"
    assert {"gage-eval:/store", "/etc/gage-eval/secrets:/secrets:ro"} <= set(host["Binds"])
    assert host["CapDrop"] == ["ALL"]
    assert host["Init"] is True, "a first process that passes signals on and reaps engines"


async def test_a_docker_container_gets_the_gpus_of_its_pool_and_shared_memory() -> None:
    made = await configuration(
        docker_worker.DockerWorkerJobConfiguration, "docker-gpu", device_ids=["2", "3"], shm_size="64g", env=API
    )
    host = container_arguments(made)["host_config"]

    # A count would give the first GPUs of the machine to each container, also those that others use.
    (request,) = host["DeviceRequests"]
    assert (request["DeviceIDs"], request["Count"], request["Capabilities"]) == (["2", "3"], 0, [["gpu"]])
    assert host["ShmSize"] == 64 * 2**30


async def test_the_process_worker_takes_the_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGE_EVAL_STORE", "s3://worker/evals")
    made = await configuration(ProcessJobConfiguration, "process", store="s3://bucket/evals", working_dir=str(tmp_path))
    assert made.env["GAGE_EVAL_STORE"] == "s3://bucket/evals"
    assert made.working_dir == tmp_path

    without = await configuration(ProcessJobConfiguration, "process")
    assert without.env["GAGE_EVAL_STORE"] == "s3://worker/evals", "the store of the worker's own environment"


@pytest.mark.parametrize("choice", [True, False, None])
async def test_a_pool_says_whether_its_engines_speak_tls_else_the_worker_does(
    choice: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAGE_EVAL_SERVE_TLS", "true")
    variables = {} if choice is None else {"serve_tls": choice}
    made = await configuration(ProcessJobConfiguration, "process", **variables)
    monkeypatch.setenv("GAGE_EVAL_SERVE_TLS", str(made.env["GAGE_EVAL_SERVE_TLS"]))
    assert load_settings().serve_tls is (choice is not False)
    for name in GPU:
        assert env_of(await job(name, serve_tls=True))["GAGE_EVAL_SERVE_TLS"] == "True"
        assert "GAGE_EVAL_SERVE_TLS" not in env_of(await job(name))


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Templates are checked without a server."""
    monkeypatch.setenv("PREFECT_SERVER_EPHEMERAL_ENABLED", "false")
