import errno
import hashlib
import logging
import os
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.logs import read_logs

from gage_eval.base.errors import StoreError
from gage_eval.engine.wal import LogWriter, index_logs, segments
from gage_eval.models.client.types import Response


def key_of(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def write(folder: Path, count: int, **options: int) -> dict[str, bytes]:
    records = {key_of(i): b"answer %d" % i * (i + 1) for i in range(count)}
    with LogWriter(folder, **options) as log:  # type: ignore[arg-type]
        for key, payload in records.items():
            log.append(key, payload)
    return records


@given(
    st.builds(
        Response,
        status=st.sampled_from(["ok", "truncated", "refused", "error", "skipped"]),
        answer=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        prompt_tokens=st.none() | st.integers(0, 2**53 - 1),
        latency_ms=st.none() | st.floats(0, 1e9),
        attempts=st.integers(0, 100),
        errors=st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
        tool_calls=st.none() | st.just('[{"id":"1"}]'),
    )
)
def test_a_response_survives_the_log_unchanged(response: Response) -> None:
    assert Response.from_bytes(response.to_bytes()) == response


def test_a_payload_of_an_older_version_gets_defaults_and_a_foreign_one_is_refused() -> None:
    assert Response.from_bytes(b'["ok","yes"]') == Response("ok", answer="yes")
    for foreign in (b"{}", b"[]", b"nothing", b"[" + b"1," * 40 + b"1]"):
        with pytest.raises(ValueError):
            Response.from_bytes(foreign)


def test_cut_at_every_byte_of_the_last_record_the_log_keeps_all_earlier_records(tmp_path: Path) -> None:
    records = write(tmp_path, 4)
    (segment,) = segments(tmp_path)
    whole = segment.read_bytes()
    last = 40 + len(list(records.values())[-1])
    kept = dict(list(records.items())[:-1])
    for cut in range(len(whole) - last, len(whole)):
        segment.write_bytes(whole[:cut])
        assert dict(read_logs(tmp_path)) == kept, f"cut at byte {cut}"
    segment.write_bytes(whole)
    assert dict(read_logs(tmp_path)) == records


def test_a_flipped_byte_never_yields_a_wrong_record_nor_hides_an_earlier_one(tmp_path: Path) -> None:
    records = list(write(tmp_path, 3).items())
    (segment,) = segments(tmp_path)
    whole = segment.read_bytes()
    ends = [8]
    for _, payload in records:
        ends.append(ends[-1] + 40 + len(payload))
    for at in range(len(whole)):
        segment.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        intact = sum(at >= end for end in ends[1:]) if at >= 8 else 0
        assert list(read_logs(tmp_path)) == records[:intact], f"byte {at}"


def test_damage_in_the_middle_is_reported_and_other_segments_are_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LogWriter(tmp_path, "a") as log:
        log.append(key_of(1), b"one")
        log.append(key_of(2), b"two")
    with LogWriter(tmp_path, "b") as log:
        log.append(key_of(3), b"three")
    first = tmp_path / "a-00000.log"
    data = bytearray(first.read_bytes())
    data[8 + 40] ^= 1
    first.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        assert list(read_logs(tmp_path)) == [(key_of(3), b"three")]
    assert "damaged at byte 8" in caplog.text


def test_two_writers_never_share_a_segment(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as odd, LogWriter(tmp_path) as even:
        for i in range(50):
            (odd if i % 2 else even).append(key_of(i), b"%d" % i)
    assert len(segments(tmp_path)) == 2
    assert dict(read_logs(tmp_path)) == {key_of(i): b"%d" % i for i in range(50)}


def test_a_full_segment_is_followed_by_another_and_can_be_deleted(tmp_path: Path) -> None:
    records = write(tmp_path, 20, segment_bytes=200)
    files = segments(tmp_path)
    assert len(files) > 3
    assert dict(read_logs(tmp_path)) == records
    files[0].unlink()
    assert segments(tmp_path) == files[1:]
    assert set(dict(read_logs(tmp_path))) < set(records)


def test_what_does_not_fit_on_the_disk_leaves_no_trace_and_says_what_is_kept(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    log = LogWriter(tmp_path)
    log.append(key_of(0), b"first")
    # The kernel writes up to the limit and then refuses: a short write, as on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(StoreError, match="no space left; 1 answers of this run are kept"):
            log.append(key_of(1), b"x" * 500)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.append(key_of(2), b"third")
    log.close()
    assert list(read_logs(tmp_path)) == [(key_of(0), b"first"), (key_of(2), b"third")]


def test_a_disk_full_from_the_start_leaves_no_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    log = LogWriter(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(StoreError, match="no space left; 0 answers"):
            log.append(key_of(1), b"answer")
    assert segments(tmp_path) == []


def test_only_a_sha256_is_a_key(tmp_path: Path) -> None:
    for key in ("", "ab", "zz" * 32, "ab" * 33):
        with LogWriter(tmp_path) as log, pytest.raises(ValueError):
            log.append(key, b"answer")


def test_the_index_answers_like_the_log_and_the_first_record_of_a_key_counts(tmp_path: Path) -> None:
    records = write(tmp_path, 100, segment_bytes=1000)
    with LogWriter(tmp_path, "zz") as log:
        log.append(key_of(3), b"another answer")
    index = index_logs(tmp_path)
    assert dict(index) == records
    assert len(index) == 100
    assert key_of(3) in index
    assert key_of(1000) not in index
    assert index.get(key_of(1000)) is None


def test_a_writer_gives_back_what_it_wrote_whatever_the_segment(tmp_path: Path) -> None:
    # More records than are kept in a dictionary.
    payloads = {key_of(number): b"answer %d" % number for number in range(1200)}
    with LogWriter(tmp_path, segment_bytes=5000) as log:
        assert log.get(key_of(1)) is None
        for key, payload in payloads.items():
            log.append(key, payload)
        assert {key: log.get(key) for key in payloads} == payloads
        assert log.get(key_of(1200)) is None
        # A key that only begins like one that is there.
        assert log.get(key_of(7)[:16] + key_of(8)[16:]) is None
    assert log.get(key_of(7)) == b"answer 7"
    assert len(segments(tmp_path)) > 1


def test_a_log_changed_behind_the_index_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 2)
    index = index_logs(tmp_path)
    (segment,) = segments(tmp_path)
    segment.write_bytes(segment.read_bytes()[:-1])
    with pytest.raises(StoreError, match="changed since it was read"):
        index[key_of(1)]


def test_a_missing_folder_and_a_foreign_file_hold_no_answers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    none = index_logs(tmp_path / "none")
    assert len(none) == 0
    assert "0" * 64 not in none
    (tmp_path / "other.log").write_text("something else altogether")
    (tmp_path / "torn.log").write_bytes(b"GAGE")
    assert list(read_logs(tmp_path)) == []
    assert "other.log is not a log of answers and is ignored" in caplog.text
    assert "torn.log" not in caplog.text
