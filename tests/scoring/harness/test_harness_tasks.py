"""Tasks of the lm-eval harness give the harness's own numbers here, for the same answers."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gage_eval
from gage_eval.authoring.lm_eval import harness_suite
from gage_eval.base.errors import InputError
from gage_eval.base.hashing import file_digest
from gage_eval.extend.loading import look_in
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.bundling import pack
from gage_eval.runs.options import BUNDLE_PREFIX
from gage_eval.scoring.harness import client, worker
from gage_eval.scoring.harness.reads import FILE
from gage_eval.scoring.harness.sources import SourcesChanged
from gage_eval.scoring.metrics.builtin.lm_eval import lm_eval
from gage_eval.store import Store
from tests.outsider.pages import write_files
from tests.scoring.harness.local_tasks import CODE, ROWS, write_group
from tests.support.command import command

pytest.importorskip("lm_eval")

MODEL = Path(__file__).with_name("hashed_model.py")
MIXED = """
from pathlib import Path
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

DATA = {"data_files": {"test": str(Path(__file__).with_name("rows.jsonl"))}}

class Mixed(ConfigurableTask):
    def __init__(self, config=None):
        source = {"dataset_path": "json", "dataset_kwargs": DATA, "test_split": "test"}
        super().__init__(config={"task": "mixed", "doc_to_text": "{{q}}", "doc_to_target": "q", **source})

    def construct_requests(self, doc, ctx, chat_template=None, apply_chat_template=False, **kwargs):
        asked = {"generate_until": (ctx, {"until": []}), "loglikelihood": (ctx, " no")}
        return [Instance(request_type=kind, doc=doc, arguments=asked[kind], idx=0, **kwargs) for kind in asked]
"""
RAISES = """
import os
import urllib.request

def text(doc):
    return 1 / 0

def calls(doc):
    return urllib.request.urlopen("http://127.0.0.1:9").read()

def exits(doc):
    os._exit(0)
"""


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_group(tmp_path_factory.mktemp("harness"))


def test_the_numbers_are_those_of_the_harness(group: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(MODEL), "local", str(group.parent)]
    whole = subprocess.run(command, capture_output=True, text=True, check=False)
    assert whole.returncode == 0, whole.stderr[-3000:]
    harness = json.loads(whole.stdout.splitlines()[-1])
    suite = harness_suite(str(group), tmp_path / "cache")
    run = gage_eval.run(suite, store=str(tmp_path / "store"), engine=f"{MODEL}:Hashed")
    ours = {
        f"{task.task_id} {metric.metric_id}": metric.raw_values["score"]
        for task in run.summary.tasks
        for metric in task.metrics
    }
    theirs = {
        f"{task} {name.replace(',none', '').replace(',', '_')}": value
        for task, values in harness["results"].items()
        for name, value in values.items()
        if task in ROWS and "," in name and "stderr" not in name
    }
    assert ours == pytest.approx(theirs, rel=1e-14)
    assert "max_new_tokens: 48" in suite.read_text(encoding="utf-8"), "of the requests of a task's code"
    assert len(ours) > len(ROWS)
    group_of_acc = next(item for item in run.summary.groups if item.group_id == "local_acc")
    micro = next(metric for metric in group_of_acc.metrics if metric.metric_id == "acc").micro
    assert micro.value == pytest.approx(harness["groups"]["local"]["acc,none"], rel=1e-14)
    with pytest.raises(InputError, match="f1 of task 'own_mutual' over all rows"):
        client.aggregate(file_digest(suite.with_name(FILE)), "own_mutual", "f1", ["no pair"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no_such_task", "no task, group or tag"),
        ("gsm8k,shots=3", "num_fewshot"),
        ("gsm8k,num_fewshot=many", "whole number"),
        ("no_such_file.yaml", "no file"),
        ("TEXT.yml", "rename it"),
        ("TEXT.yaml", "neither a task nor a group"),
        ("RAISES.yaml", "ZeroDivisionError"),
        ("CALLS.yaml", "the harness raised URLError"),
        ("EXITS.yaml", "process of the lm-eval harness died"),
        ("REPEATS.yaml", "each question 5 times"),
        ("MIXED.yaml", "asks for generate_until and loglikelihood"),
        ("WITHOUT.yaml", "names no numbers"),
    ],
)
def test_what_cannot_run_is_one_sentence(text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "TEXT.yaml").write_text("hello: there\n")
    (tmp_path / "rows.jsonl").write_text('{"q": "a"}\n')
    (tmp_path / "raises.py").write_text(RAISES)
    (tmp_path / "mixed.py").write_text(MIXED)
    for name, fields in (
        ("RAISES", "doc_to_text: !function raises.text"),
        ("CALLS", "doc_to_text: !function raises.calls"),
        ("EXITS", "doc_to_text: !function raises.exits"),
        ("REPEATS", "doc_to_text: q\nrepeats: 5"),
        ("WITHOUT", "doc_to_text: q\nprocess_results: !function raises.text\nmetric_list: []"),
    ):
        (tmp_path / f"{name}.yaml").write_text(
            f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {tmp_path / 'rows.jsonl'}}}}}\n"
            f"output_type: generate_until\ntest_split: test\ndoc_to_target: q\n{fields}\n"
        )
    (tmp_path / "MIXED.yaml").write_text("task: mixed\nclass: !function mixed.Mixed\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said) as refused:
        harness_suite(text, tmp_path / "cache")
    assert "\n" not in str(refused.value)
    assert [*tmp_path.glob("cache/*")] == [], "nothing is left"


@pytest.mark.slow
def test_a_run_whose_files_of_the_task_were_changed_ends(group: Path, tmp_path: Path) -> None:
    suite = harness_suite(str(group), tmp_path / "cache")
    sources = file_digest(suite.with_name(FILE))
    look_in([suite.parent])
    process = client.shared_process()
    process.close()
    row = {"document": {"gold": "A"}, "answer": "A", "task": "own_letters", "value": "right", "kind": "right"}
    assert lm_eval(**row, sources=sources, pipeline="last").value == {"right": 1.0}  # type: ignore[arg-type]
    process.close()
    with pytest.raises(SourcesChanged, match="is not next to the config"):
        lm_eval(**row, sources="0" * 64)  # type: ignore[arg-type]
    (suite.parent / "task" / "more.py").write_text("")
    with pytest.raises(SourcesChanged, match=r"'task/more.py' changed after"):
        lm_eval(**{**row, "answer": "B"}, sources=sources)  # type: ignore[arg-type]
    (suite.parent / "task" / "more.py").unlink()
    (suite.parent / "task" / "own.py").write_text("")
    with pytest.raises(SourcesChanged, match=r"'task/own.py' changed after"):
        lm_eval(**{**row, "answer": "B"}, sources=sources)  # type: ignore[arg-type]
    again = harness_suite(str(group), tmp_path / "cache")
    assert again == suite
    assert (suite.parent / "task" / "own.py").read_text(encoding="utf-8") == CODE, "it is written again"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A user's group, whose task includes a file outside of its folder, with code that reads a file."""
    texts = {
        "home/mine/group.yaml": "group: mine\ntask: [colours]\n",
        "home/mine/sub/colours.yaml": "task: colours\n"
        "include: ../../common/base.yaml\ndoc_to_text: !function words.text\n",
        "home/mine/sub/words.py": "from pathlib import Path\n\nWORDS = Path(__file__).with_name('words.txt')\n\n\n"
        "def text(doc):\n    return WORDS.read_text() + doc['q']\n",
        "home/mine/sub/words.txt": "Which colour has ",
        "home/mine/other.yaml": "task: other\noutput_type: generate_until\n",
        "home/common/base.yaml": "include: further.yaml\ndataset_path: json\ntest_split: test\n"
        f"dataset_kwargs: {{data_files: {{test: {tmp_path}/rows/rows.jsonl}}}}\n",
        "home/common/further.yaml": "output_type: generate_until\ndoc_to_target: a\n",
        "rows/rows.jsonl": '{"q": "the sky?", "a": "blue"}\n{"q": "grass?", "a": "green"}\n',
        "rows/secret.txt": "not read",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "home" / "mine" / "group.yaml"


READ = {
    "home/mine/group.yaml",
    "home/mine/sub/colours.yaml",
    "home/mine/sub/words.py",
    "home/mine/sub/words.txt",
    "home/common/base.yaml",
}
READ |= {"home/common/further.yaml", "rows/rows.jsonl"}


def test_a_change_of_anything_that_a_task_is_read_from_is_another_task(own: Path, tmp_path: Path) -> None:
    def sources() -> str:
        return file_digest(harness_suite(str(own), tmp_path / "cache").with_name(FILE))

    seen = [sources()]
    for name in sorted(READ):
        file = tmp_path / name
        file.write_text(file.read_text() + ("\n" if file.suffix != ".jsonl" else '{"q": "snow?", "a": "white"}\n'))
        seen.append(sources())
    assert len({*seen}) == 1 + len(READ)
    (tmp_path / "home" / "mine" / "other.yaml").write_text("task: different\n")
    (tmp_path / "rows" / "secret.txt").write_text("still not read")
    assert sources() == seen[-1]


def test_what_was_written_is_used_again_until_something_changes(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    first = harness_suite(str(own), cache)
    built: list[str] = []
    call = client.HarnessProcess.call

    def counted(process: client.HarnessProcess, function: str, *arguments: Any, **named: Any) -> Any:
        built.append(function)
        return call(process, function, *arguments, **named)

    monkeypatch.setattr(client.HarnessProcess, "call", counted)
    assert harness_suite(str(own), cache) == first
    assert "build" not in built
    assert harness_suite(f"{own},limit=1", cache) != first
    assert built.count("build") == 1
    # Its names come first, so that the group's task is another one.
    (own.parent / "a.yaml").write_text((own.parent / "sub" / "colours.yaml").read_text().replace("../../", "../"))
    (own.parent / "words.py").write_text("def text(doc):\n    return 'Guess: ' + doc['q']\n")
    assert "Guess: the sky?" in harness_suite(str(own), cache).with_name("0.jsonl").read_text(encoding="utf-8")


def test_a_run_of_a_users_task_needs_nothing_but_the_store(own: Path, tmp_path: Path) -> None:
    options = RunOptions.of({"config": str(harness_suite(str(own), tmp_path / "cache")), "store": str(tmp_path / "s")})
    options = options.model_copy(update={"engine": "dummy"})
    outcome = run_inline(options.model_copy(update={"run_id": "here"}))
    packed = pack(options, None)
    assert packed is not None
    assert (packed.stays, packed.needs) == ((), ())
    code = {f"task/{name.removeprefix('home/')}" for name in READ if name.startswith("home/")}
    data = {name for name in packed.files if name.startswith("data/")}
    assert {*packed.files} == {"config.yaml", "0.jsonl", FILE, *code, *data}
    assert len(data) == 1
    assert not any(str(tmp_path).encode() in text for name, text in packed.files.items() if name not in (
        "config.yaml", "task/common/base.yaml"
    ))  # fmt: skip
    bundle = packed.put(Store.open(str(tmp_path / "s")))
    client.shared_process().close()
    for folder in ("home", "rows", "cache"):
        shutil.rmtree(tmp_path / folder)
    there = options.model_copy(update={"config": f"{BUNDLE_PREFIX}{bundle}", "run_id": "there"})
    again = run_inline(there.model_copy(update={"refresh": ("auto_eval",)}))
    assert again.summary.tasks == outcome.summary.tasks
    keys = [{name: stage.key for name, stage in run.folder.record().stages.items()} for run in (outcome, again)]
    assert keys[0] == keys[1]


def test_names_of_the_harness_are_found_by_a_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gage = command(tmp_path, capsys, monkeypatch)
    suites = json.loads(gage("list", "suites", "--lm-eval", "GLOBAL_FACTS", "--json").out)
    assert {"name": "lm-eval:mmlu_global_facts", "kind": "task"} in suites
    assert all("global_facts" in entry["name"].lower() for entry in suites)
    assert "goes with suites" in gage("list", "runs", "--lm-eval", "arc").sentence


def test_the_harness_starts_before_the_suite_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    monkeypatch.setattr(client.HarnessProcess, "start", lambda _: order.append("start"))
    monkeypatch.setattr("gage_eval.authoring.lm_eval.suite_config", lambda *_: order.append("suite"))
    gage = command(tmp_path, capsys, monkeypatch)
    assert gage("suite", "lm-eval:gsm8k").code == 2
    assert order == ["start", "suite"]
    assert gage("suite", "no_such_suite").code == 2
    assert order == ["start", "suite", "suite"]


@pytest.mark.parametrize(
    ("own", "pairs", "made"),
    [
        ({}, [("q", " a"), ("q", " b")], ("q", [" a", " b"], False)),
        ({"multiple_input": 2}, [("a", " end"), ("b", " end")], (" end", ["a", "b"], False)),
        ({"multiple_input": 2}, [("a", " end"), ("a", " end")], (" end", ["a", "a"], False)),
        ({"_metric_fn_list": ["acc_mutual_info"]}, [("", " a"), ("", " b")] * 2, ("", [" a", " b"], True)),
        ({}, [("a", " x"), ("b", " y")], None),
        ({"multiple_input": 2}, [("a", " x"), ("b", " y")], None),
        ({"_metric_fn_list": ["acc_mutual_info"]}, [("q", " a"), ("q", " b")], None),
    ],
)
def test_pairs_of_texts_become_choices_by_what_the_task_says(
    own: dict[str, Any], pairs: list[tuple[str, str]], made: tuple[str, list[str], bool] | None
) -> None:
    task = SimpleNamespace(task_name="t", **own)
    if made is None:
        with pytest.raises(worker.CannotRun, match="task 't'"):
            worker._choices(task, pairs)
        return
    row = worker._choices(task, pairs)
    options = [option["content"] for option in row["options"]]
    assert (row["messages"][0]["content"], options, "unconditioned_input" in row) == made


def test_the_own_task_of_the_page_runs_as_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAGE_EVAL_DATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "no-prefect"))
    gage = command(tmp_path, capsys, monkeypatch)
    docs = Path(__file__).parents[3] / "docs"
    write_files("lm-eval.md", tmp_path, docs)
    text = (docs / "lm-eval.md").read_text(encoding="utf-8")
    for line in ("gage suite lm-eval:capitals.yaml --engine dummy --run-id first", "gage show first --wrong"):
        assert f"\n{line}\n" in text
        shown = gage(*line.split()[1:])
        assert shown.code == 0, shown.err
    assert "2 of 2 answers wrong by exact_match" in shown.out


def test_a_harness_that_hangs_while_it_builds_is_ended_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_MOST_SECONDS", 0.0)
    (tmp_path / "task.yaml").write_text("task: slow\n")
    process = client.HarnessProcess()
    monkeypatch.setattr("gage_eval.authoring.lm_eval.shared_process", lambda: process)
    with pytest.raises(InputError, match="took longer than 0 s"):
        harness_suite(str(tmp_path / "task.yaml"), tmp_path / "cache")
    assert process._process is None
