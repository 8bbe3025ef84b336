"""The dashboard: every panel asks for a metric that runs or the server have."""

import inspect
import json
import re
from pathlib import Path

import prometheus_client
import pytest

from gage_eval.observability import otel

FILE = Path(__file__).parents[2] / "deployments" / "grafana.json"
NAME = re.compile(r"\b(?:gage_eval|gen_ai|process)_[a-z_]+(?=[{\[])")
# Of the name in Prometheus, by OpenTelemetry's rules for units.
UNITS = {"s": "_seconds"}


def metrics_of_runs() -> set[str]:
    """Their names in Prometheus."""
    made = re.findall(r'create_(counter|histogram)\(\s*"([a-z_.]+)",\s*"([^"]+)"', inspect.getsource(otel))
    return {
        name.replace(".", "_") + UNITS.get(unit, "") + end
        for kind, name, unit in made
        for end in (["_total"] if kind == "counter" else ["_bucket", "_sum", "_count"])
    }


def metrics_of_the_server() -> set[str]:
    return {sample.name for family in prometheus_client.REGISTRY.collect() for sample in family.samples}


@pytest.mark.parametrize("panel", json.loads(FILE.read_text())["panels"], ids=lambda panel: panel["title"])
def test_a_panel_shows_metrics_that_there_are(panel: dict[str, object]) -> None:
    targets = panel["targets"]
    assert isinstance(targets, list)
    for target in targets:
        names = set(NAME.findall(target["expr"]))
        assert names
        assert names <= metrics_of_runs() | metrics_of_the_server()
