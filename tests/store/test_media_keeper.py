"""Media put side by side: known by address at once, and in the store when the block is left."""

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from gage_eval.base.canonical import sha256_hex
from gage_eval.base.errors import StoreError
from gage_eval.store import Store
from gage_eval.store.media import urls_in


def test_media_are_put_side_by_side_and_are_there_at_the_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    create, together = store.objects.create, threading.Barrier(4)

    def create_together(path: str, data: bytes) -> bool:
        together.wait(60)  # broken, and an error, unless four are under way at a time
        return create(path, data)

    monkeypatch.setattr(store.objects, "create", create_together)
    blobs = [b"%d" % number for number in range(12)]
    with store.media.keeper(4) as keeper:
        urls = [keeper.put(blob) for blob in blobs]

    assert urls == [f"media://sha256/{sha256_hex(blob)}" for blob in blobs]
    assert [store.media.get(url) for url in urls] == blobs


def test_no_more_are_held_in_memory_than_twice_the_threads(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    create = store.objects.create
    handed_out, done, most = 0, 0, 0

    def count(path: str, data: bytes) -> bool:
        nonlocal done, most
        most = max(most, handed_out - done)
        created = create(path, data)
        done += 1
        return created

    monkeypatch.setattr(store.objects, "create", count)
    with store.media.keeper(1) as keeper:
        for number in range(40):
            handed_out += 1
            keeper.put(b"%d" % number)

    assert done == 40
    assert most <= 3, "two under way and the one that is given"


def test_one_that_cannot_be_stored_ends_the_block(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str, data: bytes) -> bool:
        raise StoreError("no space")

    monkeypatch.setattr(local.objects, "create", fail)
    with pytest.raises(StoreError, match="no space"), local.media.keeper(2) as keeper:
        keeper.put(b"a")
    blobs = iter([b"%d" % number for number in range(100)])
    with pytest.raises(StoreError, match="no space"), local.media.keeper(1) as keeper:
        list(map(keeper.put, blobs))
    assert len(list(blobs)) > 90, "said while others are still to come"


def test_an_error_in_the_block_is_the_one_that_is_told(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def blobs() -> Iterator[bytes]:
        yield b"a"
        raise KeyError("mine")

    monkeypatch.setattr(local.objects, "create", lambda path, data: 1 / 0)
    with pytest.raises(KeyError, match="mine"), local.media.keeper() as keeper:
        list(map(keeper.put, blobs()))


def test_the_keeper_knows_what_the_store_has_and_what_it_was_given(store: Store) -> None:
    old, missing = store.media.put(b"old"), f"media://sha256/{'0' * 64}"
    with store.media.keeper() as keeper:
        assert [keeper.has(url) for url in (old, missing)] == [True, False]
        new = keeper.put(b"new")
        assert keeper.has(new)
        keeper.look([old, missing, new])
        assert [keeper.has(url) for url in (old, missing, new)] == [True, False, True]


def test_what_a_keeper_remembers_is_bounded(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gage_eval.store.media._REMEMBERED", 3)
    with local.media.keeper(1) as keeper:
        urls = [keeper.put(b"%d" % number) for number in range(10)]
        assert all(keeper.has(url) for url in urls)
        assert len(keeper._known) <= 3


def test_the_urls_of_stored_media_in_a_column() -> None:
    url, other = (f"media://sha256/{digits * 32}" for digits in ("a1", "b2"))
    texts = [f'{{"x": "{url}", "y": ["{url}", "{url[:-1]}"]}}', "no media: here", other]
    assert urls_in(pa.chunked_array([texts[:2], texts[2:]])) == {url, other}
    assert urls_in(pa.chunked_array([texts[1:2]])) == set()
