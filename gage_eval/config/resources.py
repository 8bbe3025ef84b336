"""The effects of an adapter's `resource_requirement`: engines of its backend, or a pool of calls."""

from collections.abc import Iterable

from gage_eval import registry
from gage_eval.backends.base import KeyedConfig
from gage_eval.backends.build import config_model, parse_config
from gage_eval.backends.engine_backend import EngineBackend
from gage_eval.backends.vllm_engine import VLLMEngineConfig
from gage_eval.config.models import BackendEntry, RoleAdapterConfig
from gage_eval.errors import InputError


def with_gpus(backend: BackendEntry, adapters: Iterable[RoleAdapterConfig]) -> BackendEntry:
    """The backend with as many engines as fit on the GPUs that its adapters require.

    Adapters that share a backend share its engines: the largest number counts. Given ``replicas`` are kept.

    Raises:
        InputError: the engines need more GPUs than that, or the backend has no GPUs to divide, or its config is wrong.
    """
    gpus = max((adapter.resource_requirement.gpus or 0 for adapter in adapters), default=0)
    if not gpus or _calls_share_nothing(backend):
        return backend
    config = parse_config(backend.type, backend.config)
    if not isinstance(config, VLLMEngineConfig) or getattr(config, "base_url", None) is not None:
        raise InputError(
            f"gpus has no effect on backend '{backend.backend_id}', which starts no engines; "
            "limit requests in flight with pool_size."
        )
    each = config.tensor_parallel_size * config.data_parallel_size
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


def _calls_share_nothing(backend: BackendEntry) -> bool:
    """Whether each call is a separate computation, without batching here or at an endpoint."""
    plugin = registry.backends.get(backend.type)
    at_endpoint = issubclass(config_model(backend.type), KeyedConfig)
    return not at_endpoint and not (isinstance(plugin.obj, type) and issubclass(plugin.obj, EngineBackend))
