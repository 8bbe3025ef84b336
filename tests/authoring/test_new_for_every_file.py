"""`gage new` on the kinds of files that people have: what it writes runs at once, and right answers score."""

import csv
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gage_eval.authoring.data_preview import look
from gage_eval.authoring.new_config import new_config
from gage_eval.base.errors import InputError
from gage_eval.runs import RunOptions
from gage_eval.runs.inline import run_inline
from tests.support.pictures import write_image

MOODS = ("positive", "negative", "neutral")
CALL = {"id": "c", "type": "function", "function": {"name": "find", "arguments": '{"city": "Rome"}'}}
TOOLS = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]


@pytest.fixture(scope="module")
def model() -> Iterator[tuple[str, dict[str, Any]]]:
    """A perfect model: its URL, and its answers by a text that their question holds."""
    key: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the name that http.server calls
            request = self.rfile.read(int(self.headers["Content-Length"])).decode()
            answer = next((answer for mark, answer in key.items() if mark in request), "cat")
            if "SCORE:" in request:
                answer = "SCORE: 1/1"
            message = {"role": "assistant", **({"content": answer} if isinstance(answer, str) else answer)}
            body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1", key
    server.shutdown()
    server.server_close()


def lines(rows: list[dict[str, Any]], name: str = "mine.jsonl") -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def model_turn(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def chat() -> str:
    return lines([{"messages": [user(f"word {at}?")], "expected": f"w{at}"} for at in range(6)])


def finetuning() -> str:
    before = [user("hello"), model_turn("Hi, ask me.")]
    return lines([{"messages": [*before, user(f"word {at}?"), model_turn(f"w{at}")]} for at in range(6)])


def labels() -> str:
    return lines([{"text": f"word {at}?", "label": MOODS[at % 3]} for at in range(12)])


def json_text() -> str:
    return lines([{"text": f"word {at}?", "json": json.dumps({"n": at, "w": f"w{at}"})} for at in range(6)])


def json_objects() -> str:
    rows = [{"document": f"word {at}?", "expected": {"n": at, "at": {"city": f"w{at}"}}} for at in range(6)]
    return lines(rows)


def retrieved() -> str:
    rows = [
        {"question": f"word {at}?", "contexts": [f"It is w{at}.", "More."], "ground_truth": f"w{at}"} for at in range(4)
    ]
    return lines(rows)


def retrieved_without_reference() -> str:
    return lines([{"user_input": f"word {at}?", "context": f"It is w{at}."} for at in range(4)])


def picture_folders() -> str:
    for at in range(4):
        write_image(Path("pets", ("cat", "dog")[at % 2], f"{at}.png"), colour=(at, at, at))
    return "pets"


def picture_column() -> str:
    Path("scans").mkdir()
    with open("scans/labels.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("file", "prompt_text", "answer"))
        for at in range(3):
            write_image(Path("scans", f"{at}.png"))
            table.writerow((f"{at}.png", f"word {at}?", f"w{at}"))
    return "scans/labels.csv"


def transcribed_recordings() -> str:
    documents = pytest.importorskip("tests.support.documents")
    for at in range(3):
        Path("calls", "june").mkdir(parents=True, exist_ok=True)
        Path("calls", "june", f"{at}.wav").write_bytes(documents.tone(0.1 + at / 20))
        Path("calls", "june", f"{at}.txt").write_text("This is a cat.\n")
    return "calls"


def recording_folders() -> str:
    documents = pytest.importorskip("tests.support.documents")
    for at in range(4):
        Path("noises", ("cat", "dog")[at % 2]).mkdir(parents=True, exist_ok=True)
        Path("noises", ("cat", "dog")[at % 2], f"{at}.WAV").write_bytes(documents.tone(0.1 + at / 20))
    return "noises"


def questions_on_documents() -> str:
    documents = pytest.importorskip("tests.support.documents")
    Path("bills").mkdir()
    for at in range(3):
        Path("bills", f"{at}.pdf").write_bytes(documents.pdf(f"bill {at}"))
    return lines([{"file": f"{at}.pdf", "question": f"word {at}?", "answer": f"w{at}"} for at in range(3)],
                 "bills/rows.jsonl")  # fmt: skip


def choices_on_videos() -> str:
    videos = pytest.importorskip("tests.support.videos", reason="needs the extra media", exc_type=ImportError)
    Path("clips").mkdir()
    for at in range(3):
        Path("clips", f"{at}.mp4").write_bytes(videos.video(3 + at))
    rows = [{"clip": f"{at}.mp4", "question": f"word {at}?", "options": ["w0", "w1", "w2"], "answer": "ABC"[at]}
            for at in range(3)]  # fmt: skip
    return str(Path(lines(rows, "clips/rows.jsonl")).parent)


def tool_calls() -> str:
    rows = [{"messages": [user(f"call {at}?"), {**model_turn(""), "tool_calls": [CALL]}], "tools": TOOLS}
            for at in range(3)]  # fmt: skip
    return lines(rows)


def golden_trajectories() -> str:
    trace = [[{**model_turn(""), "tool_calls": [CALL]}]]
    return lines([{"question": f"call {at}?", "tools": TOOLS, "golden_trajectories": trace} for at in range(3)])


def saved_to_disk() -> str:
    datasets = pytest.importorskip("datasets", reason="needs the extra hf")
    rows = datasets.Dataset.from_list([{"question": f"word {at}?", "answer": f"w{at}"} for at in range(3)])
    datasets.DatasetDict({"train": rows, "validation": rows}).save_to_disk("saved")
    return "saved"


def arrow_folder() -> str:
    datasets = pytest.importorskip("datasets", reason="needs the extra hf")
    datasets.Dataset.from_list([{"question": f"word {at}?", "answer": f"w{at}"} for at in range(3)]).save_to_disk("one")
    return "one"


def spreadsheet() -> str:
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl reads spreadsheets")
    book = openpyxl.Workbook()
    for row in (("question", "answer"), *((f"word {at}?", f"w{at}") for at in range(3))):
        book.active.append(row)
    book.save("quiz.xlsx")
    return "quiz.xlsx"


def openai_evals() -> str:
    return lines([{"input": [user(f"word {at}?")], "ideal": [f"w{at}", "x"]} for at in range(3)])


KINDS: dict[Callable[[], str], str] = {
    chat: "exact_match",
    finetuning: "exact_match",
    labels: "classification",
    json_text: "json_fields",
    json_objects: "json_fields",
    retrieved: "token_f1",
    retrieved_without_reference: "faithfulness",
    picture_folders: "classification",
    picture_column: "exact_match",
    transcribed_recordings: "wer",
    recording_folders: "classification",
    questions_on_documents: "exact_match",
    choices_on_videos: "multi_choice_accuracy",
    tool_calls: "tool_call_match",
    golden_trajectories: "tool_call_match",
    saved_to_disk: "exact_match",
    arrow_folder: "exact_match",
    spreadsheet: "exact_match",
    openai_evals: "exact_match",
}


# The model says "cat" of everything; a word error rate is best at 0.
BEST = {picture_folders: 0.5, recording_folders: 0.5, transcribed_recordings: 0}
RECIPES = {
    transcribed_recordings: ["audio_rate: 16000"],
    questions_on_documents: ["pdf: images"],
    choices_on_videos: ["video_frames: 32", "video: clip"],
}


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_what_is_written_runs_and_scores(
    make: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: tuple[str, dict[str, Any]]
) -> None:
    monkeypatch.chdir(tmp_path)
    url, key = model
    data = make()
    key.clear()
    for at in range(12):
        key[f"word {at}?"] = f"w{at}"
    if make is labels:
        key.update({f"word {at}?": MOODS[at % 3] for at in range(12)})
    if make in (json_text, json_objects):
        key.update({f"word {at}?": json.dumps({"n": at, "w": f"w{at}", "at": {"city": f"w{at}"}}) for at in range(6)})
    key["call "] = {"content": None, "tool_calls": [CALL]}
    if make is choices_on_videos:
        key.update({f"word {at}?": "ABC"[at] for at in range(3)})
    if make is transcribed_recordings:
        key["word for word"] = "this is a cat"
    options = {"question": "prompt_text"} if make is picture_column else {}
    file, text, _ = new_config(look(data, **options), model="m", endpoint=url)
    file.write_text(text)
    summary = run_inline(RunOptions.of({"config": str(file), "store": "store"})).summary
    first = summary.tasks[0].metrics[0]
    assert (first.metric_id, first.value) == (KINDS[make], BEST.get(make, 1))
    assert all(recipe in text for recipe in RECIPES.get(make, ()))
    if make is finetuning:
        assert "last_only: true" in text
    if make is labels:
        assert {metric.aggregation for metric in summary.tasks[0].metrics} >= {"macro_f1", "class_f1", "confusion"}
    if make is retrieved:
        assert [task.task_id for task in summary.tasks] == [
            "faithfulness", "answer_relevance", "context_precision", "context_recall"
        ]  # fmt: skip
        assert [task.metrics[0].value for task in summary.tasks] == [1] * 4


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.wav": b"", "b.mp4": b""}, r"several kinds \(audio, video\): put each in a separate folder"),
        ({"a.wav": b"", "b.wav": b"", "a.txt": b"Hi."}, "no text file of the same name next to each medium"),
        ({"a.wav": b"", "a.txt": b"\xff\xfe"}, "a.txt' cannot be read as UTF-8 text"),
    ],
)
def test_a_folder_that_says_too_little_is_refused_in_a_sentence(
    files: dict[str, bytes], said: str, tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said):
        look(str(tmp_path))


def test_a_folder_of_everything_is_not_searched_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gage_eval.authoring.data_preview._MOST_OTHERS", 2)
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match="more than 2 files that are not media"):
        look(str(tmp_path))
