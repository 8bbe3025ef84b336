"""The real API of Podman on a socket of the test's own, and images made of this machine's programs."""

import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gage_eval.box.engine_api import Engine

_WITHOUT = {"site-packages", "test", "idlelib", "lib2to3", "ensurepip", "tkinter", "turtledemo", "pydoc_data"}
_START_S = 20.0


def missing() -> str | None:
    """Why Podman's API cannot be tested here."""
    if os.geteuid() != 0:
        return "containers with limits need root here"
    absent = [name for name in ("podman", "runc") if shutil.which(name) is None]
    return f"{absent[0]} is not installed" if absent else None


@contextmanager
def service() -> Iterator[tuple[Path, Engine]]:
    """Podman's API with a storage of its own, in a new folder."""
    # Podman takes only short names of folders.
    folder = Path(tempfile.mkdtemp(prefix="pod-"))
    arguments = _arguments(folder)
    address = folder / "podman.sock"
    # It waits five minutes before it forgets a command, whose exit code is asked for until then.
    (folder / "containers.conf").write_text("[engine]\nexit_command_delay = 10\n")
    environment = {**os.environ, "CONTAINERS_CONF": str(folder / "containers.conf")}
    with (folder / "service.log").open("wb") as log:
        process = subprocess.Popen(
            [*arguments, "system", "service", "--time=0", f"unix://{address}"], stdout=log, stderr=log, env=environment
        )
    try:
        until = time.monotonic() + _START_S
        engine = Engine("podman", address)
        while engine.problem() is not None:
            assert process.poll() is None, (folder / "service.log").read_text()
            assert time.monotonic() < until, engine.problem()
            time.sleep(0.05)
        yield folder, engine
    finally:
        process.kill()
        process.wait()
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove the storage. Processes that clean up after a container may mount it once more."""
    until = time.monotonic() + _START_S
    while folder.exists() and time.monotonic() < until:
        subprocess.run(["umount", "--lazy", f"{folder}/store/overlay"], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)


def unpack_image(folder: Path, programs: list[str], *, python: bool = False) -> None:
    """Make the root folder of an image of programs of this machine with the libraries that they need."""
    with tarfile.open(fileobj=io.BytesIO(_content(programs, python=python))) as tar:
        tar.extractall(folder, filter="fully_trusted")


def import_image(
    folder: Path, name: str, programs: list[str], *, python: bool = False, workdir: str | None = None
) -> None:
    """Make an image of programs of this machine with the libraries that they need."""
    change = ["--change", "ENV PATH=/py/bin:/bin", "--change", "ENV LD_LIBRARY_PATH=/py/lib"]
    if workdir is not None:
        change += ["--change", f"WORKDIR /{workdir}"]
    content = _content(programs, python=python, workdir=workdir)
    subprocess.run([*_arguments(folder), "import", *change, "-", name], input=content, check=True, capture_output=True)


def _content(programs: list[str], *, python: bool, workdir: str | None = None) -> bytes:
    paths = {f"bin/{program}": shutil.which(program) or "" for program in programs}
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for place in ("proc", "sys", "dev", "tmp", "etc", *filter(None, [workdir])):
            entry = tarfile.TarInfo(place)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if place == "tmp" else 0o755
            tar.addfile(entry)
        files = {place: Path(path) for place, path in paths.items()}
        if python:
            files["py/bin/python3"] = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
            files |= _standard_library()
        for path in [path for path in files.values() if path.suffix not in (".py", ".pyc")]:
            files |= {library.lstrip("/"): Path(library) for library in libraries(str(path.resolve()))}
        for place, path in files.items():
            entry = tar.gettarinfo(str(path.resolve()), place)
            entry.uid = entry.gid = 0
            with path.open("rb") as file:
                tar.addfile(entry, file)
    return content.getvalue()


def _arguments(folder: Path) -> list[str]:
    places = ["--root", f"{folder}/store", "--runroot", f"{folder}/run", "--tmpdir", f"{folder}/tmp"]
    how = ["--cgroup-manager=cgroupfs", "--events-backend=none", "--runtime", shutil.which("runc") or "runc"]
    return ["podman", *places, *how]


def _standard_library() -> dict[str, Path]:
    library = Path(sysconfig.get_path("stdlib"))
    files: dict[str, Path] = {}
    for folder, folders, names in os.walk(library):
        folders[:] = [name for name in folders if name not in _WITHOUT]
        paths = [Path(folder, name) for name in names if name.endswith((".py", ".pyc", ".so"))]
        files |= {f"py/lib/{library.name}/{path.relative_to(library)}": path for path in paths}
    return files


def libraries(program: str) -> list[str]:
    """The shared libraries of a program, or of another one."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", listed)
