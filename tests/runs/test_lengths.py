"""A plan says that the token limit is too short, from the lengths of the same model's earlier answers."""

from pathlib import Path
from typing import Any

import pytest

from gage_eval.runs.inline import run_inline
from gage_eval.runs.lengths import short_limits
from gage_eval.runs.options import RunOptions
from gage_eval.runs.planned import planned
from tests.support.workspace import write_config, write_rows

# The answer to the n-th sum has n tokens; from the 90th on it loops.
MODEL = """
class Model:
    def __init__(self, path, **rest):
        pass
    def generate(self, request):
        count = int(request["messages"][-1]["content"].split()[0])
        most = request.get("max_new_tokens", 1000)
        text = "again " * 90 if count >= 90 else "a sum"
        done = {"answer": text, "completion_tokens": min(count, most)}
        return {**done, "finish_reason": "length"} if count >= most or count >= 90 else done
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path, 100)
    (tmp_path / "models.py").write_text(MODEL)
    return tmp_path


def options(folder: Path, limit: int | None, **changes: Any) -> RunOptions:
    params = {} if limit is None else {"max_new_tokens": limit}
    backend = {"file_path": "models.py", "class_name": "Model", "path": "small", "default_params": params}
    task = {"task_id": "sums", "dataset_id": "sums", **changes}
    file = write_config(
        folder,
        backends=[{"backend_id": "model", "type": "custom_script", "config": backend}],
        tasks=[task],
    )
    return RunOptions(config=str(file), run_id=f"run-{limit}")


def limits_of(folder: Path, limit: int | None, **changes: Any) -> list[str]:
    run = planned(options(folder, limit, **changes))
    return [limit.sentence for limit in short_limits(run.plan, run.locations)]


def test_a_limit_that_more_than_five_percent_of_earlier_answers_exceed_is_named(folder: Path) -> None:
    assert limits_of(folder, 50) == [], "nothing is known before the first run"
    run_inline(options(folder, None))
    assert limits_of(folder, 80) == [
        "sums: the longest 5 % of 90 earlier answers (run run-None) have 85 tokens or more, and the limit is 80: "
        "about 10.0 % would be cut. Raise max_new_tokens."
    ], "the nine answers of 81 to 89 tokens; the ten that looped would not fit any limit"
    assert limits_of(folder, 86) == []
    assert limits_of(folder, None) == []
    assert limits_of(folder, 86, sampling_params={"max_new_tokens": 9})[0].endswith(
        "would be cut. Raise max_new_tokens."
    )


def test_answers_that_were_cut_at_the_limit_are_longer_than_it(folder: Path) -> None:
    run_inline(options(folder, 60))
    (sentence,) = limits_of(folder, 60)
    assert "have 60 tokens or more, and the limit is 60: about 33.3 % would be cut" in sentence
    assert limits_of(folder, 61) == [], "how long they would be is not known"
