"""Generates docs/environment.md from the settings.

python -m tools.environment_page    write the page
"""

from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from gage_eval.base.marks import mark_of
from gage_eval.config.settings import REPLACED, Settings, variables_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "environment.md"

_HEAD = """# Environment variables

Made from the code by `python -m tools.environment_page`; change a description there, not on this page.

An option of a command comes before a config, and a config before a variable. An empty variable counts as not set.
A value that cannot be used is an error that names the variable. A misspelt `GAGE_EVAL_…` gives a warning. `gage doctor`
shows which variables are set.

## Settings

Variables with a stage in the last column change results: their value becomes part of the config, and of the keys from
that stage on.

| variable | default | sets | changes results from |
|---|---|---|---|
"""

_REPLACED = """
## Replaced variables

These variables of earlier designs have no effect. A run that finds one set says so and continues.

| variable | instead |
|---|---|
"""

_OTHERS = """
## Other variables

| variable | for |
|---|---|
| `PREFECT_API_URL` | where runs go; by default the folder's local server, or else the active profile's API |
| `PREFECT_PROFILE`, `PREFECT_HOME` | which Prefect profile is active, and the folder with `profiles.toml` |
| `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_ENDPOINT_URL`, … | stores and data on S3, as usual |
| `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY` | proxies for requests to endpoints on other machines |
| `SSL_CERT_FILE`, `SSL_CERT_DIR` | more certificates to trust for endpoints: your own authority's |
| `OTEL_SERVICE_NAME`, `OTEL_EXPORTER_OTLP_ENDPOINT`, … | where and as what traces and metrics are sent, as usual |
| `CUDA_VISIBLE_DEVICES` | the GPUs that engines share |
| `VIRTUAL_ENV` | the environment for which messages name the command that installs a missing package |
| `DOCKER_HOST`, `CONTAINER_HOST` | the unix socket of Docker and of Podman, as `unix:///run/podman/podman.sock`; \
where they usually are by default |
| `XDG_RUNTIME_DIR` | the folder of a user's own Podman socket; `/run/user/UID` by default |
| `XDG_CACHE_HOME` | where hashes of large files, and answers for a store on S3, are kept; `~/.cache` by default |
| `PATH`, `PYTHONPATH`, `LD_LIBRARY_PATH`, `TMPDIR` | how the box starts; programs in it do not see them |

A config also reads the variables it names: `${NAME}` and `${NAME:-default}` anywhere, and `env:NAME` for a key. The
configs in `configs/pipelines` name `LOCAL_DATASETS_ROOT`, `MODEL_BASE_URL` and `MODEL_NAME`; that of MMMU-Pro also
`MMMU_PRO_SETTING` and `MMMU_PRO_MODE`. `DOCVQA_JSONL_PATH` and `DOCVQA_IMAGE_ROOT` of older DocVQA configs work
the same way; the suite `docvqa` fetches its data, or takes them from the folder of `--data`.

Engines and Prefect inherit the environment of `gage` and also read their own variables.
"""


def page() -> str:
    """The generated page."""
    replaced = "\n".join(f"| `{name}` | {text} |" for name, text in REPLACED.items())
    return _HEAD + "\n".join(_rows()) + "\n" + _REPLACED + replaced + "\n" + _OTHERS


def _rows() -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        variables = ", ".join(f"`{variable}`" for variable in variables_of(name))
        stage = mark_of(Settings, name)[1]
        yield f"| {variables} | {_default(field)} | {field.description} | {f'`{stage}`' if stage else '–'} |"


def _default(field: FieldInfo) -> str:
    return "–" if field.default is None else f"`{str(field.default).lower()}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
