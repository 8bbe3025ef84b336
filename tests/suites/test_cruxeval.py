"""CRUXEval: stored answers get their official verdicts, and no answer passes without a prediction."""

import json
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from support.boxes import NEEDS_BOX

import gage_eval
from gage_eval.scoring.extract import cruxeval
from gage_eval.scoring.metrics.aggregations.base import CountedRows, find_aggregation

pytestmark = NEEDS_BOX

ROWS = 60
F = {"id": "a", "code": "def f(x):\n    return x + [1]", "input": "[3]", "output": "[3, 1]"}
MAP = {"id": "b", "code": "def f(x, g):\n    return g(x)", "input": "4, lambda n: n + 1", "output": "5"}
# In the answer's place: what would let an answer pass that predicts nothing.
FORGED_OUTPUTS = (
    "assert f([3]) == f([3])",
    "[3, 1] # f([3])",
    "5 or True",
    "type('E', (), {'__eq__': lambda a, b: True})()",
    "__import__('os')._exit(0)",
    "exit(0)",
    "1)\nraise SystemExit(0)\n(",
    "[3, 1], 'a message'][0:0] or True",
    "",
)
FORGED_INPUTS = (
    "assert [3, 1] or f(1) == [3, 1]",
    "f([0]) or [3, 1]",
    "[3, 1] # f(",
    "f(type('L', (list,), {'__add__': lambda a, b: [3, 1]})())",
    "f([0]) if 0 else [3, 1]",
    "f(globals().update(f=lambda *a: [3, 1]))",
    "f(globals().update(cruxeval_arguments=lambda: (([9],), {})) or [3])",
    "f(exit(0))",
    "[3]",
    "",
)


def statuses(run: gage_eval.Run) -> dict[tuple[str, int], str]:
    """How the program of each answer ended."""
    return {(row.sample["id"], entry["replicate"]): entry["status"] for row in run.rows() for entry in row.executions}


def test_stored_answers_get_every_official_verdict(
    repo_root: Path, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    official = json.loads((shared / "data/replays/cruxeval_codellama_7b/scored_output.json").read_bytes())
    monkeypatch.setenv("LOCAL_DATASETS_ROOT", str(shared / "data"))
    config = repo_root / "configs/pipelines/replays/cruxeval_codellama_7b.yaml"
    run = gage_eval.run(str(config), store=str(tmp_path), max_samples=ROWS)
    ended = statuses(run)
    verdicts = official["raw_scored_generations"]
    expected = {(f"sample_{row}", n): verdicts[f"sample_{row}"][n] for row in range(ROWS) for n in range(10)}
    assert {key: status == "passed" for key, status in ended.items()} == expected
    shares = [[float(verdict) for verdict in verdicts[f"sample_{row}"]] for row in range(ROWS)]
    (first, _) = run.summary.tasks[0].metrics
    assert first.value == pytest.approx(sum(sum(row) / 10 for row in shares) / ROWS)


@pytest.mark.parametrize(
    ("predicts", "right", "forged"),
    [("output", {"a": "== [3, 1]", "b": "5"}, FORGED_OUTPUTS), ("input", {"a": "f([3])", "b": None}, FORGED_INPUTS)],
)
def test_only_a_prediction_passes(
    predicts: str, right: dict[str, str | None], forged: tuple[str, ...], tmp_path: Path
) -> None:
    gold = {row["id"]: f"[ANSWER]\nassert f({row['input']}) == {row['output']}\n[/ANSWER]" for row in (F, MAP)}
    answers: dict[str, list[str | None]] = {
        "a": [gold["a"], right["a"], *forged],
        "b": [gold["b"], right["b"] or gold["b"]],
    }
    answers["b"] += ["6"] * (len(answers["a"]) - 2)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (F, MAP)))
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    run = gage_eval.run(config_of(tmp_path, predicts, len(answers["a"])), store=str(tmp_path / "store"))
    ended = statuses(run)
    assert [ended[key] for key in (("a", 0), ("a", 1), ("b", 0), ("b", 1))] == ["passed"] * 4
    passed = [forged[n - 2] for (name, n), status in ended.items() if name == "a" and n > 1 and status == "passed"]
    # The value is right, and the metric sees the call in it.
    assert passed == [answer for answer in forged if answer == "[3, 1] # f([3])"]
    # One of `a`'s forged answers is no answer for the official scorer; of both rows two are right.
    (mean,) = [metric.value for metric in run.summary.tasks[0].metrics if metric.aggregation == "mean"]
    assert mean == pytest.approx(2 / len(answers["a"]))


def config_of(folder: Path, predicts: str, replicates: int) -> str:
    execution = yaml.safe_load((Path(__file__).parents[2] / "configs/builtin_templates/cruxeval/v1.yaml").read_text())
    task: dict[str, Any] = next(t for t in execution["definition"]["tasks"] if t["task_id"] == predicts)
    config = {
        "datasets": [
            {
                "dataset_id": "d",
                "params": {
                    "path": "rows.jsonl",
                    "preprocess": "cruxeval",
                    "preprocess_kwargs": {"predicts": predicts},
                },
            }
        ],
        "backends": [
            {
                "backend_id": "stored",
                "type": "replay",
                "config": {"path": "answers.json", "answer_field": "{replicate}"},
            }
        ],
        "tasks": [{"task_id": "t", "dataset_id": "d", "replicates": replicates, "execution": task["execution"]}],
        "metrics": ["cruxeval"],
    }
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    return str(file)


def test_what_an_assertion_is_compared_with_is_read_as_the_official_program_would() -> None:
    def value(text: str) -> str | None:
        program = cruxeval.output_program(text)
        return None if program is None else program.partition("(\n")[2].partition("\n)\n")[0]

    assert value("assert f(1) == (1, 2)") == "(1, 2)"
    assert value("1, 'the message'") == "1"
    assert value("'a' # done") == "'a'"
    assert value("5 or True") == "5 or True"
    assert value("'open") == "'open"
    assert value(" ") is None
    assert value("\ud800") == "\ud800"
    assert cruxeval.input_program("f (1)") is None
    deep = cruxeval.input_program("f(" + "(" * 100_000)
    assert deep is not None
    assert "not one call" in deep


@pytest.mark.parametrize("k", [1, 2, 5])
def test_answers_that_are_none_are_left_out_as_in_the_official_scorer(k: int) -> None:
    answers = {0: "RWWD", 1: "RDDD", 2: "DDDD", 3: "WWDD", 4: "RRRW"}
    kinds = [kind for row in answers.values() for kind in row]
    rows = CountedRows(
        np.repeat(np.array([*answers]), 4),
        np.array([float(kind == "R") for kind in kinds]),
        terms=np.array([[float(kind == "D")] for kind in kinds]),
    )

    def official(row: str) -> float:
        verdicts = [kind == "R" for kind in row if kind != "D"]
        verdicts = verdicts if True in verdicts else [False] * len(row)
        n, c = len(verdicts), sum(verdicts)
        # The official code: 1 where fewer than k are wrong, whatever n is; a row of four wrong answers counts 0.
        return 0.0 if not c else 1.0 if n - c < k else 1 - comb(n - c, k) / comb(n, k)

    number = find_aggregation(f"cruxeval_pass@{k}").compute(rows)[""]
    assert number.value == pytest.approx(sum(map(official, answers.values())) / len(answers))
    assert number.samples is None or number.samples == len(answers)
