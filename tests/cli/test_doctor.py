"""doctor names what is broken and exits 1; what is merely absent does no harm. And the start of the command line."""

import subprocess
import sys
from pathlib import Path

import pytest

from gage_eval.box.executors import probe
from tests.cli.conftest import Gage


def test_a_sound_installation_is_ok_and_looking_makes_nothing(gage: Gage, workspace: Path) -> None:
    before = sorted(workspace.iterdir())
    said = gage("doctor", "--json")
    assert said.code == 0
    assert said.json["ok"] is True
    checks = {check["what"]: check for check in said.json["checks"]}
    assert checks["prefect api"]["state"] == "absent"
    assert checks["store"]["state"] == "ok"
    assert checks["pyarrow"]["finding"]
    assert sorted(workspace.iterdir()) == before


def test_each_executor_of_boxes_has_a_line_that_says_whether_it_contains_programs_here(
    gage: Gage, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {executor.name: executor.problem for executor in probe()}
    checks = {check["what"]: check for check in gage("doctor", "--json").json["checks"]}
    for name, problem in here.items():
        assert checks[f"box: {name}"]["state"] == ("ok" if problem is None else "absent")
    monkeypatch.setenv("PATH", "/nowhere")
    checks = {check["what"]: check for check in gage("doctor", "--json").json["checks"]}
    assert checks["box: bubblewrap"]["state"] == "absent"
    assert "apt-get install bubblewrap" in checks["box: bubblewrap"]["finding"]


def test_settings_are_shown_with_where_they_come_from(gage: Gage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGE_EVAL_THREADS", "7")
    settings = {setting["name"]: setting for setting in gage("doctor", "--json").json["settings"]}
    assert settings["GAGE_EVAL_THREADS"] == {"name": "GAGE_EVAL_THREADS", "value": "7", "from": "environment"}
    assert settings["GAGE_EVAL_STORE"]["from"] == "default"


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("GAGE_EVAL_THREADS", "many", "settings"),
        ("PREFECT_API_URL", "http://127.0.0.1:9/api", "prefect api"),
        ("PREFECT_API_URL", "127.0.0.1:4200/api", "prefect api"),
        ("GAGE_EVAL_STORE", "ftp://host/store", "store"),
        ("GAGE_EVAL_STORE", "mine.yaml", "store"),
    ],
)
def test_what_is_broken_is_named_and_exits_1(
    gage: Gage, monkeypatch: pytest.MonkeyPatch, name: str, value: str, what: str
) -> None:
    monkeypatch.setenv(name, value)
    said = gage("doctor", "--json")
    assert said.code == 1
    assert [check["what"] for check in said.json["checks"] if check["state"] == "broken"] == [what]


def test_credentials_in_an_api_url_are_not_shown(gage: Gage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://user:hunter2@127.0.0.1:9/api")
    said = gage("doctor")
    assert "127.0.0.1:9" in said.out
    assert "hunter2" not in said.out + said.err


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys\nfrom gage_eval.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stderr.split()
    assert not {"pydantic", "pyarrow", "numpy", "prefect", "pandas", "aiohttp", "jinja2", "s3fs", "xllamacpp"} & set(
        loaded
    )
    for command in ("validate", "preview", "plan", "list", "show", "cache", "doctor", "schema"):
        assert command in done.stdout


def test_gage_alone_shows_the_six_first_commands(gage: Gage) -> None:
    said = gage()
    assert said.code == 0
    assert said.out.count("  gage ") == 6
