"""Simulated users in preview and plan: what they say is what a run then asks."""

import json
from pathlib import Path
from typing import Any

import pytest
from runs.test_simulated_users import ADAPTERS, write

import gage_eval
from tests.cli.conftest import Gage
from tests.support.workspace import ROWS

SYSTEM = {"role": "system", "content": "Help."}


def with_user(**user: Any) -> list[dict[str, Any]]:
    """The adapters with changes of the user's."""
    return [ADAPTERS[0], {**ADAPTERS[1], **user}, *ADAPTERS[2:]]


def infer_planned(gage: Gage) -> dict[str, Any]:
    stages: list[dict[str, Any]] = gage("plan", "mine.yaml", "--json").json["stages"]
    return next(stage for stage in stages if stage["stage"] == "infer")


def test_a_user_who_speaks_first_is_shown_with_the_request_that_a_run_sends(gage: Gage, workspace: Path) -> None:
    write(workspace, adapters=with_user(simulator={"stop": "over\x1b[2J", "max_turns": 7}))
    (workspace / "rows.jsonl").write_text(json.dumps({"id": "s0", "messages": [SYSTEM]}))
    (request,) = gage("preview", "mine.yaml", "--json").json["requests"]
    user = request["user"]
    assert (user["adapter_id"], user["model"], user["script"]) == ("customer", "plug.py:Customer", None)
    assert (user["stop"], user["max_turns"], user["speaks_first"]) == ("over\x1b[2J", 7, True)
    assert user["body"]["messages"] == [
        {"role": "system", "content": "You want s0."},
        {"role": "user", "content": "Hello! How can I help you?"},
    ]
    said = gage("preview", "mine.yaml").out
    assert "  [system]\n    Help.\n  [user]\n    … what the simulated user says\nsimulated user customer" in said
    assert "at most 7 turns" in said
    assert "\x1b" not in said
    gage("run", "mine.yaml", "--inline")
    (turns,) = gage_eval.sql("SELECT turns FROM responses")["turns"].to_pylist()
    assert user["response_key"] == next(turn["call_key"] for turn in turns if turn["actor"] == "user")


def test_a_user_who_answers_sees_the_roles_swapped_and_the_place_of_the_models_answer(
    gage: Gage, workspace: Path
) -> None:
    write(workspace)
    user = gage("preview", "mine.yaml", "-n", "1", "--json").json["requests"][0]["user"]
    assert [message["role"] for message in user["body"]["messages"]] == ["system", "assistant"]
    assert user["response_key"] is None, "the model's answer is part of the request"
    said = gage("preview", "mine.yaml", "-n", "1").out
    assert "  [assistant]\n    0 + 1 = ?\n  [user]\n    … the model's answer\n" in said


def test_a_script_is_shown_with_its_first_turn_and_asks_nothing(gage: Gage, workspace: Path) -> None:
    write(workspace, user="script")
    record = {"id": "s0", "messages": [SYSTEM], "metadata": {"user_turns": ["Buy tea.", "Thanks."]}}
    (workspace / "rows.jsonl").write_text(json.dumps(record))
    user = gage("preview", "mine.yaml", "--json").json["requests"][0]["user"]
    assert (user["model"], user["body"], len(user["script"])) == (None, None, 2)
    assert "2 turns of a script" in (said := gage("preview", "mine.yaml").out)
    assert "  [first turn]\n    Buy tea.\n" in said
    write(workspace, user=None)
    (workspace / "rows.jsonl").write_text(json.dumps(record))
    gage("run", "mine.yaml", "--inline")
    write(workspace, user="script")
    (workspace / "rows.jsonl").write_text(json.dumps(record))
    infer = infer_planned(gage)
    assert (infer["to_send"], infer["user"]) == (1, None)


def test_a_plan_counts_the_turns_that_are_not_stored_and_what_they_cost(gage: Gage, workspace: Path) -> None:
    write(workspace)
    gage("run", "mine.yaml", "--inline", "--run-id", "first")
    assert infer_planned(gage)["user"] is None
    # Each answer took 10 tokens: of the model at 10, and of the user at 100 for a million.
    write(workspace, "Another wish.", adapters=with_user(simulator={"max_turns": 5}))
    infer, turns = infer_planned(gage), ROWS * 5
    assert infer["user"] == {
        "adapter_id": "customer",
        "model": "plug.py:Customer",
        "episodes": ROWS,
        "turns": turns,
        "at_most": turns,
        "tokens": turns * 10,
        "cost": pytest.approx(turns * 10 * 100 / 1e6),
    }
    assert infer["cost"] == pytest.approx(ROWS * 2 * 10 * 10 / 1e6), "two turns of the model each"
    said = gage("plan", "mine.yaml").out
    assert f"at most {turns} turns of the simulated user customer (plug.py:Customer) for {ROWS} episodes, about" in said
    assert f"about {turns * 10} tokens, cost 0.03" in said
    write(workspace, adapters=with_user(tools=["tau2_mock_user"], tool_rounds=3, simulator={"max_turns": 5}))
    user = infer_planned(gage)["user"]
    assert (user["turns"], user["at_most"]) == (turns, turns * 4), "a turn may call tools three times before"


def test_a_plan_without_earlier_conversations_knows_no_tokens(gage: Gage, workspace: Path) -> None:
    write(workspace, user=None)
    gage("run", "mine.yaml", "--inline")
    write(workspace)
    user = infer_planned(gage)["user"]
    assert (user["turns"], user["tokens"], user["cost"]) == (ROWS * 20, None, None)
