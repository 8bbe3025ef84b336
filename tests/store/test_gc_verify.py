"""Collecting keeps what is referred to; verifying finds whatever was planted."""

import errno
import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gage_eval.base.canonical import canonical_json, decode, digest, sha256_hex
from gage_eval.base.errors import ArtifactDamaged, StoreError
from gage_eval.store import Artifact, GcReport, ObjectInfo, Store, parquet_bytes
from gage_eval.store.manifest import Manifest, PartInfo, manifest_path
from gage_eval.store.objects import STAGING
from gage_eval.store.s3 import S3Objects, bucket_of
from gage_eval.store.spool import spool
from tests.store.small import ROWS, commit, index, rows

KEYS = ["a" * 64, "b" * 64]


@pytest.fixture
def two(store: Store) -> tuple[Artifact, Artifact]:
    """Two artifacts in a store of each kind."""
    return two_of(store)


def two_of(store: Store) -> tuple[Artifact, Artifact]:
    """Two artifacts with an action, an index file and a medium each."""
    artifacts = []
    for key in KEYS:
        url = store.media.put(key.encode())
        artifact = commit(store, pa.table({"row_index": [0], "text": [f"see {url}"]}, ROWS.arrow))
        store.actions.commit("infer", key, {"responses": artifact}, document={})
        index(store, "model", artifact.id, [sha256_hex(key.encode())], [(0, 0)])
        artifacts.append(artifact)
    return artifacts[0], artifacts[1]


def test_gc_keeps_roots_and_all_that_belongs_to_them(store: Store, two: tuple[Artifact, Artifact]) -> None:
    kept, gone = two
    store.wip("key").put_chunk(0, 0, 5, {"responses": parquet_bytes(rows(0, 5))})
    (store.scratch("key") / "writer.log").write_bytes(b"answer")

    report = store.gc([kept.id], min_age_s=-60)

    assert [listed.id for listed in store.ls()] == [kept.id]
    assert store.actions.find("infer", KEYS[0]) is not None
    assert store.actions.find("infer", KEYS[1]) is None
    assert store.media.get(f"media://sha256/{sha256_hex(KEYS[0].encode())}") == KEYS[0].encode()
    # part, manifest, action, index file, medium of the other; chunk and log of the unfinished work
    assert (report.objects, report.kept, report.dry_run) == (7, 1, False)
    assert store.wips() == []
    assert not any(gone.id in item.path for item in store.objects.list())
    assert store.verify() == []
    assert store.gc([kept.id], min_age_s=-60).objects == 0


def test_a_dry_run_names_the_same_and_removes_nothing(store: Store, two: tuple[Artifact, Artifact]) -> None:
    before = [item.path for item in store.objects.list()]

    dry = store.gc([two[0].id], min_age_s=-60, dry_run=True)

    assert [item.path for item in store.objects.list()] == before
    done = store.gc([two[0].id], min_age_s=-60)
    assert (dry.paths, dry.bytes, dry.objects) == (done.paths, done.bytes, done.objects)


def test_gc_removes_nothing_young(store: Store, two: tuple[Artifact, Artifact]) -> None:
    report = store.gc([])

    assert (report.objects, report.kept) == (0, 2)
    assert store.actions.find("infer", KEYS[1]) is not None


def test_gc_judges_unfinished_work_by_its_newest_file(local: Store) -> None:
    for key in ("old", "going-on"):
        local.wip(key).put_chunk(0, 0, 5, {"responses": parquet_bytes(rows(0, 5))})
        (file,) = Path(local.url, "wip", key).rglob("*.chunk")
        os.utime(file, (0, 0))
    (local.scratch("going-on") / "writer.log").write_bytes(b"answer")

    local.gc([])

    assert [wip.key for wip in local.wips()] == ["going-on"]
    assert len(local.wip("going-on").chunks(0)) == 1


def test_gc_keeps_the_answers_of_runs_that_may_be_gone_on_with(store: Store) -> None:
    for key, run in (("stopped", "otter"), ("removed", "heron")):
        store.wip(key).begun_by(run)
        store.wip(key).put_chunk(0, 0, 5, {"responses": parquet_bytes(rows(0, 5))})
        (store.scratch(key) / "writer.log").write_bytes(b"answer")

    report = store.gc([], unfinished=["otter"], min_age_s=-60)

    assert [wip.key for wip in store.wips()] == ["stopped"]
    assert (store.scratch("stopped") / "writer.log").read_bytes() == b"answer"
    assert len(report.paths) == 3


def test_gc_judges_what_is_staged_by_its_newest_file(local: Store) -> None:
    writer = local.writer(ROWS)
    writer.write(0, rows(0, 5))
    (staged,) = Path(local.url, "staging").rglob("*.parquet")
    os.utime(staged, (0, 0))
    writer.write(1, rows(5, 10))

    assert local.gc([]).objects == 0
    assert writer.commit().rows == 10


def test_gc_removes_what_a_killed_writer_staged_on_this_machine(store: Store) -> None:
    staging = spool(store.objects, STAGING)
    store.writer(ROWS).write(0, rows(0, 5))
    assert list(staging.rglob("*.parquet"))

    assert store.gc([]).objects == 0
    assert store.gc([], min_age_s=-60).objects == 1

    assert not list(staging.rglob("*"))


def age(store: Store) -> None:
    """Have every file of a local store look as if it had not changed for years."""
    for file in Path(store.url).rglob("*"):
        if file.is_file():
            os.utime(file, (0, 0))


def during_gc(
    store: Store, work: Callable[[], object], monkeypatch: pytest.MonkeyPatch, *, once_listed: str = "artifacts"
) -> GcReport:
    """A collection of everything old, beside a run that does ``work`` once all of a folder was looked at."""
    listing = store.objects.list

    def listed(prefix: str = "") -> Iterator[ObjectInfo]:
        yield from listing(prefix)
        if prefix == once_listed:
            work()

    with monkeypatch.context() as patch:
        patch.setattr(store.objects, "list", listed)
        return store.gc([])


def test_gc_spares_what_a_run_builds_on_meanwhile(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    used, _ = two_of(local)
    age(local)

    during_gc(local, lambda: local.actions.find("infer", KEYS[0], renew=True), monkeypatch)

    assert local.actions.find("infer", KEYS[0]) is not None
    assert [listed.id for listed in local.ls()] == [used.id]
    assert local.media.get(f"media://sha256/{sha256_hex(KEYS[0].encode())}")
    assert local.responses.find("model", [sha256_hex(KEYS[0].encode())])
    assert local.verify() == []


def test_gc_spares_work_that_a_run_begins_on_meanwhile(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    local.wip("key").put_chunk(0, 0, 5, {"responses": parquet_bytes(rows(0, 5))})
    age(local)

    during_gc(local, lambda: local.wip("key").begun_by("new"), monkeypatch, once_listed="wip")

    assert len(local.wip("key").chunks()) == 1


def test_gc_spares_what_is_committed_again_meanwhile(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"see {local.media.put(b'image')}"
    table = pa.table({"row_index": [0], "text": [text]}, ROWS.arrow)
    commit(local, table, rows(1, 5))
    age(local)

    def again() -> None:
        local.media.put(b"image")
        commit(local, table, rows(1, 5))

    assert during_gc(local, again, monkeypatch).objects == 0
    assert local.verify() == []


def test_parts_of_a_slow_writer_are_as_young_as_their_commit(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = local.writer(ROWS)
    writer.write(0, rows(0, 5))
    age(local)
    create = local.objects.create

    def collected_before(path: str, data: bytes) -> bool:
        local.gc([])
        return create(path, data)

    monkeypatch.setattr(local.objects, "create", collected_before)

    assert writer.commit().table().num_rows == 5


def test_gc_spares_parts_that_a_run_shares_meanwhile(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = commit(local, rows(0, 5), rows(5, 9))
    age(local)
    looks: list[Artifact] = []

    during_gc(local, lambda: looks.append(commit(local, rows(0, 5), rows(5, 8))), monkeypatch)

    assert looks[0].parts[0].artifact == first.id
    assert looks[0].table().equals(rows(0, 8))
    assert local.verify() == []


@pytest.mark.parametrize("seed", range(20))
def test_gc_never_removes_a_part_of_a_living_artifact(local: Store, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Artifacts that share parts are committed, used and forgotten; some collections are killed."""
    draw, delete = random.Random(seed), local.objects.delete
    left = [0]

    def mortal(path: str) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        delete(path)

    monkeypatch.setattr(local.objects, "delete", mortal)
    living: dict[str, pa.Table] = {}
    for _ in range(20):
        ends = sorted(draw.sample(range(1, 9), draw.randint(1, 4)))
        parts = [rows(start, end) for start, end in pairwise([0, *ends])]
        living[commit(local, *parts).id] = rows(0, ends[-1])
        if draw.random() < 0.5:
            left[0] = draw.choice([1, 2, 3, 100])
            living = {name: living[name] for name in draw.sample(sorted(living), len(living) // 2)}
            with suppress(KeyboardInterrupt):
                local.gc(living, min_age_s=-60)
        for name, table in living.items():
            assert local.artifact(name).table().equals(table)
    left[0] = 0
    local.gc(living, min_age_s=-60)
    assert {entry.id for entry in local.ls()} == set(living)
    assert local.verify() == []
    needed = {part.path(name) for name in living for part in local.artifact(name).parts}
    assert {item.path for item in local.objects.list("artifacts")} == needed | set(map(manifest_path, living))


def test_verify_removes_only_what_is_damaged_of_artifacts_that_share_parts(store: Store) -> None:
    first = commit(store, rows(0, 5), rows(5, 9), rows(9, 12))
    second = commit(store, rows(0, 5), rows(5, 9))
    third = commit(store, rows(0, 5), rows(5, 7))
    path = f"artifacts/{first.id}/part-00001.parquet"
    overwrite(store, path, store.objects.get(path)[:-3] + b"bad")

    assert [finding.path for finding in store.verify(remove=True)] == [path]

    assert [entry.id for entry in store.ls()] == [third.id]
    assert store.verify() == []
    assert store.artifact(third.id).table().equals(rows(0, 7))
    again = Store.open(store.url)
    assert commit(again, rows(0, 5), rows(5, 9)).id == second.id
    assert again.artifact(second.id).table().equals(rows(0, 9))


def test_a_sound_store_has_no_findings(store: Store, two: tuple[Artifact, Artifact]) -> None:
    store.wip("key").put_chunk(0, 0, 5, {"responses": parquet_bytes(rows(0, 5))})

    assert store.verify() == []


def overwrite(store: Store, path: str, data: bytes) -> None:
    store.objects.delete(path)
    assert store.objects.create(path, data)


def test_verify_finds_planted_damage_and_removes_it(store: Store, two: tuple[Artifact, Artifact]) -> None:
    sound, bad = two
    store.wip("key").put_chunk(0, 0, 5, {"responses": parquet_bytes(rows(0, 5))})
    part = f"artifacts/{bad.id}/part-00000.parquet"
    planted = [part, "wip/key/chunks/00000/0-5.chunk"]
    planted += [item.path for item in store.objects.list("media") if sha256_hex(KEYS[1].encode()) in item.path]
    planted += [item.path for item in store.objects.list("index") if bad.id in item.path]
    for path in planted:
        overwrite(store, path, store.objects.get(path)[:-3] + b"bad")

    findings = store.verify()

    # The action that points to the damaged artifact is a finding of its own.
    assert [finding.path for finding in findings] == sorted([*planted, f"actions/infer/{KEYS[1]}.json"])
    assert store.verify(remove=True) == findings
    assert store.verify() == []
    assert store.actions.find("infer", KEYS[0]) is not None
    assert store.actions.find("infer", KEYS[1]) is None
    assert store.artifact(sound.id).table().num_rows == 1
    text = bad.id  # the same rows can be committed again
    again = pa.table({"row_index": [0], "text": [f"see media://sha256/{sha256_hex(KEYS[1].encode())}"]}, ROWS.arrow)
    assert commit(store, again).id == text


@pytest.mark.parametrize("below", ["actions", "index/responses", "wip", "media"])
def test_verify_passes_over_what_goes_while_it_reads(
    store: Store, two: tuple[Artifact, Artifact], below: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.wip("key").put_chunk(0, 0, 5, {"responses": parquet_bytes(rows(0, 5))})
    listing = store.objects.list

    def listed(prefix: str = "") -> list[ObjectInfo]:
        objects = list(listing(prefix))
        if prefix == below:
            store.objects.delete(objects[-1].path)
        return objects

    monkeypatch.setattr(store.objects, "list", listed)

    assert store.verify(remove=True) == []


def test_verify_never_takes_what_is_committed_while_it_reads_for_damage(
    local: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = local.objects.list

    def listed(prefix: str = "") -> list[ObjectInfo]:
        objects = list(listing(prefix))
        if prefix == "artifacts":
            local.actions.commit("infer", KEYS[0], {"responses": commit(local, rows(0, 5))}, document={})
        return objects

    monkeypatch.setattr(local.objects, "list", listed)

    assert local.verify(remove=True) == []
    assert local.actions.find("infer", KEYS[0]) is not None


def test_verify_finds_rows_that_were_forged_with_a_fitting_sha256(store: Store, tmp_path: Path) -> None:
    artifact = commit(store, rows(0, 5))
    pq.write_table(rows(0, 5, "forged"), tmp_path / "forged")
    data = (tmp_path / "forged").read_bytes()
    overwrite(store, f"artifacts/{artifact.id}/part-00000.parquet", data)
    manifest = artifact.manifest
    part = PartInfo(0, 5, manifest.parts[0].content_hash, len(data), sha256_hex(data))
    forged = Manifest(manifest.table, manifest.schema_version, (part,), True, {})  # noqa: FBT003
    overwrite(store, f"artifacts/{artifact.id}/manifest.json", forged.to_bytes())

    (finding,) = store.verify()

    assert finding.path == f"artifacts/{artifact.id}/part-00000.parquet"
    assert "has content" in finding.problem


def test_verify_finds_manifests_and_actions_that_were_edited(store: Store, two: tuple[Artifact, Artifact]) -> None:
    manifest = f"artifacts/{two[0].id}/manifest.json"
    value = decode(store.objects.get(manifest))
    value["parts"][0]["content_hash"] = "0" * 64
    overwrite(store, manifest, canonical_json(value))
    overwrite(store, f"actions/infer/{KEYS[1]}.json", b"{}")

    paths = [finding.path for finding in store.verify()]

    assert paths == [f"actions/infer/{KEYS[0]}.json", f"actions/infer/{KEYS[1]}.json", manifest]


@pytest.mark.parametrize(
    "change",
    [lambda value: value["parts"].append(value["parts"][0]), lambda value: value["parts"].reverse(),
     lambda value: value.update(table=["rows"]), lambda value: value.update(schema_version="1")],
    ids=["a part twice", "another order", "no name", "no version"],
)  # fmt: skip
def test_a_manifest_that_is_none_although_its_id_fits_is_refused(
    local: Store, change: Callable[[dict[str, Any]], None]
) -> None:
    written = commit(local, rows(0, 2), rows(2, 4)).manifest
    value = decode(written.to_bytes())
    change(value)
    parts = sorted([index, text] for index, text in {(part["index"], part["content_hash"]) for part in value["parts"]})
    forged = digest({"table": value["table"], "schema_version": value["schema_version"], "parts": parts})
    local.objects.replace(manifest_path(forged), canonical_json(value))
    with pytest.raises(ArtifactDamaged, match="is not a manifest"):
        local.artifact(forged).table()


def test_an_index_that_names_rows_nobody_has_is_found(store: Store) -> None:
    artifact = commit(store, rows(0, 5))
    index(store, "model", artifact.id, ["0" * 64, "1" * 64], [(0, 4), (0, 5)])

    (finding,) = store.verify()

    assert "names rows that artifact" in finding.problem


def test_a_listing_names_each_artifact_with_its_actions(store: Store, two: tuple[Artifact, Artifact]) -> None:
    listed = {entry.id: entry for entry in store.ls()}

    assert set(listed) == {artifact.id for artifact in two}
    entry = listed[two[0].id]
    assert (entry.table, entry.rows, entry.complete, entry.actions) == ("rows", 1, True, (f"infer/{KEYS[0]}",))
    assert entry.bytes > 0


def test_what_others_put_into_a_store_is_passed_over_and_stays(store: Store, two: tuple[Artifact, Artifact]) -> None:
    """Such as ``.DS_Store``, ``.nfs…`` of a network mount, or the folders that a console makes on S3."""
    places = ("", "actions/", "actions/infer/", f"artifacts/{two[1].id}/", "media/", "wip/", "index/", "notes/")
    names = [f"{place}{name}" for place in places for name in (".DS_Store", ".nfs0001", "my copy.json")]
    if (root := store.objects.local_root) is None:
        names += places[1:]
        for name in names:
            _put_raw(store, name)
    else:
        names += [f"{STAGING}/.DS_Store", ".tmp-0"]
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(b"")
    assert store.verify(remove=True) == []
    assert len(store.ls()) == 2
    assert len(list(store.actions.all())) == 2
    assert store.wips() == []
    assert store.gc([two[0].id], min_age_s=-60).kept == 1
    assert [listed.id for listed in store.ls()] == [two[0].id]
    if root is not None:
        assert all((root / name).exists() for name in names)


def _put_raw(store: Store, name: str) -> None:
    assert isinstance(store.objects, S3Objects)
    bucket, prefix = bucket_of(store.url)
    store.objects._fs.call_s3("put_object", Bucket=bucket, Key=f"{prefix}/{name}", Body=b"")


def test_a_folder_of_somebody_else_is_one_sentence(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    two_of(local)
    scan = os.scandir

    def refused(folder: Path) -> object:
        if folder.name == "infer":
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refused)
    for look in (local.ls, local.verify, lambda: list(local.actions.all()), lambda: local.gc(())):
        with pytest.raises(StoreError, match="is read-only or not yours"):
            look()
