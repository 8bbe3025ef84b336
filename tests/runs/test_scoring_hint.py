"""A run that waited long for its scores names the setting that makes it shorter, and no other run does."""

import pytest

from gage_eval.report.summary import Executions, Summary
from gage_eval.runs import scoring
from gage_eval.runs.scoring import hint
from tests.report.run_summaries import summary


def taking(evaluation_s: float, wall_s: float) -> Summary:
    plain = summary()
    timings = plain.run.timings.model_copy(update={"evaluation_s": evaluation_s, "wall_runtime_s": wall_s})
    return plain.model_copy(update={"run": plain.run.model_copy(update={"timings": timings})})


@pytest.mark.parametrize(
    ("evaluation_s", "wall_s", "setting", "cores", "said"),
    [
        (30.0, 100.0, None, 4, "GAGE_EVAL_AUTOEVAL_WORKERS=4"),
        (30.0, 100.0, None, 64, "GAGE_EVAL_AUTOEVAL_WORKERS=8"),
        (9.0, 10.0, None, 4, None),
        (30.0, 1000.0, None, 4, None),
        (30.0, 100.0, 1, 4, None),
        (30.0, 100.0, None, 1, None),
    ],
)
def test_slow_scoring_names_its_setting(
    evaluation_s: float,
    wall_s: float,
    setting: int | None,
    cores: int,
    said: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scoring.os, "cpu_count", lambda: cores)
    text = hint(taking(evaluation_s, wall_s), setting)
    assert text is None if said is None else text is not None and said in text


def test_none_is_named_where_programs_took_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scoring.os, "cpu_count", lambda: 4)
    slow = taking(30.0, 100.0)
    ran = Executions(mode="calls", containment="namespaces", statuses={"passed": 1})
    tasks = [task.model_copy(update={"executions": ran}) for task in slow.tasks]
    assert hint(slow.model_copy(update={"tasks": tasks}), None) is None
