"""Datasets of the hub: what is read, and what its identity is. Local folders stand for the hub."""

import importlib
import inspect
import json
import sys
import types
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gage_eval.base.errors import InputError
from gage_eval.data.datasets.fetch import DataCache
from gage_eval.data.datasets.hf_hub import HubLoader
from gage_eval.data.datasets.hub_files import _bar
from gage_eval.data.sample.record import parse_record
from gage_eval.extend.extras import install_extra
from gage_eval.observability.events import Event, FetchProgress, FetchStarted
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.fetching import fetch_line
from tests.support.workspace import write_config

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def library() -> Any:
    # Without the package, this folder of tests is what the name finds.
    module = pytest.importorskip("datasets", reason="needs the extra hf")
    if not hasattr(module, "load_dataset"):
        pytest.skip("needs the extra hf")
    return module


def kept(data: bytes) -> str:
    return f"kept:{data!r}"


def rows(folder: Path, **params: Any) -> list[dict[str, Any]]:
    return [parse_record(text) for _, text in HubLoader(params, folder).records(kept)]


def refusal(folder: Path, **params: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, params)
    return str(caught.value)


def read(folder: Path, params: dict[str, Any]) -> None:
    loader = HubLoader(params, folder)
    loader.identity()
    list(loader.records(kept))


def test_a_saved_dataset_is_read_by_its_split(tmp_path: Path, library: Any) -> None:
    test = library.Dataset.from_dict({"q": ["a", "é"], "n": [1, 2]})
    dev = library.Dataset.from_dict({"q": ["d"], "n": [3]})
    library.DatasetDict({"test": test, "dev": dev}).save_to_disk(tmp_path / "saved")
    assert rows(tmp_path, path="saved") == [{"q": "a", "n": 1}, {"q": "é", "n": 2}]
    assert rows(tmp_path, hub="saved", split="dev") == [{"q": "d", "n": 3}]
    assert refusal(tmp_path, path="saved", split="val") == "'saved' has no split 'val'. Splits: test, dev."


def test_a_folder_of_data_files_is_read_and_known_by_its_content(tmp_path: Path, library: Any) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test.jsonl").write_text('{"q": "a", "n": {"x": [1]}}\n')
    assert rows(tmp_path, path="one", streaming=True) == [{"q": "a", "n": {"x": [1]}}]
    identity = HubLoader({"path": "one"}, tmp_path).identity()
    assert HubLoader({"path": "two", "streaming": True}, tmp_path).identity() == identity
    (tmp_path / "two" / "test.jsonl").write_text('{"q": "b"}\n')
    assert HubLoader({"path": "two"}, tmp_path).identity() != identity
    assert HubLoader({"path": "one", "split": "dev"}, tmp_path).identity() != identity
    assert "'one' cannot be loaded" in refusal(tmp_path, path="one", split="dev")


def test_a_file_of_a_folder_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: Path) -> str:
        raise PermissionError(13, "Permission denied", str(file))

    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "test.jsonl").write_text("{}\n")
    monkeypatch.setattr("gage_eval.data.datasets.hf_hub.file_digest", refuse)
    with pytest.raises(InputError, match=r"^a file of 'set' cannot be read: .*Permission denied.*test\.jsonl"):
        HubLoader({"path": "set"}, tmp_path).identity()


def test_a_name_that_no_folder_can_have_is_one_of_the_hub(tmp_path: Path) -> None:
    name = "owner/" + "n" * 5000
    assert DataCache(tmp_path, user_folder=tmp_path).hub_copy(name) is None
    assert HubLoader({"hub": name}, tmp_path)._folder is None


def test_images_are_kept_as_they_are(tmp_path: Path, library: Any) -> None:
    pytest.importorskip("PIL", reason="needs the extra media")
    feature = library.Features({"image": library.Image()})
    png = b"\x89PNG\r\n\x1a\n and no image at all"
    made = library.Dataset.from_dict({"image": [{"bytes": png, "path": None}]}, features=feature)
    made.save_to_disk(tmp_path / "saved")
    (row,) = rows(tmp_path, path="saved")
    assert row == {"image": kept(png)}


def test_files_of_a_folder_are_kept_and_no_others(tmp_path: Path, library: Any) -> None:
    pytest.importorskip("PIL", reason="needs the extra media")
    (tmp_path / "secret.png").write_bytes(b"secret")
    folder = tmp_path / "set" / "test"
    folder.mkdir(parents=True)
    (folder / "a.png").write_bytes(b"\x89PNG a")
    (folder / "metadata.jsonl").write_text('{"file_name": "a.png", "q": "?"}\n')
    assert rows(tmp_path, path="set") == [{"image": kept(b"\x89PNG a"), "q": "?"}]
    (tmp_path / "other").mkdir()
    outside = [str(tmp_path / "secret.png"), "\0", "x" * 5000, str(tmp_path / "other" / ".." / "secret.png")]
    table = pa.table({"image": [{"bytes": None, "path": path} for path in outside]})
    pq.write_table(table, tmp_path / "other" / "test.parquet")
    assert rows(tmp_path, path="other") == [{"image": path} for path in outside]


class _Rows:
    """A dataset of the library, as far as the loader needs one."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def with_format(self, kind: str) -> "_Rows":
        assert kind == "arrow"
        return self

    def iter(self, batch_size: int) -> Any:
        yield pa.Table.from_pylist(self._rows)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """A hub of one dataset of two files, in place of the libraries that ask the real one."""
    state: dict[str, Any] = {"commit": COMMIT, "loaded": [], "cached": {"data/dev.jsonl"}, "fetched": []}
    sizes = {"data/test.jsonl": 700, "data/dev.jsonl": 20, "README.md": 5}

    class Api:
        def dataset_info(self, name: str, revision: str, *, files_metadata: bool = False) -> Any:
            if state["commit"] is None:
                raise OSError("no network.\nmore")
            files = [types.SimpleNamespace(rfilename=path, size=size) for path, size in sizes.items()]
            card = types.SimpleNamespace(license="cc-by-nc-4.0")
            return types.SimpleNamespace(sha=state["commit"], siblings=files, card_data=card)

    class Bar:
        def __init__(self, *, disable: bool = False, **_: Any) -> None:
            assert disable, "the library draws a bar of its own"

    def download(name: str, path: str, *, repo_type: str, revision: str, tqdm_class: type[Any]) -> str:
        if state["commit"] is None:
            raise OSError("no network.\nmore")
        assert (repo_type, revision) == ("dataset", COMMIT)
        bar = tqdm_class(total=sizes[path])
        for _ in range(2):
            bar.update(sizes[path] // 2)
        state["fetched"].append(path)
        state["cached"].add(path)
        return path

    def builder(name: str, subset: str | None, *, revision: str) -> Any:
        root = f"hf://datasets/{name}@{revision}/data"
        files = {"test": [f"{root}/test.jsonl"], "dev": [f"{root}/dev.jsonl", "https://elsewhere/dev.jsonl"]}
        return types.SimpleNamespace(config=types.SimpleNamespace(data_files=files))

    def load_dataset(name: str, subset: str | None, **options: Any) -> _Rows:
        state["loaded"].append({"name": name, "subset": subset, **options})
        return _Rows([{"q": "a"}])

    fake_hub: Any = types.ModuleType("huggingface_hub")
    fake_hub.HfApi = Api
    fake_hub.constants = types.SimpleNamespace(HF_HUB_CACHE=str(tmp_path / "cache"))
    fake_hub.file_download = types.SimpleNamespace(
        repo_folder_name=lambda repo_id, repo_type: f"{repo_type}s--{repo_id.replace('/', '--')}"
    )
    fake_hub.utils = types.SimpleNamespace(tqdm=Bar)
    fake_hub.hf_hub_download = download
    fake_hub.try_to_load_from_cache = lambda name, path, **_: path if path in state["cached"] else None
    fake_library: Any = types.ModuleType("datasets")
    fake_library.load_dataset_builder = builder
    fake_library.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake_hub)
    for name in ("constants", "file_download"):
        monkeypatch.setitem(sys.modules, f"huggingface_hub.{name}", getattr(fake_hub, name))
    monkeypatch.setitem(sys.modules, "datasets", fake_library)
    return state


def test_a_branch_is_pinned_to_the_commit_it_stands_for(hub: dict[str, Any], tmp_path: Path) -> None:
    loader = HubLoader({"hub": "org/set", "subset": "main", "split": "dev", "streaming": True}, tmp_path)
    assert loader.identity() == {"commit": COMMIT, "split": "dev", "subset": "main"}
    assert [json.loads(text) for _, text in loader.records(kept)] == [{"q": "a"}]
    (loaded,) = hub["loaded"]
    assert loaded == {"name": "org/set", "subset": "main", "split": "dev", "revision": COMMIT, "streaming": True}


def test_a_commit_is_known_without_asking(hub: dict[str, Any], tmp_path: Path) -> None:
    hub["commit"] = None
    loader = HubLoader({"hub": "org/set", "revision": COMMIT}, tmp_path)
    assert loader.identity() == {"commit": COMMIT, "split": "test", "subset": None}


class TestFetching:
    """What a run has to download of the hub."""

    def test_it_is_told_with_its_licence_before_the_first_stage_and_fetched_once(
        self, hub: dict[str, Any], tmp_path: Path
    ) -> None:
        told: list[Event] = []
        dataset = {"dataset_id": "far", "hub": "org/set", "params": {"preprocess_kwargs": {"question_field": "q"}}}
        write_config(tmp_path, datasets=[dataset], metrics=["text_length"])
        options = RunOptions(config=str(tmp_path / "mine.yaml"), store=str(tmp_path / "store"))

        class Told:
            def emit(self, event: Event) -> None:
                told.append(event)

        run_inline(options, [Told()])
        assert hub["fetched"] == ["data/test.jsonl"]
        names = [event.name for event in told]
        assert names.index("fetch_finished") < names.index("stage_started")
        (line,) = [fetch_line(event) for event in told if isinstance(event, FetchStarted)]
        assert line == (
            "fetching 1 file, 700 B of org/set from huggingface.co/datasets/org/set "
            "(licence cc-by-nc-4.0: not for commercial use)"
        )
        assert [(event.done, event.total) for event in told if isinstance(event, FetchProgress)] == [
            (350, 700), (700, 700),
        ]  # fmt: skip
        told.clear()
        run_inline(options, [Told()])
        assert not any(event.name.startswith("fetch") for event in told)

    def test_a_file_that_cannot_be_fetched_is_one_sentence(self, hub: dict[str, Any], tmp_path: Path) -> None:
        loader = HubLoader({"hub": "org/set"}, tmp_path)
        files = loader.missing()
        assert files is not None
        hub["commit"] = None
        with pytest.raises(InputError, match=r"the files of 'org/set' cannot be fetched \(no network"):
            loader.fetch(files, lambda _: None)

    def test_nothing_is_fetched_ahead_of_streams_folders_and_what_nobody_can_tell(
        self, hub: dict[str, Any], tmp_path: Path
    ) -> None:
        (tmp_path / "folder").mkdir()
        assert HubLoader({"path": "folder"}, tmp_path).missing() is None
        assert HubLoader({"hub": "org/set", "streaming": True}, tmp_path).missing() is None
        hub["cached"].add("data/test.jsonl")
        assert HubLoader({"hub": "org/set"}, tmp_path).missing() is None
        hub["commit"] = None
        assert HubLoader({"hub": "org/set"}, tmp_path).missing() is None

    def test_the_real_library_takes_what_is_asked_of_it(self) -> None:
        hub = pytest.importorskip("huggingface_hub")
        inspect.signature(hub.hf_hub_download).bind("o/n", "p", repo_type="dataset", revision="r", tqdm_class=object)
        inspect.signature(hub.try_to_load_from_cache).bind("o/n", "p", revision="r", repo_type="dataset")
        inspect.signature(hub.HfApi.dataset_info).bind(None, "o/n", revision="r", files_metadata=True)
        seen: list[int] = []
        with _bar(hub, seen.append)(total=5, unit="B", desc="x", initial=0) as bar:
            bar.update(3)
            bar.update(2)
        assert seen == [3, 2]


def test_without_a_network_the_cache_knows_the_commit(hub: dict[str, Any], tmp_path: Path) -> None:
    hub["commit"] = None
    assert refusal(tmp_path, hub="org/set") == (
        "cannot find the commit of 'main' of 'org/set' (no network.) "
        "Set revision to the full commit hash to avoid the request, or give --data DIR with a copy in DIR/org/set."
    )
    assert refusal(tmp_path, hub="no name!").startswith("cannot find the commit of 'main' of 'no name!'")
    refs = tmp_path / "cache" / "datasets--org--set" / "refs"
    refs.mkdir(parents=True)
    (refs / "main").write_text(COMMIT)
    assert HubLoader({"hub": "org/set"}, tmp_path).identity() == {"commit": COMMIT, "split": "test", "subset": None}


def test_the_library_itself_without_a_network_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")

    def offline(*_: Any, **__: Any) -> None:
        raise OSError("no network")

    monkeypatch.setattr(hub.HfApi, "dataset_info", offline)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert refusal(tmp_path, hub="org/set").startswith("cannot find the commit of 'main' of 'org/set' (no network.)")


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({}, "loader hf_hub needs hub, the name of a dataset, or path, a folder; one of them."),
        (
            {"hub": "a/b", "path": "x"},
            "loader hf_hub needs hub, the name of a dataset, or path, a folder; one of them.",
        ),
        ({"path": "nowhere"}, "no folder 'nowhere'."),
        ({"hub": "a/b", "split": 3}, "loader hf_hub: split is a text, not 3."),
        ({"hub": "a/b", "splits": "test"}, "Did you mean 'split'?"),
    ],
)
def test_what_is_wrong_with_a_hub_dataset_is_said(tmp_path: Path, params: dict[str, Any], text: str) -> None:
    assert text in refusal(tmp_path, **params)


def test_without_the_extra_the_remedy_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    (tmp_path / "d").mkdir()
    assert refusal(tmp_path, path="d") == (
        f"loader hf_hub needs datasets, which is not installed: {install_extra('hf')}."
    )


def test_two_datasets_may_load_at_once(tmp_path: Path, library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # The library's threads remove a lock of tqdm if they made it, also while those of another dataset need it.
    from datasets.utils import tqdm
    from tqdm.contrib.concurrent import ensure_lock

    library.Dataset.from_dict({"q": ["a"]}).save_to_disk(str(tmp_path / "saved"))
    for kind in tqdm.__mro__:
        if "_lock" in vars(kind):
            monkeypatch.delattr(kind, "_lock")
    assert len(rows(tmp_path, path="saved")) == 1
    with ensure_lock(tqdm) as lock:
        pass
    assert tqdm._lock is lock
