"""The list of deployments: one per suite, those for maintenance, and the file that is made from them."""

from pathlib import Path

import yaml
from prefect import Flow
from prefect.events.schemas.automations import AutomationCore
from prefect.utilities.importtools import import_object

from flows.lost_runs import lost_run_automations
from gage_eval.base.liveness import LOST_AFTER_S
from gage_eval.config.suites.templates import list_suites
from gage_eval.local.deployments import TAG, all_deployments
from gage_eval.local.entrypoints import FLOWS
from tools.deployment_files import AUTOMATIONS, FILE, automations_text, text

POOLS = ("h100", "a100")
OTHERS = {
    *("evaluate", "triage", "cache-gc", "cache-verify"),
    *("serve-h100", "serve-a100", "evaluate-h100", "evaluate-a100"),
    *("warm-models-h100", "warm-models-a100"),
}


def test_every_suite_has_one_deployment() -> None:
    # A pool of boxes that is a pool of engines, too, has one deployment of `serve`.
    names = [deployment.name for deployment in all_deployments(POOLS, ["boxes", "h100"])]
    suites = {suite.name for suite in list_suites()}
    assert set(names) == suites | OTHERS | {"serve-boxes"}
    assert len(names) == len(set(names))


def test_every_flow_has_a_deployment() -> None:
    # A file of nightly runs makes a deployment of `nightly`.
    assert {deployment.flow for deployment in all_deployments(POOLS)} == FLOWS.keys() - {"nightly"}


def test_every_entrypoint_is_a_flow() -> None:
    for name in FLOWS:
        assert isinstance(import_object(f"gage_eval.local.entrypoints.{name}"), Flow)


def test_every_deployment_has_a_description_and_the_tag() -> None:
    for deployment in all_deployments(POOLS):
        assert deployment.description.endswith(".") or "\n- " in deployment.description
        assert TAG in deployment.all_tags


def test_the_parameters_of_every_deployment_fit_its_flow() -> None:
    for deployment in all_deployments(POOLS):
        flow = import_object(deployment.entrypoint)
        assert flow.parameters.properties.keys() >= deployment.parameters.keys()


def test_the_file_for_prefect_deploy_is_fresh(repo_root: Path) -> None:
    assert repo_root / "deployments" / "prefect.yaml" == FILE
    assert FILE.read_text(encoding="utf-8") == text(), "write it by python -m tools.deployment_files"
    assert [entry["name"] for entry in yaml.safe_load(text())["deployments"]] == [
        deployment.name for deployment in all_deployments(["h100"])
    ]


def test_the_file_of_automations_is_fresh_and_prefect_reads_it() -> None:
    assert AUTOMATIONS.read_text(encoding="utf-8") == automations_text(), "write it by python -m tools.deployment_files"
    automations = [
        AutomationCore.model_validate(automation) for automation in yaml.safe_load(automations_text())["automations"]
    ]
    assert automations == list(lost_run_automations(LOST_AFTER_S).values())
