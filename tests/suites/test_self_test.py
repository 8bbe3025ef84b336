"""The tests of code suites accept the suites' own solutions, and let no wrong, empty or attacking program through."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.boxes import NEEDS_BOX

from bench.programs import CODE_SUITES, code_suite
from gage_eval.authoring.attacks import ATTACKS, WRONG, Attack
from gage_eval.authoring.self_test import TaskSelfTest, self_test
from gage_eval.base.errors import InputError
from gage_eval.config.suites.card import Attacks
from gage_eval.config.suites.templates import suite_info
from gage_eval.observability.observer import Observers
from gage_eval.runs.options import RunOptions
from tests.cli.conftest import Gage, gage, workspace

__all__ = ["gage", "workspace"]

# The larger of the two plus suites takes longest, and mbpp_plus shows the same.
SUITES = [pytest.param(name, marks=[pytest.mark.slow] * (name == "humaneval_plus")) for name in CODE_SUITES]
SHARED = Path(__file__).parents[3] / "shared" / "data"
WRONG_ANSWERS = {
    WRONG: Attack(),
    "nothing": Attack(when_called="return None"),
    "its first argument": Attack(when_called="return values[0]"),
    "an error": Attack(when_called="raise ValueError('no')"),
}


def outcome_of(name: str, folder: Path, attacks: dict[str, Attack], rows: int | None, **options: Any) -> TaskSelfTest:
    if not (SHARED / name).is_dir():
        pytest.skip(f"no data of {name} in ../shared/data")
    suite_options = code_suite(name, folder, max_samples=rows, task_ids=(name,), **options)
    (result,) = self_test(suite_options, Observers(), attacks)
    return result


@NEEDS_BOX
@pytest.mark.parametrize("name", SUITES)
def test_canonical_programs_pass_and_an_empty_answer_does_not(name: str, tmp_path: Path) -> None:
    # The plus suites take minutes: all of their problems are run by make bench, and empty answers by the test below.
    is_plus = name.endswith("_plus")
    result = outcome_of(name, tmp_path, {} if is_plus else {WRONG: Attack()}, 40 if is_plus else None)
    assert (result.problems, result.without_solution) == (40 if is_plus else CODE_SUITES[name], [])
    assert list(result.failed) == {"mbpp": ["367"]}.get(name, [])
    assert result.lenient == []


@NEEDS_BOX
@pytest.mark.parametrize("name", SUITES)
def test_no_wrong_answer_and_no_attack_on_ten_problems_of_a_suite_passes(name: str, tmp_path: Path) -> None:
    result = outcome_of(name, tmp_path, {**WRONG_ANSWERS, **ATTACKS}, 10)
    assert (result.mode, result.problems, result.is_as_expected) == ("calls", 10, True)
    assert {attack for attack, ids in result.passed.items() if ids} == set()


@NEEDS_BOX
def test_no_attack_that_is_an_expression_completes_an_assertion_of_cruxeval() -> None:
    data = SHARED / "cruxeval"
    if not data.is_dir():
        pytest.skip("no data of cruxeval in ../shared/data")
    options = RunOptions(config="suite:cruxeval", data_dir=str(data), max_samples=10)
    output, predicted = self_test(options, Observers(), {**WRONG_ANSWERS, **ATTACKS})
    for result in (output, predicted):
        assert (result.mode, result.problems, result.failed) == ("calls", 10, {})
        assert {attack for attack, ids in result.passed.items() if ids} == set()
    assert output.lenient == []
    # Any text is an answer to this one, which shows that what attacks return is really compared.
    assert predicted.lenient == ["sample_9"]


@NEEDS_BOX
@pytest.mark.parametrize(
    ("name", "rows"),
    [("humaneval", 10), ("mbpp", 3), ("humaneval_plus", 2), pytest.param("mbpp_plus", 10, marks=pytest.mark.slow)],
)
def test_the_attacks_that_pass_in_script_are_those_that_the_card_counts(name: str, rows: int, tmp_path: Path) -> None:
    result = outcome_of(name, tmp_path, dict(ATTACKS), rows, overrides=(f"tasks.{name}.execution.mode=script",))
    passing = {attack for attack, ids in result.passed.items() if ids}
    card = suite_info(name).card
    assert card is not None
    assert card.attacks == Attacks(passed=len(passing), tried=len(ATTACKS) - 1), passing
    assert {"equal to all", "patched compile and exec", "frames of the harness", "messages of the harness"} <= passing
    assert "exits before the tests" not in passing
    assert result.is_as_expected
    text = "\n".join(result.lines())
    assert f"attacks: {len(passing)} of {len(ATTACKS) - 1} pass" in text
    assert "can be forged" in text


@NEEDS_BOX
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("mode=script", "(forgeable: 6 of 31 attacks pass)"),
        # Other tests than the suite's.
        ("filters=[]", "(forgeable, not attacked)"),
    ],
)
def test_the_number_of_attacks_stands_beside_the_score(gage: Gage, change: str, said: str) -> None:
    if not (SHARED / "humaneval").is_dir():
        pytest.skip("no data of humaneval in ../shared/data")
    section = "tasks.humaneval.execution."
    settings = [("--set", f"{section}{setting}") for setting in ("mode=script", change)]
    data = ("--data", str(SHARED / "humaneval"), "--max-samples", "1", "--engine", "dummy")
    result = gage("suite", "humaneval", *data, *(word for setting in settings for word in setting))
    assert said in " ".join(result.out.split()), result.err


def own_rows(folder: Path, reference: str, **execution: Any) -> RunOptions:
    row = {"question": "Print the double.", "answer": reference, "metadata": {"in": ["2", "5"], "out": ["4", "10"]}}
    (folder / "rows.jsonl").write_text(json.dumps(row) + "\n")
    section = {"mode": "stdio", "inputs": "metadata.in", "outputs": "metadata.out", **execution}
    config = {
        "datasets": [{"dataset_id": "rows", "params": {"path": "rows.jsonl"}}],
        "tasks": [{"task_id": "doubles", "dataset_id": "rows", "execution": section}],
        "backends": [{"backend_id": "model", "type": "dummy"}],
        "metrics": ["execution_passed"],
    }
    (folder / "own.yaml").write_text(yaml.safe_dump(config))
    return RunOptions(config=str(folder / "own.yaml"))


@NEEDS_BOX
def test_programs_that_read_stdin_are_attacked_too_and_a_wrong_solution_is_seen(tmp_path: Path) -> None:
    (right,) = self_test(own_rows(tmp_path, "print(2 * int(input()))"), Observers())
    assert (right.mode, right.failed, right.is_as_expected) == ("stdio", {}, True)
    (wrong,) = self_test(own_rows(tmp_path, "print(3 * int(input()))"), Observers(), {})
    assert len(wrong.failed) == 1
    assert not wrong.is_as_expected


@pytest.mark.parametrize(
    ("section", "said"), [({"allow_unsafe": True}, "only in a box"), ({"work_pool": "boxes"}, "only on this machine")]
)
def test_attacks_run_only_in_a_box_of_this_machine(section: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        self_test(own_rows(tmp_path, "print(1)", **section), Observers())


def test_a_suite_without_programs_is_refused_in_one_sentence(gage: Gage) -> None:
    said = gage("suite", "demo", "--self-test")
    assert said.code != 0
    assert said.err.count("\n") <= 1
    assert "runs no programs" in said.err


@NEEDS_BOX
def test_the_command_says_what_passes(gage: Gage) -> None:
    if not (SHARED / "humaneval").is_dir():
        pytest.skip("no data of humaneval in ../shared/data")
    data = ("--data", str(SHARED / "humaneval"), "--max-samples", "2")
    said = gage("suite", "humaneval", "--self-test", *data)
    assert said.code == 0, said.err
    assert "its own solutions: 2 of 2 pass" in said.out
    assert f"attacks: 0 of {len(ATTACKS) - 1} pass" in said.out
