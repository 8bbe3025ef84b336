"""The public statistics give the same numbers for lists, arrays and frames, and those of their building blocks."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gage_eval import stats

BEFORE = [1, 1, 1, 1, 0, 0, 1, 1, 0, 1] * 20
NOW = [1, 1, 0, 1, 0, 0, 0, 1, 0, 1] * 20
DOCUMENTS = [n // 10 for n in range(200)]


def frame(scores: list[int]) -> dict[str, list[object]]:
    return {"id": [f"s{n}" for n in range(len(scores))], "score": [*scores], "document": [*DOCUMENTS]}


def test_a_comparison_is_the_same_for_every_form_of_the_scores() -> None:
    plain = stats.compare(BEFORE, NOW)
    assert (plain.test, plain.difference, plain.n) == ("mcnemar", pytest.approx(-0.2), 200)
    assert plain.p == stats.mcnemar(0, 40)
    before, now = frame(BEFORE), frame(NOW)
    records = [dict(zip(now, row, strict=True)) for row in zip(*now.values(), strict=True)]
    for a, b in (
        (before, now),
        (pd.DataFrame(before), pd.DataFrame(now).sample(frac=1, random_state=1)),
        (pa.table(before), records),
    ):
        paired = stats.pair(a, b)
        assert paired.rows.n == 200
        assert stats.compare(paired.rows.baseline[0], paired.rows.current) == plain
    assert stats.compare(np.array(BEFORE, bool), np.array(NOW, bool)) == plain


def test_clusters_widen_the_interval_and_repeats_show_the_noise_of_runs() -> None:
    clustered = stats.compare(BEFORE, NOW, clusters=DOCUMENTS)
    assert clustered.test == "t"
    paired = stats.pair(frame(BEFORE), frame(NOW), cluster="document")
    assert stats.compare(paired.rows.baseline[0], paired.rows.current, clusters=paired.rows.clusters) == clustered
    assert stats.compare([BEFORE] * 3, NOW).noise is not None
    assert stats.compare(BEFORE, NOW, higher_is_better=False).difference == pytest.approx(0.2)


def test_the_gate_and_the_alarm_decide_on_plain_numbers() -> None:
    verdict = stats.gate([BEFORE] * 5, NOW)
    assert verdict.verdict == "regressed"
    assert stats.alarm(verdict.evidence, stats.GateRule(), year=2026, repeats=5).rings
    assert stats.gate(BEFORE, BEFORE).verdict == "passed"
    assert stats.gate(BEFORE, NOW, stats.GateRule(tolerance=0.5)).verdict == "passed"


def test_an_interval_is_wilsons_for_shares_and_students_for_numbers() -> None:
    share = stats.score_interval(BEFORE)
    assert share.interval == stats.wilson_interval(140, 200)
    clustered = stats.score_interval(BEFORE, clusters=[n // 2 for n in range(200)])
    assert clustered.stderr == stats.clustered_stderr(BEFORE, [n // 2 for n in range(200)])
    numbers = stats.score_interval([0.5, 1.5, 4.0])
    assert numbers.interval == stats.t_interval(2.0, numbers.stderr, 2)
    assert stats.score_interval([1.0, 2.0], weights=[1, 3]).mean == 1.75
    assert stats.score_interval([]) == stats.ScoreInterval(0, None)


def test_rows_of_one_id_are_replicates_and_rows_without_a_score_have_no_partner() -> None:
    before = [{"id": "a", "score": 1}, {"id": "a", "score": 0}, {"id": "b", "score": 1}, {"id": "c", "score": None}]
    now = [
        {"id": "a", "score": 1},
        {"id": "b", "score": float("nan")},
        {"id": "c", "score": 1},
        {"id": "d", "score": 1},
    ]
    paired = stats.pair(before, now)
    assert (paired.ids, paired.unpaired, paired.unpaired_share) == (["a"], 3, 0.75)
    assert paired.rows.baseline.tolist() == [[0.5]]
    assert paired.changed == (["a"], [])


@pytest.mark.parametrize(
    "call",
    [
        lambda: stats.compare([1, 0], [1, float("nan")]),
        lambda: stats.compare([1, 0, 1], [1, 0]),
        lambda: stats.compare([1, 0], [1, 0], clusters=["a"]),
        lambda: stats.score_interval([1, 0], weights=[1]),
    ],
)
def test_scores_that_do_not_fit_are_refused(call: object) -> None:
    with pytest.raises(ValueError):
        call()  # type: ignore[operator]


def test_every_public_name_exists_and_scoring_loads_none_that_it_does_not_need() -> None:
    assert [name for name in stats.__all__ if not hasattr(stats, name)] == []
    program = "import sys, gage_eval.stats; print('gage_eval.stats.verdicts' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_the_page_runs_from_top_to_bottom() -> None:
    page = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec("\n".join(blocks), {})
