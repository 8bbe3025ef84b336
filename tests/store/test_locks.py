"""Locks: one holder at a time, and none outlives its holder for ever."""

import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from gage_eval.base.errors import RunCancelled, StoreError
from gage_eval.store import Store, locks
from gage_eval.store.locks import hold_lock

ROOT = Path(__file__).parents[2]
DIE_WITH_IT = """
import os, signal, sys
from gage_eval.store import Store
from gage_eval.store.locks import hold_lock

with hold_lock(Store.open(sys.argv[1]).objects, "key", lease_s=2.0):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def hold_for_a_moment(store: Store, key: str) -> str:
    with store.lock(key):
        return key


def test_one_thread_holds_a_lock_at_a_time(store: Store) -> None:
    inside = 0
    most = 0

    def work() -> None:
        nonlocal inside, most
        with hold_lock(store.objects, "key", lease_s=20.0):
            inside += 1
            most = max(most, inside)
            time.sleep(0.01)
            inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert most == 1


def test_other_keys_do_not_wait(store: Store) -> None:
    held = []
    with store.lock("one"):
        thread = threading.Thread(target=lambda: held.append(hold_for_a_moment(store, "two")), daemon=True)
        thread.start()
        thread.join(60)
        assert held == ["two"], "taken while the other key was held"


def test_a_killed_holder_does_not_keep_others_out(store: Store) -> None:
    done = subprocess.run([sys.executable, "-c", DIE_WITH_IT, store.url], cwd=ROOT, timeout=120, check=False)
    assert done.returncode == -9

    with hold_lock(store.objects, "key", lease_s=2.0):
        pass


def test_a_wait_for_a_lock_can_be_ended(store: Store) -> None:
    looked = 0

    def give_up_at_the_third_look() -> None:
        nonlocal looked
        looked += 1
        if looked == 3:
            raise RunCancelled("enough")

    with (
        hold_lock(store.objects, "key"),
        pytest.raises(RunCancelled, match="enough"),
        hold_lock(store.objects, "key", check=give_up_at_the_third_look, lease_s=2.0),
    ):
        pytest.fail("another holder has the lock")
    with hold_lock(store.objects, "key", check=give_up_at_the_third_look):
        assert looked == 3, "a free lock is taken at once"


def test_a_living_holder_keeps_its_lease(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than the lease lasts, since it is renewed. A second passes with each renewal."""
    objects = Store.open(s3_url).objects
    entered, renewals = threading.Event(), set[bytes]()
    clock = SimpleNamespace(monotonic=lambda: float(len(renewals)), sleep=time.sleep)
    monkeypatch.setattr(locks, "time", clock)

    def wait_for_it() -> None:
        with hold_lock(objects, "key", lease_s=3.0):
            entered.set()

    with hold_lock(objects, "key", lease_s=3.0):
        waiter = threading.Thread(target=wait_for_it)
        waiter.start()
        while len(renewals) < 6:
            renewals.add(objects.get("locks/key.json"))
            assert not entered.wait(0.05)
    assert entered.wait(60)
    waiter.join(60)


def test_locks_can_be_left_out(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    free = Store.open(local.url, locks=False)

    with free.lock("key"), free.lock("key"):
        pass
    assert list(Path(local.url).rglob("*.lock")) == []


def test_a_lock_cannot_name_a_path(store: Store) -> None:
    with pytest.raises(StoreError, match="cannot name an object"), store.lock("../../key"):
        pass
