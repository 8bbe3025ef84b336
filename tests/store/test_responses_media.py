"""The response index and the media: what was put is found, what is gone or changed is not believed."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gage_eval.base.canonical import sha256_hex
from gage_eval.base.errors import ArtifactDamaged, StoreError
from gage_eval.store import ObjectInfo, Store
from tests.store.small import commit, index, rows


def key(number: int) -> str:
    return sha256_hex(str(number).encode())


def test_a_response_is_found_by_key_in_any_artifact_of_its_model(store: Store) -> None:
    older, two = commit(store, rows(0, 3)), commit(store, rows(0, 4))
    index(store, "model", older.id, [key(1), key(2)], [(0, 0), (0, 1)])
    index(store, "model", two.id, [key(3)], [(1, 7)])
    index(store, "another", two.id, [key(4)], [(0, 0)])

    places = Store.open(store.url).responses.find("model", [key(3), key(4), key(2), key(5)])

    assert places == {key(3): (two.id, 1, 7), key(2): (older.id, 0, 1)}
    assert store.responses.find("model", []) == {}
    assert store.responses.find("unknown", [key(1)]) == {}


def test_an_artifact_that_is_gone_answers_nothing(store: Store) -> None:
    lost, two = commit(store, rows(0, 3)), commit(store, rows(0, 4))
    index(store, "model", lost.id, [key(1), key(2)], [(0, 0), (0, 1)])
    index(store, "model", two.id, [key(1)], [(0, 3)])
    assert set(store.responses.find("model", [key(1), key(2)])) == {key(1), key(2)}

    store.objects.delete(f"artifacts/{lost.id}/manifest.json")

    assert store.responses.find("model", [key(1), key(2)]) == {key(1): (two.id, 0, 3)}


def test_an_index_file_that_goes_while_it_is_looked_for_answers_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, two = commit(store, rows(0, 3)), commit(store, rows(0, 4))
    index(store, "model", lost.id, [key(1)], [(0, 0)])
    index(store, "model", two.id, [key(2)], [(0, 3)])
    listing = store.objects.list

    def listed(prefix: str = "") -> list[ObjectInfo]:
        objects = list(listing(prefix))
        store.objects.delete(next(item.path for item in objects if lost.id in item.path))
        return objects

    monkeypatch.setattr(store.objects, "list", listed)

    assert store.responses.find("model", [key(1), key(2)]) == {key(2): (two.id, 0, 3)}


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.binary(min_size=32, max_size=32), st.tuples(st.integers(0, 9), st.integers(0, 2**31 - 1))))
def test_every_key_comes_back_whatever_its_bytes(
    tmp_path_factory: pytest.TempPathFactory, places: dict[bytes, tuple[int, int]]
) -> None:
    """Zero bytes at the end of a key included: NumPy pads with them."""
    store = Store.open(str(tmp_path_factory.mktemp("store")))
    artifact = commit(store, rows(0, 1))
    keys = [raw.hex() for raw in places]
    index(store, "model", artifact.id, keys, list(places.values()))

    answers = store.responses.find("model", [*keys, "ab" * 32])

    assert {name: answers[name][1:] for name in keys} == dict(zip(keys, places.values(), strict=True))


def test_a_damaged_index_is_refused(store: Store) -> None:
    artifact = commit(store, rows(0, 3))
    index(store, "model", artifact.id, [key(1)], [(0, 0)])
    (item,) = store.objects.list("index")
    data = store.objects.get(item.path)
    store.objects.delete(item.path)
    store.objects.create(item.path, data[:-1] + b"x")

    with pytest.raises(ArtifactDamaged, match=r"is not the response index.*verify --remove"):
        Store.open(store.url).responses.find("model", [key(1)])


def test_keys_and_places_must_match(local: Store) -> None:
    with pytest.raises(ValueError, match="1 keys but 0 positions"):
        index(local, "model", "0" * 64, [key(1)], [])
    with pytest.raises(ValueError, match="64 digits"):
        local.responses.find("model", ["short"])


def test_media_are_kept_by_digest_once(store: Store) -> None:
    url = store.media.put(b"image")

    assert url == f"media://sha256/{sha256_hex(b'image')}"
    assert store.media.put(b"image") == url
    assert store.media.get(url) == b"image"
    assert store.media.has(url)
    assert not store.media.has(f"media://sha256/{key(1)}")
    with pytest.raises(StoreError, match="not a media URL"):
        store.media.has("media://sha256/..")
    assert len(list(store.objects.list("media"))) == 1


def test_media_that_are_gone_changed_or_no_media_are_refused(local: Store) -> None:
    url = local.media.put(b"image")
    (item,) = local.objects.list("media")
    assert local.objects.local_root is not None
    Path(local.objects.local_root, item.path).write_bytes(b"other")

    with pytest.raises(ArtifactDamaged, match="has sha256"):
        local.media.get(url)
    with pytest.raises(StoreError, match="is gone from store"):
        local.media.get("media://sha256/" + "0" * 64)
    for bad in ("media://sha256/../../x", "file:///etc/passwd", url + "0", url + "\n"):
        with pytest.raises(StoreError, match="is not a media URL"):
            local.media.get(bad)
