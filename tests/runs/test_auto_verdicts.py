"""`verdict: auto` is settled by asking the judge once, and is in the key in its settled form."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.chat_server import ChatServer, chat_server
from support.command import Command, command

from tests.support.workspace import JUDGED, ROWS, write_config, write_rows

LABELS = {"yes": 1, "no": 0}
FORMS = ("labels", "schema", "text")


def judge_that_gives(form: str, refusal: int | None = None) -> Any:
    """A judge that gives verdicts of a form, and refuses the others with a code, or does not know their parameters."""

    def reply(body: dict[str, Any]) -> str | dict[str, Any] | int:
        wanted = "labels" if "logprobs" in body else "schema" if "response_format" in body else "text"
        if wanted == "labels" == form:
            tops = [{"token": name, "logprob": math.log(p)} for name, p in (("Yes", 0.7), ("no", 0.2))]
            return {"message": {"content": "Yes"}, "logprobs": {"content": [{**tops[0], "top_logprobs": tops}]}}
        if wanted == "schema" == form:
            return '{"reasoning": "as I say", "verdict": "yes"}'
        return refusal if refusal is not None and wanted != "text" else "SCORE: 1"

    return reply


@pytest.fixture
def judge() -> Iterator[ChatServer]:
    with chat_server(judge_that_gives("text")) as served:
        yield served


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    write_rows(tmp_path)
    return command(tmp_path, capsys, monkeypatch)


def write(folder: Path, judge: ChatServer, *, settings: dict[str, Any] | None = None, **adapter: Any) -> None:
    backend = {
        "backend_id": "strict",
        "type": "openai_http",
        "config": {"base_url": judge.url, "model": "m", "max_attempts": 1, **(settings or {})},
    }
    form = {"verdict": "auto", "verdict_labels": LABELS, **adapter}
    write_config(
        folder,
        backends=[JUDGED["backends"][0], backend],
        role_adapters=[JUDGED["role_adapters"][0], {**JUDGED["role_adapters"][1], **form}],
        prompts=[{"prompt_id": "verdict", "template": "{{ prompt_params.verdict }} {{ sample.id }}"}],
        metrics=["judge_score"],
    )


def forms_asked(judge: ChatServer) -> list[str]:
    """The forms that the judge was asked for, or ``settling`` where it was asked which it gives."""
    texts = [body["messages"][-1]["content"].split()[0] for body in judge.asked]
    judge.asked.clear()
    return [text if text in FORMS else "settling" for text in texts]


@pytest.mark.parametrize(
    ("form", "refusal", "settling"),
    [("labels", None, 2), ("schema", None, 2), ("schema", 400, 2), ("text", None, 2), ("text", 403, 3)],
)
def test_the_judge_is_asked_once_which_form_it_gives_and_the_key_is_that_of_this_form(
    tmp_path: Path, gage: Command, judge: ChatServer, form: str, refusal: int | None, settling: int
) -> None:
    judge.reply = judge_that_gives(form, refusal)
    write(tmp_path, judge)
    gage("run", "mine.yaml", "--run-id", "answers", "--set", "role_adapters.judge.verdict=schema")
    judge.asked.clear()
    planned = gage("plan", "mine.yaml")
    assert "verdict: auto of judge 'judge' is not settled yet; a run asks it first" in planned.out
    assert not judge.asked
    ended = gage("run", "mine.yaml", "--run-id", "first")
    assert ended.code == 0, ended.err
    forms = forms_asked(judge)
    assert forms[:settling] == ["settling"] * settling
    assert forms[settling:] == ([] if form == "schema" else [form] * ROWS)
    # Whatever the endpoint does now: nothing is asked, by a plan or by a run.
    judge.reply = judge_that_gives("text" if form == "labels" else "labels")
    assert "not settled" not in gage("plan", "mine.yaml").out
    assert gage("run", "mine.yaml", "--run-id", "second").code == 0
    if form != "text":
        write(tmp_path, judge, verdict=form)
        assert gage("run", "mine.yaml", "--run-id", "named").code == 0
    assert not judge.asked


def test_another_night_asks_for_verdicts_and_not_for_their_form(
    tmp_path: Path, gage: Command, judge: ChatServer
) -> None:
    judge.reply = judge_that_gives("labels")
    write(tmp_path, judge)
    assert gage("run", "mine.yaml", "--freshness", "monday").code == 0
    assert forms_asked(judge).count("settling") == 2
    judge.reply = judge_that_gives("text")
    gage("run", "mine.yaml", "--freshness", "tuesday")
    assert forms_asked(judge) == ["labels"] * ROWS


@pytest.mark.parametrize("code", [500, 429, 401])
def test_a_judge_that_does_not_answer_leaves_the_form_open(
    tmp_path: Path, gage: Command, judge: ChatServer, code: int
) -> None:
    write(tmp_path, judge)
    judge.reply = lambda body: code
    ended = gage("run", "mine.yaml", "--run-id", "first")
    assert ended.code == 1
    assert "judge 'judge' was asked for the form of its verdicts (verdict: auto), which is not settled" in ended.err
    assert "gage judge first --only-failed" in ended.err
    assert not [*tmp_path.glob(".gage/verdict_forms/*")]
    assert "not settled yet" in gage("plan", "mine.yaml").out
    assert gage("show", "first", "--sample", "s1").code == 0
    judge.reply = judge_that_gives("labels")
    judge.asked.clear()
    assert gage("judge", "first", "--only-failed").code == 0
    assert forms_asked(judge) == ["settling"] * 2 + ["labels"] * ROWS


def test_an_error_that_may_pass_is_no_refusal(tmp_path: Path, gage: Command, judge: ChatServer) -> None:
    gives = judge_that_gives("labels")
    write(tmp_path, judge)
    judge.reply = lambda body: 503 if "logprobs" in body else gives(body)
    assert gage("run", "mine.yaml", "--run-id", "first").code == 1
    assert not [*tmp_path.glob(".gage/verdict_forms/*")]


def test_a_second_judge_that_needs_probabilities_is_refused_where_there_are_none(
    tmp_path: Path, gage: Command, judge: ChatServer
) -> None:
    write(tmp_path, judge)
    second = {"adapter_id": "second", "role_type": "judge_model", "backend_id": "model", "prompt_id": "verdict"}
    config = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    config["role_adapters"].append(second)
    below = {"adapter_id": "second", "below": 0.9}
    config["tasks"] = [{"task_id": "t", "dataset_id": "sums", "judge_adapter_id": "judge", "second_judge": below}]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config))
    ended = gage("run", "mine.yaml")
    assert ended.code == 2
    assert "second_judge.below: judge 'judge' gives no probabilities: its verdict is text" in ended.err


def test_verdicts_that_are_drawn_again_are_no_probabilities(tmp_path: Path, gage: Command, judge: ChatServer) -> None:
    write(tmp_path, judge)
    ended = gage("run", "mine.yaml", "--set", "tasks=[{task_id: t, dataset_id: sums, judge_draws: 3}]")
    assert ended.code == 2
    assert "or set its verdict: schema" in ended.err
    assert not judge.asked
