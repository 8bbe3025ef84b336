"""Promises of gate policies: what decides alone, what decides together, what only speaks; all problems at once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from gage_eval.base.errors import ConfigError, InputError
from gage_eval.regression.baselines import Baselines
from gage_eval.regression.gating import GateResult, gate
from gage_eval.regression.policy import GatePolicy, Tier, deciding, policy_verdict, regresses
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from gage_eval.stats.evidence import Evidence, PairedRows, evidence
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.verdicts import MetricVerdict, Verdict, decide
from gage_eval.store import Store


def right_and_wrong(n: int, better: int, worse: int) -> Evidence:
    baseline, current = np.ones(n), np.ones(n)
    baseline[:better] = 0
    current[better : better + worse] = 0
    return evidence(PairedRows(current, baseline[None], binary=True))


PASSED, WORSE = right_and_wrong(2000, 5, 5), right_and_wrong(1000, 0, 80)
BETTER, UNSURE = right_and_wrong(1000, 80, 0), right_and_wrong(60, 2, 2)


def verdicts(*numbers: Evidence) -> list[MetricVerdict]:
    return list(decide({str(at): number for at, number in enumerate(numbers)}).values())


@pytest.mark.parametrize(
    ("numbers", "unwatched", "expected"),
    [
        ([PASSED, PASSED], (), "passed"),
        ([PASSED, UNSURE], (), "inconclusive"),
        ([PASSED, WORSE, UNSURE], (), "regressed"),
        ([PASSED, BETTER], (), "improved"),
        ([BETTER, UNSURE], (), "inconclusive"),
        ([], (), "inconclusive"),
        ([PASSED], ["b"], "inconclusive"),
        ([BETTER], ["b"], "inconclusive"),
        ([WORSE], ["b"], "regressed"),
    ],
)
def test_without_a_policy_every_number_decides(
    numbers: list[Evidence], unwatched: Sequence[str], expected: Verdict
) -> None:
    assert policy_verdict(None, [None] * len(numbers), verdicts(*numbers), unwatched) == expected


POLICY = GatePolicy.model_validate({"critical": ["a"], "supporting": ["b", "c", "d"], "advisory": ["e"]})
TIERS: list[Tier] = ["critical", "supporting", "supporting", "supporting", "advisory"]


@pytest.mark.parametrize(
    ("numbers", "expected", "because"),
    [
        ([WORSE, PASSED, PASSED, PASSED, PASSED], "regressed", [0]),
        ([PASSED, WORSE, PASSED, PASSED, PASSED], "passed", []),
        ([PASSED, WORSE, WORSE, PASSED, PASSED], "regressed", [1, 2]),
        ([WORSE, WORSE, PASSED, PASSED, PASSED], "regressed", [0]),
        ([PASSED, PASSED, PASSED, PASSED, WORSE], "passed", []),
        ([PASSED, PASSED, PASSED, PASSED, UNSURE], "passed", []),
        ([UNSURE, PASSED, PASSED, PASSED, PASSED], "inconclusive", []),
        ([PASSED, UNSURE, PASSED, PASSED, PASSED], "passed", []),
        ([PASSED, UNSURE, WORSE, PASSED, PASSED], "inconclusive", []),
        ([BETTER, PASSED, PASSED, PASSED, WORSE], "improved", []),
    ],
)
def test_critical_numbers_decide_alone_supporting_ones_together_and_advisory_ones_never(
    numbers: list[Evidence], expected: Verdict, because: list[int]
) -> None:
    of_numbers = verdicts(*numbers)
    assert policy_verdict(POLICY, TIERS, of_numbers) == expected
    assert deciding(POLICY, TIERS, of_numbers, counts=regresses) == because


def read(folder: Path, text: str) -> GatePolicy:
    file = folder / "policy.yaml"
    file.write_text(text, encoding="utf-8")
    return GatePolicy.read(file)


def test_a_policy_file_is_read_with_short_and_long_entries(tmp_path: Path) -> None:
    policy = read(
        tmp_path,
        "critical: [exact_match]\nadvisory: [{metric: latency p90, task: t, tolerance: 50, mode: tolerance}]\n",
    )
    assert policy.critical[0].metric == "exact_match"
    assert policy.advisory[0].rule(GateRule(alpha=0.01)) == GateRule(tolerance=50, mode="tolerance", alpha=0.01)
    assert policy.supporting_regressions == 2
    assert not policy.require_evidence


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("critical: [{metric: a, tolerance: -1}]\nurgent: [b]\nsupporting_regressions: 0\n", 3),
        ("critical: [a, a]\nsupporting: [b, c, a]\n", 2),
        ("advisory: [a]\n", 1),
        ("", 1),
        ("critical: a\n", 1),
        ("critical: [{task: t}]\n", 1),
    ],
)
def test_all_problems_of_a_policy_file_are_said_at_once(tmp_path: Path, text: str, problems: int) -> None:
    with pytest.raises(ConfigError, match=r"policy\.yaml") as refused:
        read(tmp_path, text)
    assert len(refused.value.problems) == problems


def test_a_missing_file_and_one_that_is_no_yaml_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no policy file"):
        GatePolicy.read(tmp_path / "none.yaml")
    with pytest.raises(InputError):
        read(tmp_path, "critical: [a\n")


ROWS = 300


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., RunReader]:
    """Makes a run of two tasks, of which so many answers are right, with two numbers each."""

    def make(run_id: str, **right: int) -> RunReader:
        answers = [
            {"id": f"{name}-{n}", "output": str(n) if n < count else "no"}
            for name, count in right.items()
            for n in range(ROWS)
        ]
        (tmp_path / f"{run_id}.jsonl").write_bytes(b"\n".join(map(orjson.dumps, answers)))
        records = {
            name: [{"id": f"{name}-{n}", "question": f"{n}?", "answer": str(n)} for n in range(ROWS)] for name in right
        }
        recorded = {"path": f"{run_id}.jsonl", "answer_field": "output"}
        config = {
            "metadata": {"name": "policies"},
            "datasets": [
                {"dataset_id": name, "loader": "inline", "params": {"records": rows}} for name, rows in records.items()
            ],
            "backends": [{"backend_id": "model", "type": "replay", "config": recorded}],
            "metrics": ["exact_match", "token_f1"],
            "tasks": [{"task_id": name, "dataset_id": name} for name in right],
        }
        (tmp_path / f"{run_id}.yaml").write_bytes(orjson.dumps(config))
        store = str(tmp_path / "store")
        run_inline(RunOptions(config=str(tmp_path / f"{run_id}.yaml"), run_id=run_id, store=store))
        return RunReader.open(Locations.at(store), run_id)

    return make


def gated(before: RunReader, now: RunReader, policy: dict[str, Any], name: str = "main") -> GateResult:
    baselines = Baselines(Store.open(before.stored.folder.locations.store))
    entry = baselines.add(name, [before], promote=False, policy=GatePolicy.model_validate(policy))
    # The policy of the baseline decides where none is named.
    assert entry.policy is not None
    return gate(now, baselines.latest("policies", name), GateRule())


def test_a_number_without_a_task_stands_for_every_task_that_has_it(run: Callable[..., RunReader]) -> None:
    before, now = run("a", one=250, two=250), run("b", one=250, two=150)
    result = gated(before, now, {"critical": [{"metric": "exact_match", "task": "one"}], "advisory": ["token_f1 f1"]})
    assert [(task.comparison.task_id, task.comparison.measure.name, task.tier) for task in result.tasks] == [
        ("one", "exact_match", "critical"),
        ("one", "token_f1 f1", "advisory"),
        ("two", "token_f1 f1", "advisory"),
    ]
    assert result.verdict == "passed"
    assert "two token_f1 f1 regressed; it is advisory" in result.remarks
    assert result.metrics == {"one": ["exact_match", "token_f1 f1"], "two": ["token_f1 f1"]}
    again = gate(now, result.entry, GateRule(), metric="exact_match")
    assert (again.policy, again.verdict) == (None, "regressed"), "a named metric decides alone"


def test_supporting_numbers_fail_a_run_together(run: Callable[..., RunReader]) -> None:
    before, now = run("a", one=250, two=250), run("b", one=250, two=150)
    supporting = {"supporting": ["exact_match", "token_f1 f1"]}
    assert gated(before, now, supporting).verdict == "regressed"
    three = gated(before, now, {**supporting, "supporting_regressions": 3}, "three")
    assert (three.verdict, three.regressed) == ("passed", [])
    assert "2 of 4 supporting metrics regressed; 3 fail the run" in three.remarks


def test_a_tier_s_own_tolerance_is_taken(run: Callable[..., RunReader]) -> None:
    before, now = run("a", one=250), run("b", one=230)
    strict = {"critical": ["exact_match"]}
    loose = {"critical": [{"metric": "exact_match", "tolerance": 0.2}]}
    assert gated(before, now, strict).verdict == "regressed"
    assert gated(before, now, loose, "loose").verdict == "passed"


def test_what_is_undecided_fails_a_policy_that_asks_for_evidence(run: Callable[..., RunReader]) -> None:
    before, now = run("a", one=250), run("b", one=246)
    undecided = gated(before, now, {"critical": ["exact_match"], "require_evidence": True})
    assert (undecided.verdict, undecided.lacks_evidence) == ("inconclusive", True)
    assert not gated(before, now, {"critical": ["exact_match"]}, "lenient").lacks_evidence


def test_all_that_does_not_fit_the_run_is_said_at_once(run: Callable[..., RunReader]) -> None:
    before = run("a", one=250)
    policy = {
        "critical": ["exact_mach", {"metric": "exact_match", "task": "two"}],
        "supporting": ["token_f1 f1"],
        "advisory": ["token_f1"],
    }
    with pytest.raises(ConfigError) as refused:
        gated(before, before, policy)
    assert [problem.path for problem in refused.value.problems] == ["critical[0]", "critical[1]", "advisory[0]"]
    assert "Did you mean 'exact_match'?" in str(refused.value)
    with pytest.raises(ConfigError, match="there are only 1"):
        gated(before, before, {"supporting": ["token_f1 f1"]})


def test_a_promotion_keeps_the_policy(run: Callable[..., RunReader]) -> None:
    before = run("a", one=250)
    baselines = Baselines(Store.open(before.stored.folder.locations.store))
    policy = GatePolicy.model_validate({"critical": ["exact_match"]})
    baselines.add("main", [before], promote=False, policy=policy)
    assert baselines.add("main", [before], promote=True).policy == policy
