"""Every set of the reference data goes through load, standardize and preprocess: all rows, and the right ones."""

import json
import re
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from gage_eval.config.load import load_config
from gage_eval.data.sample.table import messages_from_array, rows_of
from gage_eval.observability.observer import Observers
from gage_eval.pipeline import stages
from gage_eval.pipeline.action import StageContext
from gage_eval.pipeline.plan import make_plan
from gage_eval.store import Store

Through = Callable[..., "Data"]
_ROW = re.compile(r"^\| `([^`]+)` \| `[^`]+` \| (\d+) \|", re.MULTILINE)


class Data:
    """What became of a dataset."""

    def __init__(self, store: Store, samples: str, rejects: str, prepared: str) -> None:
        self.store = store
        self.samples = rows_of(store.artifact(samples).table())
        self.rejects = store.artifact(rejects).rows
        self.prepared = store.artifact(prepared).table()

    def sample(self, **wanted: Any) -> dict[str, Any]:
        """The sample with these top-level values."""
        return next(row for row in self.samples if wanted.items() <= row.items())

    def content(self, sample_id: str, message: int = -1) -> Any:
        """What a message of a prepared row holds."""
        place = self.prepared["sample_id"].to_pylist().index(sample_id)
        return messages_from_array(self.prepared["messages"].slice(place, 1), collapse=True)[0][message]["content"]


@pytest.fixture
def through(repo_root: Path, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Through:
    """Takes a task of a pipeline through the stages that ask no model."""
    monkeypatch.setenv("LOCAL_DATASETS_ROOT", str(shared / "data"))
    store = Store.open(str(tmp_path / "store"))
    env = StageContext(store, None, Observers(), "the-run")

    def run(config: str, task_id: str | None = None, path: str | None = None) -> Data:
        # Other files than the config's are asked without examples: they may be these.
        overrides = [f"datasets.0.params.path={shared / 'data' / path}", "tasks.0.few_shot=null"] if path else []
        plan = make_plan(load_config(repo_root / "configs" / "pipelines" / f"{config}.yaml", overrides=overrides))
        task = plan.task(task_id) if task_id else plan.tasks[0]
        raw = stages.load(env, task.load)
        samples = stages.standardize(env, task.standardize, raw=raw)
        examples = task.pool
        pool = examples and stages.standardize(env, examples.standardize, raw=stages.load(env, examples.load))
        prepared = stages.preprocess(env, task.preprocess, samples=samples, few_shot=pool)
        return Data(store, samples.outputs["samples"], samples.outputs["rejects"], prepared.outputs["prepared"])

    return run


def promised(shared: Path, pattern: str, *, headers: bool) -> int:
    """The rows that a folder's README counts for some files, less headers."""
    folder, _, files = pattern.partition("/")
    counts = _ROW.findall((shared / "data" / folder / "README.md").read_text(encoding="utf-8"))
    matching = [int(rows) for name, rows in counts if fnmatch(name, files)]
    assert matching, f"{folder}/README.md counts no {files}"
    return sum(matching) - (len(matching) if headers else 0)


@pytest.mark.parametrize(
    ("config", "task", "pattern", "headers"),
    [
        ("gsm8k", None, "gsm8k/test.jsonl", False),
        ("piqa", None, "piqa/valid.jsonl", False),
        ("mmlu", "mmlu", "mmlu/test/*.csv", False),
        ("mmlu", None, "mmlu/dev/*.csv", False),
        ("cmmlu", "cmmlu", "cmmlu/test/*.csv", True),
        ("cmmlu", None, "cmmlu/dev/*.csv", True),
        ("bbh", None, "bbh/*.json", False),
        ("math500", None, "math500/test.jsonl", False),
        ("ifeval", None, "ifeval/input_data.jsonl", False),
        ("humaneval", None, "humaneval/HumanEval.jsonl.gz", False),
        ("humaneval", None, "humaneval/example_problem.jsonl", False),
        ("mt_bench", None, "mt_bench/question.jsonl", False),
        ("truthfulqa", "mc1", "truthfulqa/mc_task.json", False),
        ("truthfulqa", "generation", "truthfulqa/TruthfulQA.csv", True),
        ("mmmu_pro", None, "mmmu_pro_demo/data.jsonl", False),
    ],
)
def test_every_row_the_readme_counts_comes_through(
    config: str, task: str | None, pattern: str, headers: bool, through: Through, shared: Path
) -> None:
    data = through(config, task, None if task else pattern)
    rows = promised(shared, pattern, headers=headers)
    assert (len(data.samples), data.rejects, data.prepared.num_rows) == (rows, 0, rows)
    assert len({sample["id"] for sample in data.samples}) == rows


def test_no_pipeline_of_a_dataset_is_longer_than_a_page(repo_root: Path) -> None:
    files = sorted((repo_root / "configs" / "pipelines").rglob("*.yaml"))
    assert {file.name: lines for file in files if (lines := len(file.read_text().splitlines())) > 25} == {}


def test_no_pipeline_of_a_benchmark_has_a_length_for_its_score(repo_root: Path, shared: Path) -> None:
    """Where its own score needs a judge, nothing is scored, and a note says so."""
    unscored = set()
    for file in (repo_root / "configs" / "pipelines").rglob("*.yaml"):
        assert "text_length" not in file.read_text(), file.name
        warnings = load_config(file, env={"LOCAL_DATASETS_ROOT": str(shared / "data")}).warnings
        if any("nothing is scored" in warning for warning in warnings):
            unscored.add(file.stem)
    assert unscored == {"mt_bench"}


def test_gsm8k_and_piqa(through: Through) -> None:
    data = through("gsm8k")
    assert [sample["label"] for sample in data.samples[:3]] == ["18", "3", "70000"]
    piqa = through("piqa")
    assert piqa.samples[1]["options"][0] == {"id": "A", "content": "replace drawer with bobby pin "}


def test_mmlu_asks_by_subject(through: Through) -> None:
    data = through("mmlu")
    first = data.samples[0]
    assert first["data_tag"] == {"subject": "abstract_algebra"}
    assert first["label"] == "B"
    assert data.content(first["id"], 0).endswith("about abstract algebra.")
    assert data.content(first["id"]).endswith("\nA. 0\nB. 4\nC. 2\nD. 6\nAnswer:")
    # A quoted cell that holds line breaks is one cell.
    assert any("\n" in sample["metadata"]["question_text"] for sample in data.samples)


@pytest.mark.parametrize("config", ["mmlu", "cmmlu"])
def test_a_subjects_dev_rows_are_its_examples(config: str, through: Through, shared: Path) -> None:
    data = through(config)
    for sample in data.samples[:: len(data.samples) // 20]:
        subject = sample["data_tag"]["subject"]
        (dev,) = (shared / "data" / config / "dev").glob(f"{subject}*.csv")
        place = data.prepared["sample_id"].to_pylist().index(sample["id"])
        messages = messages_from_array(data.prepared["messages"].slice(place, 1), collapse=True)[0]
        assert [message["role"] for message in messages] == ["system", *["user", "assistant"] * 5, "user"]
        rows = dev.read_text(encoding="utf-8-sig")
        assert all(message["content"].splitlines()[0].removeprefix("题目：")[:20] in rows for message in messages[1:-1])


def test_cmmlu_is_chinese(through: Through) -> None:
    data = through("cmmlu")
    first = data.sample(label="B", data_tag={"subject": "agronomy"})
    assert data.content(first["id"], 0) == "以下是关于农学的单项选择题，请直接给出正确答案的选项。"
    assert data.content(first["id"]) == (
        "题目：在农业生产中被当作极其重要的劳动对象发挥作用，最主要的不可替代的基本生产资料是\n"
        "A. 农业生产工具\nB. 土地\nC. 劳动力\nD. 资金\n答案是："
    )


def test_math_keeps_its_latex(through: Through) -> None:
    data = through("math500")
    sample = data.sample(id="test/precalculus/807.json")
    assert sample["label"] == r"\left( 3, \frac{\pi}{2} \right)"
    assert sample["data_tag"] == {"subject": "Precalculus", "level": "2"}
    assert r"$0 \le \theta < 2 \pi.$" in data.content(sample["id"])


def test_bbh_knows_its_tasks(through: Through) -> None:
    data = through("bbh")
    counts: dict[str, int] = {}
    for sample in data.samples:
        counts[sample["data_tag"]["task"]] = counts.get(sample["data_tag"]["task"], 0) + 1
    assert counts == {
        "boolean_expressions": 250, "causal_judgement": 187, "date_understanding": 250, "object_counting": 250,
        "sports_understanding": 250, "word_sorting": 250,
    }  # fmt: skip
    assert data.sample(data_tag={"task": "date_understanding"})["label"] == "(B)"


def test_ifeval_keeps_what_its_metric_reads(through: Through) -> None:
    sample = through("ifeval").sample(id="1000")
    assert sample["references"] == []
    assert sample["extra"]["instruction_id_list"][0] == "punctuation:no_comma"
    assert sample["extra"]["kwargs"][1] == {"num_highlights": 3}


def test_humaneval_is_unpacked_with_its_tests(through: Through) -> None:
    data = through("humaneval")
    sample = data.sample(id="HumanEval/0")
    assert sample["metadata"]["entry_point"] == "has_close_elements"
    assert "assert candidate(" in sample["metadata"]["tests"]
    assert "```python\nfrom typing import List" in data.content(sample["id"])


def test_mt_bench_is_asked_turn_by_turn(through: Through) -> None:
    data = through("mt_bench")
    assert set(data.prepared["kind"].to_pylist()) == {"turns"}
    sample = data.sample(id="101")
    assert [message["role"] for message in sample["messages"]] == ["user", "user"]
    assert sample["label"] == "You are in second place."
    assert sample["data_tag"] == {"category": "reasoning"}


def test_truthfulqa_hides_the_true_answer_among_the_others(through: Through, shared: Path) -> None:
    data = through("truthfulqa", "mc1")
    letters = {sample["label"] for sample in data.samples}
    assert {"A", "B", "C", "D"} <= letters
    records = json.loads((shared / "data/truthfulqa/mc_task.json").read_text(encoding="utf-8"))
    for record, sample in zip(records, data.samples, strict=True):
        chosen = next(option["content"] for option in sample["options"] if option["id"] == sample["label"])
        assert record["mc1_targets"][chosen] == 1
    category = through("truthfulqa", "generation").samples[0]["data_tag"]
    assert category == {"category": "Misconceptions"}


def image_bytes(data: Data, content: list[dict[str, Any]]) -> list[bytes]:
    urls = [segment["image_url"]["url"] for segment in content if segment["type"] == "image_url"]
    return [data.store.media.get(url) for url in urls]


def test_mmmu_has_images_where_the_text_names_them(through: Through, shared: Path) -> None:
    pytest.importorskip("PIL", reason="needs the extra media")
    data = through("mmmu_pro")
    assert data.samples[0]["label"] == "A"
    music = data.samples[5]
    images = image_bytes(data, data.content(music["id"]))
    folder = shared / "data/mmmu_pro_demo/images"
    # The question's own, then those of its options as the options name them: 4, 2, 5, 3.
    assert images == [(folder / f"test_Music_251_{number}.png").read_bytes() for number in (1, 4, 2, 5, 3)]


def test_receipts_have_one_record_a_file_and_its_image(through: Through, shared: Path) -> None:
    pytest.importorskip("PIL", reason="needs the extra media")
    data = through("receipts")
    folder = shared / "data/sroie_receipts"
    names = sorted(file.stem for file in (folder / "key").glob("*.json"))
    assert len(names) == 24
    assert [sample["id"] for sample in data.samples] == names
    assert data.rejects == 0
    for name, sample in zip(names, data.samples, strict=True):
        assert sample["label"] == json.loads((folder / "key" / f"{name}.json").read_text())["total"]
    assert image_bytes(data, data.content("000")) == [(folder / "img/000.jpg").read_bytes()]
