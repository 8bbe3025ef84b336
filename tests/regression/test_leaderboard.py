"""Promises of leaderboards: games against the samples' other answers, ratings that exist, and ranks beyond chance."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from support.command import Command, command

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
