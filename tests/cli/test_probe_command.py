"""Promises of `gage probe --reference`: a table of verdicts, exit code 3 where one failed, refusals before it asks."""

import json
from pathlib import Path

import pytest

from gage_eval.models.backends.openai_http import OpenAIHTTP, read_chat
from gage_eval.models.client.types import Request, Response
from tests.cli.conftest import Gage
from tests.support.checked_endpoint import reply_to
from tests.support.workspace import write_config


def test_an_endpoint_is_recorded_once_and_checked_later(
    gage: Gage, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, url = "", "http://127.0.0.1:9/v1"

    async def call(self: OpenAIHTTP, request: Request, body: bytes) -> Response:
        status, reply = reply_to(json.loads(body), broken)
        if status != 200:
            return Response("error", error_kind=f"http_{status}")
        # The throughput depends on this machine.
        del reply["usage"]["completion_tokens"]
        return read_chat(reply)

    monkeypatch.setattr(OpenAIHTTP, "call", call)
    write_config(
        workspace,
        backends=[{"backend_id": "model", "type": "openai_http", "config": {"base_url": url, "model": "m"}}],
    )
    recorded = gage("probe", "mine.yaml", "--record", "m.json", "--prompts", "20", "--context", "4096")
    assert recorded.code == 0
    assert "there is no reference to compare it with" in recorded.out
    again = gage("probe", "mine.yaml", "--reference", "m.json", "--json")
    assert again.code == 0
    assert {x["verdict"] for x in again.json[0]["properties"] if x["property"] != "throughput"} == {"passed"}
    assert recorded.out.rstrip().endswith(f"recorded m.json (sha256 {again.json[0]['reference']})")
    broken = "stop_strings"
    checked = gage("probe", "mine.yaml", "--reference", "m.json")
    assert checked.code == 3
    lines = {line.split("  ")[0]: line for line in checked.out.splitlines()}
    assert "failed" in lines["stop strings"]
    assert "an answer goes on after its stop string" in lines["stop strings"]
    # A reference may be given to others: it has no address and no path in it.
    assert url not in (workspace / "m.json").read_text()
    assert str(workspace) not in (workspace / "m.json").read_text()


def test_what_cannot_be_checked_is_refused_before_anything_is_asked(gage: Gage, workspace: Path) -> None:
    (workspace / "there.json").write_text("{}")
    for words, said in (
        (("--prompts", "20"), "name one"),
        (("--record", "there.json"), "is there already"),
        (("--record", "new.json", "--tolerance", "nan"), "'--tolerance'"),
        (("--reference", "there.json"), "holds no reference"),
        (("--reference", "none.json"), "cannot be read"),
    ):
        refused = gage("probe", "mine.yaml", *words)
        assert (refused.code, said in refused.err, "Traceback" in refused.err) == (2, True, False), refused.err
    adapters = [{"adapter_id": name, "role_type": "dut_model", "backend_id": name} for name in ("model", "second")]
    backends = [{"backend_id": name, "type": "dummy", "config": {"answer": name}} for name in ("model", "second")]
    tasks = [{"task_id": name, "dataset_id": "sums", "adapter_id": name} for name in ("model", "second")]
    write_config(workspace, backends=backends, role_adapters=adapters, tasks=tasks)
    refused = gage("probe", "mine.yaml", "--record", "new.json")
    assert refused.code == 2
    assert "asks several models" in refused.err, refused.err
    assert not (workspace / "new.json").exists()
