"""Logs of other tools become runs: small ones that the tools wrote, and broken ones, which leave nothing behind."""

import gzip
import json
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import InputError
from gage_eval.data.datasets import reading
from gage_eval.imports.contract import NOT_IN_LOG
from gage_eval.imports.folder import provenance, write_import
from gage_eval.imports.read import read_log
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from tests.outsider.pages import commands, write_files
from tests.support.command import Command, command

LOGS = Path(__file__).parent / "logs"
GEN = LOGS / "samples_sums_gen_2026-11-26T02-35-31.426138.jsonl"
MC = LOGS / "samples_sums_mc_2026-11-26T02-35-31.426138.jsonl"
REVIEWS = LOGS / "evalscope" / "reviews" / "mock" / "gsm8k_default.jsonl"
STATE = LOGS / "helm" / "scenario_state.json"
SOURCES = {
    "inspect": LOGS / "inspect.eval",
    "inspect-json": LOGS / "inspect.json",
    "lm-eval": GEN,
    "lm-eval-options": MC,
    "evalscope-predictions": LOGS / "evalscope" / "predictions" / "mock" / "gsm8k_default.jsonl",
    "evalscope-reviews": REVIEWS,
    "helm": STATE,
    "promptfoo": LOGS / "promptfoo.json",
    "promptfoo-lines": LOGS / "promptfoo.jsonl",
    "atif": LOGS / "atif" / "lines-7__a" / "agent" / "trajectory.json",
    "batch": LOGS / "batch.jsonl",
    "batch-vllm": LOGS / "run_batch.jsonl",
    "records": LOGS / "records.csv",
    "records-lines": LOGS / "records.jsonl",
}
KEY = "sk-" + "a1b2c3d4e5f6g7h8i9j0"


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "no-prefect"))
    return command(tmp_path, capsys, monkeypatch)


def lines(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def test_both_forms_of_inspect_give_the_same_answers_with_epochs_errors_and_scores() -> None:
    packed, tree = (read_log(LOGS / f"inspect.{ending}") for ending in ("eval", "json"))
    assert (packed.tool, packed.version, packed.task, packed.model) == ("inspect", "0.3.285", "sums", "mockllm/model")
    by_place = {(answer.sample_id, answer.replicate): answer for answer in packed.answers}
    assert by_place == {(answer.sample_id, answer.replicate): answer for answer in tree.answers}
    assert len(by_place) == 12
    first, failed = by_place["q0", 0], by_place["q5", 1]
    assert [message["role"] for message in first.messages] == ["system", "user"]
    assert (first.answer, first.references, first.metadata) == ("The answer is 1", ["1"], {"topic": "even"})
    assert first.scores == {"match": 1.0, "includes": 1.0}
    assert (failed.answer, failed.scores) == (None, {})
    assert "no connection" in (failed.error or "")


def test_filters_of_the_harness_are_scores_of_one_answer_and_likelihoods_choose_an_option() -> None:
    generated, chosen = read_log(GEN), read_log(MC)
    assert (generated.tool, generated.task, generated.model) == ("lm-eval", "sums_gen", "i82qcls7")
    assert [answer.answer for answer in generated.answers] == ["lol"] * 3
    assert generated.answers[0].scores == {"exact_match,strict": 0.0, "exact_match,flexible": 0.0}
    assert generated.answers[0].references == ["1"]
    assert [answer.answer for answer in chosen.answers] == ["blue", "green", "even"]
    assert [answer.references for answer in chosen.answers] == [["blue"], ["green"], ["even"]]
    assert chosen.answers[0].options == ["blue", "green"]
    assert chosen.answers[0].scores == {"acc": 1.0, "acc_norm": 1.0}


def test_a_batch_has_its_prompts_from_the_requests() -> None:
    alone, whole = (
        read_log(LOGS / "batch.jsonl"),
        read_log(LOGS / "batch.jsonl", requests=LOGS / "batch_requests.jsonl"),
    )
    assert alone.model == whole.model == "Qwen/Qwen3-0.6B"
    assert alone.answers[0].messages[0]["content"] == NOT_IN_LOG
    assert alone.unmapped["messages"] == 3
    assert whole.answers[0].messages == [{"role": "user", "content": "What is 0 + 1?"}]
    assert not whole.unmapped
    assert (whole.answers[2].answer, whole.answers[2].error) == (None, "max_tokens is too large")


def test_a_batch_that_vllm_wrote_says_why_there_is_no_answer() -> None:
    log = read_log(LOGS / "run_batch.jsonl", requests=LOGS / "run_batch_requests.jsonl")
    assert (log.model, dict(log.unmapped)) == ("smollm2", {})
    assert [answer.messages[0]["content"] for answer in log.answers] == [f"What is {n} + 1?" for n in range(4)]
    assert log.answers[1].answer == "1 + 1 = 2 in"
    assert log.answers[3].answer is None
    assert "max_model_len=512" in (log.answers[3].error or "")


def test_plain_records_are_read_by_usual_names_and_by_those_that_are_given(tmp_path: Path) -> None:
    table = read_log(LOGS / "records.csv")
    assert [answer.scores for answer in table.answers] == [{"score": 1.0}, {"score": 0.0}, {"score": 1.0}]
    rows = [{"uid": 7, "q": "?", "reply": {"text": "x"}, "extra": 1}, {"uid": 7, "q": "?", "reply": {"text": "y"}}]
    fields = {"id": "uid", "question": "q", "answer": "reply.text"}
    log = read_log(lines(tmp_path / "mine.jsonl", rows), fields=fields)
    read = [(answer.sample_id, answer.replicate, answer.answer) for answer in log.answers]
    assert read == [("7", 0, "x"), ("7", 1, "y")]
    assert log.unmapped == {"extra": 1}


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"question": "another?"}, "another question"),
        ({"target": "y"}, "another reference"),
        ({"output": ["x"]}, "the answer is a list.*--field answer="),
        ({"id": {"a": 1}}, "the id is an object"),
    ],
)
def test_no_sample_takes_the_place_of_another_and_no_answer_is_lost(
    second: dict[str, Any], words: str, tmp_path: Path
) -> None:
    row = {"id": "a", "question": "?", "output": "x", "target": "x"}
    with pytest.raises(InputError, match=rf"^record 2 of .*{words}"):
        read_log(lines(tmp_path / "a.jsonl", [row, {**row, **second}]))


def test_parts_that_are_objects_are_counted_as_not_imported(tmp_path: Path) -> None:
    log = read_log(lines(tmp_path / "a.jsonl", [{"question": {"q": "?"}, "output": "x", "target": {"a": "x"}}]))
    assert log.unmapped == {"the question, which is an object": 1, "the reference, which is an object": 1}


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.jsonl", b'{"question": "\xe9", "output": "x"}', "not UTF-8 text .*save it as UTF-8"),
        ("a.jsonl", '{"question": "?", "output": "x"}'.encode("utf-16"), "not UTF-8 text"),
        ("a.csv", b"question,output\n\xe9,x\n", "not UTF-8: save it as UTF-8"),
        ("a.csv", b"question,output\nx\n", "1 cells, but there are 2 columns"),
        ("a.json", b'[{"question": "?", "output": "x", "score": NaN}]', "NaN"),
        ("a.jsonl", b'{"question": "?", "output": "x", "score": ' + b"9" * 5000 + b"}", "too long"),
        ("a.json", b'{"data": [{"question": "?", "output": "x"}]}', "Keys at the top level: data. Set records_path"),
    ],
)
def test_files_that_are_no_records_are_refused_by_what_is_wrong_with_them(
    name: str, data: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=words) as error:
        read_log(tmp_path / name)
    assert not any(raw in str(error.value) for raw in ("codec", "sys.", "char 0", "Errno"))


def test_a_log_without_an_answer_is_refused_before_there_is_a_run(gage: Command, tmp_path: Path) -> None:
    failed = {"custom_id": "a", "response": None, "error": {"message": "no model"}}
    refused = gage("import", str(lines(tmp_path / "failed.jsonl", [failed, {**failed, "custom_id": "b"}])))
    assert (refused.code, refused.out) == (2, "")
    assert "holds no answer to any of its 2 rows, the first because: no model" in refused.err
    assert not (tmp_path / "imports").exists()
    empty = lines(tmp_path / "empty.jsonl", [{"question": "?", "output": None}])
    assert "--field answer=FIELD" in gage("import", str(empty)).err


def test_both_files_of_evalscope_give_answers_with_repeats_and_scores() -> None:
    log = read_log(REVIEWS)
    assert log == read_log(SOURCES["evalscope-predictions"])
    assert (log.tool, log.task, log.model) == ("evalscope", "gsm8k_default", "mock")
    assert [(answer.sample_id, answer.replicate) for answer in log.answers[:3]] == [("0", 0), ("0", 1), ("1", 0)]
    second = log.answers[1]
    assert (second.answer, second.references, second.scores) == ("It is **2**.", ["2"], {"accuracy": 0.0})
    assert [message["role"] for message in second.messages] == ["user"]
    assert len(log.answers) == 16


def test_an_answer_without_a_review_is_of_the_sample_that_its_index_says(tmp_path: Path) -> None:
    shutil.copytree(LOGS / "evalscope", tmp_path / "log")
    reviews = tmp_path / "log" / "reviews" / "mock" / REVIEWS.name
    rows = reviews.read_text(encoding="utf-8").splitlines(keepends=True)
    reviews.write_text("".join(rows[:3] + rows[4:]), encoding="utf-8")
    whole, torn = read_log(REVIEWS), read_log(reviews)
    places = [{(answer.sample_id, answer.replicate) for answer in log.answers} for log in (whole, torn)]
    assert places[0] == places[1]


def test_a_workbook_is_a_file_of_records(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["question", "output"], ["1 + 1?", "2"]):
        book.active.append(row)
    book.save(tmp_path / "answers.xlsx")
    log = read_log(tmp_path / "answers.xlsx")
    assert (log.tool, [answer.answer for answer in log.answers]) == ("records", ["2"])


def test_a_review_alone_has_the_answer_that_was_scored(tmp_path: Path) -> None:
    shutil.copy(REVIEWS, tmp_path / "alone.jsonl")
    log = read_log(tmp_path / "alone.jsonl")
    assert [answer.answer for answer in log.answers] == [answer.answer for answer in read_log(REVIEWS).answers]
    assert log.model is None


def test_a_state_of_helm_has_the_numbers_next_to_it_and_its_task_names_no_model(tmp_path: Path) -> None:
    log = read_log(STATE)
    assert (log.tool, log.task, log.model) == ("helm", "simple_mcqa", "simple/model1")
    first = log.answers[0]
    assert (first.sample_id, first.answer, first.references) == ("id60", "Answer:", ["A"])
    assert first.metadata == {"split": "test", "options": {"A": "Even", "B": "Odd"}}
    assert set(first.scores) >= {"exact_match", "quasi_exact_match"}
    assert not {name for name in first.scores if name.startswith("num_")}
    assert len(log.answers) == 10
    tree = json.loads(STATE.read_text(encoding="utf-8"))
    tree["request_states"][0]["instance"]["perturbation"] = {"name": "typos"}
    (tmp_path / "scenario_state.json").write_text(json.dumps(tree), encoding="utf-8")
    for name, task in (("a:x=1,model=m,groups=g", "a:x=1,groups=g"), ("a:model=m,x=1", "a:x=1"), ("a:model=m", "a")):
        (tmp_path / "run_spec.json").write_text(json.dumps({"name": name}), encoding="utf-8")
        assert read_log(tmp_path / "scenario_state.json").task == task
    assert [answer.sample_id for answer in read_log(tmp_path / "scenario_state.json").answers][:1] == ["id60+typos"]


def test_both_forms_of_promptfoo_give_the_same_answers_and_errors_have_no_score() -> None:
    tree, rows = read_log(LOGS / "promptfoo.json"), read_log(LOGS / "promptfoo.jsonl")
    assert (tree.tool, tree.version, tree.task, tree.model) == ("promptfoo", "0.121.20", "sums", "sometimes")
    assert tree.answers == rows.answers
    by_id = {answer.sample_id: answer for answer in tree.answers}
    assert (by_id["0"].answer, by_id["0"].references) == ("The answer is 3", ["answer is 3"])
    assert by_id["2"].scores == {"pass": 1.0, "score": 1.0, "digits": 1.0, "form": 1.0}
    assert (by_id["1"].answer, by_id["1"].error, by_id["1"].scores) == (None, "no connection", {})
    assert by_id["3"].scores["pass"] == 0.0


def test_trials_of_an_agent_are_replicates_and_a_reward_of_null_is_no_score() -> None:
    log = read_log(LOGS / "atif")
    assert (log.tool, log.version, log.model) == ("atif", "terminus-2 2.0.0", "openai/mock")
    read = {(answer.sample_id, answer.replicate): (answer.answer, answer.scores) for answer in log.answers}
    assert read == {
        ("lines-12", 0): (None, {}),
        ("lines-7", 0): ("The file has 7 lines.", {"reward": 1.0}),
        ("lines-7", 1): ("7", {"reward": 0.0}),
        ("lines-9", 0): ("I count 9.", {}),
    }
    assert log.answers[0].error == "the agent took longer than 60 s"
    assert [message["role"] for message in log.answers[1].messages] == ["system", "user"]
    assert log.unmapped == {"steps before the last answer": 4 - 1}
    alone = read_log(SOURCES["atif"]).answers
    assert [(answer.sample_id, answer.answer) for answer in alone] == [("s-lines-7__a", "The file has 7 lines.")]


def test_a_reward_for_an_agent_that_said_nothing_is_kept(tmp_path: Path) -> None:
    shutil.copytree(LOGS / "atif" / "lines-7__a", tmp_path / "job" / "lines-7__a")
    file = tmp_path / "job" / "lines-7__a" / "agent" / "trajectory.json"
    silent = json.loads(file.read_text())
    silent["steps"] = [{**step, "message": ""} if step["source"] == "agent" else step for step in silent["steps"]]
    file.write_text(json.dumps(silent))
    (answer,) = read_log(tmp_path / "job").answers
    assert (answer.answer, answer.scores) == ("", {"reward": 1.0})


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        ("records.csv", []),
        ("evalscope/reviews/mock/gsm8k_default.jsonl", ["../../predictions/mock/gsm8k_default.jsonl"]),
        ("helm/scenario_state.json", ["per_instance_stats.json", "run_spec.json"]),
        (GEN.name, ["results_2026-11-26T02-35-31.426138.json"]),
        ("atif", ["lines-12__a/result.json"]),
    ],
)
def test_every_file_that_an_import_reads_is_among_its_hashes(name: str, beside: list[str], tmp_path: Path) -> None:
    shutil.copytree(LOGS, tmp_path / "logs")
    file = tmp_path / "logs" / name
    before = provenance(read_log(file), file)
    assert {*beside} <= before["files"].keys()
    for other in beside:
        place = file / other if file.is_dir() else file.parent / other
        place.write_bytes(place.read_bytes() + b"\n")
        after = provenance(read_log(file), file)
        assert after["files"][other] != before["files"][other]
        assert after["sha256"] != before["sha256"]
        before = after


@pytest.mark.parametrize(
    ("source", "answers"),
    [
        ("inspect", 12),
        ("inspect-json", 12),
        ("lm-eval", 3),  # A line for each of two filters.
        ("lm-eval-options", 3),
        ("evalscope-predictions", 16),
        ("evalscope-reviews", 16),
        ("helm", 10),
        ("promptfoo", 4),
        ("promptfoo-lines", 4),
        ("atif", 1),
        ("batch", 3),
        ("batch-vllm", 4),
        ("records", 3),
        ("records-lines", 3),
    ],
)
def test_every_row_of_a_tool_s_log_becomes_an_answer(source: str, answers: int) -> None:
    assert len(read_log(SOURCES[source]).answers) == answers


@pytest.mark.parametrize(
    ("name", "metric", "score"),
    [
        ("evalscope/reviews/mock/gsm8k_default.jsonl", "accuracy", 10 / 16),
        ("helm/scenario_state.json", "exact_match", 0.0),
        ("promptfoo.json", "pass", 2 / 3),
        ("atif", "reward", 0.5),
        ("inspect.eval", "match", 7 / 12),
        (GEN.name, "exact_match,strict", 0.0),
        (MC.name, "acc", 1.0),
        ("batch.jsonl", "text_length", 8.5),
        ("records.csv", "score", 2 / 3),
    ],
)
def test_a_run_of_a_log_has_the_scores_of_the_tool(
    name: str, metric: str, score: float, gage: Command, tmp_path: Path
) -> None:
    made = gage("import", str(LOGS / name), "--run-id", "theirs")
    assert made.code == 0, made.err
    (summary,) = tmp_path.rglob("runs/theirs/summary.json")
    numbers = json.loads(summary.read_text(encoding="utf-8"))["tasks"][0]["metrics"]
    name = metric.replace(",", "-")
    means = {number["metric_id"]: next(iter(number["raw_values"].values())) for number in numbers}
    assert means[name] == pytest.approx(score)


def test_imported_runs_are_compared_scored_and_exported_like_any_other(gage: Command, tmp_path: Path) -> None:
    for name, right in (("a", 30), ("b", 10)):
        rows = [
            {
                "id": n,
                "question": f"{n} + 1 = ?",
                "target": n + 1,
                "output": n + 1 if n < right else 0,
                "score": n < right,
            }
            for n in range(40)
        ]
        file = lines(tmp_path / f"{name}.jsonl", rows)
        made = gage("import", str(file), "--run-id", name, "--task", "sums", "--to", f"own-{name}")
        assert made.code == 0, made.err
    assert gage("score", "a", "--metric", "exact_match").code == 0
    assert gage("export", "a", "--format", "inspect", "--to", "out").code == 0
    (log,) = (tmp_path / "out").rglob("*.eval")
    assert [answer.answer for answer in read_log(log).answers][:2] == ["1", "2"], "our export comes back"
    compared = gage("compare", "a", "b")
    assert compared.code == 0, compared.err
    assert "−0.500" in compared.out
    assert gage("baseline", "set", "main", "a").code == 0
    assert gage("gate", "b", "--baseline", "main").code == 3
    again = gage("import", str(file), "--to", "own-b")
    assert again.code == 2
    assert "is there already" in again.err


def test_an_answer_of_a_log_is_never_the_cached_answer_of_a_model(gage: Command, tmp_path: Path) -> None:
    assert gage("import", str(LOGS / "records.csv"), "--to", "theirs").code == 0
    config = (tmp_path / "theirs" / "import.yaml").read_text(encoding="utf-8")
    head, _, tail = config.partition("backends:")
    model = "backends: [{backend_id: imported, type: dummy, config: {mode: fixed, answer: mine, model: imported}}]\n"
    (tmp_path / "theirs" / "mine.yaml").write_text(head + model + tail[tail.index("metrics:") :], encoding="utf-8")
    assert gage("run", "theirs/mine.yaml", "--run-id", "mine").code == 0
    assert gage("export", "mine", "--format", "jsonl", "--to", "out").code == 0
    assert '"mine"' in "".join(file.read_text(encoding="utf-8") for file in (tmp_path / "out").rglob("*.jsonl"))


def test_names_in_a_log_read_no_variable_and_an_import_without_a_run_leaves_nothing(
    gage: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVATE", "of-this-machine")
    scores = {"${PRIVATE}": 1, "a/b": 1, "a-b": 0}
    row = {"id": "a", "question": "${PRIVATE}", "output": "x", "model": "${PRIVATE}", "scores": scores}
    made = gage("import", str(lines(tmp_path / "log.jsonl", [row])), "--run-id", "first", "--to", "made")
    assert made.code == 0, made.err
    assert all(name in made.out for name in ("a-b ", "a-b-3"))
    written = [file for file in tmp_path.rglob("*") if file.is_file() and b"of-this-machine" in file.read_bytes()]
    assert written == []
    again = gage("import", str(tmp_path / "log.jsonl"), "--run-id", "first", "--to", "again")
    assert again.code == 2
    assert not (tmp_path / "again").exists()


def test_secrets_are_masked_and_nothing_that_a_log_names_is_opened(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("do not read", encoding="utf-8")
    picture = {"type": "image_url", "image_url": {"url": str(secret)}}
    content = [{"type": "text", "text": f"use {KEY}"}, picture]
    row = {"id": "a", "messages": [{"role": "user", "content": content}], "output": f"Bearer {KEY}"}
    log = read_log(lines(tmp_path / "log.jsonl", [row]))
    folder = write_import(log, tmp_path / "log.jsonl", tmp_path / "made").parent
    written = "".join(file.read_text(encoding="utf-8") for file in folder.iterdir())
    assert KEY not in written
    assert str(secret) not in written
    assert "[image_url]" in written
    assert log.unmapped == {"content: image_url": 1}


def _zip(file: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file


TWO_MODELS = [{"question": "?", "output": "x", "model": model} for model in "ab"]
MANY_SCORES = [{"question": "?", "output": "x", "scores": {f"s{n}": 1 for n in range(201)}}]
MANY_ANSWERS = [{"id": 1, "question": "?", "output": "x"}] * 1001
HEADER = json.dumps({"version": 2, "eval": {"task": "t", "model": "m"}}).encode()
SAMPLE = json.dumps({"id": "a", "epoch": 1, "input": "?", "target": "", "output": {"completion": "x"}}).encode()


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"header.json": HEADER, "samples/../../a_epoch_1.json": SAMPLE}, "leads out"),
        ({"header.json": HEADER, "samples/a_epoch_1.json": b" " * (65 * 1024 * 1024)}, "more than 64 MiB"),
        ({"header.json": HEADER, "samples/a/chunk_1.json": SAMPLE}, "layout"),
        ({"samples/a_epoch_1.json": SAMPLE}, "no header"),
        ({"header.json": HEADER}, "holds no answers"),
        ({"header.json": HEADER.replace(b"2", b"9"), "samples/a_epoch_1.json": SAMPLE}, "version 9"),
        ({"header.json": HEADER, "samples/a_epoch_1.json": b"[" * 100_000}, "not JSON"),
        ({"header.json": HEADER, "samples/a_epoch_1.json": SAMPLE, "samples/b_epoch_1.json": SAMPLE}, "two answers"),
    ],
)
def test_hostile_archives_are_refused(members: dict[str, bytes], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        read_log(_zip(tmp_path / "log.eval", members))


def test_a_member_that_unpacks_to_more_than_it_declares_is_refused(tmp_path: Path) -> None:
    file = _zip(tmp_path / "log.eval", {"header.json": HEADER, "samples/a_epoch_1.json": SAMPLE + b" " * 1_000_000})
    data = file.read_bytes()
    size = (len(SAMPLE) + 1_000_000).to_bytes(4, "little")
    file.write_bytes(data.replace(size, (10).to_bytes(4, "little")))
    with pytest.raises(InputError, match="damaged"):
        read_log(file)


def _damaged(data: bytes, chance: random.Random) -> bytes:
    """The bytes, cut off, with some of them changed, doubled or gone."""
    place = chance.randrange(len(data))
    kind = chance.randrange(5)
    if kind == 0:
        return data[:place]
    if kind == 1:
        return data[:place] + bytes(chance.randrange(256) for _ in range(8)) + data[place + 8 :]
    if kind == 2:
        return data[:place] + data[place + chance.randrange(1, 200) :]
    if kind == 3:
        return data + data
    return data[:place] + data[place : place + 300] * 2 + data[place + 300 :]


def _twisted(value: Any, chance: random.Random) -> Any:
    """A JSON value with parts of other types in it."""
    odd: list[Any] = [None, True, -1, 1e308, "", "\ud800", [], {}, [[[]]], {"a": {}}]
    if isinstance(value, dict):
        return {key: chance.choice(odd) if chance.random() < 0.15 else _twisted(x, chance) for key, x in value.items()}
    if isinstance(value, list):
        return [chance.choice(odd) if chance.random() < 0.15 else _twisted(x, chance) for x in value]
    return value


def _attempt(file: Path, folder: Path) -> str | None:
    """Why the log was refused; None where it could be read and written."""
    try:
        write_import(read_log(file), file, folder)
    except InputError as error:
        return str(error)
    shutil.rmtree(folder)
    return None


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_thirty_broken_logs_of_each_form_are_read_or_refused_in_one_sentence(source: Path, tmp_path: Path) -> None:
    said: list[str | None] = []
    for number in range(30):
        chance = random.Random(number)
        file = tmp_path / f"log{source.suffix}"
        file.write_bytes(_damaged(source.read_bytes(), chance))
        said.append(_attempt(file, tmp_path / "made"))
        if source.suffix in (".jsonl", ".json"):
            whole = source.read_text(encoding="utf-8")
            rows = whole.splitlines() if source.suffix == ".jsonl" else [whole]
            file.write_text("\n".join(json.dumps(_twisted(json.loads(row), chance)) for row in rows), encoding="utf-8")
            said.append(_attempt(file, tmp_path / "made"))
        assert not [*tmp_path.glob("made*"), *tmp_path.glob(".draft*")], "nothing is left"
    refusals = [reason for reason in said if reason is not None]
    assert refusals
    assert [reason for reason in refusals if "\n" in reason or "log" not in reason] == []


def _changed(source: Path, file: Path, change: Callable[[Any], object]) -> Path:
    """A log in which one thing is different."""
    if source.suffix == ".jsonl":
        rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
        change(rows)
        return lines(file.with_suffix(".jsonl"), rows)
    tree = json.loads(source.read_text(encoding="utf-8"))
    change(tree)
    file.with_suffix(".json").write_text(json.dumps(tree), encoding="utf-8")
    return file.with_suffix(".json")


@pytest.mark.parametrize(
    ("source", "change", "words"),
    [
        ("evalscope-predictions", lambda rows: rows[1].update(model="other"), "several models"),
        ("evalscope-predictions", lambda rows: rows.append(rows[0]), "index 0 of an earlier row"),
        ("evalscope-reviews", lambda rows: rows[2].pop("index"), "no 'index'"),
        ("helm", lambda tree: tree["request_states"][0].update(reference_index=1), "likelihoods of options"),
        ("helm", lambda tree: tree["request_states"].append(tree["request_states"][0]), "two answers"),
        ("helm", lambda tree: tree["request_states"][0]["instance"].pop("id"), "no instance with an id"),
        ("promptfoo", lambda tree: tree["results"].update(version=9), "version 9"),
        ("promptfoo", lambda tree: tree["results"]["results"][0].update(provider={"id": "b"}), "several models"),
        ("promptfoo-lines", lambda rows: rows[1].pop("promptIdx"), "'testIdx' and 'promptIdx'"),
        ("atif", lambda tree: tree.update(schema_version="ATIF-v2.0"), "version 'ATIF-v2.0'"),
        ("atif", lambda tree: tree.pop("session_id"), "'session_id'"),
    ],
)
def test_what_a_log_must_not_hold_is_refused_by_its_name(
    source: str, change: Callable[[Any], object], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=words):
        read_log(_changed(SOURCES[source], tmp_path / "log", change))


@pytest.mark.parametrize("source", ["evalscope-reviews", "helm", "promptfoo", "promptfoo-lines", "atif", "batch"])
def test_a_packed_log_is_read_and_one_that_unpacks_to_too_much_is_refused(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / f"log{SOURCES[source].suffix}.gz"
    file.write_bytes(gzip.compress(SOURCES[source].read_bytes()))
    assert [answer.answer for answer in read_log(file).answers] == [x.answer for x in read_log(SOURCES[source]).answers]
    monkeypatch.setattr(reading, "MAX_DOCUMENT", 100)
    monkeypatch.setattr(reading, "MAX_BYTES", 100)
    with pytest.raises(InputError, match="longer than"):
        read_log(file)


def test_links_out_of_a_folder_of_trials_are_refused(tmp_path: Path) -> None:
    shutil.copytree(LOGS / "atif", tmp_path / "job")
    secret = tmp_path / "trajectory.json"
    shutil.copy(SOURCES["atif"], secret)
    (tmp_path / "job" / "lines-9__a" / "agent" / "trajectory.json").unlink()
    (tmp_path / "job" / "lines-9__a" / "agent" / "trajectory.json").symlink_to(secret)
    with pytest.raises(InputError, match="by a link"):
        read_log(tmp_path / "job")


@pytest.mark.parametrize("source", ["evalscope-predictions", "helm", "promptfoo", "atif"])
def test_secrets_of_every_form_are_masked(source: str, tmp_path: Path) -> None:
    file = tmp_path / f"log{SOURCES[source].suffix}"
    text = SOURCES[source].read_text(encoding="utf-8")
    known = {"evalscope-predictions": "ANSWER: 2", "helm": "Is 70 even", "promptfoo": "1 + 2", "atif": "7 lines"}
    assert known[source] in text
    file.write_text(text.replace(known[source], f"{known[source]} {KEY}"), encoding="utf-8")
    folder = write_import(read_log(file), file, tmp_path / "made").parent
    assert KEY not in "".join(written.read_text(encoding="utf-8") for written in folder.iterdir())


def test_answers_scored_twice_are_listed_with_what_each_read(gage: Command) -> None:
    assert gage("import", str(REVIEWS), "--run-id", "theirs", "--task", "gsm8k").code == 0
    alone = gage("compare", "theirs", "--scores")
    assert alone.code == 2
    assert "gage score" in alone.err
    assert gage("score", "theirs", "--metric", "numeric_match", "--save", "--run-id", "ours").code == 0
    shown = gage("compare", "theirs", "ours", "--scores", "-n", "2")
    assert shown.code == 0, shown.err
    assert "accuracy and numeric_match disagree on 3 of 16 answers" in shown.out
    assert "It is **2**." in shown.out
    assert "2 of 3 shown" in shown.out
    (record,) = json.loads(gage("compare", "theirs", "ours", "--scores", "--json").out)
    assert [(own["sample_id"], own["replicate"]) for own in record["shown"]] == [("0", 1), ("3", 0), ("5", 1)]
    assert {(own["theirs"], own["ours"], own["extracted"]) for own in record["shown"][:1]} == {(0.0, 1.0, "2")}
    assert gage("import", str(SOURCES["records"]), "--run-id", "other", "--task", "gsm8k").code == 0
    assert "other answers" in gage("compare", "other", "ours", "--scores").err


def test_our_own_export_comes_back_with_the_same_content(gage: Command, tmp_path: Path) -> None:
    assert gage("import", str(REVIEWS), "--run-id", "first", "--task", "gsm8k").code == 0
    assert gage("export", "first", "--format", "inspect", "--to", "out").code == 0
    assert gage("import", "out/inspect/gsm8k.eval", "--run-id", "second", "--task", "gsm8k").code == 0
    runs = [RunReader.open(Locations.at(), name).task() for name in ("first", "second")]
    ids = [{"samples": run.samples.id, **{name: score.id for name, score in run.scores.items()}} for run in runs]
    assert ids[0] == ids[1], "an artifact is named by the hash of its content"


def test_no_id_of_a_sample_leads_out_of_an_exported_log(gage: Command, tmp_path: Path) -> None:
    ids = ["../../../etc/passwd", "/etc/passwd", "a\\..\\b", "..", "a/b", "x" * 70_000]
    rows = [{"id": name, "question": "?", "output": "x", "target": "x"} for name in ids]
    assert gage("import", str(lines(tmp_path / "a.jsonl", rows)), "--run-id", "first").code == 0
    log = Path(gage("export", "first", "--format", "inspect", "--to", "out").out.strip()) / "a.eval"
    members = zipfile.ZipFile(log).namelist()
    assert not [name for name in members if ".." in name or name.startswith("/") or "//" in name]
    assert "samples/a/b_epoch_1.json" in members, "Inspect looks for a sample by its id"
    assert [answer.sample_id for answer in read_log(log).answers] == ids


def test_what_is_no_log_is_refused_with_the_name_of_one_beside_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"import the samples_\*\.jsonl next to it"):
        read_log(LOGS / "results_2026-11-26T02-35-31.426138.json")
    (tmp_path / "logs").mkdir()
    shutil.copy(LOGS / "inspect.eval", tmp_path / "logs")
    with pytest.raises(InputError, match=r"such as '.*inspect\.eval'"):
        read_log(tmp_path)


def test_the_folder_of_trajectories_that_an_export_names_can_be_imported(gage: Command, tmp_path: Path) -> None:
    assert gage("import", str(REVIEWS), "--run-id", "first", "--task", "gsm8k").code == 0
    exported = gage("export", "first", "--format", "atif", "--to", "out").out.strip()
    imported = gage("import", exported, "--run-id", "second")
    assert imported.code == 0, imported.err
    runs = [RunReader.open(Locations.at(), name).task("gsm8k") for name in ("first", "second")]
    assert len({len(run.artifact("responses").table()) for run in runs}) == 1
    shutil.copytree(tmp_path / "out" / "atif" / "gsm8k", tmp_path / "out" / "atif" / "other")
    refused = gage("import", exported).err
    assert "in 2 folders" in refused
    assert str(Path(exported) / "other") in refused


@pytest.mark.parametrize(
    ("prepare", "options", "words"),
    [
        (lambda folder: folder / "none.jsonl", {}, "there is no file"),
        (lambda folder: folder, {}, "a folder without"),
        (lambda folder: lines(folder / "a.jsonl", [{"id": 1, "text": "x"}]), {}, "--field question=FIELD"),
        (
            lambda folder: lines(folder / "a.jsonl", TWO_MODELS),
            {},
            "models",
        ),
        (lambda folder: lines(folder / "a.jsonl", MANY_SCORES), {}, "at most 200"),
        (
            lambda folder: lines(folder / "a.jsonl", MANY_ANSWERS),
            {},
            "at most 1,000",
        ),
        (lambda folder: LOGS / "records.jsonl", {"format_": "atif"}, "has no 'schema_version'"),
        (lambda folder: LOGS / "records.csv", {"format_": "inspct"}, "Did you mean 'inspect'"),
        (lambda folder: LOGS / "records.csv", {"requests": LOGS / "batch_requests.jsonl"}, "--requests"),
        (lambda folder: LOGS / "batch.jsonl", {"fields": {"id": "x"}}, "--field"),
        (lambda folder: LOGS / "records.csv", {"fields": {"answr": "x"}}, "Did you mean 'answer'"),
    ],
)
def test_mistakes_are_told_in_one_sentence(
    prepare: Callable[[Path], Path], options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=words):
        read_log(prepare(tmp_path), **options)


def test_the_page_works_as_pasted(gage: Command, tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs"
    write_files("import.md", tmp_path, docs)
    for arguments in commands("import.md", docs):
        ended = gage(*arguments)
        assert ended.code == 0, f"{arguments}: {ended.err}"
    assert "paired by sample id" in ended.out
