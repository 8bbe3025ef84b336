"""The deployments and automations as files, for teams that use ``prefect deploy``.

python -m tools.deployment_files    write deployments/prefect.yaml and deployments/automations.yaml
"""

from pathlib import Path
from typing import Any

import yaml
from prefect.utilities.importtools import import_object

from gage_eval.local import launch
from gage_eval.local.deployments import GPU_POOL_VARIABLE, POOL, STORE_VARIABLE, Deployment, all_deployments

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "deployments" / "prefect.yaml"
AUTOMATIONS = ROOT / "deployments" / "automations.yaml"

_HEAD = """\
# Made from gage_eval/local/deployments.py by `python -m tools.deployment_files`; change a deployment there, not here.
#
#   prefect --no-prompt deploy --prefect-file deployments/prefect.yaml --all
#
# `gage deploy` does the same with pools of any name, and changes only what differs. The forms have the store and
# the work pool of engines that `gage deploy` was given last: the variables gage_eval_store and gage_eval_gpu_pool of
# the server. Without the first, workers need GAGE_EVAL_STORE. Workers need gage-eval installed.
"""
_HEAD_OF_AUTOMATIONS = """\
# Made from flows/lost_runs.py by `python -m tools.deployment_files`; change an automation there, not here.
#
#   prefect automation create --from-file deployments/automations.yaml
#
# For servers that `gage deploy` was never used with: it makes them too, and a second time changes nothing. This command
# makes each of them once more every time; the next `gage deploy` removes those.
"""
_GPU_POOL = "h100"


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def text() -> str:
    """The file as it should be."""
    content = {
        "name": "gage-eval",
        # Workers have the package installed: there is no code to pull.
        "pull": [],
        "deployments": [_entry(deployment) for deployment in all_deployments([_GPU_POOL])],
    }
    return _HEAD + "\n" + _yaml(content)


def automations_text() -> str:
    """The file of automations as it should be."""
    return _HEAD_OF_AUTOMATIONS + "\n" + _yaml({"automations": launch.automations()})


def _yaml(content: object) -> str:
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def _entry(deployment: Deployment) -> dict[str, Any]:
    parameters = dict(deployment.parameters)
    forms = import_object(deployment.entrypoint).parameters.properties
    if "model" in forms and "model" not in parameters:
        parameters["model"] = {"work_pool": f"{{{{ prefect.variables.{GPU_POOL_VARIABLE} }}}}"}
    if "storage" in forms:
        parameters["storage"] = {"store": f"{{{{ prefect.variables.{STORE_VARIABLE} }}}}"}
    entry: dict[str, Any] = {
        "name": deployment.name,
        "entrypoint": deployment.entrypoint,
        "description": deployment.description,
        "tags": deployment.all_tags,
        "parameters": parameters,
        "work_pool": {"name": deployment.pool or POOL},
    }
    if deployment.job_variables:
        entry["work_pool"]["job_variables"] = dict(deployment.job_variables)
    if deployment.concurrency is not None:
        entry["concurrency_limit"] = {"limit": deployment.concurrency, "collision_strategy": "ENQUEUE"}
    if deployment.cron is not None:
        entry["schedules"] = [{"cron": deployment.cron, "timezone": deployment.timezone}]
    return entry


def main() -> None:
    FILE.write_text(text(), encoding="utf-8")
    AUTOMATIONS.write_text(automations_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
