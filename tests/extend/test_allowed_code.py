"""A worker of a shared server loads only the code that its operator allowed."""

import importlib
import py_compile
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import gage_eval
from flows.guard import load_only_what_is_allowed
from gage_eval.base.canonical import sha256_hex
from gage_eval.base.errors import ConfigError, InputError
from gage_eval.config.load import parse_config
from gage_eval.extend import registry
from gage_eval.extend.allowed_code import CodeRefused, allow_only
from gage_eval.extend.loading import forget_failures, look_in
from gage_eval.models.backends.base import BackendContext, BaseBackend
from gage_eval.models.backends.build import build_backend
from gage_eval.pipeline.load import PART_ROWS
from tests.support.workspace import write_config, write_rows

METRIC = "from helper import one\ndef mine(prediction, reference):\n    return one()\n"
HELPER = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\ndef one():\n    return 1.0\n"


@pytest.fixture(autouse=True)
def _no_limit_afterwards() -> Iterator[None]:
    yield
    allow_only(None)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "mine.py").write_text(METRIC)
    return tmp_path / "mine.py"


def _hash(file: Path) -> str:
    return f"sha256:{sha256_hex(file.read_bytes())}"


def test_a_file_needs_its_own_hash_and_that_of_what_it_imports(plugin: Path) -> None:
    helper = plugin.with_name("helper.py")
    for allowed in ([], [_hash(plugin)], [_hash(helper)], ["numpy", "sha256:00"]):
        allow_only(allowed)
        with pytest.raises(CodeRefused, match=r"'mine\.py:mine' is not allowed.*GAGE_EVAL_PLUGINS=sha256:"):
            registry.metrics.get(f"{plugin}:mine")
    assert not plugin.with_name("ran").exists()
    allow_only([_hash(plugin), _hash(helper)])
    assert registry.metrics.get(f"{plugin}:mine").obj("a", "b") == 1.0
    plugin.write_text(METRIC + "# edited")
    with pytest.raises(CodeRefused):
        registry.metrics.get(f"{plugin}:mine")


def test_no_library_imports_what_a_users_folder_has(tmp_path: Path) -> None:
    """Libraries try to import many modules that are not installed."""
    allow_only(["orjson"])
    ran = tmp_path / "ran"
    (tmp_path / "a_library_s_wish.py").write_text(f"open({str(ran)!r}, 'w')\n")
    (tmp_path / "ruamel").mkdir()
    (tmp_path / "ruamel" / "evil.py").write_text(f"open({str(ran)!r}, 'w')\n")
    path = list(sys.path)
    look_in([tmp_path])
    for name in ("a_library_s_wish", "ruamel.evil"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)
    assert (sys.path, ran.exists()) == (path, False)


def test_what_python_would_take_in_place_of_an_allowed_module_needs_its_own_hash(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "beside.py").write_text("def one():\n    return 1.0\n")
    (tmp_path / "mine.py").write_text(METRIC.replace("helper", "beside"))
    (tmp_path / "evil.py").write_text(f"open({str(ran)!r}, 'w')\n")
    (tmp_path / "beside").mkdir()
    py_compile.compile(str(tmp_path / "evil.py"), str(tmp_path / "beside" / "__init__.pyc"))
    allow_only([_hash(tmp_path / "mine.py"), _hash(tmp_path / "beside.py")])
    look_in([tmp_path])
    with pytest.raises(InputError, match="No module named 'beside'"):
        registry.metrics.get(f"{tmp_path}/mine.py:mine")
    assert not ran.exists()
    (tmp_path / "beside" / "__init__.pyc").unlink()
    forget_failures()
    assert registry.metrics.get(f"{tmp_path}/mine.py:mine").obj("a", "b") == 1.0


def test_scoring_processes_load_what_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGE_EVAL_AUTOEVAL_WORKERS", "2")
    write_rows(tmp_path, PART_ROWS + 1)
    (tmp_path / "beside2.py").write_text("def one():\n    return 1.0\n")
    (tmp_path / "mine.py").write_text(METRIC.replace("helper", "beside2"))
    config = write_config(tmp_path, metrics=["mine.py:mine"])
    allow_only([_hash(tmp_path / "mine.py"), _hash(tmp_path / "beside2.py")])
    done = gage_eval.run(config, store=str(tmp_path / "store"), inline=True)
    assert done.summary.metrics[0].value == 1.0


def test_a_module_needs_its_distribution_and_ours_are_no_way_around() -> None:
    allow_only(["Ruamel_YAML", "orjson"])
    for name in ("os:system", "subprocess:run", "numpy:array", "gage_eval.base.files.os:system", "no_such_package:f"):
        with pytest.raises(CodeRefused, match="is not allowed on this server"):
            registry.preprocessors.get(name)
    assert registry.metrics.get("exact_match").is_builtin
    with pytest.raises(Exception, match="preprocessor"):
        # It is loaded, but is not a preprocessor.
        registry.preprocessors.get("orjson:JSONEncodeError")


@pytest.mark.parametrize(
    ("type_", "config", "named"),
    [
        ("custom_script", {"file_path": "x.py", "class_name": "X"}, "custom_script"),
        ("vllm", {"model_path": "m", "python": "/tmp/python"}, "the interpreter '/tmp/python'"),
        ("vllm", {"model_path": "m", "trust_remote_code": True}, "trust_remote_code"),
        ("vllm", {"model_path": "m", "worker_extension_cls": "evil.Worker"}, "worker_extension_cls"),
        ("vllm", {"model_path": "m", "tool_parser_plugin": "evil.py"}, "tool_parser_plugin"),
        ("vllm", {"model_path": "m", "env": {"PYTHONPATH": "evil"}}, "env.PYTHONPATH"),
    ],
)
def test_engines_start_no_code_that_is_not_allowed(type_: str, config: dict[str, object], named: str) -> None:
    allow_only([])
    with pytest.raises(CodeRefused, match=named):
        build_backend(type_, config, BackendContext())


@pytest.mark.parametrize(
    ("type_", "config"),
    [
        (
            "vllm",
            {"model_path": "m", "python": "/opt/vllm/bin/python", "env": {"NCCL_DEBUG": "INFO"}, "max_num_seqs": 8},
        ),
        ("transformers", {"model_path": "m"}),
        ("vllm_native", {"model_path": "m"}),
        ("vlm_transformers", {"model_path": "m"}),
        ("openai_http", {"base_url": "http://h/v1", "model": "m"}),
    ],
)
def test_engines_without_code_and_allowed_interpreters_are_built(type_: str, config: dict[str, object]) -> None:
    allow_only(["/opt/vllm/bin/python"])
    built = build_backend(type_, config, BackendContext())
    assert isinstance(built, BaseBackend)
    assert (built.type, built.config.model_dump(include=set(config))) == (type_, config)


def test_a_worker_allows_nothing_unless_its_environment_says_so(
    plugin: Path, small_config: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = small_config(f"{plugin}:mine")
    monkeypatch.delenv("GAGE_EVAL_PLUGINS", raising=False)
    load_only_what_is_allowed()
    with pytest.raises(ConfigError, match=r"'mine\.py:mine' is not allowed on this server"):
        parse_config(text, base_dir=plugin.parent)
    for entries in ("*", f"{_hash(plugin)}, {_hash(plugin.with_name('helper.py'))}"):
        monkeypatch.setenv("GAGE_EVAL_PLUGINS", entries)
        load_only_what_is_allowed()
        parse_config(text, base_dir=plugin.parent)


@pytest.fixture
def small_config() -> Callable[[str], str]:
    def text(metric: str) -> str:
        return (
            "datasets: [{dataset_id: d, params: {path: d.jsonl}}]\n"
            "backends: [{type: openai_http, config: {base_url: http://h/v1, model: m}}]\n"
            f"metrics: [{{metric_id: own, implementation: '{metric}'}}]\n"
        )

    return text
