"""Files of pinned origins: fetched once, verified, resumed, or taken from a folder of the user."""

import errno
import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import InputError, RunCancelled
from gage_eval.base.files import locked
from gage_eval.base.packaged import configs_dir
from gage_eval.config.data_origins import load_origin
from gage_eval.data.datasets import download as downloading
from gage_eval.data.datasets import fetch
from gage_eval.data.datasets.fetch import DataCache
from gage_eval.data.datasets.origins import DataOrigin, OriginFile, OriginPath, origin_paths
from tests.support.data_server import DataServer, serving
from tests.support.waiting import PATIENCE_S

COMMIT = "0123456789" * 4
FILES = {"data/test.jsonl": b'{"question": "1 + 1", "answer": "2"}\n' * 40_000, "data/dev.jsonl": b"{}\n"}
PREFIX = f"owner/name/{COMMIT}"


def origin(files: dict[str, bytes] | None = None, name: str = "mine") -> DataOrigin:
    listed = {
        path: OriginFile(bytes=len(data), sha256=hashlib.sha256(data).hexdigest()) for path, data in FILES.items()
    }
    if files is not None:
        listed = {path: listed.get(path, OriginFile(bytes=1, sha256="0" * 64)) for path in files}
    return DataOrigin(
        name=name, repository="github.com/owner/name", commit=COMMIT, licence="MIT", non_commercial=False, files=listed
    )


def wanted(*paths: str) -> list[OriginPath]:
    return [OriginPath(origin(), path) for path in paths or FILES]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading.time, "sleep", lambda _: None)


@pytest.fixture
def server() -> Iterator[DataServer]:
    with serving({f"{PREFIX}/{path}": data for path, data in FILES.items()}) as state:
        yield state


def cache(tmp_path: Path, server: DataServer, user_folder: Path | None = None) -> DataCache:
    return DataCache(tmp_path / "cache", user_folder, server.url)


def test_files_are_fetched_once_and_verified(tmp_path: Path, server: DataServer) -> None:
    data, counted = cache(tmp_path, server), []
    assert data.missing(wanted()) == wanted()
    data.fetch(data.missing(wanted()), counted.append)
    assert data.missing(wanted()) == []
    assert sum(counted) == sum(map(len, FILES.values()))
    for pinned in wanted():
        assert data.place(pinned) == tmp_path / "cache" / "mine" / COMMIT / pinned.path
        assert data.place(pinned).read_bytes() == FILES[pinned.path]
    assert sorted(path for path, _ in server.requests) == sorted(f"{PREFIX}/{path}" for path in FILES)


def test_a_damaged_file_of_the_cache_is_fetched_again(tmp_path: Path, server: DataServer) -> None:
    data = cache(tmp_path, server)
    data.fetch(wanted())
    place = data.place(wanted()[0])
    place.write_bytes(place.read_bytes().replace(b"2", b"3", 1))
    assert data.missing(wanted()) == wanted()[:1]
    data.fetch(data.missing(wanted()))
    assert data.missing(wanted()) == []


def test_a_cut_off_file_is_continued_where_it_ended(tmp_path: Path, server: DataServer) -> None:
    server.cut, server.cuts = 500_000, 2
    data, counted = cache(tmp_path, server), []
    data.fetch(wanted("data/test.jsonl"), counted.append)
    assert data.missing(wanted("data/test.jsonl")) == []
    first, *more = server.requests_of(f"{PREFIX}/data/test.jsonl")
    starts = [int(header.removeprefix("bytes=").removesuffix("-")) for header in more if header]
    assert first is None
    assert len(starts) == 2
    assert starts == [500_000, 1_000_000]
    assert sum(counted) == len(FILES["data/test.jsonl"])


def test_a_file_that_is_cut_off_within_its_first_piece_is_continued(tmp_path: Path, server: DataServer) -> None:
    server.cut, server.cuts = 1_000, 2
    data = cache(tmp_path, server)
    data.fetch(wanted("data/test.jsonl"))
    assert data.missing(wanted("data/test.jsonl")) == []
    assert server.requests_of(f"{PREFIX}/data/test.jsonl") == [None, "bytes=1000-", "bytes=2000-"]


def test_a_fetch_that_was_given_up_is_continued_by_the_next_one(tmp_path: Path, server: DataServer) -> None:
    server.cut, server.cuts = 100_000, downloading.ATTEMPTS
    data = cache(tmp_path, server)
    with pytest.raises(InputError, match=r"'data/test\.jsonl' of mine cannot be fetched"):
        data.fetch(wanted("data/test.jsonl"))
    data.fetch(wanted("data/test.jsonl"))
    assert data.missing(wanted("data/test.jsonl")) == []
    assert server.requests_of(f"{PREFIX}/data/test.jsonl")[-1] == f"bytes={100_000 * downloading.ATTEMPTS}-"


def test_a_server_that_does_not_continue_files_is_asked_for_the_whole(tmp_path: Path, server: DataServer) -> None:
    server.cut, server.cuts, server.ranges = 500_000, 1, False
    data, counted = cache(tmp_path, server), []
    data.fetch(wanted("data/test.jsonl"), counted.append)
    assert data.missing(wanted("data/test.jsonl")) == []
    assert sum(counted) == len(FILES["data/test.jsonl"])


def test_a_redirect_is_followed(tmp_path: Path, server: DataServer) -> None:
    server.redirects = True
    data = cache(tmp_path, server)
    data.fetch(wanted())
    assert data.missing(wanted()) == []


def test_a_busy_server_is_asked_again(tmp_path: Path, server: DataServer) -> None:
    server.statuses = [503, 429]
    data = cache(tmp_path, server)
    data.fetch(wanted("data/dev.jsonl"))
    assert data.missing(wanted("data/dev.jsonl")) == []


def test_another_content_is_refused_and_not_kept(tmp_path: Path) -> None:
    others = {f"{PREFIX}/data/dev.jsonl": b"{ }"}
    with serving(others) as server:
        data = cache(tmp_path, server)
        with pytest.raises(
            InputError, match=r"'data/dev\.jsonl' of mine cannot be fetched .* its sha256 differs.*--data"
        ):
            data.fetch(wanted("data/dev.jsonl"))
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"] == []


def test_a_missing_file_is_one_sentence_that_names_it_and_the_way_out(tmp_path: Path) -> None:
    with serving({}) as server:
        with pytest.raises(InputError) as refused:
            cache(tmp_path, server).fetch(wanted())
        assert len(server.requests) <= len(FILES)
    said = str(refused.value)
    assert "'data/test.jsonl'" in said
    assert "HTTP 404" in said
    assert said.endswith("with --data DIR.")
    assert "\n" not in said


def test_a_refused_connection_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(InputError) as refused:
        DataCache(tmp_path, None, url).fetch(wanted())
    assert "Connection refused" in str(refused.value)
    assert "--data DIR" in str(refused.value)
    assert "HTTPConnection" not in str(refused.value)


def test_without_a_network_the_sentence_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Failed to resolve|Name or service not known|Temporary failure"):
        DataCache(tmp_path, None, "http://nowhere.invalid").fetch(wanted("data/dev.jsonl"))


def test_a_full_disk_is_one_sentence_and_leaves_no_half(
    tmp_path: Path, server: DataServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(url: str, part: Path, *_: Any, **__: Any) -> None:
        part.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("gage_eval.data.datasets.fetch.download", full)
    with pytest.raises(InputError, match=r"no space is left for 3 bytes\). Make room, or set GAGE_EVAL_DATA_CACHE"):
        cache(tmp_path, server).fetch(wanted("data/dev.jsonl"))
    assert [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"] == []


def test_a_cache_that_cannot_be_made_is_one_sentence(tmp_path: Path, server: DataServer) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(InputError, match="cannot be written to the data cache"):
        cache(tmp_path, server).fetch(wanted("data/dev.jsonl"))


def test_two_processes_fetch_a_file_together_without_harm(tmp_path: Path, server: DataServer) -> None:
    program = (
        "import sys; sys.path.insert(0, 'tests/data/datasets'); from pathlib import Path; "
        "from test_origin_files import wanted; from gage_eval.data.datasets.fetch import DataCache; "
        f"data = DataCache(Path({str(tmp_path / 'cache')!r}), None, {server.url!r}); data.fetch(wanted()); "
        "assert data.missing(wanted()) == []"
    )
    processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
    assert [process.wait(PATIENCE_S) for process in processes] == [0, 0]
    assert len(server.requests) == len(FILES), "one of them waited for the other"


def test_a_cancelled_run_does_not_wait_for_the_fetch_of_another(tmp_path: Path, server: DataServer) -> None:
    looked = []

    def advance(size: int) -> None:
        assert size == 0, "the other run has the file"
        looked.append(size)
        if len(looked) > 1:
            raise RunCancelled("the run was cancelled")

    dev = wanted("data/dev.jsonl")
    lock = fetch._partial(tmp_path / "cache", dev[0].file.sha256).with_suffix(".lock")
    with locked(lock), pytest.raises(RunCancelled):
        cache(tmp_path, server).fetch(dev, advance)
    assert server.requests == []


class TestFolderOfTheUser:
    """``--data DIR``."""

    @pytest.fixture
    def user_folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "given"
        folder.mkdir()
        return folder

    @pytest.mark.parametrize("layout", ["{path}", "mine/{path}", "some/where/{name}"])
    def test_files_are_found_in_any_layout(
        self, tmp_path: Path, user_folder: Path, layout: str, server: DataServer
    ) -> None:
        for path, content in FILES.items():
            place = user_folder / layout.format(path=path, name=Path(path).name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        # A file of the same name that is another one does not matter.
        (user_folder / "other").mkdir()
        (user_folder / "other" / "dev.jsonl").write_bytes(b"[]\n")
        data = cache(tmp_path, server, user_folder)
        data.take(data.missing(wanted()))
        assert data.missing(wanted()) == []
        assert server.requests == []

    def test_a_wrong_file_in_its_place_is_told(self, tmp_path: Path, user_folder: Path, server: DataServer) -> None:
        (user_folder / "data").mkdir()
        (user_folder / "data" / "dev.jsonl").write_bytes(b"{ }\n")
        digest = hashlib.sha256(b"{ }\n").hexdigest()[:12]
        with pytest.raises(
            InputError, match=rf"is not 'data/dev\.jsonl' of github\.com/owner/name .* is {digest}…, not"
        ):
            cache(tmp_path, server, user_folder).take(wanted("data/dev.jsonl"))

    def test_a_folder_without_the_files_is_told_where_to_put_them(
        self, tmp_path: Path, user_folder: Path, server: DataServer
    ) -> None:
        with pytest.raises(
            InputError, match=rf"does not hold 'data/test\.jsonl', 'data/dev\.jsonl' of mine\. .*{user_folder}/mine/"
        ):
            cache(tmp_path, server, user_folder).take(wanted())

    def test_a_folder_that_is_not_there_is_told(self, tmp_path: Path, server: DataServer) -> None:
        with pytest.raises(InputError, match="does not exist"):
            cache(tmp_path, server, tmp_path / "nowhere").take(wanted())


@pytest.mark.parametrize("file", sorted((configs_dir() / "origins").glob("*.yaml")), ids=lambda file: file.stem)
def test_every_origin_of_the_package_can_be_read(file: Path) -> None:
    origin = load_origin(file.stem)
    assert origin.files
    path = next(iter(origin.files))
    assert origin.url(path).startswith(f"https://raw.githubusercontent.com/{origin.repository[11:]}/{origin.commit}/")


def test_patterns_mean_the_files_of_the_origin() -> None:
    mmlu = load_origin("mmlu")
    tests = origin_paths(mmlu, ["data/test/*.csv"])
    assert len(tests) == 57
    assert [pinned.path for pinned in tests] == sorted(pinned.path for pinned in tests)
    with pytest.raises(InputError, match=r"no file matching 'data/\*'"):
        mmlu.select("data/*")
    assert {p.path for p in origin_paths(mmlu, ["data/**"])} == {p for p in mmlu.files if p.startswith("data/")}
    with pytest.raises(InputError, match=r"no file 'data/test/astronmy_test\.csv'\. Did you mean 'data/test/astronomy"):
        mmlu.select("data/test/astronmy_test.csv")


def test_an_unknown_origin_has_a_closest_name() -> None:
    with pytest.raises(InputError, match=r"no origin 'gsm8'\. .*Did you mean 'gsm8k'\?"):
        load_origin("gsm8")


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../b", "~/x", "a\\0b"])
def test_an_origin_cannot_lead_out_of_the_cache(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "origins"
    folder.mkdir()
    (folder / "evil.yaml").write_text(
        f"repository: github.com/a/b\ncommit: {COMMIT}\nlicence: MIT\n"
        f"files: {{{json.dumps(path)}: {{bytes: 1, sha256: {'0' * 64!r}}}}}\n"
    )
    with pytest.raises(InputError, match="not a path inside a repository"):
        load_origin("evil", tmp_path)
