"""Settings from the environment: ``GAGE_EVAL_*``.

The command line counts before a config, a config before the environment: values that a config could hold are put into
it where it leaves them unset (`gage_eval.config.environment`). The others only say where and how fast.
"""

import os
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from gage_eval.base.errors import InputError, closest
from gage_eval.base.marks import identity, scheduling, semantic
from gage_eval.config.environment import EnvironmentValue, local_model
from gage_eval.config.secrets import MASK, is_secret_name, scrub
from gage_eval.data.datasets.fetch import DEFAULT_CACHE
from gage_eval.data.datasets.origins import GITHUB

PREFIX = "GAGE_EVAL_"


_MEDIA = "media are stored once, by their hash, and read by GAGE_EVAL_EMBED_MEDIA_THREADS threads."

# Settings whose variables have other names. The first variable that is set counts.
_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "threads": (f"{PREFIX}THREADS", f"{PREFIX}CONCURRENCY"),
    "vllm_native_model_path": ("VLLM_NATIVE_MODEL_PATH",),
}

# Variables of the first design that nothing needs any more, and what there is instead.
REPLACED: Mapping[str, str] = {
    "GAGE_EVAL_FF_MODE": "requests are always sent without waiting for each other.",
    "GAGE_EVAL_BUFFER_THRESHOLD": "results are tables in the store, whatever their number.",
    "GAGE_EVAL_BUFFER_BATCH_SIZE": "each answer is in a log before the next request is sent.",
    "GAGE_EVAL_BUFFER_FLUSH_S": "each answer is in a log before the next request is sent.",
    "GAGE_VISUAL_CACHE_DIR": _MEDIA,
    "GAGE_VISUAL_PROCESSPOOL": _MEDIA,
    "GAGE_VISUAL_PROCESSPOOL_THRESHOLD": _MEDIA,
    "GAGE_EVAL_INMEMORY_TRACE": "tests pass an observer to the Python API instead.",
    "GAGE_EVAL_ENABLE_ASYNC_HTTP": "requests are always asynchronous.",
    "GAGE_EVAL_VLLM_ISOLATED": "engines always run in processes of their own.",
    "GAGE_EVAL_VLLM_STRICT_MM": "images for a model that takes none are always an error.",
    "GAGE_EVAL_VLLM_PROMPT_ONLY": "a prompt (`prompt_id`) whose template has only text sends no images.",
    "GAGE_EVAL_BLOCK_ON_FULL": "the queue always waits for room; no sample is dropped.",
    "GAGE_EVAL_QUEUE_BLOCK_S": "waiting for room has no limit; `timeout` of the backend limits each request.",
}


class Settings(BaseModel):
    """Settings from environment variables. Every field is marked like a config field."""

    model_config = ConfigDict(frozen=True)

    store: str = scheduling(".gage", description="URL or folder of the artifact store")
    save_dir: str | None = scheduling(None, description="folder of runs; `runs` in the store unless given")
    store_patience: float = scheduling(
        300.0, ge=0, description="seconds for which a run waits for a store on S3 that stopped answering"
    )
    data_cache: str = scheduling(
        DEFAULT_CACHE, description="folder that keeps the data of suites, fetched once and verified"
    )
    data_dir: str | None = scheduling(
        None, description="folder that holds the data of suites in any layout; nothing is fetched then"
    )
    data_url: str = scheduling(GITHUB, description="where the data of suites are fetched from, or a mirror of it")
    viewer_cache: str = scheduling(
        "~/.cache/gage-eval/viewer", description="folder that keeps the indexes of `gage view`"
    )
    viewer_token: str | None = scheduling(
        None, description="token that the pages of `gage view` ask for; a new one for each start unless given"
    )
    viewer_url: str | None = scheduling(
        None,
        pattern=r"^https?://[^/?#@\s]+$",
        description="address at which a team reaches `gage view` through a proxy, such as `https://runs.example.org`",
    )
    suites: str | None = scheduling(None, description="folders of your own suites, separated as in `PATH`")
    tau2: str | None = scheduling(None, description="checkout of tau²-bench, whose tools and evaluator are run")
    plugins: str | None = scheduling(
        None,
        description="code that runs started by a Prefect server may load on this worker, separated by commas: "
        "`sha256:` and the hash of a file, a distribution, the path of an interpreter, `.` for files that configs of "
        "the worker's folder name, or `*` for any; none by default",
    )
    travel_mib: int = scheduling(
        64, ge=0, description="most MiB of config, plug-ins and data that travel with a run to a worker"
    )
    serve_host: str = scheduling(
        "127.0.0.1",
        min_length=1,
        description="address of this machine where engines that are served on a work pool listen; runs must reach it",
    )
    serve_tls: bool = scheduling(
        default=False,
        description="engines that are served on a work pool speak TLS, with a certificate that only their runs know",
    )
    threads: int | None = scheduling(
        None,
        ge=1,
        description="requests in flight at a backend whose config sets no `max_concurrency`",
    )
    max_inflight: int | None = scheduling(None, ge=1, description="most requests of a step in flight")
    prefetch_factor: int | None = scheduling(
        None, ge=1, le=1000, description="requests that are rendered ahead, as a multiple of those in flight"
    )
    future_timeout: float | None = scheduling(
        None, gt=0, description="seconds for one request at a backend whose config sets no `timeout`"
    )
    sequential: bool = scheduling(default=False, description="one request at a time, and one task after the other")
    autoeval_workers: int | None = scheduling(
        None, ge=1, description="processes that score; unless given, the process of the run scores"
    )
    disable_buffered_writer: bool = scheduling(
        default=False, description="write a JSON file for each sample (`export: [per_sample_json]`)"
    )
    enable_buffered_writer: bool = scheduling(
        default=False, description="write all samples to one JSONL file (`export: [jsonl]`)"
    )
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
    observability: bool = scheduling(
        default=False, description="every sample is an event, whatever the config's `sample_rate`"
    )
    enable_log_sink: bool = scheduling(default=True, description="log messages are events")
    log_sink_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = scheduling(
        "INFO", description="least level of log messages that are events"
    )
    report_http_url: str | None = scheduling(None, description="URL that events are sent to, in batches")
    report_http_batch: int = scheduling(50, ge=1, description="most events in a batch")
    report_http_fail_pct: float = scheduling(
        5.0, ge=0, le=100, description="percentage of failed batches above which events only go to a local file"
    )
    report_http_timeout: float = scheduling(10.0, gt=0, description="seconds for sending a batch")
    otel: bool = scheduling(
        default=False, description="traces and metrics go to the collector that the `OTEL_…` variables name"
    )

    vllm_native_model_path: str | None = identity(
        "infer",
        None,
        description="model of every `vllm_native` backend, whatever its config says",
    )

    @property
    def concurrency(self) -> int | None:
        """Requests in flight, whatever a config says: 1 when sequential, else None."""
        return 1 if self.sequential else None

    def values_set(self) -> dict[str, EnvironmentValue]:
        """The values that are set, each with its variable."""
        out, environment = {}, _environment()
        for name in self.model_fields_set:
            value = getattr(self, name)
            if name == "vllm_native_model_path":
                value = local_model(value)
            out[name] = EnvironmentValue(_variable_of(name, environment), value)
        return out

    def effective(self) -> list[tuple[str, str, str]]:
        """(variable, value, where from) of every setting, as ``gage doctor`` shows them; secrets masked."""
        rows, environment = [], _environment()
        for name in type(self).model_fields:
            value = getattr(self, name)
            shown = "" if value is None else str(scrub(str(value)))
            if is_secret_name(name) and shown:
                shown = MASK
            where = "environment" if name in self.model_fields_set else "default"
            rows.append((_variable_of(name, environment), shown, where))
        return rows


def variables_of(name: str) -> tuple[str, ...]:
    """The variables that a setting is read from."""
    return _VARIABLES.get(name, (PREFIX + name.upper(),))


def _environment() -> dict[str, str]:
    """The variables that are set and not empty, with their names in upper case."""
    return {name.upper(): value for name, value in os.environ.items() if value}


def _variable_of(name: str, environment: Mapping[str, str]) -> str:
    """The variable of a setting: of several the one that is set, else the first."""
    names = variables_of(name)
    return next((variable for variable in names if variable in environment), names[0])


def unknown_variables() -> list[str]:
    """A sentence for each variable of the environment that no setting reads: replaced ones and misspelt ones."""
    known = [variable for name in Settings.model_fields for variable in variables_of(name)]
    replaced = [f"{name} has no effect: {text}" for name, text in REPLACED.items() if os.environ.get(name)]
    return replaced + [
        f"the environment sets {name}, which is not a setting and has no effect.{closest(name, known)}"
        for name in sorted(os.environ)
        if name.upper().startswith(PREFIX) and name.upper() not in {*known, *REPLACED}
    ]


def load_settings() -> Settings:
    """Load the settings from the process's environment.

    Raises:
        InputError: a variable holds what its setting cannot be; the message names it.
    """
    environment = _environment()
    variables = {name: _variable_of(name, environment) for name in Settings.model_fields}
    try:
        return Settings.model_validate(
            {name: environment[variable] for name, variable in variables.items() if variable in environment}
        )
    except ValidationError as error:
        from gage_eval.config.validation_messages import plain_words

        problems = plain_words(error, {}, Settings)
        sentences = (f"{variables[str(problem.loc[-1])]} {problem.message}" for problem in problems)
        raise InputError(" ".join(sentences)) from error
