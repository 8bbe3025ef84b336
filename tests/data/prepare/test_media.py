"""Media of messages: read from where the data may point and nowhere else, kept by hash, sent by nobody's path."""

import base64
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.pictures import image, size_of, write_image

from gage_eval.base.errors import StoreError
from gage_eval.data.prepare.images import ImageRules
from gage_eval.data.prepare.media import MediaReader, MediaRules, data_of, files_identity, local_file, without_data_urls
from gage_eval.data.sample.record import RecordRejected
from gage_eval.store import Store


def seen(*urls: str, kind: str = "image_url", **beside: Any) -> list[dict[str, Any]]:
    """A user message that shows media."""
    segments = [{"type": kind, kind: {"url": url, **beside}} for url in urls]
    return [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, *segments]}]


def urls(messages: list[dict[str, Any]]) -> list[str]:
    return [part[part["type"]]["url"] for part in messages[0]["content"] if part["type"] != "text"]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(str(tmp_path / "store"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of media, with a secret beside it and ways that lead there."""
    folder = tmp_path / "data"
    write_image(folder / "images" / "a.png")
    write_image(folder / "b.jpg", kind="JPEG")
    (tmp_path / "secret.png").write_bytes(image(colour=(1, 2, 3)))
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "inner.png").symlink_to(folder / "b.jpg")
    (folder / "up").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "sound.wav").write_bytes(b"RIFF\0\0\0\0WAVEfmt ")
    os.mkfifo(folder / "pipe")
    return folder


def test_local_media_are_kept_by_hash_and_other_keys_stay(store: Store, root: Path) -> None:
    reader = MediaReader(MediaRules(root), store.media)
    messages_of_sample = seen("images/a.png", "b.jpg", detail="high")
    messages, meta = reader.resolve(messages_of_sample)
    assert [store.media.get(url) for url in urls(messages)] == [
        (root / "images" / "a.png").read_bytes(),
        (root / "b.jpg").read_bytes(),
    ]
    assert messages[0]["content"][1]["image_url"]["detail"] == "high"
    assert urls(messages_of_sample) == ["images/a.png", "b.jpg"], "what goes in is not changed"
    assert meta == [
        {
            "url": url,
            "type": "image_url",
            "media_type": kind,
            "bytes": len(store.media.get(url)),
            "width": 40,
            "height": 30,
        }
        for url, kind in zip(urls(messages), ("image/png", "image/jpeg"), strict=True)
    ]


def test_audio_video_and_documents_are_kept_as_they_are(store: Store, root: Path) -> None:
    reader = MediaReader(MediaRules(root), store.media)
    for kind in ("audio_url", "video_url", "file_url"):
        messages, meta = reader.resolve(seen("sound.wav", kind=kind))
        assert store.media.get(urls(messages)[0]) == (root / "sound.wav").read_bytes()
        assert meta[0]["type"] == messages[0]["content"][1]["type"] == kind


def test_addresses_on_the_web_stay_and_are_not_fetched(store: Store) -> None:
    address = "https://example.invalid/a.png?x=1"
    messages, meta = MediaReader(MediaRules(), store.media).resolve(seen(address))
    assert urls(messages) == [address]
    assert meta == [{"url": address, "type": "image_url"}]


def test_only_media_the_messages_refer_to_are_stored(store: Store, root: Path) -> None:
    reader = MediaReader(MediaRules(root), store.media)
    reader.read([seen("b.jpg")])
    reader.resolve(seen("b.jpg"))
    kept = [path for path in (root.parent / "store" / "media").rglob("*") if path.is_file()]
    assert len(kept) == 1


@pytest.mark.parametrize(
    "url",
    ["link.png", "up/secret.png", "../secret.png", "images/../../secret.png", "{tmp}/secret.png", "file://{tmp}/secret.png",
     "file:///etc/passwd", "/etc/passwd", "file://%2e%2e/secret.png", "./images/./../../secret.png"],
)  # fmt: skip
def test_no_path_leads_out_of_the_folder(url: str, store: Store, root: Path) -> None:
    url = url.replace("{tmp}", str(root.parent))
    with pytest.raises(RecordRejected, match=r"leads out of content_root|no such file"):
        MediaReader(MediaRules(root), store.media).resolve(seen(url))
    assert not (root.parent / "store" / "media").exists()


@pytest.mark.parametrize("url", ["link.png", "../secret.png", "{tmp}/secret.png", "file://{tmp}/secret.png"])
def test_a_path_may_lead_out_where_the_config_allows_it(url: str, root: Path) -> None:
    file = local_file(url.replace("{tmp}", str(root.parent)), MediaRules(root, allow_outside=True))
    assert file == root.parent / "secret.png"


def test_links_inside_the_folder_are_followed(root: Path) -> None:
    assert local_file("inner.png", MediaRules(root)) == root / "b.jpg"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("none.png", "does not exist in content_root"),
        ("images", "not a file"),
        ("pipe", "not a file"),
        ("loop", "not a path|no such file"),
        ("a\0b", "not a path"),
        ("x" * 5000, "not a path"),
        ("s3://bucket/a.png", "not s3://"),
        ("ftp://host/a.png", "not ftp://"),
        ("data:image/png;base64,@@@@", "base64"),
        ("data:image/png;base64", "comma"),
        ("data:image/png;base64,AAAA", "not a readable image"),
    ],
)
def test_what_cannot_be_read_is_rejected_with_the_reason(url: str, reason: str, store: Store, root: Path) -> None:
    with pytest.raises(RecordRejected, match=reason) as rejected:
        MediaReader(MediaRules(root), store.media).resolve(seen(url))
    assert str(root) not in rejected.value.reason, "no absolute path in a row"
    assert len(rejected.value.reason) < 250


def test_a_path_without_a_folder_to_start_from_is_rejected(store: Store) -> None:
    with pytest.raises(RecordRejected, match="set content_root"):
        MediaReader(MediaRules(), store.media).resolve(seen("a.png"))


def test_a_medium_that_is_gone_from_the_store_ends_the_stage(store: Store) -> None:
    """Its row would else be rejected for good, under a key that does not change when it is back."""
    with pytest.raises(StoreError, match="gone"):
        MediaReader(MediaRules(), store.media).resolve(seen("media://sha256/" + "0" * 64))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(st.sampled_from(["..", ".", "up", "images", "a.png", "link.png", "", "~", "%2e%2e", "\\"]), max_size=8)
        .map("/".join)
        .filter(bool),
        st.tuples(st.sampled_from(["file://", "data:", "media://", "\n", "//"]), st.text(max_size=20)).map("".join),
    ).filter(bool)
)  # fmt: skip
def test_any_address_is_a_medium_or_a_reject_and_never_the_secret(store: Store, root: Path, url: str) -> None:
    reader = MediaReader(MediaRules(root), store.media)
    with suppress(RecordRejected):
        messages, _ = reader.resolve(without_data_urls(seen(url), store.media))
        kept = urls(messages)[0]
        assert kept.startswith(("http://", "https://")) or store.media.get(kept) in (
            (root / "images" / "a.png").read_bytes(),
            (root / "b.jpg").read_bytes(),
        )


def test_data_urls_are_decoded_and_leave_the_row(store: Store) -> None:
    data = image()
    url = "data:image/png;base64," + base64.b64encode(data).decode()
    messages = without_data_urls(seen(url), store.media)
    assert store.media.get(urls(messages)[0]) == data
    assert data_of("data:text/plain,a%20b") == b"a b"
    assert data_of("data:;BASE64,YWI%3D") == b"ab"


def test_documents_keep_their_type_on_their_way(store: Store, root: Path) -> None:
    (root / "notes.md").write_text("# Title")
    reader = MediaReader(MediaRules(root), store.media)
    types = []
    for url, said in (
        ("notes.md", {}),
        ("notes.md", {"media_type": "text/x-rst"}),
        ("notes.md", {"media_type": "text/html;base64,x"}),
        ("data:text/csv;charset=utf-8;base64,YQ==", {}),
        ("data:,a", {}),
        (store.media.put(b"%PDF-1"), {}),
        ("https://example.org/a.md", {}),
    ):
        messages, _ = reader.resolve(without_data_urls(seen(url, kind="file_url", **said), store.media))
        types.append(messages[0]["content"][1]["file_url"].get("media_type"))
    assert types == [
        "text/markdown", "text/x-rst", "text/markdown", "text/csv", "text/plain", "application/pdf", None,
    ]  # fmt: skip


def test_a_record_cannot_name_media_the_store_does_not_have(store: Store) -> None:
    kept = store.media.put(b"x")
    assert urls(without_data_urls(seen(kept), store.media)) == [kept]
    for url in ("media://sha256/" + "0" * 64, "media://sha256/../../x", "media://"):
        with pytest.raises(RecordRejected):
            without_data_urls(seen(url), store.media)


def test_threads_and_order_change_nothing(store: Store, root: Path) -> None:
    conversations = [seen("b.jpg", "images/a.png"), seen("none.png"), seen("images/a.png")]
    resolved = []
    for threads in (1, 2, 8):
        reader = MediaReader(MediaRules(root), store.media, threads=threads)
        reader.read(conversations)
        resolved.append([reader.resolve(messages) for messages in (conversations[0], conversations[2])])
        with pytest.raises(RecordRejected):
            reader.resolve(conversations[1])
    assert resolved[0] == resolved[1] == resolved[2]


def test_images_are_resized_by_the_rules(store: Store, root: Path) -> None:
    rules = MediaRules(root, images=ImageRules(min_pixels=1, max_pixels=28 * 28))
    messages, meta = MediaReader(rules, store.media).resolve(seen("images/a.png"))
    assert size_of(store.media.get(urls(messages)[0])) == (28, 28)
    assert (meta[0]["width"], meta[0]["height"]) == (28, 28)


def test_files_count_by_content_and_not_by_place(root: Path, tmp_path: Path) -> None:
    write_image(tmp_path / "copy" / "x.png")
    here = files_identity([("image_url", "images/a.png")], MediaRules(root))
    there = files_identity([("image_url", "x.png")], MediaRules(tmp_path / "copy"))
    assert here == there is not None
    write_image(tmp_path / "copy" / "x.png", colour=(0, 0, 0))
    assert files_identity([("image_url", "x.png")], MediaRules(tmp_path / "copy")) != there
    assert files_identity([("image_url", "https://x/y.png")], MediaRules(root)) is None
    assert files_identity([("audio_url", "sound.wav")], MediaRules(root))["pillow"] is None
