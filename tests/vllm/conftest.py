"""The second environment and its small model; tests that need them are skipped, with the reason, where they are not."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from real_engines import CHATS, IN_CHAT, MODEL, PAIRS, PYTHON, ROOT, Opener, Session, config_of

from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.base import BackendContext


@pytest.fixture(scope="session", autouse=True)
def engines(pytestconfig: pytest.Config) -> None:
    """Skips without the second environment, and fails where these tests are the ones asked for."""
    if not (PYTHON.is_file() and (MODEL / "config.json").is_file()):
        missing = pytest.fail if pytestconfig.option.markexpr.startswith("vllm") else pytest.skip
        missing("needs the second environment and its model: make test-vllm")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    """Opens backends once a module, and closes them at its end."""
    sessions: dict[tuple[str, str], Session] = {}

    def open_(type_: str, dtype: str = "float32") -> Session:
        if (type_, dtype) not in sessions:
            runtime = Runtime(log_folder=tmp_path_factory.mktemp("engines"))
            try:
                backend = runtime.backend(type_, config_of(type_, dtype), BackendContext(ROOT))
            except BaseException:
                runtime.close()
                raise
            sessions[type_, dtype] = Session(runtime, backend)
        return sessions[type_, dtype]

    yield open_
    for session in sessions.values():
        session.runtime.close()


@pytest.fixture(scope="session")
def reference() -> Callable[..., dict[str, Any]]:
    """Log probabilities and greedy answers of a plain forward pass, by dtype and model."""
    known: dict[tuple[str, Path], dict[str, Any]] = {}

    def compute(dtype: str, model: Path = MODEL) -> dict[str, Any]:
        if (dtype, model) not in known:
            request_of = {"model": str(model), "dtype": dtype, "pairs": PAIRS, "in_chat": IN_CHAT, "chats": CHATS}
            done = subprocess.run(
                [str(PYTHON), str(Path(__file__).with_name("reference.py"))],
                input=json.dumps(request_of),
                capture_output=True,
                text=True,
                check=True,
            )
            known[dtype, model] = json.loads(done.stdout)
        return known[dtype, model]

    return compute
