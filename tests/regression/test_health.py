"""Promises of `gage health`: planted wrong golds, copies, leaks, flips and dead items are found."""

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from gage_eval.base.errors import InputError
from gage_eval.regression.health import Health, health, health_of, table
from gage_eval.regression.stored_answers import folded_answer, runs_of_words, stored_answers
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.tabular import write_table
from tests.support.workspace import write_config

MODELS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
SOLUTION = "first we take the apples from the basket then we count every one of them twice and add"


class Lab:
    """Runs of recorded answers to the same items."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.locations = folder, Locations.at(str(folder / "store"))

    def rows(self, *records: dict[str, Any]) -> None:
        self._write("rows.jsonl", records)

    def run(self, run_id: str, answers: dict[str, str], *, file: str = "", **changes: Any) -> None:
        name = file or f"{run_id}.jsonl"
        self._write(name, [{"id": key, "output": text} for key, text in answers.items()])
        replay = {"path": name, "answer_field": "output"}
        sections = {"backends": [{"backend_id": "model", "type": "replay", "config": replay}], **changes}
        config = write_config(self.folder, f"{run_id}.yaml", **sections)
        run_inline(RunOptions(config=str(config), run_id=run_id, store=str(self.folder / "store")))

    def health(self) -> Health:
        (result,), _ = health(self.locations, "small")
        return result

    def _write(self, name: str, records: Any) -> None:
        (self.folder / name).write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def sums(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "question": f"What is {name}?", "answer": f"gold of {name}"} for name in names]


def found(result: Health, kind: str) -> dict[str, str]:
    return {finding.item.sample_id: finding.detail for finding in result.of_kind(kind)}


def test_swapped_golds_of_gsm8k_are_among_the_first_fifty(
    repo_root: Path, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "replays" / "gsm8k_openai_solutions" / "example_model_solutions.jsonl"
    here.parent.mkdir(parents=True)
    rows = [orjson.loads(line) for line in (shared / "data" / here.relative_to(tmp_path)).read_bytes().splitlines()]
    agreed = [row for row in rows if all(row[name]["is_correct"] for name in MODELS)]
    swapped = random.Random(35).sample(agreed, 20)
    golds = [row["ground_truth"].rpartition("A: ")[2] for row in swapped]
    for row, gold in zip(swapped, [*golds[1:], golds[0]], strict=True):
        text, _, own = row["ground_truth"].rpartition("A: ")
        row["ground_truth"] = f"{text}A: {gold if gold != own else gold + '1'}"
    here.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    monkeypatch.setenv("LOCAL_DATASETS_ROOT", str(tmp_path))
    config = repo_root / "configs" / "pipelines" / "replays" / "gsm8k_openai_solutions.yaml"
    store = str(tmp_path / "store")
    run_inline(RunOptions(config=str(config), run_id="a", store=store))

    (result,), _ = health(Locations.at(store), "gsm8k_openai_solutions")

    questions = {" ".join(row["question"].split()) for row in swapped}
    first = [" ".join(finding.item.question.split()) for finding in result.of_kind(None)[:50]]
    assert len(questions & set(first)) >= 18
    assert len(result.models) == 4
    assert result.models[0].name.endswith("(175b_verification)")
    # Swapped ones are wrong by all models, so they tell nothing, as do the items that all have right.
    assert len(found(result, "dead")) >= len(agreed)
    assert result.effective == 1319 - len(found(result, "dead"))


def test_planted_golds_copies_and_dead_items_are_found(lab: Lab) -> None:
    names = [f"q{n}" for n in range(20)]
    copy = {"id": "copy", "question": "  what IS q1?", "answer": "another gold"}
    lab.rows(*sums(*names), copy)
    right = {name: f"gold of {name}" for name in [*names, "copy"]}
    lab.run("strong", {**right, "q0": "Paris", "q2": "no", "q3": "no idea"})
    lab.run("other", {**right, "q0": "paris.", "q2": "nothing", "q4": "none"})
    result = lab.health()

    assert found(result, "gold") == {
        "q0": "2 of 2 strong models say paris",
        "copy": "2 of 2 strong models say gold of copy",
    }
    assert found(result, "duplicate") == {"q1": "as copy, with another gold", "copy": "as q1, with another gold"}
    dead = found(result, "dead")
    assert dead["q0"] == dead["q2"] == "wrong by all 2 models"
    assert dead["q5"] == "right by all 2 models"
    assert "q3" not in dead
    assert "q4" not in dead
    assert result.effective == 2
    assert [finding.kind for finding in result.findings][:1] == ["gold"]


def test_a_model_that_has_the_gold_ends_the_doubt_and_agreement_needs_two(lab: Lab) -> None:
    names = [f"q{n}" for n in range(12)]
    lab.rows(*sums(*names))
    right = {name: f"gold of {name}" for name in names}
    for run_id, own in (("a", {"q0": "x", "q1": "x"}), ("b", {"q0": "x", "q1": "y"}), ("c", {"q1": "z"})):
        lab.run(run_id, {**right, **own})
    assert found(lab.health(), "gold") == {}


def test_a_leaked_solution_is_found_and_the_words_of_the_question_are_not_one(lab: Lab) -> None:
    lab.rows(
        {"id": "leaked", "question": "How many?", "answer": "four", "metadata": {"solution": SOLUTION}},
        {"id": "asked", "question": f"Say: {SOLUTION}", "answer": "x", "metadata": {"solution": SOLUTION}},
        # The reference itself may be said: it is the right answer.
        {"id": "long", "question": "Sort the words", "answer": SOLUTION},
        {"id": "short", "question": "And now?", "answer": "four"},
    )
    lab.run("a", {"leaked": f"Well, {SOLUTION.upper()}", "asked": SOLUTION, "long": SOLUTION, "short": "four"})
    result = lab.health()
    assert found(result, "leak") == {"leaked": "the solution is repeated by a.jsonl"}
    assert result.effective is None
    assert "Only one model has answered: golds and dead items need two." in result.lacking
    assert found(result, "dead") == {}


def test_repeats_flip_and_copies_of_stored_answers_are_no_repeats(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.rows(*sums("q0", "q1"))
    lab.run("a", {"q0": "gold of q0", "q1": "gold of q1"})
    config = str(tmp_path / "a.yaml")
    # The same again: every answer comes from the store.
    run_inline(RunOptions(config=config, run_id="b", store=str(tmp_path / "store")))
    result = lab.health()
    assert result.flip_rate is None
    assert result.left_out == {"the same answers as of a newer run": 1}
    assert [vote.runs for vote in result.models] == [1]

    answers, _ = stored_answers(lab.locations, "small")
    (only,) = answers
    first = only.sets[0]
    repeat = type(first)(first.run_id, first.task_id, first.model, first.definition)
    repeat.values, repeat.right, repeat.own = {**first.values, "q0": 0.0}, {**first.right, "q0": False}, {"q0", "q1"}
    only.sets.append(repeat)
    flipped = health_of(only)
    assert found(flipped, "flip") == {"q0": "1 of 1 pairs of repeats differ"}
    assert flipped.flip_rate == 0.5
    repeat.own = set()
    assert health_of(only).flip_rate is None


def test_another_text_of_a_question_is_another_item(lab: Lab) -> None:
    lab.rows(*sums("q0", "q1"))
    lab.run("old", {"q0": "no", "q1": "gold of q1"})
    changed = sums("q0", "q1")
    changed[0]["answer"] = "corrected"
    lab.rows(*changed)
    lab.run("new", {"q0": "corrected", "q1": "gold of q1"})
    result = lab.health()
    assert result.left_out == {"some answers are to an earlier text of their questions": 1}
    assert found(result, "dead") == {"q1": "right by all 2 models"}
    assert [finding.item.gold for finding in result.of_kind("dead")] == ["gold of q1"]


def test_a_metric_under_another_name_is_the_same_and_an_unknown_one_is_told(lab: Lab) -> None:
    lab.rows(*sums("q0"))
    named = {"metric_id": "renamed", "implementation": "exact_match"}
    lab.run("a", {"q0": "no"}, metrics=[named])
    lab.run("b", {"q0": "no"}, metrics=["rouge"])
    lab.run("c", {"q0": "nothing"})
    result = lab.health()
    assert result.left_out == {"no metric 'exact_match'": 1}
    assert sorted(vote.name for vote in result.models) == ["a.jsonl", "c.jsonl"]


def test_odd_runs_are_told_and_leave_the_others(lab: Lab) -> None:
    lab.rows(*sums("q0"))
    for run_id in ("whole", "failed", "lost", "damaged"):
        lab.run(run_id, {"q0": run_id})
    runs = lab.folder / "store" / "runs"
    record = orjson.loads((runs / "failed" / "run.json").read_bytes())
    (runs / "failed" / "run.json").write_bytes(orjson.dumps({**record, "status": "failed"}))
    (runs / "damaged" / "run.json").write_bytes(b"{")
    outputs = orjson.loads((runs / "lost" / "run.json").read_bytes())["stages"]
    lost = outputs["sums/infer"]["outputs"]["responses"]
    for kept in (lab.folder / "store").glob(f"**/*{lost}*"):
        shutil.rmtree(kept) if kept.is_dir() else kept.unlink()

    (result,), skipped = health(lab.locations, "small")

    assert [vote.name for vote in result.models] == ["whole.jsonl"]
    assert skipped.pop("it is failed") == 1
    assert sum(skipped.values()) + sum(result.left_out.values()) == 2
    with pytest.raises(InputError, match=r"no run of 'smal' can be read\. Suites and configs with stored runs: small"):
        health(lab.locations, "smal")


def test_the_list_for_the_authors_holds_hostile_texts_as_text(lab: Lab) -> None:
    hostile = '=HYPERLINK("http://x")\x1b[2J\u202e,\n"quoted"'
    lab.rows({"id": "-1+1", "question": hostile, "answer": hostile}, {"id": "b", "question": hostile, "answer": "<b>"})
    lab.run("a", {"-1+1": "x" * 100_000, "b": "\x00\ud7ff{{ 7 * 7 }}"})
    lab.run("c", {"-1+1": "x" * 100_000, "b": ""})
    results, _ = health(lab.locations, "small")
    for suffix in ("csv", "jsonl"):
        write_table(table(results), lab.folder / f"list.{suffix}")
    lines = [orjson.loads(line) for line in (lab.folder / "list.jsonl").read_bytes().splitlines()]
    assert Counter(line["kind"] for line in lines)["duplicate"] == 2
    assert max(len(line["detail"]) for line in lines) < 1000
    assert "'-1+1" in (lab.folder / "list.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("first", "other", "same"),
    [
        ("18", "18.0", True),
        ("$1,800.", "1800", True),
        ("Paris", " paris! ", True),
        ("-5", "5", False),
        ("B", "C", False),
    ],
)
def test_answers_are_compared_by_what_they_say(first: str, other: str, same: bool) -> None:
    assert (folded_answer(first) == folded_answer(other)) is same


def test_numbers_are_no_words_of_a_solution() -> None:
    assert runs_of_words("3 + 4 = 7 " * 20) == set()
