"""Runs on an S3 server that fails, disappears or fills this machine's disk: they go on, or end and can be resumed.

``OUTAGE_S=60`` sets how long the server is gone in seconds.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.endpoint import MockEndpoint, mock_endpoint
from support.runs import gage, write_config
from support.waiting import PATIENCE_S, Stopwatch

from gage_eval.base.errors import InputError
from gage_eval.runs.folder import RunFolder
from gage_eval.runs.options import Locations
from gage_eval.store import Store
from gage_eval.store.s3 import patience_s
from tests.store.proxy import Fault, Proxy, failing_proxy

OUTAGE_S = float(os.environ.get("OUTAGE_S", "6"))
IN_FLIGHT = 16
ALL_FAULTS: tuple[Fault, ...] = ("error", "slow_down", "slow", "lost", "cut")

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


@pytest.fixture
def proxy(s3_server: str, s3_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy before the server, which every store of the test uses."""
    with failing_proxy(s3_server) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.address)
        yield running


@pytest.fixture
def endpoint() -> Iterator[MockEndpoint]:
    with mock_endpoint(latency_ms=60, accuracy=0.7) as running:
        yield running


def outputs(store: str, run_id: str) -> dict[str, dict[str, str]]:
    """Artifact ids by stage of a run, without what the weather determines."""
    record = RunFolder.open(Locations.at(store), run_id).record()
    return {
        stage: {name: id_ for name, id_ in entry.outputs.items() if not name.endswith("telemetry")}
        for stage, entry in record.stages.items()
    }


def start(folder: Path, *arguments: str, **env: str) -> "subprocess.Popen[str]":
    """``gage`` in the background."""
    return subprocess.Popen(
        [sys.executable, "-m", "gage_eval", *arguments],
        cwd=folder,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_until(true: Callable[[], Any], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 300
    while not true():
        assert process.poll() is None, f"it ended: {process.communicate()[0]}"
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


def test_ten_thousand_rows_on_a_failing_server_are_each_computed_once(
    tmp_path: Path, s3_url: str, proxy: Proxy, endpoint: MockEndpoint
) -> None:
    config = write_config(tmp_path, endpoint.url, rows=10_000, backend={"max_concurrency": 64})
    proxy.faults, proxy.every, proxy.slow_s = ALL_FAULTS, 6, 1.0
    gage(tmp_path, "run", config.name, "--inline", "--store", s3_url, "--run-id", "failing")
    assert endpoint.stats()["requests"] == 10_000
    assert set(proxy.faulted) == set(ALL_FAULTS), "every kind of fault happened"

    proxy.every = 0
    gage(tmp_path, "run", config.name, "--inline", "--store", str(tmp_path / "calm"), "--run-id", "failing")
    assert outputs(s3_url, "failing") == outputs(str(tmp_path / "calm"), "failing")
    assert Store.open(s3_url).verify() == []


def test_a_run_waits_for_a_store_that_is_gone_for_a_while(
    tmp_path: Path, s3_url: str, proxy: Proxy, endpoint: MockEndpoint
) -> None:
    config = write_config(tmp_path, endpoint.url, rows=2_000, backend={"max_concurrency": IN_FLIGHT})
    process = start(tmp_path, "run", config.name, "--inline", "--store", s3_url, "--run-id", "waits")
    wait_until(lambda: endpoint.stats()["requests"] > 500, process)
    proxy.stop()
    time.sleep(OUTAGE_S)
    proxy.start()

    printed = process.communicate(timeout=300)[0]
    assert process.returncode == 0, printed
    assert endpoint.stats()["requests"] == 2_000
    if OUTAGE_S > 30:
        assert "does not answer" in printed
        assert "answers again" in printed


@pytest.mark.slow
def test_a_run_that_waited_too_long_ends_and_is_resumed_from_another_folder(
    tmp_path: Path, s3_url: str, proxy: Proxy, endpoint: MockEndpoint
) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    config = write_config(home, endpoint.url, rows=2_000, backend={"max_concurrency": IN_FLIGHT})
    arguments = ["run", config.name, "--inline", "--store", s3_url, "--run-id", "ends"]
    process = start(home, *arguments, GAGE_EVAL_STORE_PATIENCE="1")
    wait_until(lambda: endpoint.stats()["requests"] > 500, process)
    proxy.stop()
    printed = process.communicate(timeout=300)[0]

    assert process.returncode == 1, printed
    assert "Traceback" not in printed
    assert f"store {s3_url} failed" in printed
    before = endpoint.stats()["requests"]
    proxy.start()
    gage(elsewhere, "resume", "ends", "--store", s3_url, "--inline")
    stats = endpoint.stats()
    assert stats["distinct_answered"] == 2_000
    assert stats["requests"] - before <= 2_000 - before + IN_FLIGHT, "asked again: at most what was in flight"


def test_ctrl_c_ends_a_run_that_waits_for_its_store(
    tmp_path: Path, s3_url: str, proxy: Proxy, endpoint: MockEndpoint
) -> None:
    config = write_config(tmp_path, endpoint.url, rows=2_000, backend={"max_concurrency": IN_FLIGHT})
    process = start(tmp_path, "run", config.name, "--inline", "--store", s3_url, "--run-id", "stopped")
    wait_until(lambda: endpoint.stats()["requests"] > 500, process)
    proxy.stop()
    # All is asked by then, and the run waits for its store alone.
    wait_until(lambda: endpoint.stats()["requests"] == 2_000, process)
    process.send_signal(signal.SIGINT)
    with Stopwatch() as watch:
        printed = process.communicate(timeout=PATIENCE_S)[0]

    assert watch.seconds < 40, "not the five minutes that a run waits"
    assert process.returncode == 130, printed
    assert "Traceback" not in printed
    proxy.start()


def test_a_store_that_never_answered_is_not_waited_for(
    tmp_path: Path, s3_url: str, proxy: Proxy, endpoint: MockEndpoint
) -> None:
    config = write_config(tmp_path, endpoint.url, rows=5)
    proxy.stop()
    with Stopwatch() as watch:
        done = gage(tmp_path, "run", config.name, "--inline", "--store", s3_url, check=False)

    assert done.returncode == 1
    assert watch.seconds < 60
    assert "check the bucket, AWS_ENDPOINT_URL" in done.stderr
    assert endpoint.stats()["requests"] == 0


def test_a_full_disk_for_the_logs_ends_a_run_on_s3_and_loses_no_answer(
    tmp_path: Path, s3_url: str, proxy: Proxy, endpoint: MockEndpoint
) -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs the right to mount (unshare -m)")
    config = write_config(tmp_path, endpoint.url, rows=2_000, backend={"max_concurrency": IN_FLIGHT})
    program = f"{shlex.quote(sys.executable)} -m gage_eval"
    script = f"""
        mkdir -p small && mount -t tmpfs -o size=256k tmpfs small || exit 9
        export XDG_CACHE_HOME=$PWD/small
        {program} run {config.name} --inline --store {s3_url} --run-id full 2>full.txt; echo $? >full.code
        mount -o remount,size=32m tmpfs small || exit 9
        {program} resume full --inline --store {s3_url} || exit 8
    """
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    said = (tmp_path / "full.txt").read_text()
    assert (tmp_path / "full.code").read_text() == "1\n", said
    assert "no space left" in said
    assert "Traceback" not in said
    assert endpoint.stats()["resent_after_answer"] <= IN_FLIGHT


def test_many_images_go_into_a_distant_store_side_by_side(s3_url: str, proxy: Proxy) -> None:
    store = Store.open(s3_url)
    proxy.latency_s, proxy.most_at_once = 0.1, 0
    images = [b"image %d" % number for number in range(24)]
    with store.media.keeper() as keeper:
        urls = [keeper.put(image) for image in images]

    assert proxy.most_at_once >= 4
    proxy.latency_s = 0.0
    assert [store.media.get(url) for url in urls] == images


def test_patience_is_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGE_EVAL_STORE_PATIENCE", "90")
    assert patience_s() == 90
    for wrong in ("soon", "-1", "nan", "inf"):
        monkeypatch.setenv("GAGE_EVAL_STORE_PATIENCE", wrong)
        with pytest.raises(InputError, match=r"GAGE_EVAL_STORE_PATIENCE: .* is not a number of seconds"):
            patience_s()
