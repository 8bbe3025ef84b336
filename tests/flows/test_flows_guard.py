"""The worker of a folder loads code in files that the folder's own configs name, and nothing that a form names."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flows.evaluate import evaluate
from flows.forms import RunForm, StorageForm
from flows.guard import allow_own_code, load_only_what_is_allowed
from gage_eval.base.canonical import canonical_json
from gage_eval.base.errors import ConfigError
from gage_eval.extend.allowed_code import OWN, allow_only, allowed_entries
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.build import build_backend
from gage_eval.runs import RunOptions
from gage_eval.runs.bundling import pack
from gage_eval.runs.deployed import DeploymentRecord, record_deployment
from gage_eval.runs.options import load
from gage_eval.runs.record import ConfigRecord, FlowRunRecord, RunRecord
from gage_eval.store import Store

CONFIG = """
datasets: [{{dataset_id: d, params: {{path: d.jsonl}}}}]
backends: [{backend}]
metrics: [{{metric_id: own, implementation: '{metric}'}}]
"""
DUMMY = "{type: dummy}"
FLOW_RUN = "8c8ce153-9e26-4eb1-a2a1-51c2b8ac8d55"
DEPLOYMENT = "0a0de6f5-0ac5-4a2e-93f5-9ee16d6ad2f1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder of a worker whose flow run has begun."""
    here = tmp_path / "here"
    here.mkdir()
    (here / "helper.py").write_text("def one():\n    return 1.0\n")
    write(here / "own.yaml", "mine.py:mine")
    (here / "d.jsonl").write_text('{"id": 1, "messages": [], "references": ["a"]}\n')
    monkeypatch.chdir(here)
    monkeypatch.setenv("GAGE_EVAL_PLUGINS", OWN)
    for name, value in {"FLOW_RUN__ID": FLOW_RUN, "FLOW_RUN__NAME": "a-run", "DEPLOYMENT__ID": DEPLOYMENT}.items():
        monkeypatch.setenv(f"PREFECT__RUNTIME__{name}", value)
    load_only_what_is_allowed()
    yield here
    allow_only(None)


def write(config: Path, metric: str, backend: str = DUMMY) -> Path:
    """A config with a metric, and a file ``mine.py`` beside it."""
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(CONFIG.format(metric=metric, backend=backend))
    config.with_name("mine.py").write_text("import helper\ndef mine(prediction, reference):\n    return helper.one()\n")
    return config


def is_refused(options: RunOptions) -> bool:
    """Whether the code of a config is refused; fails when the config has another mistake."""
    problem = None
    try:
        load(options)
    except ConfigError as error:
        problem = str(error)
    assert problem is None or "is not allowed on this server" in problem
    return problem is not None


def test_a_file_that_a_config_of_the_folder_names_is_loaded_and_nothing_else_is(folder: Path) -> None:
    own = RunOptions(config="own.yaml")
    assert is_refused(own), "nothing is allowed before the config is known"
    allow_own_code(["own.yaml"], None)
    assert not is_refused(own)
    (folder / "other.py").write_text("def f(prediction, reference):\n    return 1.0\n")
    for named in ("other.py:f", "subprocess:check_output", "os.path:join"):
        assert is_refused(own.model_copy(update={"overrides": (f"metrics.own.implementation={named}",)}))
    (folder / "mine.py").write_text("raise SystemExit\n")
    assert is_refused(own)


@pytest.mark.parametrize(
    ("config", "metric"),
    [
        ("../elsewhere/c.yaml", "mine.py:mine"),
        (".hidden/c.yaml", "mine.py:mine"),
        (".gage/runs/r/c.yaml", "mine.py:mine"),
        ("below/c.yaml", "../../elsewhere/mine.py:mine"),
        ("below/c.yaml", "subprocess:check_output"),
        ("below/c.yaml", "helper:one"),
        ("below/link.yaml", "mine.py:mine"),
    ],
)
def test_a_config_or_code_from_elsewhere_allows_nothing(folder: Path, config: str, metric: str) -> None:
    write(folder / "../elsewhere/link.yaml", "mine.py:mine")
    if config.endswith("link.yaml"):
        write(folder / "below/c.yaml", "mine.py:mine")
        (folder / config).symlink_to(folder / "../elsewhere/link.yaml")
    else:
        write(folder / config, metric)
    allow_own_code([config], None)
    assert is_refused(RunOptions(config=config))


def test_a_store_beside_the_configs_is_no_place_for_configs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGE_EVAL_STORE", "store")
    write(folder / "store/media/c.yaml", "mine.py:mine")
    allow_own_code(["store/media/c.yaml"], None)
    assert allowed_entries() == {OWN}


def test_the_text_of_a_form_allows_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[RunOptions] = []
    monkeypatch.setattr("flows.evaluate.evaluated", loaded.append)
    text = (folder / "own.yaml").read_text()
    for form_text, refused in ((text, True), ("", False)):
        evaluate.fn.__wrapped__(  # type: ignore[attr-defined]  # without what a worker does around it
            "." if form_text else "own.yaml", form_text, run=RunForm(), storage=StorageForm()
        )
        assert is_refused(loaded.pop()) is refused


def test_a_bundle_is_loaded_if_this_store_says_that_the_flow_run_has_it(folder: Path) -> None:
    packed = pack(RunOptions(config="own.yaml"), None)
    assert packed is not None
    store = Store.open(".gage")
    bundle = packed.put(store)
    options = RunOptions(config=f"bundle:{bundle}")

    def allow() -> bool:
        load_only_what_is_allowed()
        allow_own_code([options.config], None)
        return not is_refused(options)

    assert not allow(), "anyone can name a bundle"
    run = folder / ".gage/runs/a-run/run.json"
    run.parent.mkdir(parents=True)
    for flow_run, named, allowed in ((FLOW_RUN, bundle, True), (FLOW_RUN, "00", False), (DEPLOYMENT, bundle, False)):
        run.write_bytes(run_record(flow_run, str(named)))
        assert allow() is allowed
    run.unlink()
    for deployment, allowed in ((FLOW_RUN, False), (DEPLOYMENT, True)):
        record = DeploymentRecord(
            deployment="n", deployment_id=deployment, flow_id="f", api="http://h", bundles=(str(bundle),)
        )
        record_deployment(store, record)
        assert allow() is allowed


def run_record(flow_run_id: str, bundle: str) -> bytes:
    return RunRecord(
        name="own",
        status="running",
        created=datetime(2026, 11, 24, tzinfo=UTC),
        tasks=[],
        options={},
        config=ConfigRecord(source="own.yaml", digest="00", text=""),
        prefect=FlowRunRecord(flow_run_id=flow_run_id, flow_run_name="a-run", bundle=bundle),
    ).text()


@pytest.mark.parametrize(
    ("named", "engine", "refused"),
    [
        ({"python": "/opt/python"}, {"python": "/opt/python"}, False),
        ({"python": "/opt/python"}, {"python": "/tmp/python"}, True),
        ({"python": "/opt/python"}, {"python": "/opt/python", "trust_remote_code": True}, True),
        ({"trust_remote_code": True}, {"trust_remote_code": True, "max_num_seqs": 8}, False),
        ({"trust_remote_code": True}, {"trust_remote_code": True, "model_path": "evil/model"}, True),
        ({"env": {"PYTHONPATH": "a"}}, {"env": {"PYTHONPATH": "b"}}, True),
    ],
)
def test_an_engine_loads_the_code_that_a_config_of_the_folder_names(
    folder: Path, named: dict[str, object], engine: dict[str, object], refused: bool
) -> None:
    backend = canonical_json({"type": "vllm", "config": {"model_path": "m", **named}}).decode()
    write(folder / "engine.yaml", "exact_match", backend)
    allow_own_code(["engine.yaml"], None)
    config = {"model_path": "m", **engine}
    if refused:
        with pytest.raises(Exception, match="is not allowed on this server"):
            build_backend("vllm", config, BackendContext())
    else:
        assert build_backend("vllm", config, BackendContext()).type == "vllm"
