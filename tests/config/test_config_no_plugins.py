"""A config of somebody else is checked without importing, starting or asking anything that it names."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.base.errors import ConfigError, GageError
from gage_eval.config.effects import ConfigAudit, Effect, audit
from gage_eval.config.load import parse_config
from gage_eval.extend import registry
from gage_eval.models.backends.build import config_model

Small = Callable[..., str]

_DUMMY = {"backend_id": "m", "type": "dummy"}
# Runs a command and prints what of the outside it touched, as Python itself reports it.
_WATCHED = """
import sys
seen = []
def watch(event, args):
    if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect",
                 "socket.getaddrinfo"):
        seen.append([event, repr(args)])
    if event == "compile" and "alarm" in repr(args[1]) or event == "import" and "alarm" in str(args[0]):
        seen.append([event, repr(args)])
sys.addaudithook(watch)
from gage_eval.cli.main import main
try:
    main(["validate", "--no-plugins", sys.argv[1], "--json"])
finally:
    import json
    print(json.dumps(seen), file=sys.stderr)
"""


def examined(text: str, folder: Path, **env: str) -> ConfigAudit:
    return audit(text, "theirs.yaml", folder, env=env)


def effects(text: str, folder: Path, **env: str) -> list[Effect]:
    return [*examined(text, folder, **env).effects]


def told(effects_of_config: list[Effect]) -> list[tuple[str, str, str]]:
    return [(effect.act, effect.what, effect.path) for effect in effects_of_config]


def with_code_everywhere(code: str) -> dict[str, Any]:
    """Sections that name code in every place of a config that takes some."""
    return {
        "datasets": [
            {
                "dataset_id": "mine",
                "loader": f"{code}:Loader",
                "params": {"preprocess": f"{code}:make", "doc_to_text": f"{code}:text", "doc_to_visual": f"{code}:see"},
            },
            {"dataset_id": "other", "params": {"path": "a.jsonl", "doc_to_audio": f"{code}:hear"}},
        ],
        "backends": [
            {"backend_id": "m", "type": f"{code}:Backend"},
            {"backend_id": "s", "type": "custom_script", "config": {"module_path": code, "class_name": "Script"}},
        ],
        "role_adapters": [
            {"adapter_id": "a", "role_type": "dut_model", "backend_id": "m", "class_path": f"{code}:Hooks"},
            {
                "adapter_id": "j",
                "role_type": "judge_model",
                "backend": {"type": f"{code}:Inline"},
                "verdict_parser": {"filters": {"answer": [f"{code}:nested"]}},
            },
            {"adapter_id": "k", "role_type": "judge_model", "backend_id": "s", "verdict_parser": f"{code}:verdict"},
        ],
        "metrics": [
            f"{code}:score(x=1)",
            {"metric_id": "f", "implementation": "exact_match", "filters": [{"name": "p", "steps": [f"{code}:step"]}]},
            {"metric_id": "g", "implementation": "exact_match", "aggregation": ["mean", f"{code}:spread"]},
            {"type": f"{code}:typed", "name": "t"},
        ],
        "tasks": [
            {
                "task_id": "t",
                "dataset_id": "mine",
                "judge_adapter_id": "j",
                "metric_overrides": [{f"{code}:own": {}}],
            }
        ],
    }


_NAMES = {
    "Loader", "make", "text", "see", "hear", "Backend", "Script", "Hooks", "Inline", "nested", "verdict", "score",
    "step", "spread", "typed", "own",
}  # fmt: skip


@pytest.mark.parametrize("code", ["alarm.py", "alarm"], ids=["file", "module"])
def test_no_code_that_a_config_names_is_imported_and_all_of_it_is_listed(
    tmp_path: Path, small: Small, code: str
) -> None:
    (tmp_path / "alarm.py").write_text("raise SystemExit('imported')\n")
    sections = with_code_everywhere(code)
    if code.endswith(".py"):
        sections["backends"][1]["config"] = {"file_path": code, "class_name": "Script"}
    file = tmp_path / "theirs.yaml"
    file.write_text(small(**sections))
    ended = subprocess.run(
        [sys.executable, "-c", _WATCHED, str(file)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert json.loads(ended.stderr.splitlines()[-1]) == []
    report = json.loads(ended.stdout)
    assert report["valid"] is True, report["problems"]
    assert ended.returncode == 0
    place = str(tmp_path / code) if code.endswith(".py") else code
    assert {effect["what"] for effect in report["would"] if effect["act"] == "run"} == {
        f"{place}:{name}" for name in _NAMES
    }


def test_an_installed_plugin_is_listed_with_its_distribution_and_not_imported(
    tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("metrics", "backends"):
        point = EntryPoint("acme", f"no_such_module_of_acme:{kind}", f"gage_eval.{kind}")
        monkeypatch.setitem(registry.ALL[kind]._entry_points, "acme", point)
    text = small(backends=[{"backend_id": "m", "type": "acme"}], metrics=[{"type": "acme", "name": "x"}])
    report = examined(text, tmp_path)
    assert report.problems == ()
    assert told([*report.effects])[:2] == [
        ("run", "no_such_module_of_acme:backends", "backends[0].type"),
        ("run", "no_such_module_of_acme:metrics", "metrics[0].implementation"),
    ]


def test_code_that_was_imported_before_is_not_called_either(
    tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    def alarm(config: Any, context: Any) -> None:
        raise AssertionError("called")

    known = registry.Plugin("backends", "earlier", alarm, 1, "", "acme==1")
    monkeypatch.setitem(registry.backends._plugins, "earlier", known)
    report = examined(small(backends=[{"backend_id": "m", "type": "earlier"}]), tmp_path)
    assert report.problems == ()
    assert told([*report.effects])[0] == ("run", "acme==1", "backends[0].type")


def test_the_folder_of_the_config_is_not_put_on_the_path(tmp_path: Path, small: Small) -> None:
    before = list(sys.path)
    examined(small(metrics=["theirs.mod:score"]), tmp_path)
    assert sys.path == before


def test_an_endpoint_is_listed_with_the_variables_that_go_there(tmp_path: Path, small: Small) -> None:
    config = {"base_url": "https://evil.example/${USER}/v1", "model": "m", "api_key": "env:AWS_SECRET_ACCESS_KEY"}
    text = small(backends=[{"backend_id": "m", "type": "openai_http", "config": config}])
    (sent,) = [effect for effect in effects(text, tmp_path, USER="me") if effect.act == "send"]
    assert (sent.what, sent.path) == ("https://evil.example/me/v1", "backends[0].config.base_url")
    assert sent.note == "questions, media and the value of AWS_SECRET_ACCESS_KEY, USER"
    assert examined(text, tmp_path, USER="me").variables == {"backends[0].config.base_url": ["USER"]}


def test_data_are_listed_with_their_absolute_places_and_where_links_lead(tmp_path: Path, small: Small) -> None:
    (tmp_path / "link.jsonl").symlink_to("/etc/passwd")
    datasets = [
        {"dataset_id": "a", "params": {"path": "../up/*.jsonl", "labels_path": "~/labels"}},
        {"dataset_id": "b", "params": {"path": "link.jsonl", "content_root": ".", "allow_outside": True}},
        {"dataset_id": "c", "params": {"path": "s3://theirs/rows.jsonl"}},
        {"dataset_id": "d", "hub": "theirs/rows"},
    ]
    reads = [
        effect for effect in effects(small(datasets=datasets, backends=[_DUMMY]), tmp_path) if effect.act != "send"
    ]
    assert {(effect.act, effect.what) for effect in reads} == {
        ("read", str(tmp_path.parent / "up" / "*.jsonl")),
        ("read", str(Path.home() / "labels")),
        ("read", str(tmp_path / "link.jsonl")),
        ("read", str(tmp_path)),
        ("read", "/"),
        ("fetch", "s3://theirs/rows.jsonl"),
        ("fetch", "dataset theirs/rows"),
    }
    assert "a link to /etc/passwd" in {effect.note for effect in reads}


def test_a_scoring_profiles_code_is_listed(tmp_path: Path, small: Small) -> None:
    rule = {"type": "theirs.mod:score", "filters": ["theirs.mod:cut"]}
    profile = {"scorers": {"short_text": {"primary_metric": "score", "metrics": [rule]}}}
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(profile))
    task = {"task_id": "t", "dataset_id": "mine", "answer_type": "short_text", "scoring_profile": "p.yaml"}
    listed = told(effects(small(backends=[_DUMMY], tasks=[task], metrics=None), tmp_path))
    for what in (("run", "theirs.mod:score"), ("run", "theirs.mod:cut"), ("read", str(tmp_path / "p.yaml"))):
        assert (*what, "tasks[0].scoring_profile") in listed


_CANARIES = [
    (name, field)
    for name in registry.backends.names()
    if registry.backends.origin(name) == "builtin"
    for field, info in config_model(name).model_fields.items()
    if re.search(r"path|python|url|api_key|^env$|remote_code|file|module|class", field)
    # A path in a document, not of a file; and the form in which documents are sent.
    and field not in ("records_path", "file_part")
]


@pytest.mark.parametrize(("backend", "name"), _CANARIES, ids=lambda value: str(value))
def test_no_field_of_a_backend_that_reaches_out_is_left_out(
    tmp_path: Path, small: Small, backend: str, name: str
) -> None:
    endpoint = {"base_url": "http://h/v1", "model": "m"}
    needed = {
        **dict.fromkeys(
            ("openai_http", "openai_images", "openai_speech", "openai_transcriptions", "openai_videos"), endpoint
        ),
        "custom_script": {"class_name": "X", **({} if name in ("module_path", "file_path") else {"module_path": "m"})},
        "replay": {"path": "a.jsonl"},
        "vllm": endpoint if name in ("base_url", "api_key") else {"model_path": "a/b"},
    }.get(backend, {"model_path": "a/b"})
    canary: Any = {
        "base_url": "http://canary/v1",
        "api_key": "env:canary",
        "env": {"LD_PRELOAD": "canary"},
        "file_path": "canary.py",
        "trust_remote_code": True,
        "model_path": "canary/canary",
    }.get(name, "canary")
    text = small(backends=[{"backend_id": "m", "type": backend, "config": {**needed, name: canary}}])
    report = examined(text, tmp_path)
    assert report.problems == ()
    said = [f"{effect.what} {effect.note}" for effect in report.effects if effect.path.startswith("backends[0]")]
    wanted = "code that comes with a/b" if name == "trust_remote_code" else "canary"
    assert any(wanted in line for line in said), said


def test_arguments_that_are_passed_on_to_an_engine_are_listed(tmp_path: Path, small: Small) -> None:
    config = {"model_path": "a/b", "worker_cls": "evil.Worker", "python": "./python"}
    listed = effects(small(backends=[{"backend_id": "m", "type": "vllm_native", "config": config}]), tmp_path)
    (start,) = [effect for effect in listed if effect.act == "start"]
    assert start.what == str(tmp_path / "python")
    assert "worker_cls=evil.Worker" in start.note


def test_mistakes_are_found_all_the_same(tmp_path: Path, small: Small) -> None:
    report = examined(small(metrics=["exact_mach", "theirs.mod:score"], limits={"tokens": 0}), tmp_path)
    assert [problem.path for problem in report.problems] == ["metrics[0].implementation", "limits.tokens"]
    with pytest.raises(ConfigError):
        examined("datasets: 1", tmp_path)


# What no file can be called: too long a name, a NUL byte, the home of nobody, a link to itself.
_NO_PLACES = ("a" * 5000, "a/" + "b" * 300, "a\0b", "~nobody-of-this-name/b", "loop/b")


@pytest.mark.parametrize("name", _NO_PLACES, ids=["long", "long-part", "nul", "nobody", "loop"])
def test_a_path_that_cannot_be_one_is_a_problem_or_no_file_and_never_a_defect(
    name: str, tmp_path: Path, small: Small
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    task = {"task_id": "t", "dataset_id": "d", "answer_type": "short_text"}
    records = {"records": [{"question": "a", "answer": "b"}]}
    inline = [{"dataset_id": "d", "params": records}]
    sections: list[dict[str, Any]] = [
        {"include": name},
        {"kind": "RunConfig", "base_task": f"./{name}.yaml"},
        {"datasets": [{"dataset_id": "d", "hub": name}]},
        {"datasets": [{"dataset_id": "d", "params": {"path": f"{name}.jsonl"}}]},
        {"datasets": [{"dataset_id": "d", "params": {**records, "content_root": name}}]},
        {"datasets": inline, "tasks": [{**task, "scoring_profile": f"{name}.yaml"}]},
        {"datasets": inline, "metrics": [{"metric_id": "m", "implementation": f"{name}:f"}]},
        {"datasets": inline, "metrics": [{"metric_id": "m", "implementation": f"{name}.py:f"}]},
        *(
            {"datasets": inline, "backends": [{"backend_id": "m", "type": type_, "config": config}]}
            for type_, config in (
                ("transformers", {"model_path": name}),
                ("vllm", {"model_path": "x", "python": f"./{name}"}),
                ("custom_script", {"file_path": f"{name}.py", "class_name": "X"}),
                ("replay", {"path": f"{name}.jsonl"}),
            )
        ),
    ]
    for section in sections:
        text = small(**section)
        for read in (
            lambda text=text: audit(text, "theirs.yaml", tmp_path, env={}),
            lambda text=text: parse_config(text, source="theirs.yaml", base_dir=tmp_path, env={}),
        ):
            assert "\0" not in _said(read), "a message is shown on a terminal"


def _said(read: Callable[[], object]) -> str:
    """The message of a mistake; empty if there is none. A defect is raised."""
    try:
        read()
    except GageError as error:
        return str(error)
    return ""


def test_filters_of_a_scoring_profile_are_listed_with_parameters_too(tmp_path: Path, small: Small) -> None:
    filters = [{"alarm.py:cut": {"length": 3}}, {"steps": [{"alarm.py:first": None}]}, "alarm.py:second", "strip"]
    metric = {"type": "exact_match", "filters": filters, "aggregation": "alarm.py:spread"}
    preset = {"primary_metric": "exact_match", "metrics": [metric]}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"scorers": {"short_text": preset}}))
    task = {"task_id": "t", "dataset_id": "mine", "answer_type": "short_text", "scoring_profile": "mine.yaml"}
    code = {effect.what for effect in effects(small(tasks=[task]), tmp_path) if effect.act == "run"}
    assert code == {"alarm.py:cut", "alarm.py:first", "alarm.py:second", "alarm.py:spread"}


def test_files_outside_are_listed_of_a_pinned_origin_too(tmp_path: Path, small: Small) -> None:
    params = {"origin": "gsm8k", "path": "*", "allow_outside": True}
    listed = told(effects(small(datasets=[{"dataset_id": "d", "loader": "jsonl", "params": params}]), tmp_path))
    assert ("read", "/", "datasets[0].params.allow_outside") in listed


def test_addresses_that_records_may_name_are_listed_where_media_are_decoded(tmp_path: Path, small: Small) -> None:
    params = {"path": "rows.jsonl", "audio_rate": 16_000, "private_media_hosts": ["10.0.0.0/8"]}
    datasets = [{"dataset_id": "d", "params": params}, {"dataset_id": "e", "params": {"path": "rows.jsonl"}}]
    (fetched,) = [effect for effect in effects(small(datasets=datasets), tmp_path) if effect.act == "fetch"]
    assert (fetched.what, fetched.path) == ("http(s) addresses", "datasets[0].params.audio_rate")
    assert fetched.note.endswith("also from 10.0.0.0/8")
