"""Several judges per answer, and judges that are asked again: what is asked, and what the rule makes of it."""

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.chat_server import ChatServer, chat_server
from support.command import Command, command
from support.waiting import PATIENCE_S

from tests.support.workspace import JUDGED, write_config, write_rows

JUDGES = '''
from pathlib import Path


class Judge:
    """Gives the score that its file says for a sample; a list gives one score for each time it is asked."""

    name = ""

    def generate(self, request):
        sample = request["messages"][-1]["content"]
        with Path("asked.txt").open("a") as file:
            file.write(f"{self.name}:{sample} ")
        times = Path("asked.txt").read_text().split().count(f"{self.name}:{sample}")
        said = self.scores(sample, times)
        return "Hm." if said is None else f"SCORE: {said}"


class Kind(Judge):
    name = "kind"

    def scores(self, sample, times):
        return 1


class Pair:
    """Says A where the longer answer is first, and always for s5: it cannot be moved there."""

    def generate(self, request):
        text = request["messages"][-1]["content"]
        with Path("asked.txt").open("a") as file:
            file.write("pair ")
        sample, first, second = text.split("|")
        return "VERDICT: " + ("A" if sample == "s5" or len(first) > len(second) else "B")


class Strict(Judge):
    name = "strict"

    def scores(self, sample, times):
        return 0


class Mute(Judge):
    name = "mute"

    def scores(self, sample, times):
        return None if times < 3 or sample == "s5" else 1
'''


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    write_rows(tmp_path)
    (tmp_path / "judges.py").write_text(JUDGES)
    return command(tmp_path, capsys, monkeypatch)


def _write(folder: Path, retries: int = 0, **task: Any) -> None:
    judges = ("kind", "strict", "mute")
    backends = [
        {
            "backend_id": name,
            "type": "custom_script",
            "config": {"file_path": "judges.py", "class_name": name.title(), "max_concurrency": 1},
        }
        for name in judges
    ]
    adapters = [
        {"adapter_id": name, "role_type": "judge_model", "backend_id": name, "prompt_id": "verdict"} for name in judges
    ]
    adapters[2]["verdict_retries"] = retries
    write_config(
        folder,
        backends=[JUDGED["backends"][0], *backends],
        role_adapters=[JUDGED["role_adapters"][0], *adapters],
        prompts=[{"prompt_id": "verdict", "template": "{{ sample.id }}"}],
        tasks=[{"task_id": "sums", "dataset_id": "sums", "max_unscored_share": 0.5, **task}],
        metrics=task.pop("metrics"),
    )


def test_a_pair_is_asked_in_both_orders_and_position_bias_is_a_number(tmp_path: Path, gage: Command) -> None:
    pair = """{% set swapped = prompt_params.swapped %}{% set other = "a longer answer" -%}
    {{ sample.id }}|{{ other if swapped else model_answer }}|{{ model_answer if swapped else other }}"""
    judge = {"backend_id": "pair", "type": "custom_script", "config": {"file_path": "judges.py", "class_name": "Pair"}}
    common: dict[str, Any] = {
        "backends": [JUDGED["backends"][0], judge],
        "role_adapters": [
            JUDGED["role_adapters"][0],
            {"adapter_id": "judge", "role_type": "judge_model", "backend_id": "pair", "prompt_id": "pair"},
        ],
        "prompts": [{"prompt_id": "pair", "template": pair}],
        "metrics": ["pairwise_win"],
    }
    task = {"task_id": "sums", "dataset_id": "sums", "both_orders": True}
    write_config(tmp_path, **common, tasks=[task])
    ended = gage("run", "mine.yaml", "--run-id", "first")
    assert ended.code == 0, ended.err
    assert _asked(tmp_path) == ["pair"] * 12
    (summary,) = (orjson.loads(file.read_bytes()) for file in tmp_path.rglob("first/summary.json"))
    numbers = {metric["value_key"]: metric["raw_values"][metric["value_key"]] for metric in summary["metrics"]}
    # Five prompts are lost in both orders; s5 is won by whoever is first.
    assert numbers == {
        "win": pytest.approx(0.5 / 6),
        "consistent": pytest.approx(5 / 6),
        "first_place": pytest.approx(0.5 + 0.5 / 6),
    }
    write_config(tmp_path, **{**common, "prompts": [{"prompt_id": "pair", "template": "?"}]}, tasks=[task])
    ended = gage("run", "mine.yaml")
    assert ended.code == 2
    assert "has one order" in ended.err
    write_config(tmp_path, **{**common, "metrics": ["judge_score"]}, tasks=[task])
    assert "Use pairwise_win" in gage("run", "mine.yaml").err


def _asked(folder: Path) -> list[str]:
    file = folder / "asked.txt"
    names = sorted(file.read_text().split()) if file.exists() else []
    file.write_text("")
    return names


def test_a_panel_asks_every_judge_once_and_a_changed_rule_asks_none(tmp_path: Path, gage: Command) -> None:
    panel = ["kind", "strict", "mute"]
    _write(tmp_path, judges=panel, metrics=[{"panel_pass": {"threshold": 0}}, {"panel_score": {"rule": "median"}}])
    ended = gage("run", "mine.yaml", "--run-id", "first")
    assert ended.code == 0, ended.err
    assert _asked(tmp_path) == sorted(f"{judge}:s{row}" for judge in panel for row in range(6))
    assert "panel_pass" in ended.out
    assert "12 verdicts, 6 missing" in ended.out
    assert "scores of one answer vary by" in ended.out
    assert "0.500" in ended.out
    majority = gage("score", "first", "--metric", "panel_score(rule='majority')")
    assert "no score has the majority" in majority.err
    _write(tmp_path, judges=panel, metrics=[{"panel_score": {"rule": "mean", "min_valid": 2}}])
    assert gage("run", "mine.yaml", "--run-id", "second").code == 0
    assert gage("score", "first", "--metric", "panel_score(min_valid=3)").code == 1
    assert _asked(tmp_path) == []
    shown = gage("show", "first", "--sample", "s1").out
    assert "strict, slot 1" in shown


def test_a_swapped_judge_asks_only_the_new_one(tmp_path: Path, gage: Command) -> None:
    _write(tmp_path, judges=["kind", "strict"], metrics=["panel_score"])
    assert gage("run", "mine.yaml", "--run-id", "first").code == 0
    _asked(tmp_path)
    _write(tmp_path, judges=["kind", "mute"], metrics=["panel_score"])
    assert gage("run", "mine.yaml", "--run-id", "second").code == 0
    assert {name.split(":")[0] for name in _asked(tmp_path)} == {"mute"}


def test_a_verdict_that_cannot_be_read_is_asked_again_and_then_unscored(tmp_path: Path, gage: Command) -> None:
    _write(tmp_path, retries=3, judge_adapter_id="mute", metrics=["judge_score"])
    assert gage("run", "mine.yaml", "--run-id", "first").code == 0
    times = [_asked_once.count(f"mute:s{row}") for _asked_once in [_asked(tmp_path)] for row in range(6)]
    assert times == [3, 3, 3, 3, 3, 4]
    rows = gage("show", "first", "--sample", "s0").out
    assert "draw 2" in rows
    (file,) = tmp_path.rglob("first/summary.json")
    judging = orjson.loads(file.read_bytes())["tasks"][0]["judging"]
    assert (judging["verdicts"], judging["missing"], judging["asked_again"]) == (5, 1, 5)
    _write(tmp_path, retries=4, judge_adapter_id="mute", metrics=["judge_score"])
    assert gage("run", "mine.yaml", "--run-id", "second").code == 0
    assert _asked(tmp_path) == ["mute:s5"]


@pytest.mark.parametrize(
    ("task", "metric", "said"),
    [
        ({"judges": ["kind"]}, "panel_score", "a panel needs two judges"),
        ({"judges": ["kind", "kind"]}, "panel_score", "names a judge twice"),
        ({"judges": ["kind", "kin"]}, "panel_score", "Did you mean 'kind'"),
        ({"judges": ["kind", "strict"], "judge_adapter_id": "mute"}, "panel_score", "are both given"),
        ({"judges": ["kind", "strict"]}, "judge_score", "reads one verdict"),
        ({"judge_adapter_id": "kind"}, "panel_score", "the task asks for one"),
        ({"judges": ["kind", "strict"]}, {"panel_pass": {"min_valid": 3}}, "needs 3 valid verdicts"),
    ],
)
def test_a_wrong_panel_is_refused_before_anything_is_asked(
    tmp_path: Path, gage: Command, task: dict[str, Any], metric: Any, said: str
) -> None:
    _write(tmp_path, metrics=[metric], **task)
    ended = gage("run", "mine.yaml")
    assert ended.code == 2
    assert said in ended.err
    assert _asked(tmp_path) == []


def test_the_seats_of_a_panel_are_asked_at_the_same_time(tmp_path: Path, gage: Command) -> None:
    """Each request waits until the other seat has one open, too."""
    both = threading.Barrier(2)

    def reply(body: dict[str, Any]) -> str:
        both.wait(PATIENCE_S)
        return "SCORE: 1"

    with chat_server(reply) as judge:
        _write_seats(tmp_path, judge, judge)
        ended = gage("run", "mine.yaml", "--run-id", "first")
        assert ended.code == 0, ended.err
        assert Counter(body["model"] for body in judge.asked) == {"one": 6, "two": 6}
        assert "12 verdicts" in ended.out


def test_a_sequential_run_asks_one_seat_after_the_other(
    tmp_path: Path, gage: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAGE_EVAL_SEQUENTIAL", "1")
    with chat_server(lambda body: "SCORE: 1") as judge:
        _write_seats(tmp_path, judge, judge)
        ended = gage("run", "mine.yaml", "--run-id", "first")
        assert ended.code == 0, ended.err
        assert [body["model"] for body in judge.asked] == ["one"] * 6 + ["two"] * 6


def test_a_seat_whose_endpoint_fails_leaves_the_answers_of_the_others(tmp_path: Path, gage: Command) -> None:
    with chat_server(lambda body: "SCORE: 1") as judge, chat_server(lambda body: 401) as broken:
        _write_seats(tmp_path, broken, judge)
        ended = gage("run", "mine.yaml", "--run-id", "first")
        assert ended.code == 1
        assert f"judge stopped: {broken.url} answers 401" in ended.err
        assert len(judge.asked) == 6
        # With another judge in its place, the other seat is not asked again.
        _write_seats(tmp_path, judge, judge)
        assert gage("run", "mine.yaml", "--run-id", "second").code == 0
        assert Counter(body["model"] for body in judge.asked) == {"one": 6, "two": 6}


def _write_seats(folder: Path, *servers: ChatServer) -> None:
    """A panel of two seats behind endpoints, one request at a time each."""
    names = ("one", "two")
    judges = [
        {
            "backend_id": name,
            "type": "openai_http",
            "config": {"base_url": server.url, "model": name, "max_concurrency": 1, "max_attempts": 1},
        }
        for name, server in zip(names, servers, strict=True)
    ]
    seats = [
        {"adapter_id": name, "role_type": "judge_model", "backend_id": name, "prompt_id": "verdict"} for name in names
    ]
    write_config(
        folder,
        backends=[JUDGED["backends"][0], *judges],
        role_adapters=[JUDGED["role_adapters"][0], *seats],
        prompts=[{"prompt_id": "verdict", "template": "{{ sample.id }}"}],
        tasks=[{"task_id": "sums", "dataset_id": "sums", "judges": list(names)}],
        metrics=["panel_score"],
    )
