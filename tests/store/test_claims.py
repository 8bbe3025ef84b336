"""Claims on chunks: one holder at a time, never waited for, gone with their holder."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gage_eval.store import Store
from gage_eval.store.claims import open_claims
from tests.support.waiting import wait_for

HOLDER = """
import sys
from gage_eval.store import Store
claims = Store.open(sys.argv[1]).claims("work")
print(claims.take("0-0-16"), flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["local", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "store") if request.param == "local" else str(request.getfixturevalue("s3_url"))


def test_a_chunk_has_one_holder_until_it_is_given_back(url: str) -> None:
    one, two = (Store.open(url).claims("work") for _ in range(2))
    assert one.take("0-0-16")
    assert one.take("0-0-16"), "its holder may ask again"
    assert not two.take("0-0-16")
    assert two.take("0-16-32")
    one.release("0-0-16")
    assert two.take("0-0-16")
    two.close()
    assert one.take("0-16-32")
    one.close()


def test_a_killed_holders_chunk_is_free_at_once_on_this_machine(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / "store"))
    command = [sys.executable, "-c", HOLDER, store.url]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    claims = store.claims("work")
    assert not claims.take("0-0-16")
    holder.kill()
    holder.communicate()
    assert claims.take("0-0-16")
    claims.close()


def test_a_lease_nobody_renews_is_taken_over_after_its_lifetime(s3_url: str) -> None:
    objects = Store.open(s3_url).objects
    dead, alive = (open_claims(objects, "work", lease_s=lease) for lease in (3600.0, 0.2))
    assert dead.take("0-0-16")
    assert not alive.take("0-0-16")
    wait_for(lambda: alive.take("0-0-16"), "the lease is taken over", every_s=0.05)
    alive.close()
    dead.close()


def test_without_locks_everybody_has_every_chunk(tmp_path: Path) -> None:
    stores = [Store.open(str(tmp_path / "store"), locks=False) for _ in range(2)]
    assert all(store.claims("work").take("0-0-16") for store in stores)


def test_claims_go_with_the_work(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / "store"))
    claims = store.claims("work")
    claims.take("0-0-16")
    claims.close()
    store.wip("work").discard()
    assert store.wips() == []


def test_a_claim_is_taken_although_the_folder_goes_at_that_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when another process commits the action and removes its unfinished work."""
    store = Store.open(str(tmp_path / "store"))
    opened = os.open
    folder = tmp_path / "store" / "wip" / "work" / "claims"

    def after_it_went(path: Path, *args: int) -> int:
        if not removed:
            removed.append(path)
            folder.rmdir()
        return opened(path, *args)

    removed: list[Path] = []
    monkeypatch.setattr(os, "open", after_it_went)
    with closing(store.claims("work")) as claims:
        assert claims.take("0-0-16")
