"""``--task 'mmlu[anatomy,high_school_*]'``: some subjects of a suite or config, which say that they are a subset."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gage_eval
from bench.local_suites import missing_origins
from gage_eval.base.errors import InputError
from gage_eval.report.summary import Summary
from tests.cli.conftest import Gage, gage, workspace
from tests.suites.data_folder import write_origin
from tests.support.endpoint import MockEndpoint, mock_endpoint

__all__ = ["gage", "workspace"]

SHARED = Path(__file__).parents[3] / "shared"
SUITES = ("mmlu", "bbh", "agieval", "math500", "gsm8k")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[MockEndpoint]:
    with mock_endpoint() as running:
        yield running


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for suite in SUITES:
        if missing := missing_origins(suite, SHARED):
            pytest.skip(f"no data of {', '.join(missing)} in ../shared/data")
        write_origin(folder, suite, SHARED)
    return folder


@pytest.fixture(autouse=True)
def _origins(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gage_eval.config.data_origins.configs_dir", lambda: data / "configs")
    monkeypatch.setenv("GAGE_EVAL_DATA_CACHE", str(data / "cache"))


def options(endpoint: MockEndpoint, data: Path) -> list[str]:
    return ["--model", "mock", "--endpoint", endpoint.url, "--data", str(data / "data"), "--inline"]


def summary(run_id: str) -> Summary:
    return Summary.model_validate_json(Path(f".gage/runs/{run_id}/summary.json").read_text())


def subjects(run: Summary) -> dict[str, int]:
    """The samples of each slice of the headlines."""
    heads = [task.metrics[0].key for task in run.tasks]
    return {number.slice_value or "": number.n for task in run.tasks for number in task.slices if number.key in heads}


def test_subjects_of_mmlu_are_a_subset_wherever_their_score_is_shown(
    gage: Gage, endpoint: MockEndpoint, data: Path
) -> None:
    command = ("suite", "mmlu", *options(endpoint, data), "--max-samples", "6", "--run-id")
    said = gage(*command, "two", "--task", "mmlu[abstract_algebra, marketing]")
    assert said.code == 0, said.err
    assert said.out.startswith("mmlu v1, subset · ")
    assert "This is not a score of mmlu v1." in said.out
    run = summary("two")
    assert (run.sample_count, run.tasks[0].sample_count) == (6, 6)
    assert subjects(run).keys() <= {"abstract_algebra", "marketing"}
    assert run.title == "mmlu v1, subset"
    assert run.tasks[0].subset == ["abstract_algebra", "marketing"]
    assert "(subset)" in Path(".gage/runs/two/report.html").read_text()
    for shown in (("show", "two"), ("list", "runs"), ("compare", "two", "two")):
        assert "(subset)" in gage(*shown).out, shown

    # The same data are loaded once, and the same questions are asked once.
    again = gage(
        *command, "three", "--task", "mmlu[market*]", "--task", "mmlu[abstract_algebra]", "--task", "mmlu[anatomy]"
    )
    assert again.code == 0, again.err
    assert [line.split()[:2] for line in again.out.splitlines()[1:3]] == [["load", "cached"], ["standardize", "cached"]]
    assert summary("three").run.reused > 0
    assert "subset" in gage("diff", "two", "three").out


def test_samples_outside_of_the_subset_are_no_verdict_of_a_comparison(
    gage: Gage, endpoint: MockEndpoint, data: Path
) -> None:
    for name, task in (("one", "mmlu[abstract_algebra]"), ("other", "mmlu[marketing]")):
        gage("suite", "mmlu", *options(endpoint, data), "--max-samples", "3", "--run-id", name, "--task", task)
    said = gage("compare", "one", "other")
    assert said.code != 0
    assert "not comparable" in said.err


@pytest.mark.parametrize(
    ("suite", "task", "tasks", "subject"),
    [
        ("math500", "math500[Prealgebra,5]", {"math500": ""}, None),
        ("mmlu", "mmlu[mmlu_other]", {"mmlu": "marketing"}, None),
        ("bbh", "bbh[word_*]", {"direct": "word_sorting", "cot": "word_sorting"}, "word_sorting"),
        ("bbh", "cot[Word_Sorting]", {"cot": "word_sorting"}, "word_sorting"),
        ("agieval", "agieval[sat-math]", {"english": "sat-math"}, "sat-math"),
        ("agieval", "chinese*[gaokao-*]", {"chinese": "", "chinese_several": "", "chinese_cloze": ""}, None),
    ],
)
def test_suites_of_any_form_are_narrowed(
    suite: str, task: str, tasks: dict[str, str], subject: str | None, gage: Gage, endpoint: MockEndpoint, data: Path
) -> None:
    said = gage("suite", suite, *options(endpoint, data), "--max-samples", "2", "--run-id", "r", "--task", task)
    assert said.code == 0, said.err
    run = summary("r")
    assert {task.task_id for task in run.tasks} == tasks.keys()
    assert subject is None or set(subjects(run)) == {subject}


@pytest.mark.parametrize(
    ("suite", "task", "said"),
    [
        ("mmlu", "mmlu[astronmy]", "Did you mean 'astronomy'?"),
        ("mmlu", "mmlu[anatomy,zzz]", "'mmlu' has no subject 'zzz'. Subjects: abstract_algebra"),
        ("mmlu", "astronomy", "A subject is named in brackets: --task 'mmlu[astronomy]'."),
        ("bbh", "word_*", "A subject is named in brackets: --task 'direct[word_*]'."),
        ("mmlu", "zzz", "Tasks: mmlu."),
        ("gsm8k", "easy", "Tasks: gsm8k."),
        ("mmlu", "mmlu[]", "name the subjects"),
        ("mmlu", "mmlu[anatomy", "write a task's name"),
        ("mmlu", "mlu[anatomy]", "Did you mean 'mmlu'?"),
        ("bbh", "bbh[word_sortin]", "Did you mean 'word_sorting'?"),
        ("gsm8k", "gsm8k[easy]", "has no subjects to choose from"),
    ],
)
def test_an_unknown_subject_is_one_sentence_before_anything_is_fetched(
    suite: str, task: str, said: str, gage: Gage, endpoint: MockEndpoint, data: Path
) -> None:
    refused = gage("suite", suite, "--model", "mock", "--endpoint", endpoint.url, "--task", task)
    assert refused.code == 2, refused.out
    assert said in refused.err
    assert len(refused.err.splitlines()) == 1
    assert "fetching" not in refused.out
    assert not Path(".gage/runs").exists()


def test_a_config_of_ones_own_is_narrowed_by_its_slices(endpoint: MockEndpoint) -> None:
    rows = [
        {"question": f"{n}?", "answer": str(n), "metadata": {"topic": "odd" if n % 2 else "even"}} for n in range(9)
    ]
    config: dict[str, Any] = {
        "datasets": [{"dataset_id": "numbers", "params": {"records": rows}}],
        "backends": [{"backend_id": "m", "type": "openai_http", "config": {"base_url": endpoint.url, "model": "mock"}}],
        "metrics": [{"metric_id": "contains", "implementation": "contains", "slices": ["metadata.topic"]}],
    }
    run = gage_eval.run(config, task_ids=["numbers[odd]"], max_samples=3)
    assert run.summary.sample_count == 3
    assert run.summary.label == " (subset)"
    assert subjects(run.summary) == {"odd": 3}
    with pytest.raises(InputError, match="Did you mean 'even'"):
        gage_eval.run(config, task_ids=["numbers[evn]"])
