"""Whole runs with images and examples: what the endpoint gets, what the store holds, what a second run sends."""

import base64
import io
import json
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest
import yaml
from support.chat_server import ChatServer, chat_server
from support.endpoint import MockEndpoint, mock_endpoint
from support.pictures import write_image
from support.runs import stage_states

from gage_eval.base.canonical import decode, sha256_hex
from gage_eval.base.errors import ConfigError, GageError, InputError
from gage_eval.data.prepare import media, remote
from gage_eval.runs import RunOptions, RunOutcome, run_inline
from gage_eval.store import Store
from tests.support.documents import pdf, tone
from tests.support.file_server import file_server
from tests.support.videos import number_of, video


@pytest.fixture(scope="module")
def endpoint() -> Iterator[MockEndpoint]:
    with mock_endpoint(keep_bodies=True) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, endpoint: MockEndpoint) -> Path:
    """Data with an image, and a pool of examples."""
    endpoint.reset()
    write_image(tmp_path / "data" / "img" / "a.png")
    content = [{"type": "image_url", "image_url": {"url": "img/a.png"}}, {"type": "text", "text": "What colour?"}]
    seen = {"id": "s", "messages": [{"role": "user", "content": content}], "label": "red"}
    (tmp_path / "data" / "seen.jsonl").write_text(json.dumps(seen) + "\n")
    rows = [{"id": f"r{n}", "question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(6)]
    (tmp_path / "data" / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def run(
    folder: Path,
    endpoint: MockEndpoint | ChatServer,
    dataset: dict[str, Any],
    task: dict[str, Any],
    store: str | None = None,
    **beside: Any,
) -> RunOutcome:
    config = {
        "datasets": [
            {"dataset_id": "main", "params": dataset},
            {"dataset_id": "pool", "params": {"path": "data/sums.jsonl"}},
        ],
        "backends": [
            {"backend_id": "mock", "type": "openai_http", "config": {"base_url": endpoint.url, "model": "mock"}}
        ],
        "metrics": ["contains"],
        "tasks": [{"task_id": "t", "dataset_id": "main", **task}],
        **beside,
    }
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    return run_inline(RunOptions(config=str(file), store=store or str(folder / "store")))


def sent(endpoint: MockEndpoint) -> list[dict[str, Any]]:
    bodies: list[dict[str, Any]] = endpoint.stats()["bodies"]
    return bodies


def test_an_image_is_sent_as_it_lies_on_disk_and_no_row_holds_it(folder: Path, endpoint: MockEndpoint) -> None:
    outcome = run(folder, endpoint, {"path": "data/seen.jsonl"}, {})
    (body,) = sent(endpoint)
    url = body["messages"][0]["content"][0]["image_url"]["url"]
    head, _, data = url.partition(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(data) == (folder / "data" / "img" / "a.png").read_bytes()
    store = Store.open(str(folder / "store"))
    for result in outcome.results.values():
        for artifact_id in result.outputs.values():
            text = str(store.artifact(artifact_id).table().to_pylist())
            assert "base64" not in text
            assert str(folder) not in text


def test_an_image_beside_a_prompt_in_inputs_is_sent(folder: Path, endpoint: MockEndpoint) -> None:
    inputs = {"prompt": "What colour?", "multi_modal_data": {"image": ["img/a.png"]}}
    (folder / "data" / "beside.jsonl").write_text(json.dumps({"id": "s", "inputs": inputs, "answer": "red"}) + "\n")
    run(folder, endpoint, {"path": "data/beside.jsonl"}, {})
    (body,) = sent(endpoint)
    shown, question = body["messages"][0]["content"]
    data = shown["image_url"]["url"].partition(",")[2]
    assert base64.b64decode(data) == (folder / "data" / "img" / "a.png").read_bytes()
    assert question == {"type": "text", "text": "What colour?"}


def test_a_changed_image_is_asked_about_again_and_an_unchanged_one_is_not(folder: Path, endpoint: MockEndpoint) -> None:
    run(folder, endpoint, {"path": "data/seen.jsonl"}, {})
    assert stage_states(run(folder, endpoint, {"path": "data/seen.jsonl"}, {}).folder) == {"cached"}
    assert len(sent(endpoint)) == 1
    write_image(folder / "data" / "img" / "a.png", colour=(0, 90, 0))
    again = run(folder, endpoint, {"path": "data/seen.jsonl"}, {})
    assert next(result.stage for result in again.results.values() if not result.cached) == "preprocess"
    assert len(sent(endpoint)) == 2


def test_a_file_that_changes_while_it_is_read_is_not_stored_under_the_old_key(
    folder: Path, endpoint: MockEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change_and_read(url: str, rules: media.MediaRules) -> bytes:
        write_image(folder / "data" / "img" / "a.png", colour=(0, 90, 0))
        return read(url, rules)

    read = media.file_content
    monkeypatch.setattr(media, "file_content", change_and_read)
    with pytest.raises(InputError, match="changed while it was read"):
        run(folder, endpoint, {"path": "data/seen.jsonl"}, {})
    assert sent(endpoint) == []
    run(folder, endpoint, {"path": "data/seen.jsonl"}, {})
    assert len(sent(endpoint)) == 1


def test_a_rejected_image_is_counted_in_the_summary(folder: Path, endpoint: MockEndpoint) -> None:
    with (folder / "data" / "seen.jsonl").open("a") as file:
        content = [{"type": "image_url", "image_url": {"url": "img/none.png"}}]
        file.write(json.dumps({"id": "gone", "messages": [{"role": "user", "content": content}], "label": "x"}) + "\n")
    task = run(folder, endpoint, {"path": "data/seen.jsonl", "on_reject": "skip"}, {}).summary.tasks[0]
    assert (task.sample_count, task.rejects) == (1, 1)
    with pytest.raises(InputError, match=r"1 of 2 samples cannot be prepared \(row 1: image_url 'img/none.png'"):
        run(folder, endpoint, {"path": "data/seen.jsonl"}, {})


def test_examples_come_from_a_pool_that_limits_do_not_touch(folder: Path, endpoint: MockEndpoint) -> None:
    few_shot = {"k": 2, "dataset_id": "pool", "selector": "random"}
    data = {"path": "data/sums.jsonl"}
    whole = run(folder, endpoint, data, {"few_shot": few_shot})
    first = {json.dumps(body["messages"]) for body in sent(endpoint)}
    assert len(first) == 6
    assert all(len(json.loads(messages)) == 5 for messages in first)
    run(folder, endpoint, data, {"few_shot": few_shot, "max_samples": 3})
    assert len(sent(endpoint)) == 6, "every prompt of the limited run was answered by the whole one"
    assert ("t:few_shot", "standardize") in whole.results


def test_completions_are_sent_as_one_text(folder: Path, endpoint: MockEndpoint) -> None:
    task = {"mode": "completion", "few_shot": {"ids": ["r1"], "dataset_id": "pool"}, "max_samples": 1,
            "target_delimiter": "\nA: ", "sampling_params": {"stop": ["\n"]}}  # fmt: skip
    run(folder, endpoint, {"path": "data/sums.jsonl"}, task)
    (body,) = sent(endpoint)
    assert body["prompt"] == "What is 1 + 1?\nA: 2\n\nWhat is 0 + 0?"
    assert body["stop"] == ["\n"]


def test_a_prompt_that_hides_the_examples_is_refused(folder: Path, endpoint: MockEndpoint) -> None:
    beside = {
        "role_adapters": [{"adapter_id": "dut", "role_type": "dut_model", "backend_id": "mock", "prompt_id": "p"}],
        "prompts": [{"prompt_id": "p", "template": "{{ sample.id }}"}],
    }
    few_shot = {"k": 1, "dataset_id": "pool"}
    with pytest.raises(ConfigError, match="prompt 'p' replaces the messages and shows no examples"):
        run(folder, endpoint, {"path": "data/sums.jsonl"}, {"few_shot": few_shot}, **beside)
    beside["prompts"][0]["template"] = "{% for m in history %}{{ m.content }}\n{% endfor %}"
    run(folder, endpoint, {"path": "data/sums.jsonl"}, {"few_shot": few_shot, "max_samples": 1}, **beside)
    assert sent(endpoint)[0]["messages"][0]["content"].startswith("What is 1 + 1?\n2\nWhat is 0 + 0?")


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"few_shot": {"dataset_id": "pool"}}, "needs 'k', how many examples, or 'ids', which ones"),
        ({"few_shot": {"ids": ["a"]}}, "'ids' are those of another dataset"),
        ({"few_shot": {"ids": ["a", "a"], "dataset_id": "pool"}}, "names an example twice"),
        ({"few_shot": {"k": 3, "ids": ["a"], "dataset_id": "pool"}}, "'k' asks for 3 examples and 'ids' names 1"),
        ({"few_shot": {"k": 1, "dataset_id": "pol"}}, "Did you mean 'pool'?"),
        ({"few_shot": {"k": 1, "as": "chat"}, "mode": "completion"}, "a completion request is one text"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    task: dict[str, Any], message: str, folder: Path, endpoint: MockEndpoint
) -> None:
    with pytest.raises(ConfigError) as refusal:
        run(folder, endpoint, {"path": "data/sums.jsonl"}, task)
    assert message in str(refusal.value)
    assert sent(endpoint) == []


def test_a_content_root_that_is_not_there_is_refused(folder: Path, endpoint: MockEndpoint) -> None:
    with pytest.raises(InputError, match="content_root: there is no folder 'nowhere'"):
        run(folder, endpoint, {"path": "data/seen.jsonl", "content_root": "nowhere"}, {})


def test_plan_and_preview_know_media_and_examples(folder: Path, endpoint: MockEndpoint) -> None:
    from gage_eval.authoring.preview import preview_requests
    from gage_eval.pipeline.forecast import forecast
    from gage_eval.pipeline.plan import make_plan
    from gage_eval.runs.options import load

    run(folder, endpoint, {"path": "data/seen.jsonl"}, {"few_shot": {"k": 1, "dataset_id": "pool"}})
    options = RunOptions(config=str(folder / "config.yaml"), store=str(folder / "store"))
    plan = make_plan(load(options))
    store = Store.open(str(folder / "store"))
    states = [(stage.task_id, stage.stage, stage.state) for stage in forecast(store, plan)]
    assert {state for _, _, state in states} == {"cached"}
    assert ("t:few_shot", "standardize", "cached") in states
    write_image(folder / "data" / "img" / "a.png", colour=(0, 0, 0))
    changed = next(stage for stage in forecast(store, plan) if stage.stage == "preprocess")
    assert (changed.state, changed.why) == ("missing", "the media files changed")
    (shown,) = preview_requests(options, 3).requests
    assert [message["role"] for message in shown.rendered.request.messages or []] == ["user", "assistant", "user"]


def asked_about(kind: str, name: str) -> dict[str, Any]:
    content = [{"type": kind, kind: {"url": name}}, {"type": "text", "text": "What is said?"}]
    return {"messages": [{"role": "user", "content": content}], "label": "red"}


def test_a_recording_is_sent_as_the_endpoint_takes_it_and_decoded_once(folder: Path, endpoint: MockEndpoint) -> None:
    sound = folder / "data" / "said.wav"
    sound.write_bytes(tone(0.25))
    (folder / "data" / "said.jsonl").write_text(json.dumps(asked_about("audio_url", "said.wav")) + "\n")
    dataset = {"path": "data/said.jsonl", "audio_rate": 16_000}
    backend = {"base_url": endpoint.url, "model": "mock"}
    run(folder, endpoint, dataset, {})
    ours = [
        {
            "backend_id": "mock",
            "type": "openai_http",
            "config": {**backend, "identity": "b", "audio_part": "input_audio"},
        }
    ]
    outcome = run(folder, endpoint, dataset, {}, backends=ours)

    first, second = (body["messages"][0]["content"][0] for body in sent(endpoint))
    assert first["type"] == "audio_url"
    assert second["type"] == "input_audio"
    assert second["input_audio"]["format"] == "wav"
    assert first["audio_url"]["url"] == f"data:audio/wav;base64,{second['input_audio']['data']}"
    with wave.open(io.BytesIO(base64.b64decode(second["input_audio"]["data"]))) as file:
        assert (file.getnchannels(), file.getframerate(), file.getnframes()) == (1, 16_000, 4_000)
    # The form is the endpoint's; what it hears was made before.
    assert next(result.cached for (_, stage), result in outcome.results.items() if stage == "preprocess")


def test_a_recording_that_the_endpoint_does_not_take_says_what_to_set(folder: Path, endpoint: MockEndpoint) -> None:
    (folder / "data" / "said.flac").write_bytes(b"fLaC" + b"\0" * 80)
    (folder / "data" / "said.jsonl").write_text(json.dumps(asked_about("audio_url", "said.flac")) + "\n")
    config = {"base_url": endpoint.url, "model": "mock", "audio_part": "input_audio"}
    backends = [{"backend_id": "mock", "type": "openai_http", "config": config}]
    with pytest.raises(InputError, match="audio_rate"):
        run(folder, endpoint, {"path": "data/said.jsonl"}, {}, backends=backends)


def test_the_frames_of_a_video_are_sent_as_one_video_where_that_is_asked(folder: Path, endpoint: MockEndpoint) -> None:
    (folder / "data" / "clip.mp4").write_bytes(video([9, 5, 9, 7, 1], rate=2))
    row = asked_about("video_url", "clip.mp4")
    # What the data say of frames is not sent.
    row["messages"][0]["content"][0]["video_url"]["frames"] = ["media://sha256/" + "0" * 64]
    (folder / "data" / "clips.jsonl").write_text(json.dumps(row) + "\n")
    dataset = {"path": "data/clips.jsonl", "video_frames": 3}
    run(folder, endpoint, dataset, {})
    run(folder, endpoint, {**dataset, "video_form": "video"}, {})

    images, whole = (body["messages"][0]["content"] for body in sent(endpoint))
    assert [part["type"] for part in whole] == ["video_url", "text"]
    head, _, frames = whole[0]["video_url"]["url"].partition(",")
    assert head == "data:video/jpeg;base64"
    assert frames.split(",") == [part["image_url"]["url"].partition(",")[2] for part in images[:3]]
    assert set(whole[0]["video_url"]) == {"url"}


def test_a_run_by_url_shares_its_answers_with_base64_and_keeps_no_url(folder: Path) -> None:
    tokens = set()

    def sees(body: dict[str, Any]) -> str:
        url = body["messages"][0]["content"][0]["image_url"]["url"]
        tokens.add(url.split("/")[3])
        with build_opener(ProxyHandler({})).open(url, timeout=30) as reply:
            assert reply.read() == (folder / "data" / "img" / "a.png").read_bytes()
        return f"red, at {url}"

    with chat_server(sees) as served:
        for source in ("url", "base64"):
            config = {"base_url": served.url, "model": "mock", "media_source": source}
            backends = [{"backend_id": "mock", "type": "openai_http", "config": config}]
            outcome = run(folder, served, {"path": "data/seen.jsonl"}, {}, backends=backends)
    assert len(served.asked) == len(tokens) == 1
    assert stage_states(outcome.folder) == {"cached"}
    kept = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    (token,) = tokens
    assert not any(token.encode() in data for data in kept)


def test_an_endpoint_anywhere_fetches_media_from_the_server_of_a_store_on_s3(folder: Path, s3_url: str) -> None:
    picture = (folder / "data" / "img" / "a.png").read_bytes()
    urls: list[str] = []

    def sees(body: dict[str, Any]) -> str | tuple[int, str]:
        urls.append(body["messages"][0]["content"][0]["image_url"]["url"])
        with build_opener(ProxyHandler({})).open(urls[-1], timeout=30) as reply:
            assert (reply.read(), reply.headers["Content-Type"]) == (picture, "image/png")
        return "red" if len(urls) > 1 else (400, f"no colour at {urls[-1]}")

    with chat_server(sees) as served:
        config = {"base_url": served.url, "model": "mock", "media_source": "store"}
        backends = [{"backend_id": "mock", "type": "openai_http", "config": config}]
        with pytest.raises(GageError) as refused:
            run(folder, served, {"path": "data/seen.jsonl"}, {}, s3_url, backends=backends)
        run(folder, served, {"path": "data/seen.jsonl"}, {}, s3_url, backends=backends)
        with pytest.raises(InputError, match=r"store on S3.*is a folder"):
            run(folder, served, {"path": "data/seen.jsonl"}, {}, backends=backends)
    assert "Signature=…" in str(refused.value)
    assert urls[0] not in str(refused.value)
    assert len(urls) == 2


def test_a_pdf_is_sent_as_its_pages_or_as_its_text(folder: Path, endpoint: MockEndpoint) -> None:
    (folder / "data" / "bill.pdf").write_bytes(pdf("Total: 12.50", "page two"))
    (folder / "data" / "bills.jsonl").write_text(json.dumps(asked_about("file_url", "bill.pdf")) + "\n")
    for form in ("images", "text"):
        run(folder, endpoint, {"path": "data/bills.jsonl", "pdf": form, "pdf_dpi": 72}, {})

    images, text = (body["messages"][0]["content"] for body in sent(endpoint))
    assert [part["type"] for part in images] == ["image_url", "image_url", "text"]
    assert all(part["image_url"]["url"].startswith("data:image/png;base64,") for part in images[:2])
    assert [part["text"] for part in text] == ["Total: 12.50\fpage two", "What is said?"]


def test_a_document_has_the_form_that_the_endpoint_takes(folder: Path, endpoint: MockEndpoint) -> None:
    (folder / "data" / "bill.pdf").write_bytes(pdf("Total: 12.50"))
    (folder / "data" / "bills.jsonl").write_text(json.dumps(asked_about("file_url", "bill.pdf")) + "\n")
    config = {"base_url": endpoint.url, "model": "mock"}
    for more in ({}, {"file_part": "file", "identity": "b"}):
        backends = [{"backend_id": "mock", "type": "openai_http", "config": {**config, **more}}]
        run(folder, endpoint, {"path": "data/bills.jsonl"}, {}, backends=backends)
    plain, ours = (body["messages"][0]["content"][0] for body in sent(endpoint))
    assert (plain["type"], ours["type"], ours["file"]["filename"]) == ("file_url", "file", "document.pdf")
    assert plain["file_url"]["url"] == ours["file"]["file_data"]
    head, _, data = ours["file"]["file_data"].partition(",")
    assert (head, base64.b64decode(data)) == ("data:application/pdf;base64", pdf("Total: 12.50"))


def test_a_video_is_sent_as_the_frames_that_are_named_each_with_its_time(folder: Path, endpoint: MockEndpoint) -> None:
    # Frames 0 and 2 look the same, and both are sent and listed.
    (folder / "data" / "clip.mp4").write_bytes(video([9, 5, 9, 7, 1], rate=2))
    (folder / "data" / "clips.jsonl").write_text(json.dumps(asked_about("video_url", "clip.mp4")) + "\n")
    outcome = run(folder, endpoint, {"path": "data/clips.jsonl", "video_frames": 3, "video_times": True}, {})

    (body,) = sent(endpoint)
    *shown, question = body["messages"][0]["content"]
    assert [part["text"] for part in [*shown[::2], question]] == [
        "<0.0 seconds>", "<1.0 seconds>", "<2.0 seconds>", "What is said?"
    ]  # fmt: skip
    heads, pictures = zip(*(part["image_url"]["url"].split(",") for part in shown[1::2]), strict=True)
    assert set(heads) == {"data:image/jpeg;base64"}
    assert [number_of(base64.b64decode(picture)) for picture in pictures] == [9, 9, 1]

    store = Store.open(str(folder / "store"))
    prepared = next(result for (_, stage), result in outcome.results.items() if stage == "preprocess").outputs[
        "prepared"
    ]
    (row,) = store.artifact(prepared).table().to_pylist()
    frames = decode(row["media_meta"])["media"]
    assert [(frame["frame"], frame["seconds"], frame["type"]) for frame in frames] == [
        (0, 0.0, "image_url"), (2, 1.0, "image_url"), (4, 2.0, "image_url")
    ]  # fmt: skip
    assert {frame["video"] for frame in frames} == {sha256_hex((folder / "data" / "clip.mp4").read_bytes())}
    assert [store.media.get(frame["url"]) for frame in frames] == [base64.b64decode(picture) for picture in pictures]


def test_a_medium_on_a_server_is_fetched_once_and_kept(folder: Path, endpoint: MockEndpoint) -> None:
    with file_server({"/said.wav": tone(0.25), "/b.wav": tone(0.5)}) as server:
        rows = [asked_about("audio_url", f"{server.url}/{name}.wav?key=k") for name in ("said", "b", "said")]
        (folder / "data" / "said.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        dataset = {"path": "data/said.jsonl", "audio_rate": 16_000}
        with pytest.raises(InputError, match="private_media_hosts") as refusal:
            run(folder, endpoint, dataset, {})
        assert server.requests == []
        assert "key=k" not in str(refusal.value)
        for _ in range(2):
            outcome = run(folder, endpoint, {**dataset, "private_media_hosts": ["127.0.0.1"]}, {})
        assert sorted(server.requests) == ["/b.wav?key=k", "/said.wav?key=k"]

    urls = [body["messages"][0]["content"][0]["audio_url"]["url"] for body in sent(endpoint)]
    assert [url.partition(",")[0] for url in urls] == ["data:audio/wav;base64"] * 2, "equal questions are asked once"
    store = Store.open(str(folder / "store"))
    prepared = next(result for (_, stage), result in outcome.results.items() if stage == "preprocess").outputs[
        "prepared"
    ]
    meta = decode(store.artifact(prepared).table().to_pylist()[0]["media_meta"])["media"][0]
    assert store.media.get(meta["source"]) == tone(0.25)
    assert meta["seconds"] == 0.25


def test_rows_of_a_server_that_is_away_are_rejected_and_the_next_run_asks_it_again(
    folder: Path, endpoint: MockEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_PAUSES_S", (0.0, 0.0))
    names = [f"/{number}.wav" for number in range(30)]
    files: dict[str, bytes | int] = dict.fromkeys(names, 503)
    with file_server(files) as away, file_server({"/here.wav": tone(0.5)}) as there:
        urls = [f"{there.url}/here.wav", *(away.url + name for name in names)]
        rows = [asked_about("audio_url", url) for url in urls]
        (folder / "data" / "said.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        dataset = {"path": "data/said.jsonl", "audio_rate": 16_000, "private_media_hosts": ["127.0.0.1"]}
        with pytest.raises(InputError, match=r"30 of 31 samples cannot be prepared .*\(HTTP 503\); the next run tries"):
            run(folder, endpoint, dataset, {})
        # Three failed, while three others were under way; each was tried three times.
        assert 9 <= len(away.requests) <= 18
        assert sent(endpoint) == []
        outcome = run(folder, endpoint, {**dataset, "on_reject": "skip"}, {})
        assert outcome.results["t", "preprocess"].counts["prepare_rejects"] == 30
        assert len(sent(endpoint)) == 1

        files.update({name: tone(0.1 + number / 1000) for number, name in enumerate(names)})
        outcome = run(folder, endpoint, dataset, {})
        assert outcome.results["t", "preprocess"].counts["prepare_rejects"] == 0
        assert len(sent(endpoint)) == 31, "only the new ones are sent"
        before = len(away.requests)
        run(folder, endpoint, dataset, {})
        assert len(away.requests) == before


def test_a_changed_recipe_asks_again_and_a_medium_inside_the_network_is_rejected_by_one(
    folder: Path, endpoint: MockEndpoint
) -> None:
    (folder / "data" / "bill.pdf").write_bytes(pdf("one"))
    rows = [asked_about("file_url", "bill.pdf"), asked_about("file_url", "http://127.0.0.1:9/bill.pdf")]
    (folder / "data" / "bills.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    dataset = {"path": "data/bills.jsonl", "pdf": "images", "on_reject": "skip"}
    for dpi in (72, 72, 96):
        run(folder, endpoint, {**dataset, "pdf_dpi": dpi}, {})
    assert len(sent(endpoint)) == 2
