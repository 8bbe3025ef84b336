"""A key reaches its endpoint and nothing else: no store, run folder, log, event, report or output."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import five_rows
import orjson
import pytest
from five_rows import readable
from support.endpoint import MockEndpoint, mock_endpoint

from gage_eval.base.errors import ConfigError, EndpointFailed, InputError
from gage_eval.cli import main
from gage_eval.config.load import load_config
from gage_eval.runs import RunOptions, RunOutcome, run_inline

# No well-known token's shape: it must stay out by where it goes, not by how it looks.
CANARY = "canary-93f1c7-do-not-write-me-down"


@pytest.fixture(scope="module")
def guarded() -> Iterator[MockEndpoint]:
    """An endpoint that answers only with the canary in the header."""
    with mock_endpoint(api_key=CANARY, keep_bodies=True) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    five_rows.write_data(tmp_path / "run")
    return tmp_path / "run"


def write(folder: Path, endpoint: MockEndpoint, **config: Any) -> Path:
    backend = {"base_url": endpoint.url, "model": "mock", "api_key": "env:CANARY", **config}
    value = {
        **five_rows.config("plain"),
        "backends": [{"backend_id": "model", "type": "openai_http", "config": backend}],
        "export": ["jsonl", "parquet", "per_sample_json"],
    }
    file = folder / "config.json"
    file.write_bytes(orjson.dumps(value))
    return file


def run(file: Path) -> RunOutcome:
    return run_inline(RunOptions(config=str(file), store=str(file.parent / "store")))


def holding(folder: Path, secret: str) -> list[str]:
    """The files that hold a text, in any part of it."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert len(files) > 10, "nothing was written, so nothing was looked at"
    return [str(file.relative_to(folder)) for file in files if secret.encode() in readable(file)]


def test_a_key_is_sent_and_written_nowhere(
    guarded: MockEndpoint,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("CANARY", CANARY)
    caplog.set_level(logging.DEBUG)
    outcome = run(write(folder, guarded))
    assert outcome.summary.tasks[0].metrics[0].n == 5, "the endpoint took the key"
    assert holding(folder, CANARY) == []
    said = capfd.readouterr()
    assert CANARY not in said.out + said.err + caplog.text
    assert CANARY.encode() not in orjson.dumps(guarded.stats())


def test_a_refused_key_is_not_repeated(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    # The endpoint's own message quotes the key it refuses.
    wrong = f"{CANARY}-of-yesterday"
    monkeypatch.setenv("CANARY", wrong)
    caplog.set_level(logging.DEBUG)
    with mock_endpoint(api_key=CANARY) as guarded, pytest.raises(EndpointFailed) as refusal:
        run(write(folder, guarded))
    assert wrong not in str(refusal.value)
    assert holding(folder, wrong) == []
    said = capfd.readouterr()
    assert wrong not in said.out + said.err + caplog.text


def test_the_command_line_shows_no_key(
    guarded: MockEndpoint, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CANARY", CANARY)
    file = write(folder, guarded)
    with pytest.raises(SystemExit) as end:
        main(["--debug", "run", str(file), "--inline", "--store", str(folder / "store")])
    said = capfd.readouterr()
    assert end.value.code == 0, said.err
    assert CANARY not in said.out + said.err
    assert holding(folder, CANARY) == []


@pytest.mark.parametrize(
    "config",
    [
        {"api_key": CANARY},
        {"hf_token": CANARY},
        {"headers": {"Authorization": f"Bearer {CANARY}"}},
        {"base_url": f"http://user:{CANARY}@127.0.0.1:9/v1"},
        {"api_key": "${CANARY}"},
    ],
    ids=["key", "token", "header", "url", "interpolated"],
)
def test_a_literal_secret_is_refused_and_not_repeated(
    config: dict[str, Any], guarded: MockEndpoint, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", CANARY)
    file = write(folder, guarded, **config)
    with pytest.raises(ConfigError) as refusal:
        load_config(file)
    assert CANARY not in str(refusal.value)
    with pytest.raises(ConfigError):
        run(file)
    assert not (folder / "store" / "actions").exists()


def test_a_key_that_is_not_set_is_named_and_nothing_runs(guarded: MockEndpoint, folder: Path) -> None:
    with pytest.raises(InputError, match="CANARY is not set"):
        run(write(folder, guarded))


def test_a_run_keeps_the_text_of_its_config_and_not_the_values(
    guarded: MockEndpoint, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", CANARY)
    monkeypatch.setenv("OWNER", "somebody-of-this-machine")
    file = write(folder, guarded)
    text = file.read_text().replace('{"datasets"', '{"metadata": {"owner": "${OWNER}"}, "datasets"', 1)
    assert "${OWNER}" in text
    file.write_text(text)
    outcome = run(file)
    record = outcome.folder.record()
    assert record.config.text == text
    assert holding(folder, "somebody-of-this-machine") == []
