"""Racers, killed writers, failing servers and full disks: the store stays right whatever happens."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import pytest

from gage_eval.base.errors import StoreError
from gage_eval.store import Store, parquet_bytes
from tests.store.proxy import failing_proxy
from tests.store.small import commit, rows

T = TypeVar("T")
KEY = "a" * 64
ROOT = Path(__file__).parents[2]

COMMIT_ONE = """
import sys
from gage_eval.store import Store
from tests.store.small import commit, rows

store = Store.open(sys.argv[1], locks=False)
artifact = commit(store, rows(0, 50), rows(50, 70))
print(store.actions.commit("infer", "a" * 64, {"responses": artifact}, document={}).outputs["responses"])
"""

KILL_AT_LINK = """
import os, signal, sys
from gage_eval.store import objects

real, count, last = objects._link, 0, int(sys.argv[2])
def link(source, place):
    global count
    count += 1
    if count == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(source, place)
objects._link = link
"""


def race(count: int, work: Callable[[int], T]) -> list[T]:
    """``work`` in many threads that begin together."""
    barrier = Barrier(count)

    def run(index: int) -> T:
        barrier.wait()
        return work(index)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_one_of_sixteen_racers_creates_an_object(store: Store) -> None:
    won = race(16, lambda index: store.objects.create("x/race", b"%d" % index))

    assert sorted(won) == [False] * 15 + [True]
    assert store.objects.get("x/race") == b"%d" % won.index(True)


def test_one_of_sixteen_racers_swaps(store: Store) -> None:
    store.objects.create("race", b"old")

    won = race(16, lambda index: store.objects.swap("race", b"%d" % index, expected=b"old"))

    assert won.count(True) == 1
    assert store.objects.get("race") == b"%d" % won.index(True)


def test_sixteen_racers_commit_one_artifact_and_one_action(store: Store) -> None:
    def work(_: int) -> tuple[str, bytes]:
        artifact = commit(store, rows(0, 20), rows(20, 30))
        return artifact.id, store.actions.commit("infer", KEY, {"responses": artifact}, document={}).raw

    assert len(set(race(16, work))) == 1
    assert [listed.rows for listed in store.ls()] == [30]
    assert store.verify() == []


def test_all_of_sixteen_racers_get_what_the_winner_stored(store: Store) -> None:
    def work(index: int) -> int:
        artifact = commit(store, rows(0, index + 1))
        return store.actions.commit("infer", KEY, {"responses": artifact}, document={}).artifacts["responses"].rows

    assert len(set(race(16, work))) == 1


COMMIT_OWN = """
import sys
from gage_eval.store import Store
from tests.store.small import commit, rows

store = Store.open(sys.argv[1], locks=False)
artifact = commit(store, rows(0, int(sys.argv[2])))
print("ready", flush=True)
sys.stdin.readline()
print(store.actions.commit("infer", "a" * 64, {"responses": artifact}, document={}).artifacts["responses"].rows)
"""


def test_two_processes_with_results_of_their_own_get_what_the_winner_stored(url: str) -> None:
    Store.open(url)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", COMMIT_OWN, url, count],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for count in ("5", "7")
    ]
    assert [process.stdout.readline() for process in processes if process.stdout] == ["ready\n"] * 2
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("now\n")
        process.stdin.flush()
    results = [process.communicate(timeout=120)[0] for process in processes]

    (listed,) = Store.open(url).actions.all("infer")
    stands = Store.open(url).artifact(listed.outputs["responses"]).rows
    assert results == [f"{stands}\n"] * 2


def test_two_processes_without_locks_end_with_the_same_artifacts(url: str) -> None:
    Store.open(url)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", COMMIT_ONE, url], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    results = [process.communicate(timeout=120) for process in processes]

    assert [process.returncode for process in processes] == [0, 0], results
    assert len({out for out, _ in results}) == 1
    store = Store.open(url)
    assert [listed.rows for listed in store.ls()] == [70]
    assert store.verify() == []


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_writer_killed_in_a_commit_leaves_no_half_artifact(local: Store, at: int) -> None:
    """Its links are: two parts, the manifest, the action. The next writer continues from there."""
    done = subprocess.run(
        [sys.executable, "-c", KILL_AT_LINK + COMMIT_ONE, local.url, str(at)], cwd=ROOT, timeout=120, check=False
    )

    assert done.returncode == -9
    assert len(local.ls()) == (1 if at == 4 else 0)
    assert local.actions.find("infer", KEY) is None
    assert local.verify() == []

    artifact = commit(local, rows(0, 50), rows(50, 70))
    assert local.artifact(artifact.id).table().num_rows == 70
    report = local.gc([artifact.id], min_age_s=-1)
    assert all("/.tmp-" in path or path.startswith("staging/") for path in report.paths)
    assert list(local.objects.leftovers()) == []
    assert local.verify() == []


@pytest.mark.parametrize("lose_reply", [False, True], ids=["not-heard", "reply-lost"])
def test_a_server_that_fails_every_third_call_changes_no_result(
    s3_url: str,
    s3_server: str,
    lose_reply: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with failing_proxy(s3_server, every=3, faults=("lost" if lose_reply else "error",)) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
        store = Store.open(s3_url)
        artifact = commit(store, rows(0, 20), rows(20, 30))
        first = store.actions.commit("infer", KEY, {"responses": artifact}, document={})
        two = commit(store, rows(0, 31))
        second = store.actions.commit("infer", KEY, {"responses": two}, document={}, replaces=first)
        with store.lock(KEY):
            assert store.wip("k").put_chunk(0, 0, 5, {"responses": parquet_bytes(rows(0, 5))}) or lose_reply
        assert store.actions.find("infer", KEY) == second
        assert second.outputs == {"responses": two.id}
        assert store.artifact(artifact.id).table().equals(rows(0, 30))
        assert len(store.wip("k").chunks(0)) == 1
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    assert Store.open(s3_url).verify() == []


def test_a_server_out_of_reach_is_one_sentence_without_secrets(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gage_eval.store.s3._CLIENT_ATTEMPTS", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    with pytest.raises(StoreError, match=r"failed at .*check the bucket, AWS_ENDPOINT_URL and the") as raised:
        Store.open(s3_url)

    assert "planted-secret" not in str(raised.value)


def test_no_object_of_a_store_on_s3_holds_its_credentials(s3_url: str) -> None:
    store = Store.open(s3_url)
    artifact = commit(store, rows(0, 3))
    store.actions.commit("infer", KEY, {"responses": artifact}, document={})

    for item in store.objects.list():
        data = store.objects.get(item.path)
        assert b"planted-secret" not in data
        assert b"127.0.0.1" not in data


def in_mount(mount: str, folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script with a mount only it sees; skips where none may be made."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare(1)")
    probe = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("needs the right to mount (unshare -m)")
    command = f'{mount} && exec "{sys.executable}" - "$0"'
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", command, str(folder)],
        input=script, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False,
    )  # fmt: skip


FILL = """
import sys
import numpy as np, pyarrow as pa
from gage_eval.base.errors import StoreError
from gage_eval.store import Store
from tests.store.small import ROWS, commit, rows

store = Store.open(sys.argv[1])
kept = commit(store, rows(0, 5))
noise = np.random.default_rng(0).bytes(3 << 20).hex()
for write in (
    lambda: commit(store, pa.table({"row_index": [0], "text": [noise]}, ROWS.arrow)),
    lambda: store.objects.create("large", noise.encode()),
):
    try:
        write()
    except StoreError as error:
        print(error)
assert store.artifact(kept.id).table().num_rows == 5
assert len(store.ls()) == 1 and list(store.objects.leftovers()) == []
commit(store, rows(0, 6))
"""


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    done = in_mount('mount -t tmpfs -o size=1m tmpfs "$0"', tmp_path, FILL)

    assert done.returncode == 0, done.stderr
    message = (
        f"store {tmp_path} has no space left on its device: free some space and run again; nothing committed is lost."
    )
    assert done.stdout.splitlines() == [message, message]


READ_ONLY = """
import sys
from gage_eval.base.errors import StoreError
from gage_eval.store import Store
from tests.store.small import commit, rows

store = Store.open(sys.argv[1])
action = store.actions.find("infer", "a" * 64)
print(store.artifact(action.outputs["responses"]).table().num_rows)
for write in (
    lambda: commit(store, rows(0, 6)),
    lambda: store.objects.create("x", b""),
    lambda: store.scratch("k"),
    lambda: store.objects.delete("actions/infer/" + "a" * 64 + ".json"),
    lambda: store.lock("k").__enter__(),
):
    try:
        write()
    except StoreError as error:
        print("is read-only" in str(error) and "--store" in str(error))
"""


def test_a_read_only_disk_can_be_read_and_says_so_on_a_write(local: Store) -> None:
    artifact = commit(local, rows(0, 5))
    local.actions.commit("infer", KEY, {"responses": artifact}, document={})

    done = in_mount('mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"', Path(local.url), READ_ONLY)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["5"] + ["True"] * 5
