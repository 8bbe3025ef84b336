"""The suite text_to_image, with rows of PartiPrompts' form: the picture is drawn, seen, and rated by two criteria."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.local_suites import template_of
from gage_eval.runs import RunOptions, run_inline

ROWS = (
    "Prompt\tCategory\tChallenge\tNote\n"
    "bond\tAbstract\tBasic\tBiology\n"
    '"a sign that says ""no"""\tWorld Knowledge\tWriting & Symbols\t\n'
)


def test_a_judge_rates_alignment_and_quality_of_each_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    media = pytest.importorskip("tests.support.media_models", reason="needs the extra media", exc_type=ImportError)
    monkeypatch.setattr(media, "looked_at", lambda messages: "It shows it.\nalignment: 4\n**quality:** 2/5")
    (tmp_path / "PartiPrompts.tsv").write_text(ROWS)
    config: dict[str, Any] = json.loads(json.dumps(template_of("text_to_image")[1]["definition"]))
    del config["datasets"][0]["params"]["origin"]
    config["role_adapters"][0]["backend_id"] = "eye"
    config["role_adapters"].append({"adapter_id": "dut", "role_type": "dut_model", "backend_id": "painter"})
    with media.media_models() as models:
        config["backends"] = [
            {"backend_id": "painter", "type": "openai_images", "config": {"base_url": models.url, "model": "painter"}},
            {"backend_id": "eye", "type": "openai_http", "config": {"base_url": models.url, "model": "eye"}},
        ]
        file = tmp_path / "suite.yaml"
        file.write_text(yaml.safe_dump(config))
        done = run_inline(RunOptions(config=str(file), store=str(tmp_path / "store"), run_id="drawn"))
    drawn = {body["prompt"] for path, body in models.requests if path == "images/generations"}
    assert drawn == {"bond", 'a sign that says "no"'}
    (task,) = done.summary.tasks
    assert {metric.metric_id: (metric.value, metric.n) for metric in task.metrics} == {
        "alignment": (4.0, 2), "quality": (2.0, 2)
    }  # fmt: skip
