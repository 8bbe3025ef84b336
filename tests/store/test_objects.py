"""The primitives: created once, swapped only on a match, never outside the store."""

import os
from pathlib import Path

import pytest

from gage_eval.base.errors import InputError, StoreError
from gage_eval.store import Store
from gage_eval.store.objects import LocalObjects
from gage_eval.store.s3 import S3Objects


def test_an_object_is_created_once(store: Store, tmp_path: Path) -> None:
    objects = store.objects
    (tmp_path / "file").write_bytes(b"file")

    assert objects.create("a/b.json", b"one")
    assert not objects.create("a/b.json", b"two")
    assert not objects.create_file("a/b.json", tmp_path / "file")
    assert objects.create_file("a/c", tmp_path / "file")
    assert (objects.get("a/b.json"), objects.get("a/c")) == (b"one", b"file")
    assert objects.exists("a/c")
    assert not objects.exists("a")


def test_a_large_file_is_created_once_too(store: Store, tmp_path: Path) -> None:
    """Over 100 MB s3fs sends in pieces; the last call carries the condition."""
    (tmp_path / "large").write_bytes(bytes(104 << 20))
    (tmp_path / "large2").write_bytes(b"1" * 10)

    assert store.objects.create_file("large", tmp_path / "large")
    assert not store.objects.create_file("large", tmp_path / "large2")
    assert [item.size for item in store.objects.list()] == [104 << 20]


def test_a_swap_needs_what_is_expected(store: Store) -> None:
    objects = store.objects

    assert objects.swap("a", b"1", expected=None)
    assert not objects.swap("a", b"2", expected=None)
    assert not objects.swap("a", b"2", expected=b"0")
    assert objects.swap("a", b"2", expected=b"1")
    assert not objects.swap("missing", b"2", expected=b"1")
    assert objects.get("a") == b"2"


def test_a_replacement_needs_nothing(store: Store) -> None:
    store.objects.replace("a/b", b"1")
    store.objects.replace("a/b", b"2")

    assert store.objects.get("a/b") == b"2"
    assert list(store.objects.leftovers()) == []


def test_a_listing_is_fresh_sorted_and_of_one_folder(store: Store) -> None:
    objects = store.objects
    for path in ("b/2", "b/1/x", "ba/1", "c"):
        objects.create(path, b"x" * 3)

    assert [item.path for item in objects.list("b")] == ["b/1/x", "b/2"]
    assert [item.path for item in objects.list()] == ["b/1/x", "b/2", "ba/1", "c"]
    assert [item.size for item in objects.list("c/d")] == []
    objects.delete("b/2")
    objects.delete("b/2")
    assert [(item.path, item.size) for item in objects.list("b")] == [("b/1/x", 3)]
    with pytest.raises(FileNotFoundError):
        objects.get("b/2")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "a//b", "", ".hidden", "a\\b", "a\n", "a/."])
def test_no_path_leads_out_of_the_store(store: Store, path: str) -> None:
    for act in (store.objects.get, store.objects.exists, store.objects.delete):
        with pytest.raises(StoreError, match="cannot name an object"):
            act(path)
    with pytest.raises(StoreError, match="cannot name an object"):
        store.objects.create(path, b"")


def test_a_read_only_store_refuses_every_write(url: str, tmp_path: Path) -> None:
    Store.open(url).objects.create("a", b"1")
    (tmp_path / "file").write_bytes(b"")
    objects = Store.open(url, read_only=True).objects

    assert objects.get("a") == b"1"
    for write in (
        lambda: objects.create("b", b""),
        lambda: objects.create_file("b", tmp_path / "file"),
        lambda: objects.swap("a", b"2", expected=b"1"),
        lambda: objects.replace("a", b"2"),
        lambda: objects.delete("a"),
    ):
        with pytest.raises(StoreError, match="read-only"):
            write()


def test_a_store_is_opened_by_folder_or_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Store.open("here").objects.create("a", b"1")

    assert Store.open(f"file://{tmp_path}/here").objects.get("a") == b"1"
    assert Store.open("here").url == "here"


def test_what_is_no_store_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    with pytest.raises(InputError, match="'ftp://' is not a kind of store"):
        Store.open("ftp://host/x")
    for slip in ("s3:/bucket/evals", "s3:bucket", "file:/folder"):
        with pytest.raises(InputError, match="lacks two slashes"):
            Store.open(slip)
    for machine in ("file://store", "file://host/store"):
        with pytest.raises(InputError, match="names a machine: write file:///folder"):
            Store.open(machine)
    with pytest.raises(InputError, match="is empty"):
        Store.open("")
    with pytest.raises(InputError, match="there is no home folder '~nobody-here'"):
        Store.open("~nobody-here/store")
    with pytest.raises(InputError, match="cannot be a path"):
        Store.open(str(tmp_path / ("x" * 300)))
    with pytest.raises(InputError, match="is a file: give a folder"):
        Store.open(str(tmp_path / "file"))
    with pytest.raises(InputError, match="is a file: give a folder"):
        Store.open(str(tmp_path / "file"), read_only=True)
    with pytest.raises(InputError, match="there is no store at"):
        Store.open(str(tmp_path / "missing"), read_only=True)
    with pytest.raises(InputError, match="names no bucket"):
        S3Objects("s3://")


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    with pytest.raises(InputError, match="must not carry credentials") as raised:
        S3Objects("s3://AKIA123:planted-secret@bucket/prefix")

    assert "planted-secret" not in str(raised.value)


def test_a_missing_bucket_is_said_in_a_sentence(s3_url: str) -> None:
    with pytest.raises(StoreError, match="bucket 'no-such-bucket' does not exist; create it first"):
        Store.open("s3://no-such-bucket/x")


def test_a_server_that_overwrites_is_refused(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(S3Objects, "create", lambda self, path, data: self._put(path, data))

    with pytest.raises(StoreError, match="ignores If-None-Match or If-Match"):
        Store.open(s3_url)


def test_folders_of_deleted_objects_go(tmp_path: Path) -> None:
    objects = LocalObjects(tmp_path, "store")
    objects.create("a/b/c", b"")
    objects.create("a/d", b"")

    objects.delete("a/b/c")

    assert [path.name for path in (tmp_path / "a").iterdir()] == ["d"]


def test_a_renewed_object_is_young_and_otherwise_as_it_was(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gage_eval.store.s3._YOUNG_S", -60.0)
    objects = store.objects
    objects.create("a/b", b"one")
    before = objects.info("a/b")
    if objects.local_root is not None:
        os.utime(objects.local_root / "a" / "b", (0, 0))

    assert objects.renew("a/b")

    after = objects.info("a/b")
    assert before is not None
    assert after is not None
    assert after.mtime >= before.mtime
    assert (after.size, objects.get("a/b")) == (3, b"one")
    assert objects.swap("a/b", b"two", expected=b"one")
    assert not objects.renew("a/none")
    assert objects.info("a/none") is None
