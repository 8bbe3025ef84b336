"""The example of each kind of samples is asked, answered by a stand-in and scored, in one run."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image
from support import media_models as served
from support.boxes import NEEDS_BOX, NO_BOX
from support.media_models import media_models

from gage_eval.config.task_types import TASK_TYPES
from gage_eval.runs import RunOptions, run_inline
from tests.support.documents import pdf, tone
from tests.support.videos import video

EXAMPLES: dict[str, dict[str, Any]] = {
    example["task_type"]: example
    for example in json.loads((Path(__file__).parents[1] / "data" / "sample" / "sample_examples.json").read_text())
}
CALL = EXAMPLES["agent"]["golden_trajectories"][0][0]["tool_calls"]
# What a good model answers, by a text of the request.
SAYS: dict[str, str | dict[str, Any]] = {
    "Rate it": "Score: 4",
    "capital of France": "Paris",
    "is a mammal": "B",
    "Give an example": "...",
    "What fruit": "apple",
    "Translate the audio": "Hello",
    "happens in the video": "...",
    "Summarize section 2": "...",
    "Fibonacci": "```python\ndef fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n```",
    "22C": "Paris is sunny at 22C.",
    "Search the weather": {"content": None, "tool_calls": CALL},
}
# Of each kind: the parameters of its data, its adapter, further settings of its task, its metric, and the best value.
KINDS: dict[str, tuple[dict[str, Any], str, dict[str, Any], str, float]] = {
    "short-answer": ({}, "chat", {}, "exact_match", 1),
    "multiple-choice": ({}, "chat", {}, "multi_choice_accuracy", 1),
    "dialogue": ({}, "chat", {}, "exact_match", 1),
    "image-qa": ({"image_max_pixels": 28 * 28 * 4}, "chat", {}, "exact_match", 1),
    "audio-translation": ({"audio_rate": 16_000}, "chat", {}, "chrf", 100),
    "video-qa": ({"video_frames": 4}, "chat", {}, "exact_match", 1),
    "doc-qa": ({"pdf": "images"}, "chat", {}, "docvqa_anls", 1),
    "text-to-image": ({}, "painter", {"judge_adapter_id": "critic"}, "judge_score", 4),
    "image-to-image": ({}, "painter", {"judge_adapter_id": "critic"}, "judge_score", 4),
    "text-to-audio": ({}, "mouth", {"judge_adapter_id": "critic"}, "judge_score", 4),
    "text-to-video": ({}, "director", {"judge_adapter_id": "critic"}, "judge_score", 4),
    "code-generation": (
        {},
        "chat",
        {
            "execution": {
                "mode": "calls",
                "filters": ["sanitize"],
                "entry": "sample.metadata.entry",
                "tests": "sample.metadata.tests",
            }
        },
        "execution_passed",
        1,
    ),
    "agent": ({}, "agent", {}, "tool_call_match", 1),
}


def said(messages: list[dict[str, Any]]) -> str | dict[str, Any]:
    last = json.dumps(messages[-1])
    return next(answer for mark, answer in SAYS.items() if mark in last)


def record(kind: str) -> dict[str, Any]:
    if kind != "code-generation":
        return EXAMPLES[kind]
    tests = {"entry": "fib", "tests": ["assert fib(10) == 55"]}
    # tests/pipeline/test_executions.py runs programs in the image of their sample.
    return {**EXAMPLES[kind], "sandbox": {"setup": "python3 -V"}, "metadata": tests}


def write_media(folder: Path) -> None:
    out = io.BytesIO()
    Image.new("RGB", (120, 90), (200, 30, 30)).save(out, "PNG")
    files = {
        "inputs/apple_0001.png": out.getvalue(),
        "inputs/sketch_0001.png": out.getvalue(),
        "inputs/hello.wav": tone(0.2),
        "inputs/demo.mp4": video(12),
        "inputs/paper.pdf": pdf("Section 1", "Section 2"),
    }
    for name, data in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], list[tuple[str, Any]]]]:
    """The task of each kind in the summary, and what the stand-ins were asked."""
    folder = tmp_path_factory.mktemp("kinds")
    write_media(folder)
    kinds = [kind for kind in KINDS if kind != "code-generation" or NO_BOX is None]
    for kind in kinds:
        (folder / f"{kind}.jsonl").write_text(json.dumps(record(kind)) + "\n")
    with pytest.MonkeyPatch.context() as patch, media_models() as models:
        patch.setattr(served, "looked_at", said)
        backends = [
            {"backend_id": name, "type": type_, "config": {"base_url": models.url, "model": name}}
            for name, type_ in (("chat", "openai_http"), ("painter", "openai_images"), ("mouth", "openai_speech"))
        ]
        director = {"base_url": models.url, "model": "director", "poll_s": 0.01}
        adapters = [
            {"adapter_id": name, "role_type": "dut_model", "backend_id": name}
            for name in ("chat", "painter", "mouth", "director")
        ]
        config = {
            "datasets": [{"dataset_id": kind, "params": {"path": f"{kind}.jsonl", **KINDS[kind][0]}} for kind in kinds],
            "backends": [*backends, {"backend_id": "director", "type": "openai_videos", "config": director}],
            "prompts": [{"prompt_id": "rate", "template": "Rate it from 1 to 5: {{ model_answer }}"}],
            "role_adapters": [
                *adapters,
                {"adapter_id": "agent", "role_type": "dut_model", "backend_id": "chat", "tool_rounds": 3},
                {"adapter_id": "critic", "role_type": "judge_model", "backend_id": "chat", "prompt_id": "rate"},
            ],
            "tasks": [
                {
                    "task_id": kind,
                    "dataset_id": kind,
                    "adapter_id": KINDS[kind][1],
                    **KINDS[kind][2],
                    "metric_overrides": [KINDS[kind][3]],
                }
                for kind in kinds
            ],
        }
        (folder / "kinds.yaml").write_text(yaml.safe_dump(config))
        summary = run_inline(RunOptions(config=str(folder / "kinds.yaml"), store=str(folder / "store"))).summary
        yield {task.task_id: task for task in summary.tasks}, models.requests


def test_these_are_all_kinds_and_each_has_an_example() -> None:
    assert set(KINDS) == set(EXAMPLES) == set(TASK_TYPES) - {"preference"}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=NEEDS_BOX if kind == "code-generation" else ()) for kind in KINDS]
)
def test_each_kind_has_a_score(kind: str, done: tuple[dict[str, Any], Any]) -> None:
    (metric,) = done[0][kind].metrics
    assert (metric.metric_id, metric.n, metric.value) == (KINDS[kind][3], 1, pytest.approx(KINDS[kind][4]))


@pytest.mark.parametrize(
    ("mark", "parts"),
    [
        ("capital of France", ["text"]),
        ("What fruit", ["image_url", "text"]),
        ("Translate the audio", ["audio_url", "text"]),
        ("happens in the video", [*["image_url"] * 4, "text"]),
        ("Summarize section 2", [*["image_url"] * 2, "text"]),
    ],
)
def test_what_is_sent_is_what_the_page_says(
    mark: str, parts: list[str], done: tuple[Any, list[tuple[str, Any]]]
) -> None:
    (content,) = [
        body["messages"][-1]["content"]
        for path, body in done[1]
        if path == "chat/completions" and mark in json.dumps(body["messages"][-1])
    ]
    assert (["text"] if isinstance(content, str) else [part["type"] for part in content]) == parts


def test_judges_get_what_was_made(done: tuple[Any, list[tuple[str, Any]]]) -> None:
    judged = [
        [part["type"] for part in body["messages"][-1]["content"]]
        for path, body in done[1]
        if path == "chat/completions"
        and "Rate it" in json.dumps(body)
        and isinstance(body["messages"][-1]["content"], list)
    ]
    shown = sorted(part for parts in judged for part in parts if part != "text")
    # Of an edit, the picture before and after.
    assert shown == ["audio_url", *["image_url"] * 3, "video_url"]
    assert {path.partition("/")[0] for path, _ in done[1]} == {"chat", "images", "audio", "videos"}
