"""The effects of an adapter's `resource_requirement`: engines of its backend, a pool of calls, where it is served."""

from collections.abc import Collection

from gage_eval.base.errors import InputError
from gage_eval.config.models import BackendEntry, RoleAdapterConfig
from gage_eval.extend import registry
from gage_eval.extend.loading import without_folders
from gage_eval.models.backends.base import KeyedConfig
from gage_eval.models.backends.build import config_model, parse_config
from gage_eval.models.backends.checkpoint import CheckpointConfig
from gage_eval.models.backends.engine_backend import EngineBackend
from gage_eval.models.backends.placement import HERE, Placement
from gage_eval.models.backends.vllm import VLLMConfig
from gage_eval.models.backends.vllm_engine import VLLMEngineConfig


def with_gpus(backend: BackendEntry, adapters: Collection[RoleAdapterConfig]) -> BackendEntry:
    """The backend with as many engines as fit on the GPUs that its adapters require.

    Adapters that share a backend share its engines: the largest number counts. ``replicas`` of the config are kept.

    Raises:
        InputError: the engines need more GPUs than that, or the backend has no GPUs to divide, or its config is wrong.
    """
    gpus = max((adapter.resource_requirement.gpus or 0 for adapter in adapters), default=0)
    if not gpus or _calls_share_nothing(backend):
        return backend
    config = parse_config(backend.type, backend.config)
    if not isinstance(config, CheckpointConfig) or getattr(config, "base_url", None) is not None:
        raise InputError(
            f"gpus has no effect on backend '{backend.backend_id}', which starts no engines; "
            "limit requests in flight with pool_size."
        )
    each = config.gpus_each
    stated = "replicas" in config.model_fields_set
    replicas = config.replicas if stated else max(1, gpus // each)
    if replicas * each > gpus:
        raise InputError(
            f"backend '{backend.backend_id}' needs {replicas * each} GPUs (replicas × tensor_parallel_size × "
            f"data_parallel_size), and gpus is {gpus}."
        )
    return backend if stated else backend.model_copy(update={"config": {**backend.config, "replicas": replicas}})


def with_pool(adapter: RoleAdapterConfig, backend: BackendEntry) -> RoleAdapterConfig:
    """The adapter with its pool: ``pool_size``, else one call per GPU if calls share no engine or endpoint."""
    needs = adapter.resource_requirement
    if not needs.gpus or needs.pool_size is not None or not _calls_share_nothing(backend):
        return adapter
    needs = needs.model_copy(update={"pool_size": needs.gpus})
    return adapter.model_copy(update={"resource_requirement": needs})


def starts_engine(backend: BackendEntry) -> bool:
    """Whether gage-eval starts an engine for the backend."""
    config = parse_config(backend.type, backend.config)
    if isinstance(config, VLLMEngineConfig):
        return getattr(config, "base_url", None) is None
    plugin = registry.backends.get(backend.type)
    return backend.type == "llama_cpp" or (isinstance(plugin.obj, type) and issubclass(plugin.obj, EngineBackend))


def placement_of(backend: BackendEntry, adapters: Collection[RoleAdapterConfig]) -> Placement | None:
    """The place where a backend is served; None for the run itself. Adapters that share a backend share its engine.

    Raises:
        InputError: they name different work pools, or the backend cannot be served elsewhere.
    """
    pools = sorted({pool for adapter in adapters if (pool := adapter.resource_requirement.work_pool) is not None})
    if len(pools) > 1:
        raise InputError(
            f"adapters of backend '{backend.backend_id}' name the work pools {' and '.join(pools)}: an engine serves "
            "all of them, so name one."
        )
    return placement_on(pools[0], backend) if pools else None


def placement_on(work_pool: str, backend: BackendEntry) -> Placement | None:
    """A work pool as the place of a backend's engine; None for the machine of the run itself.

    Raises:
        InputError: the backend starts no server that other machines could ask.
    """
    if work_pool == HERE:
        return None
    config = parse_config(backend.type, backend.config)
    if not isinstance(config, VLLMConfig) or config.base_url is not None:
        raise InputError(
            f"backend '{backend.backend_id}' ({without_folders(backend.type)}) cannot be served on work pool "
            f"'{work_pool}': only vllm starts a server that other machines can ask. Submit the whole run there: "
            f"gage run --submit --work-pool {work_pool}"
        )
    if config.media_source == "url":
        raise InputError(
            f"backend '{backend.backend_id}' has media_source: url, which serves media on this machine's loopback "
            f"address: remove it, because the machines of work pool '{work_pool}' cannot fetch them there, or set "
            "media_source: store for a store on S3."
        )
    return Placement(work_pool, config.replicas * config.gpus_each)


def _calls_share_nothing(backend: BackendEntry) -> bool:
    """Whether each call is a separate computation, without batching here or at an endpoint."""
    plugin = registry.backends.get(backend.type)
    at_endpoint = issubclass(config_model(backend.type), KeyedConfig)
    return not at_endpoint and not (isinstance(plugin.obj, type) and issubclass(plugin.obj, EngineBackend))
