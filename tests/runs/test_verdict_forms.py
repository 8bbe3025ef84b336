"""A judge whose verdict is a probability: from the config to the score, its calibration, and what is refused."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from support.command import Command, command

from tests.support.workspace import JUDGED, write_config, write_rows

JUDGE = """
import math
from pathlib import Path


class Sure:
    def generate(self, request):
        with Path("asked.txt").open("a") as file:
            file.write("x")
        assert (request["logprobs"], request["max_new_tokens"]) == (True, 1)
        form, number = request["messages"][-1]["content"].split()
        assert form == "labels"
        number = int(number[1:])
        top = [("yes", 0.8), ("no", 0.1)] if number % 2 else [("no", 0.7), ("yes", 0.3)]
        if number == 9:
            top = [("<think>", 0.9)]
        tops = [{"token": token, "logprob": math.log(p)} for token, p in top]
        return {"answer": top[0][0], "logprobs": {"content": [{**tops[0], "top_logprobs": tops}]}}


class Thinking(Sure):
    def generate(self, request):
        messages = request["messages"]
        if len(messages) == 1:
            assert "logprobs" not in request
            return "It is " + messages[0]["content"].split()[1]
        assert messages[1] == {"role": "assistant", "content": "It is " + messages[0]["content"].split()[1]}
        assert "one of no, yes" in messages[2]["content"]
        return super().generate({**request, "messages": messages[:1]})


class Json:
    def generate(self, request):
        assert request["response_format"]["type"] == "json_schema"
        form, number = request["messages"][-1]["content"].split()
        return '{"reasoning": "as I say", "verdict": "%s"}' % ("yes" if int(number[1:]) % 2 else "no")
"""


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    write_rows(tmp_path, 10)
    (tmp_path / "judge.py").write_text(JUDGE)
    return command(tmp_path, capsys, monkeypatch)


def _write(
    folder: Path, kind: str = "Sure", metric: str = "judge_share", task: dict[str, Any] | None = None, **adapter: Any
) -> None:
    judge: dict[str, Any] = {
        "backend_id": "strict",
        "type": "custom_script",
        "config": {"file_path": "judge.py", "class_name": kind},
    }
    if kind == "dummy":
        judge = JUDGED["backends"][1]
    write_config(
        folder,
        backends=[JUDGED["backends"][0], judge],
        role_adapters=[JUDGED["role_adapters"][0], {**JUDGED["role_adapters"][1], **adapter}],
        prompts=[{"prompt_id": "verdict", "template": "{{ prompt_params.verdict }} {{ sample.id }}"}],
        tasks=[{"task_id": "sums", "dataset_id": "sums", "max_unscored_share": 0.5, **(task or {})}],
        metrics=[metric],
    )


def _summary(folder: Path, run: str) -> Any:
    (file,) = folder.rglob(f"{run}/summary.json")
    return orjson.loads(file.read_bytes())["tasks"][0]


def test_the_verdict_is_a_probability_that_labels_of_people_calibrate(tmp_path: Path, gage: Command) -> None:
    form = {"verdict": "labels", "verdict_labels": {"yes": 1, "no": 0}}
    people = "".join(f'{{"sample_id": "s{at}", "label": {at % 2}}}\n' for at in range(10) if at != 9)
    (tmp_path / "labels.jsonl").write_text(people)
    _write(tmp_path, task={"labels": {"path": "labels.jsonl"}}, **form)
    ended = gage("run", "mine.yaml", "--run-id", "first")
    assert ended.code == 0, ended.err
    task = _summary(tmp_path, "first")
    (share,) = task["metrics"]
    # 4 of 9 are 0.8 / 0.9, the others 0.3; s9 said something else.
    assert share["raw_values"]["score"] == pytest.approx((4 * 8 / 9 + 5 * 0.3) / 9)
    assert share["unscored"] == 1
    assert "100% of the judge's probability" in gage("show", "first", "--sample", "s9").out
    assert "outside" in gage("sql", "SELECT parsed FROM judgments").out
    known = task["calibration"]
    assert known["brier"] == pytest.approx((4 * (1 / 9) ** 2 + 5 * 0.3**2) / 9)
    assert [(part["label"], part["answers"]) for part in known["curve"]] == [(0.0, 5), (1.0, 4)]
    assert "Brier score" in ended.out
    # The threshold of a pass is not asked again; other labels are.
    size = (tmp_path / "asked.txt").stat().st_size
    _write(tmp_path, metric="judge_threshold", **form)
    assert gage("run", "mine.yaml", "--run-id", "second").code == 0
    assert (tmp_path / "asked.txt").stat().st_size == size
    _write(tmp_path, metric="judge_threshold", verdict="labels", verdict_labels={"yes": 0, "no": 1})
    assert gage("run", "mine.yaml", "--run-id", "third").code == 0
    assert _summary(tmp_path, "third")["metrics"][0]["raw_values"]["score"] == pytest.approx(5 / 9)
    assert (tmp_path / "asked.txt").stat().st_size == size


def test_a_judge_that_reasons_first_gives_its_verdict_in_a_second_request(tmp_path: Path, gage: Command) -> None:
    form = {"verdict": "labels", "verdict_labels": {"yes": 1, "no": 0}, "verdict_reasoning": True}
    _write(tmp_path, "Thinking", "judge_threshold", **form)
    ended = gage("run", "mine.yaml", "--run-id", "first")
    assert ended.code == 0, ended.err
    assert _summary(tmp_path, "first")["metrics"][0]["raw_values"]["score"] == pytest.approx(4 / 9)
    assert "It is s1" in gage("show", "first", "--sample", "s1").out
    size = (tmp_path / "asked.txt").stat().st_size
    assert gage("run", "mine.yaml", "--run-id", "second").code == 0
    assert (tmp_path / "asked.txt").stat().st_size == size


def test_a_verdict_may_be_json_of_a_schema(tmp_path: Path, gage: Command) -> None:
    _write(tmp_path, "Json", "judge_threshold", verdict="schema", verdict_labels={"yes": 1, "no": 0})
    ended = gage("run", "mine.yaml", "--run-id", "first")
    assert ended.code == 0, ended.err
    assert _summary(tmp_path, "first")["metrics"][0]["raw_values"]["score"] == 0.5


@pytest.mark.parametrize(
    ("kind", "adapter", "said"),
    [
        ("dummy", {"verdict": "labels", "verdict_labels": ["a", "b"]}, "gives no log probabilities"),
        ("Sure", {"verdict": "labels", "verdict_labels": ["1", "10"]}, "different characters"),
        ("Sure", {"verdict": "labels"}, "needs 'verdict_labels'"),
        ("Sure", {"verdict_labels": ["a", "b"]}, "are for verdict: labels"),
        ("Sure", {"verdict": "labels", "verdict_labels": ["a", "b"], "verdict_retries": 2}, "the same each time"),
        ("Sure", {"verdict": "schema", "verdict_labels": ["a", "b"], "verdict_parser": "default"}, "reads no text"),
        ("Sure", {"verdict_reasoning": True}, "is for verdict: labels"),
        ("Sure", {"verdict": "lables", "verdict_labels": ["a", "b"]}, "labels"),
    ],
)
def test_a_form_that_cannot_work_is_refused_before_anything_is_asked(
    tmp_path: Path, gage: Command, kind: str, adapter: dict[str, Any], said: str
) -> None:
    _write(tmp_path, kind, **adapter)
    ended = gage("run", "mine.yaml")
    assert ended.code == 2
    assert said in ended.err
    assert not (tmp_path / "asked.txt").exists()
