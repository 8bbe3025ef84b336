"""Settings from the environment: ``GAGE_EVAL_*``.

The command line counts before a config, a config before the environment: values that a config could hold are
folded into it (`fold`) before anything is hashed, where it does not say. The others only say where and how fast.
Import this module where it is needed: pydantic-settings takes a while to load.
"""

from typing import Any, TypeVar

from pydantic import AliasChoices, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from gage_eval.config.check import expand
from gage_eval.config.models import DatasetParams, InlineBackend, PipelineConfig
from gage_eval.config.plain_words import plain_words
from gage_eval.config.secrets import MASK, is_secret_name, scrub
from gage_eval.errors import InputError
from gage_eval.marks import scheduling, semantic

PREFIX = "GAGE_EVAL_"
_MEDIA = ("embed_local_media", "image_min_pixels", "image_max_pixels", "image_factor")
_CONCURRENCY = frozenset({"max_concurrency", "async_max_concurrency"})

_BackendT = TypeVar("_BackendT", bound=InlineBackend)


class Settings(BaseSettings):
    """What the environment sets; every field has the mark that a config field would have."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True, populate_by_name=True
    )

    store: str = scheduling(".gage", description="URL or folder of the artifact store")
    save_dir: str | None = scheduling(None, description="folder of runs; `runs` in the store unless given")
    threads: int | None = scheduling(
        None,
        ge=1,
        description="requests in flight at a backend whose config sets no `max_concurrency`",
        validation_alias=AliasChoices(f"{PREFIX}THREADS", f"{PREFIX}CONCURRENCY"),
    )
    max_inflight: int | None = scheduling(None, ge=1, description="rows of a step under way at a time")
    sequential: bool = scheduling(default=False, description="one request at a time, and one task after the other")
    autoeval_workers: int | None = scheduling(None, ge=1, description="processes that score; unless given, this one")
    max_samples: int | None = semantic("load", None, ge=1, description="limit of tasks that set none")
    shuffle: bool = semantic("load", default=False, description="shuffle tasks that do not say")
    shuffle_seed: int = semantic("load", 123, description="seed of tasks that name none")
    embed_media_threads: int = scheduling(0, ge=0, description="media read or stored at a time; 0 for a few")
    embed_local_media: bool = semantic(
        "preprocess", default=False, description="send media as data also to backends that read files"
    )
    image_min_pixels: int | None = semantic("preprocess", None, ge=1, description="smaller images are enlarged")
    image_max_pixels: int | None = semantic("preprocess", None, ge=1, description="larger images are reduced")
    image_factor: int | None = semantic(
        "preprocess", None, ge=1, le=1024, description="width and height of images become multiples of it"
    )

    @property
    def concurrency(self) -> int | None:
        """Requests in flight, whatever a config says: 1 when sequential, else None."""
        return 1 if self.sequential else None

    def effective(self) -> list[tuple[str, str, str]]:
        """(variable, value, where from) of every setting, as ``gage doctor`` shows them; secrets masked."""
        rows = []
        for name in type(self).model_fields:
            value = getattr(self, name)
            shown = "" if value is None else str(scrub(str(value)))
            if is_secret_name(name) and shown:
                shown = MASK
            where = "environment" if name in self.model_fields_set else "default"
            rows.append((PREFIX + name.upper(), shown, where))
        return rows


def load_settings() -> Settings:
    """The settings that the process's environment gives.

    Raises:
        InputError: a variable holds what its setting cannot be; the message names it.
    """
    try:
        return Settings()
    except ValidationError as error:
        sentences = []
        for found in plain_words(error, {}, Settings):
            name = str(found.loc[-1]).upper()
            sentences.append(f"{name if name.startswith(PREFIX) else PREFIX + name} {found.message}")
        raise InputError(" ".join(sentences)) from error


def fold(settings: Settings, config: PipelineConfig) -> PipelineConfig:
    """The expanded config with what the environment says of it written into it.

    A value the config gives itself stays: the environment is the weaker word.
    """
    config = expand(config)
    given = settings.model_fields_set
    own = {dataset.dataset_id: dataset.params for dataset in config.datasets}
    tasks = []
    for task in config.tasks:
        params = own.get(task.dataset_id)
        update: dict[str, Any] = {}
        if settings.max_samples is not None and task.max_samples is None:
            update["max_samples"] = settings.max_samples
        shuffle_said = task.shuffle is not None or (params is not None and "shuffle" in params.model_fields_set)
        if "shuffle" in given and not shuffle_said:
            update["shuffle"] = settings.shuffle
        seed_said = task.shuffle_seed is not None or (params is not None and "seed" in params.model_fields_set)
        if "shuffle_seed" in given and not seed_said:
            update["shuffle_seed"] = settings.shuffle_seed
        tasks.append(task.model_copy(update=update))
    datasets = [
        dataset.model_copy(update={"params": _with_media(dataset.params, settings)}) for dataset in config.datasets
    ]
    backends = [_with_concurrency(backend, settings.threads) for backend in config.backends]
    adapters = [
        adapter.model_copy(update={"backend": _with_concurrency(adapter.backend, settings.threads)})
        if adapter.backend is not None
        else adapter
        for adapter in config.role_adapters
    ]
    return config.model_copy(
        update={"tasks": tasks, "datasets": datasets, "backends": backends, "role_adapters": adapters}
    )


def _with_concurrency(backend: _BackendT, threads: int | None) -> _BackendT:
    if threads is None or _CONCURRENCY & backend.config.keys():
        return backend
    return backend.model_copy(update={"config": {**backend.config, "max_concurrency": threads}})


def _with_media(params: DatasetParams, settings: Settings) -> DatasetParams:
    update = {
        name: getattr(settings, name)
        for name in _MEDIA
        if name in settings.model_fields_set and name not in params.model_fields_set
    }
    return params.model_copy(update=update)
