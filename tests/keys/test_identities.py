"""What a config names counts by its content: the same bytes hit under any name, other bytes never."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import five_rows
import orjson
import pytest
from changes import BACKENDS, RUNNING
from five_rows import Change, Laboratory, computed, readable, stages_of
from support.endpoint import MockEndpoint, mock_endpoint
from support.registered import keep

from gage_eval.base import hashing
from gage_eval.base.canonical import digest
from gage_eval.base.marks import mark_of
from gage_eval.extend import loading, registry
from gage_eval.extend.protocols import METRIC
from gage_eval.extend.registry import Registry
from gage_eval.models.backends.build import build_backend
from gage_eval.plugins import BackendConfig, BackendContext
from gage_eval.runs import RunOptions, RunOutcome, run_inline
from gage_eval.store import Store


def overwrite(file: Path, content: bytes) -> None:
    """Other content of the same size and times, as a careless copy leaves it."""
    stat = file.stat()
    assert len(content) == stat.st_size
    file.write_bytes(content)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert file.stat().st_mtime_ns == stat.st_mtime_ns


def run(folder: Path, config: dict[str, Any], store: Path | None = None, **options: Any) -> RunOutcome:
    """Run a config that stands in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "config.json"
    file.write_bytes(orjson.dumps(config))
    return run_inline(RunOptions(config=str(file), store=str(store or folder / "store"), **options))


# Files


@pytest.mark.parametrize("memo_bytes", [hashing.MEMO_BYTES, 4], ids=["read each time", "remembered"])
def test_a_dataset_overwritten_in_place_is_no_hit(
    memo_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "MEMO_BYTES", memo_bytes)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    five_rows.write_data(tmp_path)
    config, rows = five_rows.config("plain"), tmp_path / "rows.jsonl"
    run(tmp_path, config)
    assert computed(run(tmp_path, config)) == []
    overwrite(rows, rows.read_bytes().replace(b"0 + 0", b"0 + 9"))
    assert computed(run(tmp_path, config))[:2] == ["load", "standardize"]


@pytest.mark.parametrize("memo_bytes", [hashing.MEMO_BYTES, 4], ids=["read each time", "remembered"])
@pytest.mark.parametrize("type_", ["llama_cpp", "replay"])
def test_a_model_overwritten_in_place_is_another_model(
    type_: str, memo_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "MEMO_BYTES", memo_bytes)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    field = "model_path" if type_ == "llama_cpp" else "path"
    file = tmp_path / "model.jsonl"
    file.write_bytes(b'{"weights": 1}')

    def identity(name: str = file.name) -> str:
        return digest(build_backend(type_, {field: name}, BackendContext(base_dir=tmp_path)).identity())

    before = identity()
    (tmp_path / "copy.jsonl").write_bytes(file.read_bytes())
    assert identity() == identity("copy.jsonl") == before
    overwrite(file, b'{"weights": 2}')
    assert identity() != before


def test_a_packaged_model_counts_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gage_eval.models.backends import llama_cpp

    package = tmp_path / "some_weights"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "model.gguf").write_bytes(b"weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(llama_cpp, "PACKAGED", {"a": ("some_weights", ""), "b": ("some_weights", "")})

    def identity(config: dict[str, Any]) -> dict[str, Any]:
        return build_backend("llama_cpp", config, BackendContext(base_dir=tmp_path)).identity()

    before = identity({"model": "a"})
    assert before == identity({"model": "b"}) == identity({"model_path": "some_weights/model.gguf"})
    (package / "model.gguf").write_bytes(b"Weights")
    assert identity({"model": "a"}) != before


# Backends, field by field


def backend_cases() -> Iterator[Any]:
    for type_, (config, fields) in [*BACKENDS.items(), *RUNNING.items()]:
        for field, values in fields.items():
            for number, (value, same) in enumerate(values):
                name = f"{type_}.{field}-{number}-{next(iter(config))}"
                yield pytest.param(type_, config, field, value, same, id=name)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that backend configs of `changes.BACKENDS` name."""
    folder = tmp_path_factory.mktemp("files")
    five_rows.write_data(folder)
    (folder / "answers_copy.jsonl").write_bytes((folder / "answers.jsonl").read_bytes())
    for name, content in {"model": b"a", "model_copy": b"a", "other": b"b"}.items():
        (folder / f"{name}.gguf").write_bytes(content)
    for name, content in {"checkpoint": b"a", "checkpoint_copy": b"a", "checkpoint_other": b"b"}.items():
        (folder / name).mkdir()
        (folder / name / "config.json").write_text("{}")
        (folder / name / "model.safetensors").write_bytes(content)
    (folder / "adapter").mkdir()
    (folder / "adapter" / "adapter_config.json").write_text("{}")
    code = "class Model:\n    def generate(self, request): return 'a'\nclass Other(Model): ...\n"
    for name, text in {"script": code, "script_copy": code, "script_other": code.replace("'a'", "'b'")}.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_every_field_of_every_backend_has_another_value() -> None:
    for plugin in registry.backends:
        if plugin.origin != "builtin":
            continue
        config, fields = BACKENDS[plugin.name]
        model: type[BackendConfig] = plugin.info["config"]
        known = set(model.model_fields)
        # The other ways to name a model: a packaged one has a test above, a module is named as a plug-in is.
        apart = {"llama_cpp": {"model"}, "custom_script": {"module_path"}}
        fields = {**fields, **RUNNING.get(plugin.name, ({}, {}))[1]}
        missing = known - fields.keys() - apart.get(plugin.name, set())
        assert missing == set(), f"add another value for it to tests/keys/changes.py ({plugin.name})"
        assert fields.keys() <= known
        assert set(config) <= known


@pytest.mark.parametrize(("type_", "config", "field", "value", "same"), list(backend_cases()))
def test_a_backends_field_is_part_of_its_models_identity_as_its_mark_says(
    type_: str, config: dict[str, Any], field: str, value: Any, same: bool, files: Path
) -> None:
    model: type[BackendConfig] = registry.backends.get(type_).info["config"]
    mark, _ = mark_of(model, field)

    def identity(settings: dict[str, Any]) -> str:
        return digest(build_backend(type_, settings, BackendContext(base_dir=files)).identity())

    changed = dict(config, **{field: value})
    if field == "match":
        changed["sample_field"] = "sample.id"
        config = dict(config, sample_field="sample.id")
    assert (identity(changed) == identity(config)) == (mark == "scheduling" or same)


@pytest.mark.parametrize("type_", ["dummy", "openai_http", "llama_cpp", "vllm", "vllm_native", "transformers"])
def test_a_key_the_backend_passes_on_is_part_of_the_identity(type_: str, files: Path) -> None:
    config, _ = BACKENDS[type_]
    context = BackendContext(base_dir=files)
    plain = build_backend(type_, config, context).identity()
    assert build_backend(type_, {**config, "repetition_penalty": 1.1}, context).identity() != plain


@pytest.mark.parametrize(
    ("base", "config", "expected"),
    [
        ("plain", {"answer": "4", "mode": "fixed"}, ["infer"]),
        ("plain", {"latency_ms": 1.0}, []),
        ("plain", {"async_max_concurrency": 2}, []),
        ("replay", {"answer_field": "wrong"}, ["infer"]),
        ("replay", {"path": "more.jsonl"}, ["infer"]),
        ("replay", {"timeout": 9.0}, []),
    ],
)
def test_a_backends_identity_decides_whether_inference_runs(
    base: str, config: dict[str, Any], expected: list[str], lab: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {f"backends.0.config.{name}": value for name, value in config.items()}
    assert computed(lab.run(Change(changes, base), monkeypatch))[:1] == expected


# Endpoints


@pytest.fixture(scope="module")
def endpoint() -> Iterator[MockEndpoint]:
    with mock_endpoint() as running:
        yield running


def over_http(endpoint: MockEndpoint, **config: Any) -> dict[str, Any]:
    backend = {"backend_id": "model", "type": "openai_http", "config": {"base_url": endpoint.url, "model": "mock"}}
    backend["config"] |= config
    return {**five_rows.config("plain"), "backends": [backend]}


def test_an_endpoint_counts_by_what_is_declared_of_it(
    endpoint: MockEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "abc")
    five_rows.write_data(tmp_path)
    endpoint.reset()
    run(tmp_path, over_http(endpoint))
    for scheduling in ({"timeout": 9.0}, {"api_key": "env:SOME_KEY"}, {"max_concurrency": 3}, {"max_attempts": 2}):
        assert computed(run(tmp_path, over_http(endpoint, **scheduling))) == []
    assert endpoint.stats()["requests"] == 5
    for count, semantic in enumerate(({"identity": "rev-2"}, {"freshness": "2030-01-02"}), 2):
        assert computed(run(tmp_path, over_http(endpoint, **semantic)))[:1] == ["infer"]
        assert endpoint.stats()["requests"] == 5 * count


def test_a_night_has_its_own_answers(endpoint: MockEndpoint, tmp_path: Path) -> None:
    five_rows.write_data(tmp_path)
    endpoint.reset()
    for night in ("2030-01-01", "2030-01-02", "2030-01-01"):
        run(tmp_path, over_http(endpoint, freshness=night))
    assert endpoint.stats()["requests"] == 10


# Code of plug-ins

_METRIC = "def score(prediction: str) -> float:\n    return {value}\n"
_REGISTERED = """
from gage_eval.scoring.metrics import Score, metric

@metric("of_a_file", value="score", aggregate="mean", version=1)
def score(prediction: str) -> float:
    return {value}
"""
_BACKEND = """
from gage_eval.models.backends.base import BackendConfig, BackendContext
from gage_eval.models.backends.dummy import Dummy, DummyConfig

class Model(Dummy):
    def __init__(self, config: BackendConfig, context: BackendContext) -> None:
        super().__init__(DummyConfig.model_validate(config.model_dump()), context)
        self._said = "{value}"

    def _answer(self, text: str, replicate: int) -> str:
        return self._said
"""


@pytest.mark.parametrize("source", [_METRIC, _REGISTERED], ids=["plain function", "registers itself"])
def test_an_edited_plug_in_file_scores_again(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(monkeypatch, registry.metrics)
    five_rows.write_data(tmp_path)
    file = tmp_path / "mine.py"
    config = {**five_rows.config("plain"), "metrics": [f"{file}:score"]}
    for value in ("1.0", "0.0"):
        file.write_text(source.format(value=value))
        outcome = run(tmp_path, config)
        assert "auto_eval" in computed(outcome)
        assert outcome.summary.tasks[0].metrics[0].value == float(value)
        assert computed(run(tmp_path, config)) == []


def test_an_edited_plug_in_model_answers_again(tmp_path: Path) -> None:
    five_rows.write_data(tmp_path)
    file = tmp_path / "mine.py"
    config = {**five_rows.config("plain"), "backends": [{"backend_id": "m", "type": f"{file}:Model"}]}
    for value in ("one", "two"):
        file.write_text(_BACKEND.format(value=value))
        outcome = run(tmp_path, config)
        assert "infer" in computed(outcome)
        store = Store.open(str(tmp_path / "store"), read_only=True)
        responses = store.artifact(stages_of(outcome)["infer"].outputs["responses"]).table()
        assert set(responses["answer"].to_pylist()) == {value}


def test_the_version_of_a_plug_ins_distribution_is_part_of_its_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identities = []
    for version in ("1.0", "1.1"):
        site = tmp_path / version
        info = site / f"five_plugs-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: five-plugs\nVersion: {version}\n")
        (info / "entry_points.txt").write_text("[gage_eval.metrics]\nfive = five_plugs:score\n")
        (info / "top_level.txt").write_text("five_plugs\n")
        (site / "five_plugs.py").write_text(_METRIC.format(value="1.0"))
        with monkeypatch.context() as patch:
            patch.syspath_prepend(site)
            loading.distributions.cache_clear()
            fresh: Registry[Any] = Registry("metrics", METRIC)
            assert "five" in fresh.names()
            identities.append(fresh.get("five").identity())
            del sys.modules["five_plugs"]
    loading.distributions.cache_clear()
    assert identities == [{"name": "five", "version": 1, "origin": f"five-plugs=={v}"} for v in ("1.0", "1.1")]


# Prompts that show who asks


def test_an_adapters_id_counts_where_a_prompt_may_show_it(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "{{ extras.adapter_id }}: {{ sample.id }}"
    store = lab.copy_store()
    lab.run(Change({"prompts.0.template": text}), monkeypatch, store)
    renamed = {"role_adapters.0.adapter_id": "new", "tasks.0.adapter_id": "new"}
    outcome = lab.run(Change({"prompts.0.template": text, **renamed}), monkeypatch, store)
    assert computed(outcome)[:1] == ["infer"]


# Locations


def outputs(outcome: RunOutcome) -> dict[str, dict[str, str]]:
    """Artifact ids of each stage; those of side tables, which hold times, left out."""
    return {
        stage: {name: id_ for name, id_ in result.outputs.items() if not name.endswith("telemetry")}
        for stage, result in stages_of(outcome).items()
    }


def test_runs_in_different_folders_give_the_same_artifacts(tmp_path: Path) -> None:
    plugin = "def score(prediction: str) -> float:\n    return 1.0\n"
    identities = []
    for name in ("here", "somewhere/else"):
        folder = tmp_path / name
        five_rows.write_data(folder)
        (folder / "mine.py").write_text(plugin)
        config = five_rows.config("support")
        config["datasets"][0]["params"]["path"] = str(folder / "rows.jsonl")
        config["metrics"].append({"metric_id": "mine", "implementation": f"{folder / 'mine.py'}:score"})
        outcome = run(folder, config)
        identities.append((outputs(outcome), {stage: result.key for stage, result in stages_of(outcome).items()}))
    assert identities[0] == identities[1]


@pytest.mark.parametrize("base", ["support", "replay"])
def test_the_store_holds_no_absolute_path(base: str, tmp_path: Path) -> None:
    folder = tmp_path / "a-folder-of-one-machine"
    five_rows.write_data(folder)
    (folder / "mine.py").write_text(_METRIC.format(value="1.0"))
    config = five_rows.config(base)
    config["datasets"][0]["params"]["path"] = str(folder / "rows.jsonl")
    config["metrics"].append({"metric_id": "mine", "implementation": f"{folder / 'mine.py'}:score"})
    if base == "replay":
        config["backends"][0]["config"]["path"] = str(folder / "answers.jsonl")
    run(folder, config, output_dir=str(tmp_path / "runs"))
    store = folder / "store"
    files = [file for file in store.rglob("*") if file.is_file()]
    assert {"actions", "artifacts"} <= {file.relative_to(store).parts[0] for file in files}
    for file in files:
        assert folder.name.encode() not in readable(file), file.relative_to(store)
