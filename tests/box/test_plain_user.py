"""A plain user's box contains the same attacks and runs HumanEval: root has these tests run again as one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOBODY = 65534
TESTS = ("tests/box/test_attacks.py", "tests/box/test_humaneval.py")


def why_not() -> str | None:
    """What keeps root from doing this."""
    if os.geteuid() != 0:
        return "the tests run as a plain user already"
    if shutil.which("bwrap") is None or shutil.which("setpriv") is None:
        return "needs bwrap and setpriv"
    return None


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_the_attacks_and_humaneval_as_a_plain_user(tmp_path: Path) -> None:
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
    box = ["bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "true"]
    if subprocess.run([*user, *box], capture_output=True, check=False).returncode:
        pytest.skip("the kernel lets no plain user make user namespaces")
    print(tmp_path, sys.executable, ROOT)
