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
from gage_eval.scoring.harness import client, worker
from gage_eval.scoring.metrics.builtin.lm_eval import lm_eval
from tests.outsider.pages import write_files
from tests.scoring.harness.local_tasks import ROWS, write_group
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
        client.aggregate(str(group), "own_mutual", "f1", ["no pair"], client.sources(str(group)))


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
        ("REPEATS.yaml", "each question 5 times"),
        ("MIXED.yaml", "asks for generate_until and loglikelihood"),
        ("WITHOUT.yaml", "names no numbers"),
    ],
)
def test_what_cannot_run_is_one_sentence(text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "TEXT.yaml").write_text("hello: there\n")
    (tmp_path / "rows.jsonl").write_text('{"q": "a"}\n')
    (tmp_path / "raises.py").write_text("def text(doc):\n    return 1 / 0\n")
    (tmp_path / "mixed.py").write_text(MIXED)
    for name, fields in (
        ("RAISES", "doc_to_text: !function raises.text"),
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


def test_a_new_process_reads_a_task_anew_and_a_run_with_other_files_ends(group: Path, tmp_path: Path) -> None:
    file = Path(shutil.copytree(group.parent, tmp_path / "own"), group.name)
    before = client.sources(str(file))
    process = client.shared_process()
    assert process.load(str(file), is_file=True) == before
    (file.parent / "more.py").write_text("")
    assert process.load(str(file), is_file=True) == before, "what is loaded counts"
    assert process._process is not None
    process._process.kill()
    process._process.wait()
    row = {"document": {}, "answer": "A", "name": str(file), "task": "own_letters", "value": "right", "kind": "right"}
    with pytest.raises(client.HarnessLost, match="changed after"):
        lm_eval(**row, sources=before)  # type: ignore[arg-type]


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
