"""What a box may be is decided before anything runs."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gage_eval.box.executors import ExecutorSettings, open_executor, probe
from gage_eval.box.types import BoxSpec, BoxUnavailable, Limits
from gage_eval.extend.allowed_code import allow_only
from tests.support.listening import talked


@pytest.fixture
def guarded() -> Iterator[None]:
    """As a process of a worker, which loads only what its operator allows."""
    allow_only([])
    yield
    allow_only(None)


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("settings", [ExecutorSettings(allow_unsafe=True), ExecutorSettings(roots={"x": Path("/")})])
def test_a_worker_takes_no_containment_from_a_config(settings: ExecutorSettings) -> None:
    with pytest.raises(BoxUnavailable, match="this worker"):
        open_executor(settings)


def test_without_bubblewrap_nothing_runs_and_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BoxUnavailable, match="apt-get install bubblewrap"):
        open_executor(ExecutorSettings())
    assert "apt-get install bubblewrap" in str(probe()[0].problem)


@pytest.mark.skipif(probe()[0].problem is not None, reason="no bubblewrap here")
def test_one_socket_leads_out_of_a_box() -> None:
    async def twice() -> list[bytes]:
        executor = open_executor(ExecutorSettings("bubblewrap", slots=1))
        try:
            spec = BoxSpec(listens=True)
            return [(await talked(executor, spec, Limits(memory_mb=256))).stdout for _ in range(2)]
        finally:
            await executor.close()

    assert asyncio.run(twice()) == [b"you said hello\n\nConnectionRefusedError\n"] * 2
