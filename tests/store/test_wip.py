"""Unfinished work: chunks are committed once, logs lie on this machine, all of it can be thrown away."""

from pathlib import Path

import pytest

from gage_eval.base.errors import ArtifactDamaged, StoreError
from gage_eval.store import Store, parquet_bytes
from tests.store.small import rows


def test_a_chunk_is_put_once_and_read_back(store: Store) -> None:
    wip = store.wip("key")

    assert wip.put_chunk(0, 0, 5, {"responses": parquet_bytes(rows(0, 5)), "telemetry": parquet_bytes(rows(5, 9))})
    assert not wip.put_chunk(0, 0, 5, {"responses": parquet_bytes(rows(0, 5, "other"))})

    (chunk,) = wip.chunks(0)
    assert (chunk.part, chunk.start, chunk.stop) == (0, 0, 5)
    tables = chunk.tables()
    assert sorted(tables) == ["responses", "telemetry"]
    assert tables["responses"].equals(rows(0, 5))
    assert tables["telemetry"].equals(rows(5, 9))


def test_ranges_of_other_worker_counts_stand_side_by_side(store: Store) -> None:
    wip = store.wip("key")
    for part, start, stop in ((0, 100, 200), (0, 0, 100), (0, 0, 50), (1, 0, 10)):
        assert wip.put_chunk(part, start, stop, {"responses": parquet_bytes(rows(start, stop))})

    assert [(chunk.start, chunk.stop) for chunk in wip.chunks(0)] == [(0, 50), (0, 100), (100, 200)]
    assert [chunk.part for chunk in wip.chunks(1)] == [1]
    assert wip.chunks(2) == []
    with pytest.raises(ValueError, match="not a range of rows"):
        wip.put_chunk(0, 5, 4, {})


def test_a_damaged_chunk_is_refused(store: Store) -> None:
    wip = store.wip("key")
    wip.put_chunk(0, 0, 5, {"responses": parquet_bytes(rows(0, 5))})
    data = store.objects.get("wip/key/chunks/00000/0-5.chunk")
    store.objects.create("wip/key/chunks/00000/5-9.chunk", data[:-20])
    store.objects.create("wip/key/chunks/00000/9-12.chunk", b"what")

    for chunk in wip.chunks(0)[1:]:
        with pytest.raises(ArtifactDamaged, match="is not the chunk that was written"):
            chunk.tables()


def test_logs_lie_on_this_machine_and_other_actions_can_find_them(store: Store, tmp_path: Path) -> None:
    folder = store.scratch("key")
    (folder / "writer.log").write_bytes(b"answer")
    store.wip("other").begun_by("a-run")

    assert folder.is_dir()
    assert folder.is_relative_to(tmp_path)
    assert store.scratch("key") == folder
    assert [wip.key for wip in store.wips()] == ["key", "other"]
    assert store.wips()[0].scratch() == folder
    with pytest.raises(StoreError, match="cannot name an object"):
        store.scratch("../key")


def test_discarded_work_leaves_nothing(store: Store) -> None:
    wip = store.wip("key")
    wip.put_chunk(0, 0, 5, {"responses": parquet_bytes(rows(0, 5))})
    wip.begun_by("a-run")
    wip.begun_by("a-run")
    (store.scratch("key") / "writer.log").write_bytes(b"answer")
    store.wip("keys").put_chunk(0, 0, 5, {"responses": parquet_bytes(rows(0, 5))})

    wip.discard()
    wip.discard()

    assert [other.key for other in store.wips()] == ["keys"]
    assert wip.chunks(0) == []
    assert len(store.wip("keys").chunks(0)) == 1


def test_what_a_process_killed_after_its_commit_left_is_cleared_once(local: Store) -> None:
    wip = local.wip("key")
    wip.put_chunk(0, 0, 5, {"responses": parquet_bytes(rows(0, 5))})
    local.scratch("key")

    wip.clear_leftovers()

    assert not list(Path(local.url, "wip").iterdir())
    # What no process of this machine began is another's to clear.
    wip.put_chunk(0, 0, 5, {"responses": parquet_bytes(rows(0, 5))})
    wip.clear_leftovers()
    assert len(wip.chunks(0)) == 1
