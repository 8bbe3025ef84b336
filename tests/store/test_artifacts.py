"""Artifacts: equal content is one artifact, and no read believes what was not committed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gage_eval.base.canonical import JsonValue, canonical_json, decode
from gage_eval.base.errors import ArtifactDamaged, StoreError
from gage_eval.base.tables import ALL, TableSchema
from gage_eval.store import Store, content_hash, parquet_bytes
from tests.store.small import ROWS, commit, rows


def part_file(store: Store, artifact_id: str, index: int = 0) -> Path:
    assert store.objects.local_root is not None
    return store.objects.local_root / f"artifacts/{artifact_id}/part-{index:05d}.parquet"


def test_what_was_written_is_read_in_parts_and_whole(store: Store) -> None:
    artifact = commit(store, rows(0, 5), rows(5, 5), rows(5, 9))

    again = store.artifact(artifact.id)

    assert [table.num_rows for table in again.tables()] == [5, 0, 4]
    assert again.table().equals(rows(0, 9))
    assert again.read(2, ["text"]).equals(rows(5, 9).select(["text"]))
    assert again.read(2, ["text"]).column_names == ["text"]
    assert (again.rows, again.complete, again.schema.name) == (9, True, "rows")
    assert [part.content_hash for part in again.parts] == [content_hash(t) for t in again.tables()]


@pytest.mark.parametrize("parts", [0, 1])
def test_a_store_that_is_removed_during_a_run_is_a_sentence(tmp_path: Path, parts: int) -> None:
    store = Store.open(str(tmp_path / "store"))
    with store.writer(ROWS) as writer:
        for index in range(parts):
            writer.write(index, rows(0, 5))
        shutil.rmtree(tmp_path / "store")
        with pytest.raises(StoreError, match="were removed"):
            writer.commit() if parts else writer.write(0, rows(0, 5))


def test_a_part_that_other_artifacts_have_too_is_stored_once(store: Store) -> None:
    """The looks of a run that may stop early begin with the same parts. Another process goes on with those it found."""
    parts = [rows(start, start + 5) for start in range(0, 60, 5)]
    looks = [commit(store, *parts[:count]) for count in range(1, 9)]
    store.actions.commit("infer", "a" * 64, {"responses": looks[-1]}, document={})
    resumed = Store.open(store.url)
    assert resumed.actions.find("infer", "a" * 64) is not None
    looks += [commit(resumed, *parts[:count]) for count in range(9, 13)]

    stored = [item for item in store.objects.list("artifacts") if item.path.endswith(".parquet")]
    assert len(stored) == len(parts)
    assert sum(item.size for item in stored) == sum(part.bytes for part in looks[-1].parts)
    for count, look in enumerate(looks, 1):
        assert store.artifact(look.id).table().equals(rows(0, 5 * count))
    assert store.verify() == []


def test_an_artifact_has_the_same_id_where_its_parts_lie_in_another(store: Store, tmp_path: Path) -> None:
    commit(store, rows(0, 5))
    shared = commit(store, rows(0, 5), rows(5, 9))
    alone = commit(Store.open(str(tmp_path / "alone")), rows(0, 5), rows(5, 9))
    assert shared.id == alone.id
    assert [part.artifact is None for part in shared.parts] == [False, True]
    assert {part.artifact for part in alone.parts} == {None}


def test_a_shared_part_that_is_gone_is_stored_again(store: Store) -> None:
    first = commit(store, rows(0, 5))
    second = commit(store, rows(0, 5), rows(5, 9))
    action = store.actions.commit("infer", "a" * 64, {"responses": second}, document={})
    store.objects.delete(f"artifacts/{first.id}/part-00000.parquet")

    third = commit(store, rows(0, 5), rows(5, 8))
    assert third.table().equals(rows(0, 8))
    assert Store.open(store.url).actions.find("infer", action.key) is None
    assert commit(store, rows(0, 5), rows(5, 9)).table().equals(rows(0, 9))
    assert store.actions.find("infer", action.key) is not None


@pytest.mark.parametrize("place", ["../../secrets", "a", 7])
def test_a_part_cannot_lie_outside_of_the_artifacts(local: Store, place: object) -> None:
    commit(local, rows(0, 5))
    path = f"artifacts/{commit(local, rows(0, 5), rows(5, 9)).id}/manifest.json"
    value = decode(local.objects.get(path))
    value["parts"][0]["artifact"] = place
    local.objects.replace(path, canonical_json(value))
    with pytest.raises(ArtifactDamaged, match="is not a manifest"):
        local.artifact(path.split("/")[1])


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in Linux's /proc")
def test_reading_leaves_no_thread_behind_that_could_abort_the_end_of_the_process() -> None:
    """A thread of Arrow's that frees Python's bytes while the interpreter ends takes the process with it."""
    program = """
import os
import pyarrow as pa
from gage_eval.store.parquet import parquet_bytes, read_parquet
data = parquet_bytes(pa.table({"number": list(range(1000)), "text": ["x"] * 1000}))
before = len(os.listdir("/proc/self/task"))
read_parquet(data)
print(len(os.listdir("/proc/self/task")) - before)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "0\n"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from Linux's /proc")
def test_writing_parts_returns_unused_memory_to_the_system(tmp_path: Path) -> None:
    program = """
import os, sys
import pyarrow as pa
from gage_eval.store import Store
from gage_eval.base.tables import RAW

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

with Store.open(sys.argv[1]).writer(RAW) as writer:  # 8 parts of 4 MiB
    for index in range(8):
        rows = range(index * 4096, (index + 1) * 4096)
        writer.write(index, pa.table([rows, rows, [f"{row:01004}" for row in rows]], schema=RAW.arrow))
before = resident()
pa.default_memory_pool().release_unused()
print(before - resident())
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 10  # the last part and a little more; 36 if nothing is returned


def test_equal_content_has_one_id_whatever_the_order_and_chunking(store: Store) -> None:
    first = commit(store, rows(0, 5), rows(5, 9))
    with store.writer(ROWS) as writer:
        writer.write(1, pa.concat_tables([rows(5, 6), rows(6, 9)]))
        writer.write(0, rows(0, 5))
        second = writer.commit()

    assert second.id == first.id
    assert second.manifest == first.manifest
    assert commit(store, rows(0, 9)).id != first.id


def test_a_part_may_come_as_parquet_too(store: Store) -> None:
    table = rows(0, 5)
    with store.writer(ROWS) as writer:
        writer.write(0, table, parquet_bytes(table))
        artifact = writer.commit()

    assert artifact.id == commit(store, table).id
    assert store.artifact(artifact.id).table() == table


def test_counts_and_completeness_are_kept(store: Store) -> None:
    with store.writer(ROWS) as writer:
        writer.write(0, rows(0, 2))
        artifact = writer.commit(complete=False, counts={"ok": 1, "error": 1})

    assert not store.artifact(artifact.id).complete
    assert store.artifact(artifact.id).counts == {"ok": 1, "error": 1}


def test_an_artifact_without_parts_is_an_empty_table(store: Store) -> None:
    assert store.artifact(commit(store).id).table().num_rows == 0


def test_a_writer_takes_each_part_once_and_only_rows_of_its_schema(store: Store) -> None:
    with store.writer(ROWS) as writer:
        writer.write(0, rows(0, 1))
        with pytest.raises(ValueError, match="written before"):
            writer.write(0, rows(0, 1))
        with pytest.raises(ValueError, match=r"columns missing: \['text'\]"):
            writer.write(1, rows(0, 1).select(["row_index"]))
        with pytest.raises(ValueError, match="column 'text' is int64 instead of string"):
            writer.write(1, pa.table({"row_index": [1], "text": [1]}))


def test_what_is_not_committed_leaves_nothing(store: Store) -> None:
    with store.writer(ROWS) as writer:
        writer.write(0, rows(0, 5))

    assert store.ls() == []
    assert list(store.objects.leftovers()) == []


def test_a_missing_artifact_is_gone_and_a_bad_id_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="is gone from store"):
        store.artifact("0" * 64)
    with pytest.raises(StoreError, match="is not an artifact id"):
        store.artifact("../../etc/passwd")
    with pytest.raises(StoreError, match="has no part 7"):
        commit(store, rows(0, 1)).read(7)


def test_a_truncated_part_is_named_with_the_remedy(local: Store) -> None:
    artifact = commit(local, rows(0, 5), rows(5, 9))
    file = part_file(local, artifact.id, 1)
    file.write_bytes(file.read_bytes()[:-10])

    with pytest.raises(ArtifactDamaged, match=rf"artifact {artifact.id}: part-00001.parquet has \d+ bytes instead.*"
                       r"`gage cache verify --remove`"):  # fmt: skip
        local.artifact(artifact.id).table()


def test_an_edited_part_is_refused(local: Store) -> None:
    artifact = commit(local, rows(0, 5))
    file = part_file(local, artifact.id)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)

    with pytest.raises(ArtifactDamaged, match="sha256"):
        local.artifact(artifact.id).read(0)


def test_a_part_edited_after_it_was_read_is_refused(local: Store) -> None:
    artifact = commit(local, rows(0, 5))
    assert artifact.read(0).num_rows == artifact.read(0).num_rows == 5
    file = part_file(local, artifact.id)
    file.unlink()
    pq.write_table(rows(0, 5, "forged"), file)

    with pytest.raises(ArtifactDamaged, match=r"part-00000\.parquet"):
        artifact.read(0)


def test_a_missing_part_and_a_manifest_of_another_artifact_are_refused(local: Store) -> None:
    artifact, other = commit(local, rows(0, 5)), commit(local, rows(0, 6))
    part_file(local, artifact.id).unlink()
    with pytest.raises(ArtifactDamaged, match=r"part-00000\.parquet is missing"):
        local.artifact(artifact.id).read(0)

    manifest = part_file(local, artifact.id).with_name("manifest.json")
    manifest.write_bytes(part_file(local, other.id).with_name("manifest.json").read_bytes())
    with pytest.raises(ArtifactDamaged, match="describes another artifact"):
        local.artifact(artifact.id)
    manifest.write_bytes(b"{")
    with pytest.raises(ArtifactDamaged, match="is not a manifest"):
        local.artifact(artifact.id)


@pytest.mark.parametrize("wrong", [None, -1, "5", [], {}, True])
@pytest.mark.parametrize("name", ["index", "rows", "bytes", "sha256", "content_hash"])
def test_a_manifest_whose_parts_are_described_by_other_things_is_refused(
    local: Store, name: str, wrong: JsonValue
) -> None:
    artifact = commit(local, rows(0, 5))
    file = part_file(local, artifact.id).with_name("manifest.json")
    manifest = decode(file.read_bytes())
    manifest["parts"][0][name] = wrong
    file.write_bytes(canonical_json(manifest))
    with pytest.raises(ArtifactDamaged, match=r"manifest\.json is not a manifest"):
        local.artifact(artifact.id)


def test_a_part_another_parquet_version_wrote_is_taken_as_it_is(store: Store, tmp_path: Path) -> None:
    """A writer died after the part, before the manifest; its library writes the same rows in other bytes."""
    artifact = commit(store, rows(0, 50))
    path = f"artifacts/{artifact.id}/part-00000.parquet"
    store.objects.delete(f"artifacts/{artifact.id}/manifest.json")
    store.objects.delete(path)
    pq.write_table(rows(0, 50), tmp_path / "other", compression="snappy", row_group_size=7)
    assert store.objects.create(path, (tmp_path / "other").read_bytes())

    mine = commit(store, rows(0, 50))

    assert mine.id == artifact.id
    assert mine.parts[0].sha256 != artifact.parts[0].sha256
    assert store.artifact(mine.id).table().equals(rows(0, 50))


def test_a_standing_part_with_other_rows_is_refused(store: Store, tmp_path: Path) -> None:
    artifact = commit(store, rows(0, 50))
    path = f"artifacts/{artifact.id}/part-00000.parquet"
    store.objects.delete(f"artifacts/{artifact.id}/manifest.json")
    store.objects.delete(path)
    pq.write_table(rows(0, 50, "other"), tmp_path / "other")
    store.objects.create(path, (tmp_path / "other").read_bytes())

    with pytest.raises(ArtifactDamaged, match=r"part-00000\.parquet has content"):
        commit(store, rows(0, 50))


def test_a_lost_part_is_put_back_by_the_next_commit(store: Store) -> None:
    artifact = commit(store, rows(0, 50))
    store.objects.delete(f"artifacts/{artifact.id}/part-00000.parquet")

    commit(store, rows(0, 50))

    assert store.artifact(artifact.id).table().num_rows == 50


def test_a_table_of_an_unknown_version_describes_itself(store: Store) -> None:
    artifact = commit(store, rows(0, 2))

    assert store.artifact(artifact.id).schema.arrow.equals(ROWS.arrow)


@pytest.mark.parametrize("schema", ALL.values(), ids=ALL)
def test_every_table_comes_back_with_its_types(local: Store, schema: TableSchema) -> None:
    table = pa.table([pa.nulls(3, field.type) for field in schema.arrow], schema=schema.arrow)
    with local.writer(schema) as writer:
        writer.write(0, table)
        artifact = writer.commit()

    again = local.artifact(artifact.id)

    assert again.table().schema.equals(schema.arrow)
    assert again.table().equals(table)
    assert again.read(0, schema.arrow.names[-1:]).column_names == schema.arrow.names[-1:]
    assert local.verify() == []


def test_a_column_that_another_version_did_not_write_is_no_damage(local: Store) -> None:
    artifact = commit(local, rows(0, 3))

    with pytest.raises(StoreError, match=r"is a 'rows' table of version 1, .* lacks a column that is needed") as raised:
        local.artifact(artifact.id).read(0, columns=["text", "reasoning"])

    assert not isinstance(raised.value, ArtifactDamaged)
