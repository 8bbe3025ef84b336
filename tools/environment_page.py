"""docs/environment.md, made from the settings.

python -m tools.environment_page    write the page
"""

from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from gage_eval.marks import mark_of
from gage_eval.settings import Settings, variables_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "environment.md"

_HEAD = """# Environment variables

Made from the code by `python -m tools.environment_page`; change a description there, not on this page.

The command line counts before a config, a config before the environment. An empty variable is as good as none, and a
value that cannot be used is an error that names its variable. `gage doctor` shows which are set.

## Settings

Those with a stage change results: what they say is written into the config, and is part of the keys from there
on.

| variable | default | sets | changes results from |
|---|---|---|---|
"""

_OTHERS = """
## Others that are read

| variable | for |
|---|---|
| `PREFECT_API_URL` | the Prefect API that runs go to; else the local server of the folder, else the active profile's |
| `PREFECT_PROFILE`, `PREFECT_HOME` | which Prefect profile is active, and the folder with `profiles.toml` |
| `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_ENDPOINT_URL`, … | stores and data on S3, as usual |
| `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY` | requests to endpoints, those on this machine excepted |
| `CUDA_VISIBLE_DEVICES` | the GPUs that engines share |
| `XDG_CACHE_HOME` | hashes of large files, and answers on their way to a store on S3; `~/.cache` unless given |

A config reads the variables it names: `${NAME}` and `${NAME:-default}` anywhere, `env:NAME` where a key belongs. The
configs in `configs/pipelines` name `LOCAL_DATASETS_ROOT`, `MODEL_BASE_URL` and `MODEL_NAME`.

Engines and Prefect read variables of their own, and inherit the environment of `gage`.
"""


def page() -> str:
    """The page as it should be."""
    return _HEAD + "\n".join(_rows()) + "\n" + _OTHERS


def _rows() -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        variables = ", ".join(f"`{variable}`" for variable in variables_of(name))
        stage = mark_of(Settings, name)[1]
        yield f"| {variables} | {_default(field)} | {field.description} | {f'`{stage}`' if stage else '–'} |"


def _default(field: FieldInfo) -> str:
    return "–" if field.default is None else f"`{str(field.default).lower()}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
