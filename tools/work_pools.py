"""deployments/work_pools/*.json: base job templates of work pools, made from Prefect's own default templates.

python -m tools.work_pools          write the files
prefect work-pool create h100 --type kubernetes --base-job-template deployments/work_pools/kubernetes-gpu-s3.json
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gage_eval import __version__
from gage_eval.base.liveness import HEARTBEAT_S

FOLDER = Path(__file__).resolve().parents[1] / "deployments" / "work_pools"

# A base job template: "job_configuration" with placeholders, "variables" with their schema.
Template: TypeAlias = dict[str, Any]
Device: TypeAlias = Literal["cpu", "gpu"]
Storage: TypeAlias = Literal["pvc", "s3"]

# The value of the node label nvidia.com/gpu.product for "NVIDIA H100 80GB HBM3": labels have no spaces.
GPU_PRODUCT = "NVIDIA-H100-80GB-HBM3"
# The images' user (deployments/docker), and the folders that are mounted for it.
_USER = 10001
_STORE = "/store"
_SCRATCH = "/scratch"
_SECRETS = "/secrets"
_MODELS = "/models"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount of the container, not a file

_IMAGES: Mapping[Device, str] = {"cpu": f"gage-eval:{__version__}", "gpu": f"gage-eval-gpu:{__version__}"}
_SIZES: Mapping[Device, Mapping[str, str]] = {
    "cpu": {"cpu_request": "2", "cpu_limit": "8", "memory_request": "4Gi", "memory_limit": "16Gi"},
    "gpu": {"cpu_request": "8", "cpu_limit": "32", "memory_request": "64Gi", "memory_limit": "192Gi"},
}
# On a busy cluster a pod waits for its GPUs, and on a new node it pulls an image of several GB.
_WAIT_FOR_POD_S = 24 * 3600
# Prefect's default is longer than a server waits for a run (`gage deploy --lost-after`).
_HEARTBEAT = {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_S)}
_STORE_TEXT = "URL of the artifact store, which all pools share. If it is empty, each run must name one in its form."


def templates() -> dict[str, Template]:
    """All templates by file name."""
    made = {"process": process(), "docker": docker("cpu"), "docker-gpu": docker("gpu")}
    storages: tuple[Storage, ...] = ("pvc", "s3")
    for storage in storages:
        made[f"kubernetes-{storage}"] = kubernetes("cpu", storage)
        made[f"kubernetes-gpu-{storage}"] = kubernetes("gpu", storage)
        made[f"kubernetes-box-{storage}"] = kubernetes_box(storage)
    return {f"{name}.json": template for name, template in made.items()}


def process() -> Template:
    """Runs are processes on the worker's machine. They inherit the worker's environment."""
    from prefect.workers.process import ProcessWorker

    template = ProcessWorker.get_default_base_job_template()
    _add(
        template,
        store=_text("Store", _STORE_TEXT, None),
        serve_host=_serve_host("127.0.0.1"),
        serve_tls=_serve_tls(),
    )
    template["job_configuration"]["env"] = {
        "GAGE_EVAL_STORE": "{{ store }}",
        "GAGE_EVAL_SERVE_HOST": "{{ serve_host }}",
        "GAGE_EVAL_SERVE_TLS": "{{ serve_tls }}",
        **_HEARTBEAT,
    }
    return template


def docker(device: Device) -> Template:
    """Runs are containers on the worker's machine.

    Secrets are files in a folder of the machine, mounted read-only: no value of a secret is in the template.
    """
    from prefect_docker.worker import DockerWorker

    template: Template = DockerWorker.get_default_base_job_template()
    _defaults(template, image=_IMAGES[device], image_pull_policy="IfNotPresent", auto_remove=True)
    _add(
        template,
        store=_text("Store", _STORE_TEXT, _STORE),
        store_volume=_text(
            "Store volume", f"Volume or folder of the machine that is mounted at {_STORE}.", "gage-eval"
        ),
        scratch_volume=_text("Scratch volume", "Volume or folder for downloaded models and data.", "gage-eval-scratch"),
        secrets_folder=_text(
            "Secrets folder",
            "Folder of the machine with the files aws-credentials and hf-token, either optional, mounted read-only.",
            "/etc/gage-eval/secrets",
        ),
    )
    configuration = template["job_configuration"]
    configuration["env"] = {
        "GAGE_EVAL_STORE": "{{ store }}",
        **_HEARTBEAT,
        "AWS_SHARED_CREDENTIALS_FILE": f"{_SECRETS}/aws-credentials",
        "HF_TOKEN_PATH": f"{_SECRETS}/hf-token",
        **_caches(),
    }
    configuration["volumes"] = [
        f"{{{{ store_volume }}}}:{_STORE}",
        f"{{{{ scratch_volume }}}}:{_SCRATCH}",
        f"{{{{ secrets_folder }}}}:{_SECRETS}:ro",
    ]
    del template["variables"]["properties"]["volumes"]
    settings: dict[str, Any] = {"init": True, "security_opt": ["no-new-privileges"], "cap_drop": ["ALL"]}
    if device == "gpu":
        _add(
            template,
            device_ids=_device_ids(),
            shm_size=_text("Shared memory", "Size of /dev/shm. Tensor parallel engines need it.", "16g"),
            serve_host=_serve_host(None),
            serve_tls=_serve_tls(),
        )
        configuration["env"]["GAGE_EVAL_SERVE_HOST"] = "{{ serve_host }}"
        configuration["env"]["GAGE_EVAL_SERVE_TLS"] = "{{ serve_tls }}"
        settings["shm_size"] = "{{ shm_size }}"
        settings["device_requests"] = [
            {"driver": "nvidia", "device_ids": "{{ device_ids }}", "capabilities": [["gpu"]]}
        ]
    configuration["container_create_kwargs"] = settings
    del template["variables"]["properties"]["container_create_kwargs"]
    return template


def kubernetes(device: Device, storage: Storage) -> Template:
    """Runs are Kubernetes jobs.

    Secrets are keys of a Kubernetes secret, which become environment variables of the pod: no value of a secret is in
    the template. Kubernetes repeats no job (``backoffLimit: 0``): Prefect and gage-eval resume runs.
    """
    from prefect_kubernetes.worker import KubernetesWorker

    template: Template = KubernetesWorker.get_default_base_job_template()
    _defaults(template, image=_IMAGES[device], finished_job_ttl=24 * 3600, pod_watch_timeout_seconds=_WAIT_FOR_POD_S)
    _defaults(template, **_SIZES[device])
    del template["variables"]["properties"]["backoff_limit"]
    _add(
        template,
        secret=_text(
            "Secret",
            "Kubernetes secret whose keys become environment variables, for example OPENAI_API_KEY, HF_TOKEN or "
            "AWS_ACCESS_KEY_ID. It may be absent.",
            "gage-eval",
        ),
        scratch_size=_text("Scratch size", "The most disk of the node for downloaded data and logs.", "50Gi"),
        disk_request=_text(
            "Disk request",
            "Disk of the node that the pod is sure to have. Where it takes more, the node may evict it.",
            "10Gi",
        ),
        model_cache=_model_cache(),
        tolerations=_tolerations(device),
        image_pull_secrets=_objects(
            "Image pull secrets", 'Kubernetes secrets that open the registry of the image, as {"name": …}.'
        ),
        priority_class=_text(
            "Priority class", "Kubernetes priority class of the pod; the cluster's own by default.", None
        ),
    )
    job = template["job_configuration"]["job_manifest"]["spec"]
    job["backoffLimit"] = 0
    pod = job["template"]["spec"]
    # Prefect's default has these two fields of a job in the pod, where Kubernetes does not know them.
    for name in ("completions", "parallelism"):
        job[name] = pod.pop(name)
    container = pod["containers"][0]
    container["envFrom"] = [{"secretRef": {"name": "{{ secret }}", "optional": True}}]
    container["resources"]["requests"]["ephemeral-storage"] = "{{ disk_request }}"
    pod["tolerations"] = "{{ tolerations }}"
    pod["imagePullSecrets"] = "{{ image_pull_secrets }}"
    pod["priorityClassName"] = "{{ priority_class }}"
    pod["terminationGracePeriodSeconds"] = 60
    _secure(pod)
    _mount(pod, "scratch", _SCRATCH, {"emptyDir": {"sizeLimit": "{{ scratch_size }}"}})
    pod["volumes"].append("{{ model_cache }}")
    container["volumeMounts"].append({"name": "models", "mountPath": _MODELS})
    _store(template, storage)
    if device == "gpu":
        _gpus(template)
    return template


def kubernetes_box(storage: Storage) -> Template:
    """Jobs that run programs in boxes (Kubernetes 1.30 or newer).

    In the pod, bubblewrap makes a box for each program, as on any machine. For that the pod has a user namespace, so
    that its /proc may be whole, and no profile that forbids namespaces and mounts.
    """
    template = kubernetes("cpu", storage)
    pod = template["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]
    pod |= {"hostUsers": False, "automountServiceAccountToken": False, "enableServiceLinks": False}
    pod["securityContext"] |= {"seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"}}
    pod["containers"][0]["securityContext"]["procMount"] = "Unmasked"
    pod["containers"][0]["env"] = [_pod_address()]
    return template


def _pod_address() -> dict[str, Any]:
    """What is served in a pod listens at the pod's address."""
    return {"name": "GAGE_EVAL_SERVE_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def _tolerations(device: Device) -> dict[str, Any]:
    nvidia = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    own = [nvidia] if device == "gpu" else []
    return _objects("Tolerations", "Taints of nodes that the pod accepts, as in a Kubernetes pod.", *own)


def _model_cache() -> dict[str, Any]:
    """A whole volume: a pod that takes one of several kinds of it cannot be written with a text in its place."""
    claim = {"name": "models", "persistentVolumeClaim": {"claimName": "gage-eval-models"}}
    folder = {"name": "models", "hostPath": {"path": "/var/lib/gage-eval/models", "type": "Directory"}}
    return {
        "title": "Model cache",
        "description": (
            f"Kubernetes volume of the models, mounted at {_MODELS}. A persistent volume claim (ReadWriteMany) or a "
            f"folder of the node that user {_USER} may write keeps them for later pods. The default is lost with its "
            "pod."
        ),
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"title": "Name", "type": "string", "const": "models"}},
        "additionalProperties": True,
        "default": {"name": "models", "emptyDir": {"sizeLimit": "200Gi"}},
        "examples": [claim, folder],
    }


def _device_ids() -> dict[str, Any]:
    return {
        "title": "Device ids",
        "description": (
            "GPUs of the machine that a container of this pool gets, by index or UUID. Give each pool of a machine "
            "other ones, and the concurrency limit 1: then no GPU is shared."
        ),
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "uniqueItems": True,
        "default": ["0"],
    }


def _objects(title: str, description: str, *default: dict[str, Any]) -> dict[str, Any]:
    items = {"type": "object", "additionalProperties": True}
    return {"title": title, "description": description, "type": "array", "items": items, "default": list(default)}


def _secure(pod: dict[str, Any]) -> None:
    """The pod runs as the images' user, without privileges."""
    pod["securityContext"] = {
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "fsGroup": _USER,
        # The files of a large cache are not looked at one by one before each pod.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    pod["containers"][0]["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _store(template: Template, storage: Storage) -> None:
    env = {"GAGE_EVAL_STORE": "{{ store }}", **_HEARTBEAT, **_caches(_MODELS)}
    if storage == "s3":
        text = f"{_STORE_TEXT} Its credentials are in the secret, or belong to the service account."
        _add(template, store=_text("Store", text, None, examples=["s3://bucket/evals"]))
    else:
        env["GAGE_EVAL_STORE"] = _STORE
        text = f"Persistent volume claim (ReadWriteMany) of the artifact store, mounted at {_STORE}."
        _add(template, store_claim=_text("Store claim", text, "gage-eval-store"))
        claim = {"persistentVolumeClaim": {"claimName": "{{ store_claim }}"}}
        _mount(template["job_configuration"]["job_manifest"]["spec"]["template"]["spec"], "store", _STORE, claim)
    template["job_configuration"]["env"] = env


def _gpus(template: Template) -> None:
    """GPUs of one product, and shared memory for the processes of an engine."""
    pod = template["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]
    resources = pod["containers"][0]["resources"]
    for side in ("requests", "limits"):
        resources[side]["nvidia.com/gpu"] = "{{ gpus }}"
    pod["nodeSelector"] = {"nvidia.com/gpu.product": "{{ gpu_product }}"}
    pod["containers"][0]["env"] = [_pod_address()]
    template["job_configuration"]["env"]["GAGE_EVAL_SERVE_TLS"] = "{{ serve_tls }}"
    _mount(pod, "shm", _SHARED_MEMORY, {"emptyDir": {"medium": "Memory", "sizeLimit": "{{ shm_size }}"}})
    product = (
        "Value of the node label nvidia.com/gpu.product: the product's name with hyphens for spaces, so "
        "NVIDIA-H100-80GB-HBM3 for NVIDIA H100 80GB HBM3."
    )
    _add(
        template,
        gpus=_count("GPUs", "GPUs of a pod: replicas times tensor parallel size of the engine.", 1, minimum=0),
        gpu_product=_text("GPU product", product, GPU_PRODUCT),
        shm_size=_text("Shared memory", "Size of /dev/shm. It counts towards the memory limit.", "16Gi"),
        serve_tls=_serve_tls(),
    )


def _serve_host(default: str | None) -> dict[str, Any]:
    text = (
        "Address of the machine at which an engine that is served here listens. Runs must reach it: give the machine's "
        "own name or address where runs are elsewhere."
    )
    return _text("Serve host", text, default)


def _serve_tls() -> dict[str, Any]:
    text = (
        "Whether runs ask engines that are served here over TLS. Each engine makes its own certificate, which its runs "
        "find in the store. If it is empty, GAGE_EVAL_SERVE_TLS of the worker or image counts."
    )
    either = [{"type": "boolean"}, {"type": "null"}]
    return {"title": "Serve over TLS", "description": text, "anyOf": either, "default": None}


def _caches(models: str = _SCRATCH) -> dict[str, str]:
    """Downloads go to volumes: the images' own file system is small and lost."""
    return {"HF_HOME": f"{models}/huggingface", "XDG_CACHE_HOME": f"{_SCRATCH}/cache"}


def _mount(pod: dict[str, Any], name: str, path: str, source: dict[str, Any]) -> None:
    pod.setdefault("volumes", []).append({"name": name, **source})
    pod["containers"][0].setdefault("volumeMounts", []).append({"name": name, "mountPath": path})


def _add(template: Template, **variables: dict[str, Any]) -> None:
    template["variables"]["properties"].update(variables)


def _defaults(template: Template, **values: Any) -> None:
    for name, value in values.items():
        template["variables"]["properties"][name]["default"] = value


def _text(title: str, description: str, default: str | None, **more: Any) -> dict[str, Any]:
    type_: dict[str, Any] = {"type": "string"}
    if default is None:
        type_ = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    return {"title": title, "description": description, **type_, "default": default, **more}


def _count(title: str, description: str, default: int, *, minimum: int) -> dict[str, Any]:
    return {"title": title, "description": description, "type": "integer", "minimum": minimum, "default": default}


def text(template: Template) -> str:
    """A template as its file has it."""
    return json.dumps(template, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = templates()
    for file in FOLDER.glob("*.json"):
        if file.name not in wanted:
            file.unlink()
    for name, template in wanted.items():
        (FOLDER / name).write_text(text(template), encoding="utf-8")


if __name__ == "__main__":
    main()
