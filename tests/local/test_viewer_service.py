"""Promises of the viewer next to the Prefect server: started once, its token kept from others, linked without it."""

import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import gage_eval
from gage_eval.base import ports
from gage_eval.base.errors import GageError, InputError
from gage_eval.base.ports import free_port
from gage_eval.local import server, viewer_service
from gage_eval.local.viewer_service import VIEWER, Viewer
from gage_eval.runs.options import Locations
from tests.cli.conftest import Gage, gage, workspace  # noqa: F401 - fixtures

HERE = server.HOME


@pytest.fixture
def home(workspace: Path) -> Iterator[Path]:  # noqa: F811 - the fixture
    HERE.mkdir(parents=True)
    yield HERE
    server.stop()


def _start() -> Viewer:
    return viewer_service.start(HERE, free_port())[0]


def test_a_link_of_the_ui_asks_for_the_token_once_and_then_shows_the_run(home: Path) -> None:
    serving = _start()
    assert (viewer_service.start(HERE), VIEWER.find(HERE)) == ((serving, False), serving), "started once"
    gage_eval.run("mine.yaml", run_id="first", inline=True)

    link = serving.page_of(Locations.at(), "first")
    assert link == f"{serving.url}/runs/first"
    with httpx.Client(follow_redirects=True, trust_env=False) as browser:
        response = browser.get(link)
        assert response.status_code == 401
        assert 'name="token"' in response.text
        form = {"token": (home / "viewer.token").read_text(), "address": "/runs/first"}
        shown = browser.post(f"{serving.url}/token", data=form, headers={"origin": serving.url})
        assert (shown.status_code, shown.url.path) == (200, "/runs/first")
        assert browser.get(link).status_code in (200, 202), "it asks once"

    before = serving.link(HERE)
    assert httpx.get(before, trust_env=False).status_code == 303
    assert server.stop() is False, "no Prefect server was running"
    assert VIEWER.find(HERE) is None
    again = _start()
    assert again.link(HERE).partition("?")[2] == before.partition("?")[2], "the token outlives a restart"


def test_only_the_owner_can_read_the_token_and_no_log_has_it(home: Path) -> None:
    _start()
    file = home / "viewer.token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    others = (home / "viewer.log").read_text() + (home / "viewer.json").read_text()
    assert file.read_text() not in others


def test_a_token_of_the_environment_is_used_and_not_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGE_EVAL_VIEWER_TOKEN", "from-the-environment")
    serving = _start()
    assert serving.link(HERE) == serving.url
    answer = httpx.get(serving.url, params={"token": "from-the-environment"}, trust_env=False)
    assert answer.status_code == 303
    assert not any(b"from-the-environment" in file.read_bytes() for file in home.iterdir())


def test_only_runs_that_the_viewer_shows_are_linked(home: Path) -> None:
    serving = Viewer(pid=1, group=1, born=1, port=4280, runs=str(Path(".gage/runs").absolute()), own_token=True)
    assert serving.page_of(Locations.at(), "a b") == "http://127.0.0.1:4280/runs/a%20b"
    assert serving.page_of(Locations.at(str(Path(".gage").absolute())), "a") is not None
    assert serving.page_of(Locations.at("other"), "a") is None
    assert serving.page_of(Locations.at("s3://bucket/store"), "a") is None
    assert server.run_page("http://team:4200/api", Locations.at(), "a") is None, "another server shows the run"


def test_a_viewer_that_cannot_start_says_why(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer_service.sys, "executable", "/bin/false")
    with pytest.raises(GageError, match=r"the viewer ended at its start \(exit code 1\)"):
        _start()
    assert VIEWER.find(HERE) is None
    monkeypatch.setattr(ports, "is_free", lambda port: False)
    with pytest.raises(InputError, match="is taken: give another --viewer-port"):
        viewer_service.start(HERE, 4280)


def test_the_commands_start_name_and_stop_it(
    home: Path,
    gage: Gage,  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prefect = server.PrefectServer(pid=1, group=1, born=1, port=4200)
    monkeypatch.setattr(server, "start", lambda port: (prefect, True))
    assert "Viewer" not in gage("server", "start", "--no-worker", "--no-viewer").out
    assert gage("server", "status", "--json").json["viewer"] is None

    started = gage("server", "start", "--no-worker", "--viewer-port", str(free_port()))
    serving = VIEWER.find(HERE)
    assert serving is not None
    assert f"Viewer started: {serving.link(HERE)}\n" in started.out
    assert f"The viewer is running: {serving.link(HERE)} (process" in gage("server", "status").out
    assert gage("server", "status", "--json").json["viewer"] == serving.url
    gage("server", "stop")
    assert VIEWER.find(HERE) is None
