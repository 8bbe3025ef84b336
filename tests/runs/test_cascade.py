"""A rule before the judges and a second judge after them: who is asked about what, and what a change asks again."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from crash.processes import Gage, until
from support.command import Command, command
from support.waiting import PATIENCE_S

from tests.support.workspace import JUDGED, write_config, write_rows

JUDGES = """
import math
import time
from pathlib import Path


class Judge:
    def __init__(self, model=None):
        pass

    def generate(self, request):
        sample = request["messages"][-1]["content"]
        with Path("asked.txt").open("a") as file:
            file.write(f"{type(self).__name__.lower()}:{sample}\\n")
        said = self.say(int(sample[1:]), request)
        said = said if isinstance(said, dict) else {"answer": said}
        return {**said, "prompt_tokens": 10, "completion_tokens": 2}


class Unsure(Judge):
    # Sure of even samples.
    def say(self, number, request):
        top = [("yes", 0.9), ("no", 0.1)] if number % 2 == 0 else [("yes", 0.6), ("no", 0.4)]
        tops = [{"token": token, "logprob": math.log(p)} for token, p in top]
        return {"answer": "yes", "logprobs": {"content": [{**tops[0], "top_logprobs": tops}]}}


class Kind(Judge):
    def say(self, number, request):
        return "SCORE: 1"


class Strict(Judge):
    def say(self, number, request):
        return "SCORE: 0" if number in (2, 4) else "mumble" if number == 5 else "SCORE: 1"


class Large(Judge):
    def say(self, number, request):
        while number == 3 and Path("hold.txt").exists():
            time.sleep(0.05)
        if Path("down.txt").exists() and number == int(Path("down.txt").read_text()):
            raise RuntimeError("out of order")
        return "SCORE: 0"


class Larger(Large):
    pass


class Moody(Judge):
    # Another verdict on s3 each time.
    def say(self, number, request):
        asked = Path("asked.txt").read_text().count(f"moody:s{number}\\n")
        return f"SCORE: {asked % 2 if number == 3 else 1}"
"""
NAMES = ("unsure", "kind", "strict", "large", "larger", "moody")
SURE = {"adapter_id": "large", "below": 0.8}


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    write_rows(tmp_path)
    (tmp_path / "judges.py").write_text(JUDGES)
    return command(tmp_path, capsys, monkeypatch)


def _write(folder: Path, *, metrics: list[Any] | None = None, **task: Any) -> None:
    script = {"file_path": "judges.py", "max_concurrency": 1}
    prices = {"input_price": 1.0, "output_price": 1_000_000.0}
    backends = [
        {"backend_id": name, "type": "custom_script", "config": {**script, **prices, "class_name": name.title()}}
        for name in NAMES
    ]
    adapters: list[dict[str, Any]] = [
        {"adapter_id": name, "role_type": "judge_model", "backend_id": name, "prompt_id": "verdict"} for name in NAMES
    ]
    adapters[0] |= {"verdict": "labels", "verdict_labels": {"yes": 1, "no": 0}}
    write_config(
        folder,
        backends=[JUDGED["backends"][0], *backends],
        role_adapters=[JUDGED["role_adapters"][0], *adapters],
        prompts=[{"prompt_id": "verdict", "template": "{{ sample.id }}"}],
        tasks=[{"task_id": "sums", "dataset_id": "sums", "max_unscored_share": 0.5, **task}],
        metrics=metrics or ["judge_threshold"],
    )


def _asked(folder: Path) -> list[str]:
    """Who was asked about which sample since the last call."""
    file = folder / "asked.txt"
    names = sorted(file.read_text().split()) if file.exists() else []
    file.write_text("")
    return names


def _task(folder: Path, run: str) -> Any:
    (file,) = folder.rglob(f"{run}/summary.json")
    return orjson.loads(file.read_bytes())["tasks"][0]


def _run(gage: Command, name: str) -> str:
    ended = gage("run", "mine.yaml", "--run-id", name)
    assert ended.code == 0, ended.err
    return str(ended.out)


def _planned(gage: Command) -> tuple[int | None, int | None]:
    """How many requests the plan has for the judges, and how many at most."""
    stages = orjson.loads(gage("plan", "mine.yaml", "--json").out)["stages"]
    judge = next(stage for stage in stages if stage["stage"] == "judge")
    return judge["to_send"], judge["at_most"]


def test_a_rule_spares_the_judge_and_every_verdict_says_who_gave_it(tmp_path: Path, gage: Command) -> None:
    # The model says 2 every time, which is right for s1.
    both = ["exact_match", {"panel_score": {"min_valid": 2}}]
    _write(tmp_path, metrics=both, judges=["kind", "large"], judge_rule={"metric": "exact_match"})
    said = _run(gage, "first")
    assert _asked(tmp_path) == sorted(f"{judge}:s{row}" for judge in ("kind", "large") for row in (0, 2, 3, 4, 5))
    assert "decided by" in said
    task = _task(tmp_path, "first")
    assert task["judging"]["decided_by"] == {"rule": 1, "kind": 5, "large": 5}
    assert task["judging"]["verdicts"] == 10
    assert task["metrics"][1]["raw_values"]["score"] == pytest.approx((1 + 5 * 0.5) / 6)
    assert "rule" in gage("show", "first", "--sample", "s1").out
    # A rule that decides wrong answers as well, and on another scale, asks nothing.
    rule = {"metric": "exact_match", "values": [0, 1], "scale": [1, 9]}
    _write(tmp_path, metrics=both, judges=["kind", "large"], judge_rule=rule)
    _run(gage, "second")
    assert _asked(tmp_path) == []
    assert _task(tmp_path, "second")["metrics"][1]["raw_values"]["score"] == pytest.approx((9 + 5) / 6)
    # Without it, only the answer that it had decided is asked about.
    _write(tmp_path, metrics=both, judges=["kind", "large"])
    assert _planned(gage) == (2, 2)
    _run(gage, "third")
    assert _asked(tmp_path) == ["kind:s1", "large:s1"]


def test_the_second_judge_is_asked_where_the_first_is_not_sure(tmp_path: Path, gage: Command) -> None:
    _write(tmp_path, judge_adapter_id="unsure", second_judge=SURE)
    _run(gage, "first")
    assert _asked(tmp_path) == ["large:s1", "large:s3", "large:s5", *(f"unsure:s{row}" for row in range(6))]
    task = _task(tmp_path, "first")
    assert task["judging"]["decided_by"] == {"unsure": 3, "large": 3}
    assert task["metrics"][0]["raw_values"]["score"] == 0.5
    assert task["judging"]["completion_tokens"] == 18
    assert task["judging"]["cost"] == pytest.approx(9 * (2 + 10 / 1_000_000))
    assert task["judging"]["seconds"] > 0
    shown = gage("show", "first", "--sample", "s1").out
    assert shown.count("judge, as sent") == 2
    assert "large" in shown
    assert '"first"' in gage("sql", "SELECT parsed FROM judgments WHERE decided_by = 'large'").out
    # Another second judge asks its own rows only, and a lower threshold nothing.
    _write(tmp_path, judge_adapter_id="unsure", second_judge={**SURE, "adapter_id": "larger"})
    assert _planned(gage) == (0, 6)
    _run(gage, "second")
    assert _asked(tmp_path) == ["larger:s1", "larger:s3", "larger:s5"]
    _write(tmp_path, judge_adapter_id="unsure", second_judge={**SURE, "below": 0.5})
    _run(gage, "third")
    assert _asked(tmp_path) == []
    assert _task(tmp_path, "third")["judging"]["decided_by"] == {"unsure": 6}


def test_a_second_judge_that_failed_is_asked_again_alone(tmp_path: Path, gage: Command) -> None:
    (tmp_path / "down.txt").write_text("3")
    _write(tmp_path, judge_adapter_id="unsure", second_judge=SURE)
    ended = gage("run", "mine.yaml", "--run-id", "first")
    assert ended.code == 1
    assert "gage judge first --only-failed" in ended.err
    _asked(tmp_path)
    (tmp_path / "down.txt").unlink()
    assert gage("judge", "first", "--only-failed", "--inline").code == 0
    assert _asked(tmp_path) == ["large:s3"]


@pytest.mark.slow
def test_a_run_that_is_killed_while_the_second_judge_answers_asks_for_the_rest_alone(tmp_path: Path) -> None:
    write_rows(tmp_path)
    (tmp_path / "judges.py").write_text(JUDGES)
    (tmp_path / "hold.txt").touch()
    _write(tmp_path, judge_adapter_id="unsure", second_judge=SURE)
    process = Gage(tmp_path).start("run", "mine.yaml", "--run-id", "first")
    log = tmp_path / "asked.txt"
    assert until(lambda: log.exists() and "large:s3" in log.read_text(), process)
    process.kill()
    process.wait(PATIENCE_S)
    (tmp_path / "hold.txt").unlink()
    assert "large:s1" in _asked(tmp_path)
    Gage(tmp_path).finish("resume", "first")
    assert _asked(tmp_path) == ["large:s3", "large:s5"]
    assert _task(tmp_path, "first")["judging"]["decided_by"] == {"unsure": 3, "large": 3}


def test_equal_questions_are_asked_once_and_a_judge_that_is_the_model_is_said(tmp_path: Path, gage: Command) -> None:
    _write(tmp_path, judge_adapter_id="kind", metrics=["judge_score"])
    config = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    config["prompts"][0]["template"] = "s{{ model_answer }}"
    config["backends"][0]["config"]["model"] = "other/Small-7B"
    config["backends"][2]["config"]["model"] = "org/small-1b"
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config))
    said = _run(gage, "first")
    # All six answers are 2, and the prompt shows the answer only.
    assert _asked(tmp_path) == ["kind:s2"]
    task = _task(tmp_path, "first")
    assert task["judging"]["cost"] == pytest.approx(2 + 10 / 1_000_000)
    assert "perhaps of the model's family (both names begin with 'small')" in " ".join(said.split())
    # People refuse half of the answers that the judge of the family accepts.
    people = [{"sample_id": f"s{row}", "label": row % 2} for row in range(6)]
    (tmp_path / "people.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in people))
    config["tasks"][0]["labels"] = {"path": "people.jsonl", "scale": [0, 1]}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config))
    _run(gage, "labelled")
    (own,) = _task(tmp_path, "labelled")["judging"]["self_preference"]
    assert (own["judge"], own["against"], own["difference"], own["answers"]) == ("kind", "people", 0.5, 6)
    assert own["ci_low"] < 0.5 < own["ci_high"]
    del config["tasks"][0]["labels"]
    config["backends"][0]["config"]["answer"] = "3"
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config))
    assert _planned(gage) == (None, 6), "answers that are not there yet may all differ"
    assert "at most 6 requests" in gage("plan", "mine.yaml").out


def test_a_panel_or_draws_that_disagree_ask_the_second_judge(tmp_path: Path, gage: Command) -> None:
    majority = [{"panel_score": {"rule": "majority", "min_valid": 2}}]
    panel: dict[str, Any] = {"metrics": majority, "second_judge": {"adapter_id": "large"}}
    _write(tmp_path, judges=["kind", "strict"], **panel)
    _run(gage, "first")
    # Of s5, one of them gave no verdict.
    assert [name for name in _asked(tmp_path) if name.startswith("large")] == ["large:s2", "large:s4", "large:s5"]
    assert _task(tmp_path, "first")["metrics"][0]["raw_values"]["score"] == 0.5
    _write(tmp_path, judge_adapter_id="moody", judge_draws=3, **panel)
    _run(gage, "second")
    assert _asked(tmp_path) == ["large:s3", *sorted(f"moody:s{row}" for row in range(6) for _ in range(3))]
    assert _task(tmp_path, "second")["judging"]["decided_by"] == {"moody": 5, "large": 1}
    # Another rule of the panel asks nothing.
    _write(tmp_path, judge_adapter_id="moody", judge_draws=3, **{**panel, "metrics": ["panel_score"]})
    _run(gage, "third")
    assert _asked(tmp_path) == []


@pytest.mark.parametrize(
    ("task", "metrics", "said"),
    [
        ({"judge_rule": {"metric": "exact_math"}}, ["exact_match", "judge_score"], "Did you mean 'exact_match'"),
        ({"judge_rule": {"metric": "judge_score"}}, ["judge_score"], "reads judgments"),
        ({"judge_rule": {"metric": "latency"}}, ["judge_score", "latency"], "reads response_telemetry"),
        ({"judge_rule": {"metric": "exact_match", "values": [7]}}, ["exact_match", "judge_score"], "never has the"),
        ({"judge_rule": {"metric": "exact_match", "scale": [9, 1]}}, ["exact_match", "judge_score"], "a scale is"),
        ({"judge_rule": {"metric": "text_length", "scale": [1, 9]}}, ["text_length", "judge_score"], "from 0 to 1"),
        ({"judge_rule": {"metric": "exact_match"}}, ["exact_match", "judge_rating"], "judge_output.text"),
        ({"judge_rule": {"metric": "exact_match"}, "both_orders": True}, ["exact_match"], "compares two"),
        ({"second_judge": {"adapter_id": "kind"}}, None, "is one of the first"),
        ({"second_judge": {"adapter_id": "large"}}, None, "cannot disagree"),
        ({"second_judge": SURE}, None, "gives no probabilities"),
        ({"second_judge": {"adapter_id": "lage", "below": 0.5}}, None, "Did you mean 'large'"),
        ({"second_judge": {"adapter_id": "dut", "below": 0.5}}, None, "no judge 'dut'"),
        ({"second_judge": {"adapter_id": "lage"}}, None, "Did you mean 'large'"),
        ({"second_judge": {**SURE, "below": 1.5}}, None, "below"),
        ({"judge_draws": 2}, None, "reads one verdict"),
        ({"judge_draws": 2, "judge_adapter_id": "unsure"}, ["panel_score"], "the same each time"),
        ({"judge_draws": 0}, None, "judge_draws"),
        ({"judge_rule": {"metric": "exact_match"}, "steps": ["inference"]}, ["exact_match"], "has no judge"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_asked(
    tmp_path: Path, gage: Command, task: dict[str, Any], metrics: list[Any] | None, said: str
) -> None:
    own = {} if "steps" in task else {"judge_adapter_id": "kind"}
    _write(tmp_path, metrics=metrics, **{**own, **task})
    ended = gage("validate", "mine.yaml")
    assert ended.code == 2, ended.out
    assert said in ended.err
    assert not (tmp_path / "asked.txt").exists()
