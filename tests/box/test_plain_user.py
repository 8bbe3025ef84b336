"""A plain user's box contains the same attacks and runs HumanEval: root has these tests run again as one."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ("tests/box/test_attacks.py", "tests/box/test_humaneval.py")
PLAIN_USER = 65_534


def commands_as_a_plain_user(*needed: Path) -> list[str]:
    """What stands before a command so that a plain user runs it, who can read these folders wherever they are."""
    view = ["bwrap", "--dev-bind", "/", "/"]
    closed = {outer for folder in needed for outer in outermost_closed(folder)}
    for folder in sorted(closed):
        view += ["--tmpfs", str(folder)]
    for folder in needed:
        below = [parent for parent in reversed(folder.parents) if closed.intersection(parent.parents)]
        view += [part for parent in below for part in ("--dir", str(parent))]
        if closed.intersection(folder.parents):
            view += ["--ro-bind", str(folder), str(folder)]
    return [*view, "setpriv", f"--reuid={PLAIN_USER}", f"--regid={PLAIN_USER}", "--clear-groups", "--bounding-set=-all"]


def outermost_closed(folder: Path) -> Iterator[Path]:
    """The outermost folder on the way that other users cannot enter, if there is one."""
    for parent in reversed(folder.parents):
        if not parent.stat().st_mode & stat.S_IXOTH:
            yield parent
            return


@pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as a plain user already")
def test_the_attacks_and_humaneval_as_a_plain_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    if shutil.which("bwrap") is None or shutil.which("setpriv") is None:
        pytest.skip("needs bwrap and setpriv")
    user = commands_as_a_plain_user(ROOT, Path(sys.base_prefix))
    trial = [*user, "bwrap", "--unshare-user", "--ro-bind", "/", "/", "true"]
    if subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("the kernel lets no plain user make user namespaces")
    home = Path("/tmp", f"gage-plain-user-{os.getpid()}")
    home.mkdir()
    os.chown(home, PLAIN_USER, PLAIN_USER)
    try:
        options = ("-q", "-rs", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={home / 'tests'}")
        done = subprocess.run(
            [*user, sys.executable, "-m", "pytest", *options, *TESTS],
            cwd=ROOT,
            env={**os.environ, "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(home)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert "no bubblewrap here" not in done.stdout
