"""What a model draws or says is stored, shown to judges, scored, and not asked for again."""

import base64
import io
import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image
from support.logs import read_logs
from support.media_models import MediaModels, drawn, edited, embedded, filmed, media_models

from gage_eval.base.canonical import sha256_hex
from gage_eval.base.errors import InputError, RunFailed
from gage_eval.models.client.http import data_url
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from gage_eval.runs.results.report_details import stored_report
from gage_eval.store import Store
from gage_eval.store.media import media_url
from gage_eval.store.wip import JobIds

WISHES = ["a red fox", "a boat at night", "three apples"]
JUDGE = 'Somebody asked for "{{ sample.messages[0].content[0].text }}". Rate from 1 to 5: {{ model_answer }}'


@pytest.fixture
def models() -> Iterator[MediaModels]:
    with media_models() as served:
        yield served


def config_of(folder: Path, records: list[dict[str, Any]], **sections: Any) -> Path:
    (folder / "wishes.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    file = folder / "made.yaml"
    file.write_text(
        yaml.safe_dump({"datasets": [{"dataset_id": "wishes", "params": {"path": "wishes.jsonl"}}], **sections})
    )
    return file


def drawing(models: MediaModels, **judge: Any) -> dict[str, Any]:
    backend = {"base_url": models.url, "model": "painter"}
    return {
        "backends": [
            {"backend_id": "painter", "type": "openai_images", "config": backend},
            {"backend_id": "eye", "type": "openai_http", "config": {**backend, "model": "eye"}},
        ],
        "role_adapters": [
            {"adapter_id": "painter", "role_type": "dut_model", "backend_id": "painter"},
            {"adapter_id": "critic", "role_type": "judge_model", "backend_id": "eye", "prompt_id": "rate", **judge},
        ],
        "prompts": [{"prompt_id": "rate", "template": JUDGE}],
        "tasks": [{"task_id": "wishes", "dataset_id": "wishes", "adapter_id": "painter", "judge_adapter_id": "critic"}],
        "metrics": ["judge_score"],
    }


def ran(file: Path, name: str) -> RunReader:
    store = str(file.parent / "store")
    run_inline(RunOptions(config=str(file), store=store, run_id=name))
    return RunReader.open(Locations.at(store), name)


def numbers(reader: RunReader) -> dict[str, float | None]:
    return {metric.metric_id: metric.value for metric in reader.task().summary.metrics}


def test_a_judge_sees_the_picture_and_nothing_is_drawn_twice(tmp_path: Path, models: MediaModels) -> None:
    records = [{"id": str(number), "question": wish} for number, wish in enumerate(WISHES)]
    file = config_of(tmp_path, records, **drawing(models))
    reader = ran(file, "first")
    assert numbers(reader) == {"judge_score": 5.0}
    store = Store.open(str(tmp_path / "store"))
    for row, wish in zip(reader.task().rows(), WISHES, strict=True):
        (response,) = row.responses
        url = media_url(sha256_hex(drawn(wish)))
        assert response["answer"] == url
        assert json.loads(response["artifacts"])["files"] == {"image.png": {"url": url, "bytes": len(drawn(wish))}}
        assert store.media.get(url) == drawn(wish)
    assert models.count("images/generations") == len(WISHES)
    assert {body["response_format"] for path, body in models.requests if path == "images/generations"} == {"b64_json"}

    assert numbers(ran(file, "again")) == {"judge_score": 5.0}
    assert models.count("images/generations") == models.count("chat/completions") == len(WISHES)


def test_a_judge_that_does_not_see_is_refused_before_anything_is_drawn(tmp_path: Path, models: MediaModels) -> None:
    sections = drawing(models)
    sections["backends"][1]["type"] = "openai_speech"
    file = config_of(tmp_path, [{"id": "0", "question": WISHES[0]}], **sections)
    with pytest.raises(InputError, match="answers with pictures"):
        ran(file, "blind")
    assert not models.requests


def test_the_judge_of_an_edit_sees_the_picture_before_and_after(tmp_path: Path, models: MediaModels) -> None:
    (tmp_path / "before.png").write_bytes(drawn("before"))
    content = [{"type": "image_url", "image_url": {"url": "before.png"}}, {"type": "text", "text": "Invert it."}]
    records = [{"id": "0", "messages": [{"role": "user", "content": content}]}]
    sections = drawing(models)
    sections["prompts"][0]["template"] = 'After {{ history[-1].content }} "before" is {{ model_answer }}. Rate it.'
    ran(config_of(tmp_path, records, **sections), "edit")
    (body,) = (body for path, body in models.requests if path == "chat/completions")
    text, *pictures = body["messages"][-1]["content"]
    assert text["text"] == 'After [image]\nInvert it. "before" is [image 2]. Rate it.'
    data = [base64.b64decode(picture["image_url"]["url"].partition(",")[2]) for picture in pictures]
    assert data == [drawn("before"), edited(drawn("before"))]


def test_an_edit_gets_the_picture_of_the_question(tmp_path: Path, models: MediaModels) -> None:
    (tmp_path / "before.png").write_bytes(drawn("before"))
    content = [{"type": "image_url", "image_url": {"url": "before.png"}}, {"type": "text", "text": "Invert it."}]
    records = [{"id": "0", "messages": [{"role": "user", "content": content}]}]
    backend = {"base_url": models.url, "model": "painter", "size": "48x32"}
    backends = [{"backend_id": "painter", "type": "openai_images", "config": backend}]
    reader = ran(config_of(tmp_path, records, backends=backends, metrics=["text_length"]), "edit")
    (row,) = reader.task().rows()
    assert row.responses[0]["answer"] == media_url(sha256_hex(edited(drawn("before"))))
    ((path, form),) = models.requests
    assert path == "images/edits"
    assert form["image"] == drawn("before")
    assert {name: form[name] for name in ("prompt", "model", "size")} == {
        "prompt": b"Invert it.", "model": b"painter", "size": b"48x32"
    }  # fmt: skip


def test_an_edit_is_compared_with_the_reference_and_again_when_its_file_changes(
    tmp_path: Path, models: MediaModels
) -> None:
    records = []
    for number in range(2):
        (tmp_path / f"{number}.png").write_bytes(drawn(str(number)))
        (tmp_path / f"{number}-after.png").write_bytes(edited(drawn(str(number))))
        content = [{"type": "image_url", "image_url": {"url": f"{number}.png"}}, {"type": "text", "text": "Invert it."}]
        after = {"type": "image_url", "image_url": {"url": f"{number}-after.png"}}
        records.append({
            "id": str(number),
            "messages": [{"role": "user", "content": content}],
            "references": [{"answer": [after]}],
        })  # fmt: skip
    backend = {"base_url": models.url, "model": "painter"}
    backends = [{"backend_id": "painter", "type": "openai_images", "config": backend}]
    file = config_of(tmp_path, records, backends=backends, metrics=["ssim", "psnr", "text_length"])
    reader = ran(file, "right")
    assert numbers(reader) == {"ssim": 1.0, "psnr": 100.0, "text_length": 79.0}
    assert ran(file, "again").stored.record.by_stage["wishes", "auto_eval"].state == "cached"

    (tmp_path / "1-after.png").write_bytes(drawn("1"))
    changed = numbers(ran(file, "changed"))
    assert changed["psnr"] is not None
    assert 50 < changed["psnr"] < 60
    assert models.count("images/edits") == len(records), "nothing is drawn again"
    (tmp_path / "1-after.png").unlink()
    with pytest.raises(RunFailed):
        ran(file, "gone")
    (row,) = RunReader.open(Locations.at(str(tmp_path / "store")), "gone").task().rows(start=1)
    assert "the reference cannot be compared: the file does not exist" in row.scores["ssim"][0]["explanation"]


def test_speech_is_written_down_by_a_judge_and_scored(tmp_path: Path, models: MediaModels) -> None:
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not installed (Debian: espeak-ng)")
    models.heard = lambda data: "one two three five" if data.startswith(b"RIFF") else "noise"
    backend = {"base_url": models.url}
    sections = {
        "backends": [
            {"backend_id": "mouth", "type": "openai_speech", "config": {**backend, "model": "mouth"}},
            {"backend_id": "ear", "type": "openai_transcriptions", "config": {**backend, "model": "ear"}},
        ],
        "role_adapters": [
            {"adapter_id": "mouth", "role_type": "dut_model", "backend_id": "mouth"},
            {"adapter_id": "ear", "role_type": "judge_model", "backend_id": "ear", "prompt_id": "listen"},
        ],
        "prompts": [{"prompt_id": "listen", "template": "{{ model_answer }}"}],
        "tasks": [{"task_id": "wishes", "dataset_id": "wishes", "adapter_id": "mouth", "judge_adapter_id": "ear"}],
        "metrics": [{"metric_id": "wer", "params": {"prediction_field": "judge_output.text"}}],
    }
    records = [{"id": "0", "question": "one two three four", "answer": "one two three four"}]
    assert numbers(ran(config_of(tmp_path, records, **sections), "speech")) == {"wer": 0.25}
    page = (tmp_path / "store" / "runs" / "speech" / "report.html").read_text()
    assert '<img class="wave" src="data:image/svg+xml;base64,' in page
    assert [path for path, _ in models.requests] == ["audio/speech", "audio/transcriptions"]


def test_the_report_shows_a_smaller_copy_and_an_export_writes_the_bytes(tmp_path: Path, models: MediaModels) -> None:
    noise = io.BytesIO()
    Image.effect_noise((640, 480), 90).save(noise, "PNG")
    reply = {"data": [{"b64_json": base64.b64encode(noise.getvalue()).decode()}]}
    models.instead["images/generations"] = json.dumps(reply).encode(), "application/json"
    backend = {"base_url": models.url, "model": "painter"}
    sections = {
        "backends": [{"backend_id": "painter", "type": "openai_images", "config": backend}],
        "metrics": ["text_length"],
        "export": ["media"],
    }
    reader = ran(config_of(tmp_path, [{"id": "../up", "question": "noise"}], **sections), "noise")
    folder = tmp_path / "store" / "runs" / "noise"
    shown = re.findall(r'<img src="data:image/webp;base64,([^"]+)"', (folder / "report.html").read_text())
    with Image.open(io.BytesIO(base64.b64decode(shown[0]))) as image:
        assert image.size == (320, 240)

    (entry,) = map(json.loads, (folder / "media" / "index.jsonl").read_text().splitlines())
    url = media_url(sha256_hex(noise.getvalue()))
    assert entry == entry | {
        "task_id": "wishes", "sample_id": "../up", "replicate": 0, "url": url, "bytes": len(noise.getvalue())
    }  # fmt: skip
    (written,) = (file for file in (folder / "media").rglob("*") if file.suffix == ".png")
    assert (folder / "media" / entry["file"], written.read_bytes()) == (written, noise.getvalue())

    path = reader.store.media.path(url)
    assert path is not None
    path.unlink()
    assert "gage export RUN --format media" in stored_report(reader), "the page says so and is written all the same"


def embedding(models: MediaModels, metric: str, embeds: bool | str) -> dict[str, Any]:
    sections = drawing(models)
    sections["role_adapters"][1] = {
        "adapter_id": "critic", "role_type": "judge_model", "backend_id": "eye", "embeds": embeds
    }  # fmt: skip
    return {**sections, "prompts": [], "metrics": [metric]}


def score(row: Any) -> float:
    ((entry,),) = row.scores.values()
    value: float = entry["values"]["score"]
    return value


def test_a_picture_is_compared_with_its_description_by_their_embeddings(tmp_path: Path, models: MediaModels) -> None:
    # The endpoint draws the first wish whatever it is asked for.
    records = [{"id": str(number), "question": wish} for number, wish in enumerate(WISHES)]
    file = config_of(tmp_path, records, **embedding(models, "clip_score", embeds="question"))
    wrong = embedded({"input": WISHES[1]}), embedded({"input": WISHES[0]})
    cosine = sum(a * b for a, b in zip(*wrong, strict=True)) / math.hypot(*wrong[0]) / math.hypot(*wrong[1])
    first = drawn(WISHES[0])
    models.instead["images/generations"] = (
        json.dumps({"data": [{"b64_json": base64.b64encode(first).decode()}]}).encode(), "application/json"
    )  # fmt: skip
    scores = [score(row) for row in ran(file, "first").task().rows()]
    assert scores[:2] == [pytest.approx(2.5), pytest.approx(2.5 * cosine, abs=1e-5)]
    bodies = [body for path, body in models.requests if path == "embeddings"]
    # The one picture is embedded once, as vLLM takes it, and each text once.
    assert [body for body in bodies if "input" not in body] == [
        {
            "model": "eye",
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": data_url(first)}}],
                }
            ],
        }
    ]
    assert sorted(body["input"] for body in bodies if "input" in body) == sorted(WISHES)
    ran(file, "again")
    assert models.count("embeddings") == len(bodies)


def test_a_picture_is_compared_with_reference_pictures_and_a_changed_file_is_asked_about_again(
    tmp_path: Path, models: MediaModels
) -> None:
    def answer(url: str) -> list[dict[str, Any]]:
        return [{"answer": [{"type": "image_url", "image_url": {"url": url}}]}]

    (tmp_path / "ref.png").write_bytes(drawn("another"))
    references = [*answer("ref.png"), *answer("../secret.png"), *answer("http://127.0.0.1/x.png")]
    records = [
        {"id": str(number), "question": WISHES[0], "references": [reference]}
        for number, reference in enumerate(references)
    ]
    sections = embedding(models, "judge_score", embeds=True)
    sections["tasks"][0]["max_unscored_share"] = 1
    file = config_of(tmp_path, records, **sections)
    rows = [*ran(file, "first").task().rows()]
    assert 0 < score(rows[0]) < 0.999
    assert [row.judgments[0]["reason"] for row in rows[1:]] == ["not_asked", "not_asked"]
    assert all("no_reference" in row.judgments[0]["explanation"] for row in rows[1:])
    (tmp_path / "ref.png").write_bytes(drawn(WISHES[0]))
    (row, *_) = ran(file, "changed").task().rows()
    assert score(row) == pytest.approx(1)


def filming(models: MediaModels, **config: Any) -> dict[str, Any]:
    backend = {"base_url": models.url, "model": "director", "poll_s": 0.01, "max_attempts": 1, **config}
    return {
        "backends": [{"backend_id": "director", "type": "openai_videos", "config": backend}],
        "metrics": ["text_length"],
    }


def test_a_job_makes_a_video_which_is_stored_and_shown_and_made_once(tmp_path: Path, models: MediaModels) -> None:
    (tmp_path / "first.png").write_bytes(drawn("first"))
    content = [{"type": "image_url", "image_url": {"url": "first.png"}}, {"type": "text", "text": "It moves."}]
    records = [{"id": "0", "question": "a fox runs"}, {"id": "1", "messages": [{"role": "user", "content": content}]}]
    file = config_of(tmp_path, records, **filming(models, seconds=4), export=["media"])
    reader = ran(file, "first")
    for row, prompt in zip(reader.task().rows(), ("a fox runs", "It moves."), strict=True):
        url = media_url(sha256_hex(filmed(prompt)))
        assert row.responses[0]["answer"] == url
        assert json.loads(row.responses[0]["artifacts"])["files"] == {
            "video.mp4": {"url": url, "bytes": len(filmed(prompt))}
        }
    forms = {form["prompt"]: form for path, form in models.requests if path == "videos"}
    assert {name: forms[b"a fox runs"][name] for name in ("model", "seconds")} == {
        "model": b"director",
        "seconds": b"4",
    }
    assert forms[b"It moves."]["input_reference"] == drawn("first")
    for job in models.jobs:
        assert (models.count(f"videos/{job}"), models.count(f"videos/{job}/content")) == (3, 1)
    page = (tmp_path / "store" / "runs" / "first" / "report.html").read_text()
    assert '<video controls preload="none" src="data:video/mp4;base64,' in page
    assert len([*(tmp_path / "store" / "runs" / "first" / "media").rglob("*.mp4")]) == 2
    ran(file, "again")
    assert len(models.jobs) == 2


def test_a_job_that_was_begun_is_fetched_by_the_next_run_and_made_again_only_where_it_failed(
    tmp_path: Path, models: MediaModels
) -> None:
    models.looks = 10**9
    records = [{"id": "0", "question": "a fox runs"}]
    with pytest.raises(RunFailed):
        ran(config_of(tmp_path, records, **filming(models, max_job_s=0.02)), "gave_up")
    models.looks = 0
    file = config_of(tmp_path, records, **filming(models))
    (row,) = ran(file, "next").task().rows()
    assert row.responses[0]["answer"] == media_url(sha256_hex(filmed("a fox runs")))
    assert list(models.jobs) == ["video_0"]

    models.looks = 10**9
    records = [{"id": "0", "question": "a boat"}]
    with pytest.raises(RunFailed):
        ran(config_of(tmp_path, records, **filming(models, max_job_s=0.02)), "gave_up_again")
    models.instead["videos/video_1"] = b'{"id": "video_1", "status": "failed"}', "application/json"
    models.looks = 0
    ran(config_of(tmp_path, records, **filming(models)), "last")
    assert list(models.jobs) == ["video_0", "video_1", "video_2"]
    wip = tmp_path / "store" / "wip"
    assert [path for path in wip.rglob("*") if path.is_file() and path.parent.name == "jobs"] == []


def test_the_id_of_a_job_is_forgotten_after_its_answer_is_in_the_log(
    tmp_path: Path, models: MediaModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = list[int]()

    def drop(ids: JobIds, request: str) -> None:
        folders = {file.parent for file in (tmp_path / "store" / "wip").glob("*/log/*.log")}
        logged.append(sum(len([*read_logs(folder)]) for folder in folders))

    monkeypatch.setattr(JobIds, "drop", drop)
    ran(config_of(tmp_path, [{"id": "0", "question": "a fox runs"}], **filming(models)), "first")
    assert logged == [1]


@pytest.mark.parametrize(
    ("answer", "config", "kind"),
    [
        ({"id": "j", "status": "failed", "error": {"message": "no faces"}}, {}, "job_failed"),
        ({"id": "../../models", "status": "queued"}, {}, "malformed"),
        ({"id": "j"}, {}, "malformed"),
        ({"id": "j", "status": "queued"}, {"max_job_s": 0.02}, "job_timeout"),
        ({"id": "video_0", "status": "completed"}, {}, "malformed"),
    ],
)
def test_a_job_without_a_video_is_an_error_of_its_row(
    tmp_path: Path, models: MediaModels, answer: dict[str, Any], config: dict[str, Any], kind: str
) -> None:
    for path in ("videos", "videos/j"):
        models.instead[path] = json.dumps(answer).encode(), "application/json"
    models.instead["videos/video_0/content"] = b'{"error": "gone"}', "application/json"
    file = config_of(tmp_path, [{"id": "0", "question": "a fox"}], **filming(models, **config))
    with pytest.raises(RunFailed):
        ran(file, "bad")
    (row,) = RunReader.open(Locations.at(str(tmp_path / "store")), "bad").task().rows()
    assert row.responses[0]["error_kind"] == kind
    assert {path.partition("/")[0] for path, _ in models.requests} == {"videos"}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b'{"data": [{"url": "http://169.254.169.254/latest"}]}', "address"),
        (b'{"data": [{"b64_json": "PHN2Zz48L3N2Zz4="}]}', "wrong_media"),
        (b'{"data": [{"b64_json": "***"}]}', "malformed"),
        (b'{"data": []}', "malformed"),
        (b"[1]", "malformed"),
    ],
)
def test_an_answer_that_is_no_picture_is_an_error_of_its_row(
    tmp_path: Path, models: MediaModels, answer: bytes, kind: str
) -> None:
    models.instead["images/generations"] = answer, "application/json"
    backend = {"base_url": models.url, "model": "painter", "max_attempts": 1}
    backends = [{"backend_id": "painter", "type": "openai_images", "config": backend}]
    file = config_of(tmp_path, [{"id": "0", "question": "a fox"}], backends=backends, metrics=["text_length"])
    with pytest.raises(RunFailed):
        ran(file, "bad")
    reader = RunReader.open(Locations.at(str(tmp_path / "store")), "bad")
    (row,) = reader.task().rows()
    assert row.responses[0]["error_kind"] == kind
