"""Every mistake of a user ends in one sentence: what, where, what to do. Nothing is lost by it."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.command import Command
from support.endpoint import mock_endpoint
from support.runs import write_config, write_sums

from gage_eval.base.errors import InputError
from gage_eval.engine.refusals import MOST_IN_A_ROW
from gage_eval.extend.registry import backends

Edit = Callable[[str], str]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config of five rows whose endpoint does not exist."""
    return write_config(tmp_path, "http://127.0.0.1:9/v1", rows=5, backend={"max_elapsed_s": 0.2})


def replaced(old: str, new: str) -> Edit:
    def edit(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return edit


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            lambda text: text + "tasks: [a, }\n",
            "sums.yaml has 1 problem:\n"
            "  line 17  not valid YAML: while parsing a flow node expected the node content, but found '}' (column 12)",
        ),
        (
            replaced("metrics:", "metrix:"),
            "sums.yaml has 1 problem:\n  line 15  metrix: unknown key 'metrix'. Did you mean 'metrics'?",
        ),
        (
            replaced("openai_http", "openai_htp"),
            "sums.yaml has 1 problem:\n  line 9  backends[0].type: no backend 'openai_htp'. Known: "
            f"{', '.join(backends.names())}. Did you mean 'openai_http'?",
        ),
        (
            replaced("max_elapsed_s: 0.2", "api_key: sk-planted-canary"),
            "sums.yaml has 1 problem:\n  line 14  backends[0].config.api_key: a config must not contain a literal "
            "secret; write env:NAME (or block:NAME).",
        ),
        (
            replaced("max_elapsed_s: 0.2", "max_elapsed_s: soon"),
            "sums.yaml has 1 problem:\n  line 14  backends[0].config.max_elapsed_s: must be a number, not 'soon'.",
        ),
    ],
    ids=["broken YAML", "unknown key", "unknown plug-in", "literal secret", "wrong type"],
)
def test_a_mistake_in_the_config_is_named_with_its_line_before_anything_starts(
    tmp_path: Path, gage: Command, config: Path, edit: Edit, said: str
) -> None:
    config.write_text(edit(config.read_text()))
    ended = gage("run", "sums.yaml")
    assert ended.sentence == said
    assert (ended.code, ended.out) == (2, "")
    assert not list((tmp_path / ".gage").rglob("run.json")), "no run was begun"


def test_all_mistakes_of_a_config_are_named_at_once(gage: Command, config: Path) -> None:
    text = config.read_text().replace("numeric_match", "numeric_mach").replace("openai_http", "openai_htp")
    config.write_text(text + "tasks: [{task_id: one, dataset_id: sumz}]\n")
    ended = gage("run", "sums.yaml")
    assert ended.code == 2
    assert ended.sentence.startswith("sums.yaml has 3 problems:\n")
    assert [place in ended.sentence for place in ("metrics[0]", "backends[0].type", "tasks[0].dataset_id")] == [
        True
    ] * 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("missing.yaml",), "no config file 'missing.yaml'."),
        (
            ("sums.yaml", "--refresh", "inferr"),
            "refresh: no stage 'inferr'. Stages: load, standardize, preprocess, support, infer, judge, auto_eval, "
            "report. Did you mean 'infer'?",
        ),
        (
            ("sums.yaml", "--set", "foo"),
            "--set foo: write path=value, as in backends.local.config.model=name.",
        ),
        (
            ("sums.yaml", "--set", "metrix.bar=1"),
            "sums.yaml has 1 problem:\n  metrix: unknown key 'metrix'. Did you mean 'metrics'? (given by --set "
            "metrix.bar)",
        ),
        (
            ("sums.yaml", "--set", "backends[0].config.base_url=ftp://x"),
            "sums.yaml has 1 problem:\n  backends[0].config.base_url: base_url starts with http:// or https:// and "
            "names a host. (given by --set backends[0].config.base_url)",
        ),
        (
            ("sums.yaml", "--run-id", "../x"),
            "'../x' cannot be a run id: use up to 100 letters, digits and . _ -, starting with a letter or digit.",
        ),
        (
            ("sums.yaml", "--store", "gs://bucket"),
            "'gs://' is not a kind of store: use a folder, file:///folder or s3://bucket/prefix.",
        ),
        (("sums.yaml", "--store", "sums.jsonl"), "store sums.jsonl is a file: give a folder."),
        (("sums.yaml", "--sample-id", "nope"), "task 'sums': no sample has the id 'nope'."),
        (("sums.yaml", "--prefect"), "--inline and --prefect exclude each other."),
    ],
)
def test_a_mistake_on_the_command_line_is_named(
    gage: Command, config: Path, arguments: tuple[str, ...], said: str
) -> None:
    ended = gage("run", *arguments)
    assert ended.sentence == said
    assert ended.code == 2


def test_a_run_id_that_is_taken_is_refused_and_the_run_stays_as_it_is(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint() as endpoint:
        write_config(tmp_path, endpoint.url, rows=5)
        assert gage("run", "sums.yaml", "--run-id", "mine").code == 0
        record = (tmp_path / ".gage" / "runs" / "mine" / "run.json").read_bytes()
        ended = gage("run", "sums.yaml", "--run-id", "mine")
        assert ended.sentence == (
            "a run 'mine' exists already in .gage/runs. Resume it: gage resume mine, or choose another --run-id."
        )
        assert ended.code == 2
        assert (tmp_path / ".gage" / "runs" / "mine" / "run.json").read_bytes() == record
        unknown = gage("resume", "mime")
    assert unknown.sentence == "no run 'mime' in .gage/runs. Did you mean 'mine'? Runs here: mine."
    assert unknown.code == 2


def test_a_key_that_is_not_set_is_named_by_its_variable(
    gage: Command, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    config.write_text(config.read_text().replace("max_elapsed_s: 0.2", "api_key: env:MY_KEY"))
    ended = gage("run", "sums.yaml")
    assert ended.sentence == "api_key refers to env:MY_KEY, but MY_KEY is not set. Set it in the environment."
    assert ended.code == 2


# Data


def lines(*records: Any) -> str:
    return "".join((record if isinstance(record, str) else json.dumps(record)) + "\n" for record in records)


GOOD = {"question": "What is 1 + 1?", "answer": "2"}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "dataset 'sums': 'sums.jsonl' holds no records."),
        ("\n\n  \n", "dataset 'sums': 'sums.jsonl' holds no records."),
        (None, "dataset 'sums': no file 'sums.jsonl'."),
        (
            lines({"id": "a", **GOOD}, "", {"id": "b", **GOOD}, {"id": "a", **GOOD}),
            "dataset 'sums': line 1 of sums.jsonl and line 4 of sums.jsonl have the same id. Ids must be unique: name "
            "another field with id_field, or leave ids out to derive them from the content.",
        ),
        (
            lines(GOOD, 7, GOOD),
            "dataset 'sums': 1 of 3 records were rejected (line 2: the record is a number, not a JSON object). Fix "
            "them, or set on_reject: skip (or a max_reject_share) in the dataset's params.",
        ),
    ],
    ids=["empty", "blank", "missing", "equal ids", "no object"],
)
def test_data_that_cannot_be_used_is_refused_by_name_and_line(
    tmp_path: Path, gage: Command, config: Path, data: str | None, said: str
) -> None:
    if data is None:
        (tmp_path / "sums.jsonl").unlink()
    else:
        (tmp_path / "sums.jsonl").write_text(data)
    ended = gage("run", "sums.yaml")
    assert ended.sentence == said
    assert ended.code == 2


def test_a_broken_line_is_shown_or_skipped_and_counted_as_the_config_says(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint() as endpoint:
        config = write_config(tmp_path, endpoint.url, rows=5)
        with (tmp_path / "sums.jsonl").open("a") as file:
            file.write('{"question": "What is\n')
        refused = gage("run", "sums.yaml")
        assert refused.code == 2
        assert refused.sentence.startswith(
            "dataset 'sums': 1 of 6 records were rejected (line 6: the record is not JSON: unterminated "
            "string starting at character 14). "
        )
        assert refused.sentence.endswith(
            "Fix them, or set on_reject: skip (or a max_reject_share) in the dataset's params."
        )
        assert endpoint.stats()["requests"] == 0
        config.write_text(config.read_text().replace("path: sums.jsonl", "path: sums.jsonl\n    on_reject: skip"))
        skipped = gage("run", "sums.yaml", "--run-id", "skipped")
        assert skipped.code == 0, skipped.err
        assert endpoint.stats()["requests"] == 5
    assert "5 rows · 1 rejected" in skipped.out
    summary = json.loads((tmp_path / ".gage" / "runs" / "skipped" / "summary.json").read_text())
    assert summary["tasks"][0]["rejects"] == 1


def test_a_dataset_without_one_sample_is_refused_even_where_rejects_are_skipped(
    tmp_path: Path, gage: Command, config: Path
) -> None:
    (tmp_path / "sums.jsonl").write_text("1\n2\n")
    config.write_text(config.read_text().replace("path: sums.jsonl", "path: sums.jsonl\n    on_reject: skip"))
    ended = gage("run", "sums.yaml")
    assert ended.sentence == (
        "dataset 'sums': all of its 2 records were rejected "
        "(line 1, line 2: the record is a number, not a JSON object)."
    )
    assert ended.code == 2


# Endpoints


def test_an_endpoint_that_is_not_there_ends_the_run_and_says_how_to_go_on(tmp_path: Path, gage: Command) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        write_config(tmp_path, url, rows=5, backend={"max_elapsed_s": 0.2})
        ended = gage("run", "sums.yaml", "--run-id", "lost")
    assert ended.code == 1
    last = ended.sentence.splitlines()[-1]
    assert last.startswith(f"infer stopped: {url} cannot be reached (")
    assert last.endswith("0 of 5 responses are kept. After you have fixed it: gage resume lost")


def test_options_that_name_a_wrong_endpoint_are_given_again_and_not_resumed(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint() as endpoint:
        url = endpoint.url.removesuffix("/v1")
        write_config(tmp_path, endpoint.url, rows=5)
        ended = gage("run", "sums.yaml", "--run-id", "short", "--model", "other", "--endpoint", url)
        assert ended.code == 1
        assert ended.sentence.splitlines()[-1] == (
            f"infer stopped: {url} answers 404 (the model 'other' does not exist). Check 'base_url', which usually "
            "ends with /v1, and 'model'. 0 of 5 responses are kept. After you have fixed it: gage resume short; or run "
            "the command again with the right --endpoint and --model"
        )
        assert gage("run", "sums.yaml", "--run-id", "whole", "--model", "mock", "--endpoint", endpoint.url).code == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"api_key": "env:MY_KEY"}, "answers 401 (invalid API key ***). Set the key that 'api_key' refers to."),
        ({"model": "other"}, "answers 404 (the model 'other' does not exist). Check 'base_url' and 'model'."),
    ],
    ids=["wrong key", "unknown model"],
)
def test_an_endpoint_that_refuses_ends_the_run_at_once_and_the_mended_one_goes_on(
    tmp_path: Path, gage: Command, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], said: str
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-planted-canary")
    with mock_endpoint(**({"api_key": "sk-right"} if "api_key" in changes else {})) as endpoint:
        config = write_config(tmp_path, endpoint.url, rows=50, backend={"max_concurrency": 4, **changes})
        ended = gage("run", "sums.yaml", "--run-id", "refused")
        assert ended.sentence == (
            f"infer stopped: {endpoint.url} {said} 0 of 50 responses are kept. After you have fixed it: "
            "gage resume refused"
        )
        assert ended.code == 1
        assert endpoint.stats()["requests"] <= 4
        config.write_text(config.read_text().replace("model: other", "model: mock"))
        monkeypatch.setenv("MY_KEY", "sk-right")
        assert gage("resume", "refused").code == 0
        assert endpoint.stats()["answered"] == 50
    files = [file for file in (tmp_path / ".gage").rglob("*") if file.is_file()]
    planted = [file for file in files if any(key in file.read_bytes() for key in (b"sk-planted", b"sk-right"))]
    assert planted == []


def test_an_endpoint_that_changes_its_mind_keeps_what_it_answered(
    tmp_path: Path, gage: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-right")
    with mock_endpoint(api_key="sk-right", latency_ms=5) as endpoint:
        backend = {"api_key": "env:MY_KEY", "max_concurrency": 2}
        write_config(tmp_path, endpoint.url, rows=30, backend=backend)
        assert gage("run", "sums.yaml").code == 0
        write_sums(tmp_path / "sums.jsonl", 80)
        monkeypatch.setenv("MY_KEY", "sk-revoked")
        ended = gage("run", "sums.yaml", "--run-id", "revoked")
        assert ended.code == 1
        assert "answers 401 (invalid API key ***). Set the key that 'api_key' refers to." in ended.sentence
        assert "30 of 80 responses are kept. After you have fixed it: gage resume revoked" in ended.sentence
        assert endpoint.stats()["requests"] <= 30 + MOST_IN_A_ROW + 2, "20 refusals in a row end the run"
        monkeypatch.setenv("MY_KEY", "sk-right")
        assert gage("resume", "revoked").code == 0
        assert endpoint.stats()["answered"] == 80


def test_a_few_rows_that_are_refused_are_errors_of_these_rows(
    tmp_path: Path, gage: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-right")
    with mock_endpoint(api_key="sk-right", latency_ms=5) as endpoint:
        write_config(tmp_path, endpoint.url, rows=30, backend={"api_key": "env:MY_KEY", "max_concurrency": 2})
        assert gage("run", "sums.yaml").code == 0
        write_sums(tmp_path / "sums.jsonl", 40)
        monkeypatch.setenv("MY_KEY", "sk-revoked")
        ended = gage("run", "sums.yaml", "--run-id", "few")
        assert ended.code == 1
        assert "10 of 40 rows of task 'sums' ended in an error" in ended.sentence
        assert "gage resume few asks again for these rows only" in ended.sentence
        monkeypatch.setenv("MY_KEY", "sk-right")
        assert gage("resume", "few").code == 0
        assert endpoint.stats()["answered"] == 40


def test_debug_shows_the_traceback_and_nothing_else_does(gage: Command, config: Path) -> None:
    config.unlink()
    with pytest.raises(InputError):
        gage("--debug", "run", "sums.yaml")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder where root can make none")
@pytest.mark.parametrize("option", ["--store", "--output-dir"])
def test_a_place_that_cannot_be_made_is_named(gage: Command, config: Path, option: str) -> None:
    ended = gage("run", "sums.yaml", option, "/proc/nowhere")
    assert ended.sentence == (
        "store /proc/nowhere cannot be created (No such file or directory): give another one with --store."
    )
    assert ended.code == 1


def test_a_run_whose_record_is_broken_cannot_be_resumed(tmp_path: Path, gage: Command, config: Path) -> None:
    folder = tmp_path / ".gage" / "runs" / "torn"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{")
    ended = gage("resume", "torn")
    assert "run.json is not a run record" in ended.sentence
    assert ended.code == 2
