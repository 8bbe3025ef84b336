"""A disk that is full or may not be written ends a run with a sentence, and nothing is lost."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.endpoint import mock_endpoint
from support.runs import gage, stage_outputs, write_config, write_sums

ROWS = 1500
GAGE = f"{shlex.quote(sys.executable)} -m gage_eval"


@pytest.fixture(scope="module")
def unshare(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs a shell script with mounts of its own."""
    folder = tmp_path_factory.mktemp("mount")
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare (util-linux)")
    command = ["unshare", "--mount", "bash", "-c"]
    tried = subprocess.run([*command, f"mount -t tmpfs tmpfs {folder}"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip("mounting is not permitted here")
    return command


def run(command: list[str], script: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*command, script], cwd=folder, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, dict[str, str]]]:
    """The port of a run's endpoint, and the artifacts of that run on a disk with room."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with mock_endpoint() as endpoint:
        write_config(folder, endpoint.url, rows=ROWS)
        gage(folder, "run", "sums.yaml", "--run-id", "full", "--inline")
    return endpoint.root.rpartition(":")[2], stage_outputs(folder, "full")


@pytest.mark.parametrize("kib", [4, 240, *(pytest.param(kib, marks=pytest.mark.slow) for kib in (48, 160, 360))])
def test_a_full_disk_keeps_what_was_answered_and_the_run_goes_on_with_more_space(
    tmp_path: Path, unshare: list[str], undisturbed: tuple[str, dict[str, dict[str, str]]], kib: int
) -> None:
    port, outputs = undisturbed
    (tmp_path / ".gage").mkdir()
    with mock_endpoint(port=port) as endpoint:
        write_config(tmp_path, endpoint.url, rows=ROWS)
        script = f"""
            mount -t tmpfs -o size={kib}k tmpfs .gage || exit 9
            {GAGE} run sums.yaml --run-id full --inline 2>full.txt; echo $? >full.code
            mount -o remount,size=32m tmpfs .gage || exit 9
            {GAGE} resume full --inline || exit 8
            cp -r .gage kept
        """
        done = run(unshare, script, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        stats = endpoint.stats()
    said = (tmp_path / "full.txt").read_text().strip()
    assert (tmp_path / "full.code").read_text() == "1\n", said
    assert "Traceback" not in said
    assert "no space left" in said.splitlines()[-1]
    assert stats["resent_after_answer"] <= 16, "asked again: at most what was in flight when the disk was full"
    (tmp_path / ".gage").rmdir()
    (tmp_path / "kept").rename(tmp_path / ".gage")
    assert stage_outputs(tmp_path, "full") == outputs, "the same artifacts as on a disk with room"


def test_a_store_that_may_not_be_written_is_refused_and_what_it_holds_is_shown(
    tmp_path: Path, unshare: list[str]
) -> None:
    with mock_endpoint() as endpoint:
        write_config(tmp_path, endpoint.url, rows=20)
        gage(tmp_path, "run", "sums.yaml", "--run-id", "first", "--inline")
        before = sorted(str(file) for file in (tmp_path / ".gage").rglob("*"))
        write_sums(tmp_path / "more.jsonl", 25)
        script = f"""
            mount --bind .gage .gage && mount -o remount,ro,bind .gage || exit 9
            {GAGE} run sums.yaml --run-id second --inline 2>run.txt; echo $? >>codes
            {GAGE} resume first --inline 2>resume.txt; echo $? >>codes
            {GAGE} run sums.yaml --output-dir elsewhere --run-id cached --inline >cached.txt; echo $? >>codes
            mv more.jsonl sums.jsonl
            {GAGE} run sums.yaml --output-dir elsewhere --run-id new --inline 2>new.txt; echo $? >>codes
            {GAGE} show first >shown.txt; echo $? >>codes
        """
        done = run(unshare, script, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert endpoint.stats()["requests"] == 20
    assert (tmp_path / "codes").read_text().split() == ["1", "1", "0", "1", "0"]
    for name in ("run", "resume", "new"):
        said = (tmp_path / f"{name}.txt").read_text().strip()
        assert "\n" not in said
        assert said.startswith("store .gage")
        assert "read-only" in said
        assert said.endswith("give another one with --store.")
    assert "numeric_match" in (tmp_path / "cached.txt").read_text()
    assert "numeric_match" in (tmp_path / "shown.txt").read_text()
    assert sorted(str(file) for file in (tmp_path / ".gage").rglob("*")) == before


@pytest.mark.parametrize(
    "kind",
    [
        *("parquet", "inspect"),
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("jsonl", "csv", "lm-eval", "per_sample_json")),
    ],
)
def test_an_export_to_a_full_disk_is_one_sentence(tmp_path: Path, unshare: list[str], kind: str) -> None:
    write_sums(tmp_path / "rows.jsonl", 50)
    (tmp_path / "sums.yaml").write_text(
        "datasets: [{dataset_id: d, params: {path: rows.jsonl}}]\n"
        "backends: [{backend_id: b, type: dummy}]\n"
        "metrics: [exact_match]\n"
    )
    gage(tmp_path, "run", "sums.yaml", "--run-id", "done", "--inline")
    (tmp_path / "small").mkdir()
    script = f"mount -t tmpfs -o size=4k tmpfs small && {GAGE} export done --format {kind} --to small"
    done = run(unshare, script, tmp_path)
    assert done.returncode == 1, done.stdout
    assert f"the export {kind} cannot be written to 'small': No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
