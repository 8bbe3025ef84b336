"""What every test stands on: a clean environment, and reference data where the checkout has it."""

import functools
import gc
import logging
import os
import signal
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings

from gage_eval.extend import registry

# A shell that starts the tests in the background has them ignore Ctrl-C, and with them every program they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Machines differ: an example that is slow on a busy one is not a defect.
settings.register_profile("gage-eval", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile("gage-eval")

ROOT = Path(__file__).parents[1]
BUCKET = "evals"
# Tests with Prefect servers. Each group has a process and a server, which then starts once.
SERVERS = ("tests/e2e/test_prefect_trouble.py", "tests/e2e/")
# The longest tests start first, so that no process ends long after the other.
LONGEST = (*SERVERS, "tests/crash/", "tests/bad_input/", "tests/suites/")
FOREIGN_PREFIXES = ("GAGE_EVAL_", "VLLM_NATIVE_")
FOREIGN_NAMES = (
    *("PREFECT_API_URL", "PREFECT_API_KEY", "PREFECT_API_AUTH_STRING", "PREFECT_PROFILE"),
    *("OPENAI_API_KEY", "OPENAI_BASE_URL"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring the longest tests to the front."""
    places = {folder: place for place, folder in enumerate(LONGEST)}
    items.sort(key=lambda item: next((places[name] for name in LONGEST if item.nodeid.startswith(name)), len(LONGEST)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files and groups of `SERVERS` go to processes in order."""
    if config.option.dist != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((name for name in SERVERS if nodeid.startswith(name)), super()._split_scope(nodeid))

    config.option.loadscopereorder = False
    return Scheduling(config, log)


def pytest_collection_finish() -> None:
    """Spare the garbage collector the thousands of tests: it would look at all of them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the developer's shell reaches a test."""
    for name in list(os.environ):
        if name.startswith(FOREIGN_PREFIXES) or name in FOREIGN_NAMES:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True, scope="session")
def commands_leave_the_collector_alone() -> Iterator[None]:
    """``gage`` freezes what its process holds. In this process, that would keep the garbage of all earlier tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gage_eval.extend.tuning.gc", SimpleNamespace(freeze=lambda: None, set_threshold=lambda *_: None))
        yield


@pytest.fixture(autouse=True, scope="session")
def no_test_waits_for_the_disk() -> Iterator[None]:
    """A sync only matters for a power failure, which no test has. The disks of CI machines stall for seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(autouse=True, scope="module")
def no_plugin_stays() -> Iterator[None]:
    """Plug-ins that the tests of a file register in this process are unknown to the tests of other files."""
    before = {kind: dict(plugins._plugins) for kind, plugins in registry.ALL.items()}
    yield
    for kind, plugins in registry.ALL.items():
        foreign = {name for name, plugin in plugins._plugins.items() if not plugin.is_builtin}
        for name in foreign - before[kind].keys():
            del plugins._plugins[name]


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of reference data and official scores, kept beside the checkout; the test skips without it."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the reference data is not beside this checkout (../shared)")
    return folder


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """Address of an S3 server."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = pytest.importorskip("moto.server", reason="needs moto[server]")
    _put_one_after_the_other()
    _read_service_models_once()
    server = moto.ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def _put_one_after_the_other() -> None:
    """S3 decides about If-None-Match and writes in one step; this server's threads could come in between."""
    from moto.s3.responses import S3Response

    turn, put = threading.Lock(), S3Response.put_object

    def put_object(response: S3Response) -> Any:
        with turn:
            return put(response)

    S3Response.put_object = put_object


def _read_service_models_once() -> None:
    """Every S3 file system would read the megabytes of JSON again that describe the service."""
    import botocore.session

    botocore.session.create_loader = functools.cache(botocore.session.create_loader)


@pytest.fixture
def s3_url(s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of a fresh store on S3; the environment says where and with which credentials."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted-secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    import s3fs

    system = s3fs.S3FileSystem(skip_instance_cache=True)
    if not system.exists(BUCKET):
        system.mkdir(BUCKET)
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"
