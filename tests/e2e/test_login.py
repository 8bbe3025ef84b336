"""The local server answers only who has its login: no other origin, no rebound name, no other user of the machine."""

import json
import stat
from functools import partial
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest
from support.prefect import Prefect
from support.runs import gage
from support.waiting import PATIENCE_S
from websockets import Origin, Subprotocol
from websockets.exceptions import ConnectionClosedError, InvalidHandshake
from websockets.frames import CloseCode
from websockets.sync.client import connect

from gage_eval.local import server

pytestmark = pytest.mark.server

ELSEWHERE = "http://evil.example"
START = "/deployments/name/evaluate/evaluate"


def status(prefect: Prefect, path: str, method: str = "POST", **headers: str) -> tuple[int, dict[str, str]]:
    """The status of an answer, and its headers."""
    body = b"{}" if method == "POST" else None
    request = Request(prefect.api_url + path, body, {"Content-Type": "application/json", **headers}, method=method)
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=PATIENCE_S) as reply:
            return reply.status, dict(reply.headers)
    except HTTPError as error:
        return error.code, dict(error.headers)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="another user"),
        pytest.param({"Origin": ELSEWHERE}, id="another origin"),
        pytest.param({"Host": "evil.example"}, id="a rebound name"),
        pytest.param({"Authorization": "Basic Z2FnZTpndWVzcw=="}, id="a guess"),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/flow_runs/filter"),
        ("POST", "/deployments/filter"),
        ("GET", START),
        ("POST", "/flow_runs/"),
        ("GET", "/metrics"),
    ],
)
def test_without_the_login_nothing_is_read_or_started(
    prefect: Prefect, method: str, path: str, headers: dict[str, str]
) -> None:
    code, answered = status(prefect, path, method, **headers)
    assert code == HTTPStatus.UNAUTHORIZED
    assert answered.get("access-control-allow-origin") is None


def test_a_browser_does_not_let_a_page_of_another_origin_send_the_login(prefect: Prefect) -> None:
    asks = {"Origin": ELSEWHERE, "Access-Control-Request-Method": "POST"}
    code, answered = status(prefect, "/flow_runs/filter", "OPTIONS", **asks)
    assert code == HTTPStatus.BAD_REQUEST
    assert answered.get("access-control-allow-origin") is None


@pytest.mark.parametrize("first", [{"type": "auth", "token": None}, {"type": "auth", "token": "gage:guess"}, {}])
@pytest.mark.parametrize("path", ["/events/in", "/events/out", "/logs/out", "/task_runs/subscriptions/scheduled"])
def test_a_page_of_another_origin_gets_no_socket_without_the_login(
    prefect: Prefect, path: str, first: dict[str, str | None]
) -> None:
    """Browsers let every page open sockets to any address."""
    url = prefect.api_url.replace("http:", "ws:") + path
    patient = partial(connect, url, origin=Origin(ELSEWHERE), proxy=None, open_timeout=PATIENCE_S, ping_interval=None)
    with patient(subprotocols=[Subprotocol("prefect")]) as socket:
        socket.send(json.dumps(first))
        with pytest.raises(ConnectionClosedError) as closed:
            socket.recv(timeout=PATIENCE_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == CloseCode.POLICY_VIOLATION
    with pytest.raises(InvalidHandshake), patient():
        pass


def test_the_login_opens_and_only_its_owner_can_read_it(prefect: Prefect) -> None:
    assert status(prefect, "/flow_runs/filter", **prefect.headers)[0] == HTTPStatus.OK
    assert status(prefect, "/metrics", "GET", **prefect.headers)[0] == HTTPStatus.OK
    assert stat.S_IMODE(server.login_file(prefect.home).stat().st_mode) == 0o600


def test_a_form_runs_no_code_but_that_of_the_folders_configs_and_keeps_no_key(prefect: Prefect) -> None:
    ran = prefect.folder / "ran"
    (prefect.folder / "mine.py").write_text(
        f"from pathlib import Path\nPath({str(ran)!r}).touch()\ndef mine(prediction, reference):\n    return 1.0\n"
    )
    text = (
        "datasets: [{{dataset_id: d, params: {{path: d.jsonl{named}}}}}]\nbackends: [{{type: dummy}}]\n"
        "metrics: [{{metric_id: own, implementation: '{metric}'}}]\n"
    )
    attack = text.format(named=", doc_to_text: 'subprocess:check_output'", metric="mine.py:mine")
    own = prefect.folder / "own.yaml"
    own.write_text(text.format(named="", metric="mine.py:mine"))
    (prefect.folder / "d.jsonl").write_text(
        '{"id": "1", "messages": [{"role": "user", "content": "1?"}], "references": ["1"]}\n'
    )
    literal = "hunter2hunter2"
    where = {"storage": {"store": str(prefect.folder / ".gage")}}
    refused = [
        prefect.submit("evaluate/evaluate", {"config": str(prefect.folder), **parameters, **where})
        for parameters in (
            {"text": attack},
            {"text": text.format(named="", metric="exact_match") + f"metadata: {{name: x, api_key: {literal}}}\n"},
        )
    ]
    for flow_run in refused:
        run = prefect.finished(flow_run)
        assert run["state_type"] == "FAILED"
        assert literal not in str(run)
    assert "not allowed on this server" in prefect.flow_state(refused[0])[1]
    assert not ran.exists()
    with pytest.raises(HTTPError) as problem:
        prefect.submit("evaluate/evaluate", {"config": str(own), "model": {"key_variable": literal}, **where})
    assert problem.value.code == HTTPStatus.CONFLICT
    kept = prefect.api("POST", "/flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}})
    assert literal not in str(kept)

    completed = prefect.finished(prefect.submit("evaluate/evaluate", {"config": str(own), **where}))
    assert completed["state_type"] == "COMPLETED", completed["state"]["message"]
    assert ran.exists()


def test_doctor_tells_a_missing_login_from_a_server_that_is_gone(prefect: Prefect, tmp_path: Path) -> None:
    ours = gage(prefect.folder, "doctor").stdout
    assert f"{prefect.api_url} answers" in ours
    elsewhere = gage(tmp_path, "doctor", env={"PREFECT_API_URL": prefect.api_url}, check=False).stdout
    assert "401" in elsewhere
    assert "PREFECT_API_AUTH_STRING" in elsewhere
