"""Promises of leaderboards: games against the samples' other answers, ratings that exist, and ranks beyond chance."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import yaml
from support.command import Command, command

from gage_eval.regression.style import style_of
from gage_eval.stats import length_controlled_win_rate
from tests.support.workspace import JUDGED, write_config, write_rows

COUNT = 60

# The longer answer wins; answers of one length are won by whoever is first.
JUDGE = """
class Longer:
    def generate(self, request):
        first, second = request["messages"][-1]["content"].split("|")
        return "VERDICT: " + ("A" if len(first) >= len(second) else "B")
"""
PAIR = """{% set swapped, other = prompt_params.swapped, "12345" -%}
{{ other if swapped else model_answer }}|{{ model_answer if swapped else other }}"""


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    write_rows(tmp_path, COUNT)
    (tmp_path / "judge.py").write_text(JUDGE)
    # How many answers are longer than the other one, and how many as long.
    models = []
    for name, longer, equal in (("best", COUNT, 0), ("good", 45, 5), ("weak", 15, 5)):
        lengths = [7] * longer + [5] * equal + [2] * (COUNT - longer - equal)
        rows = [{"id": f"s{at}", "output": "x" * length} for at, length in enumerate(lengths)]
        (tmp_path / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        models.append({"name": name, "options": {"overrides": [f"backends.model.config.path={name}.jsonl"]}})
    (tmp_path / "matrix.yaml").write_text(yaml.safe_dump({"rows": [{"config": "mine.yaml"}], "models": models}))
    model: dict[str, Any] = {
        "backend_id": "model",
        "type": "replay",
        "config": {"path": "good.jsonl", "answer_field": "output"},
    }
    judge = {
        "backend_id": "strict",
        "type": "custom_script",
        "config": {"file_path": "judge.py", "class_name": "Longer"},
    }
    write_config(
        tmp_path,
        backends=[model, judge],
        role_adapters=JUDGED["role_adapters"],
        prompts=[{"prompt_id": "verdict", "template": PAIR}],
        tasks=[{"task_id": "pairs", "dataset_id": "sums", "both_orders": True, "judge_adapter_id": "judge"}],
        metrics=["exact_match", "pairwise_win"],
    )
    return command(tmp_path, capsys, monkeypatch)


def test_models_are_rated_against_the_other_answers_and_ranked_beyond_chance(tmp_path: Path, gage: Command) -> None:
    said = gage("matrix", "matrix.yaml", "--to", "table.svg", "--to", "table.md")
    assert said.code == 0, said.err
    board = [line.split("  ") for line in said.out.splitlines() if line.startswith(("best", "good", "weak"))]
    assert [line[0] for line in board] == ["best", "good", "weak"]
    assert "> all" in said.out
    figure = (tmp_path / "table.svg").read_text(encoding="utf-8")
    assert "rating" in figure
    assert "&gt; all" in figure
    assert "good" in figure
    assert "Bradley–Terry" in (tmp_path / "table.md").read_text(encoding="utf-8")
    best, good, weak = orjson.loads(gage("matrix", "matrix.yaml", "--json").out)["ratings"]
    assert (best["exists"], best["rating"], best["win_rate"], best["better_than"]) == (False, None, 1.0, 2)
    # 47.5 of 60 are won: 400·log10(47.5 / 12.5)
    assert good["win_rate"] == pytest.approx(47.5 / 60)
    assert good["rating"] == pytest.approx(231.9, abs=0.1)
    assert good["rating_low"] < good["rating"] < good["rating_high"]
    assert (good["better_than"], weak["better_than"]) == (1, 0)
    assert weak["rating"] == pytest.approx(-154.1, abs=0.1)
    assert good["consistent"] == pytest.approx(55 / 60)
    assert good["position_bias"] == pytest.approx(2.5 / 60)


def test_a_task_without_pairs_has_no_leaderboard(tmp_path: Path, gage: Command) -> None:
    said = gage("matrix", "matrix.yaml")
    assert said.out.count("win rates") == 1
    config = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    config["metrics"] = ["exact_match"]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config))
    said = gage("matrix", "matrix.yaml")
    assert said.code == 0
    assert "win rates" not in said.out
    assert orjson.loads(gage("matrix", "matrix.yaml", "--json").out)["ratings"] == []


# Likes long answers and those of "g", and notes what it is asked.
LIKES_LENGTH = """
from pathlib import Path

def worth(text):
    return len(text) + sum(map(ord, text)) % 37 + 15 * ("g" in text)

class Longer:
    def generate(self, request):
        first, second = request["messages"][-1]["content"].split("|")
        with Path("asked.txt").open("a") as file:
            file.write(".")
        return "VERDICT: " + ("A" if worth(first) >= worth(second) else "B")
"""


@pytest.fixture
def controlled(tmp_path: Path, gage: Command) -> Command:
    """Two models that answer the same samples, whose other answers and difficulties are fields."""
    random = np.random.RandomState(5)
    rows: list[dict[str, Any]] = []
    for at in range(120):
        own, other, weak = (int(x) for x in random.randint(20, 70, 3))
        markdown = "# T\n- **x** " if at % 4 == 0 else ""
        answers = {"good": markdown + "g" * own, "weak": "w" * weak, "baseline": "b" * other}
        rows.append({"id": f"s{at}", "question": "?", "difficulty": float(random.normal()), **answers})
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    (tmp_path / "judge.py").write_text(LIKES_LENGTH)
    config = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    names = ("good", "weak", "baseline", "difficulty")
    config["datasets"][0]["params"]["preprocess_kwargs"] = {"fields": {f"metadata.{name}": name for name in names}}
    config["backends"][0]["config"] = {"match": "field", "sample_field": "metadata.good"}
    config["prompts"] = [{"prompt_id": "verdict", "template": "{{ pair.a.answer }}|{{ pair.b.answer }}"}]
    config["tasks"][0]["against"] = {"field": "metadata.baseline"}
    params = {"difficulty_field": "metadata.difficulty"}
    config["metrics"] = ["pairwise_win", {"metric_id": "length_controlled_win", "params": params}]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config))
    models = [
        {"name": name, "options": {"overrides": [f"backends.model.config.sample_field=metadata.{name}"]}}
        for name in ("good", "weak")
    ]
    (tmp_path / "matrix.yaml").write_text(yaml.safe_dump({"rows": [{"config": "mine.yaml"}], "models": models}))
    return gage


def _expected(folder: Path, name: str) -> float | None:
    space: dict[str, Any] = {}
    exec(LIKES_LENGTH, space)
    rows = [orjson.loads(line) for line in (folder / "rows.jsonl").read_bytes().splitlines()]
    pairs = [(space["worth"](row[name]), space["worth"](row["baseline"])) for row in rows]
    wins = np.array([((a >= b) + (a > b)) / 2 for a, b in pairs])
    longer = np.array([len(row[name]) - len(row["baseline"]) for row in rows], float)
    return length_controlled_win_rate(wins, longer, np.array([row["difficulty"] for row in rows]))


def test_length_and_style_are_taken_out_of_a_leaderboard(tmp_path: Path, controlled: Command) -> None:
    said = controlled("matrix", "matrix.yaml")
    assert said.code == 0, said.err
    assert "at equal length" in said.out
    assert "at equal style" in said.out
    for rating in orjson.loads(controlled("matrix", "matrix.yaml", "--json").out)["ratings"]:
        at_equal_length = rating["win_rate_at_equal_length"]
        assert at_equal_length == pytest.approx(_expected(tmp_path, rating["model"]), abs=1e-9)
        assert rating["rating_at_equal_style"] is not None
        assert rating["rating_at_equal_style"] != pytest.approx(rating["rating"], abs=1)


@pytest.mark.slow
def test_another_table_of_difficulties_scores_again_and_asks_nothing(tmp_path: Path, controlled: Command) -> None:
    def rate(run_id: str) -> float:
        (file,) = tmp_path.rglob(f"{run_id}/summary.json")
        metrics = orjson.loads(file.read_bytes())["metrics"]
        metric = next(metric for metric in metrics if metric["implementation"] == "length_controlled_win")
        return float(metric["raw_values"]["win"])

    assert controlled("run", "mine.yaml", "--run-id", "first").code == 0
    log = (tmp_path / "asked.txt").read_text()
    assert rate("first") == pytest.approx(_expected(tmp_path, "good"), abs=1e-9)
    rows = [orjson.loads(line) for line in (tmp_path / "rows.jsonl").read_bytes().splitlines()]
    changed = ({**row, "difficulty": row["difficulty"] * len(row["good"]) / 40} for row in rows)
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in changed))
    assert controlled("run", "mine.yaml", "--run-id", "second").code == 0
    assert rate("second") != rate("first")
    assert rate("second") == pytest.approx(_expected(tmp_path, "good"), abs=1e-9)
    assert (tmp_path / "asked.txt").read_text() == log


def test_a_length_controlled_rate_without_a_table_or_with_other_lengths_is_refused(
    tmp_path: Path, controlled: Command
) -> None:
    said = controlled("run", "mine.yaml", "--set", "metrics.length_controlled_win.params={}")
    assert said.code == 2
    assert "needs a table of the instructions' difficulty" in said.err
    said = controlled("run", "mine.yaml", "--set", "tasks.pairs.against.field=metadata.weak")
    assert said.code == 2
    assert "name the same field in both" in said.err
    # Named, and in no sample.
    rows = [orjson.loads(line) for line in (tmp_path / "rows.jsonl").read_bytes().splitlines()]
    for row in rows:
        del row["difficulty"]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    said = controlled("run", "mine.yaml")
    assert said.code != 0
    assert "the difficulty 'None' is not a number" in said.err


def test_style_is_counted_outside_of_code() -> None:
    text = "# One\n1. a\n  - **b** __c__\n```\n# no\n- no\n**no**\n```\n#hash ** x\n"
    assert style_of(text) == (len(text), 1, 2, 2)
