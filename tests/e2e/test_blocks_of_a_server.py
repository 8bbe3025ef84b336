"""Blocks of a real Prefect server: registered, used by name, and their secrets nowhere to be read."""

from pathlib import Path

import pytest
import yaml
from support.endpoint import mock_endpoint
from support.prefect import Prefect
from support.runs import gage, write_config

pytestmark = pytest.mark.server

CANARY = "canary-9c41e7d02b"
CREATE = """
import json, sys
from blocks import ArtifactStore, ModelEndpoint
url, folder, key = sys.argv[1:]
ModelEndpoint(base_url=url, model="mock", api_key=key).save("team", overwrite=True, _sync=True)
ArtifactStore(url=folder, secret_access_key=key).save("shelf", overwrite=True, _sync=True)
print(json.dumps(True))
"""


def test_runs_use_blocks_by_name_and_their_secrets_stay_on_the_server(prefect: Prefect, tmp_path: Path) -> None:
    assert "Model Endpoint" in gage(tmp_path, "blocks", "register", env=prefect.env).stdout
    shelf = tmp_path / "shelf"
    with mock_endpoint() as endpoint:
        prefect.script(CREATE, endpoint.url, str(shelf), CANARY)
        config = write_config(tmp_path, endpoint.url, rows=5)
        written = yaml.safe_load(config.read_text())
        written["backends"] = [{"backend_id": "mock", "block": "team"}]
        config.write_text(yaml.safe_dump(written))

        done = gage(tmp_path, "run", config.name, "--store", "block:shelf", "--run-id", "by-name", env=prefect.env)
        assert endpoint.stats()["requests"] == 5
        valid = gage(tmp_path, "validate", config.name, env=prefect.env).stdout
        assert "is valid" in valid
        parameters = {
            "config": str(config),
            "model": {"block": "model-endpoint/team"},
            "storage": {"store": "block:shelf"},
        }
        flow_run = prefect.submit("evaluate/evaluate", parameters)
        ended = prefect.finished(flow_run)
        assert ended["state"]["name"] == "Completed", ended["state"]["message"]
        assert endpoint.stats()["requests"] == 5

    text = done.stdout + done.stderr + str(prefect.log(flow_run)) + str(prefect.artifacts(flow_run)) + str(ended)
    assert CANARY not in text
    files = [file for folder in (tmp_path, prefect.folder) for file in folder.rglob("*") if file.is_file()]
    assert files
    assert [file for file in files if CANARY.encode() in file.read_bytes()] == []
    assert gage(tmp_path, "show", "by-name", "--store", str(shelf)).stdout
    refused = gage(tmp_path, "show", "by-name", "--store", "block:shelf", check=False)
    assert (refused.returncode, "names a Prefect block" in refused.stderr) == (2, True)
    lost = gage(tmp_path, "run", config.name, "--store", "block:shlef", env=prefect.env, check=False)
    assert (lost.returncode, "no Artifact Store block 'shlef'" in lost.stderr) == (2, True)
