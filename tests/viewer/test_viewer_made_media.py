"""What a model drew or said is shown beside the question, and an address that a model merely writes is a text."""

import json
from pathlib import Path

import pytest
import yaml
from viewer_client import page, viewer

from gage_eval.base.canonical import sha256_hex
from gage_eval.runs import RunOptions, run_inline

media = pytest.importorskip("support.media_models", reason="needs the extra media", exc_type=ImportError)


def test_a_picture_is_shown_and_an_address_that_a_model_writes_is_not(tmp_path: Path) -> None:
    (tmp_path / "before.png").write_bytes(media.drawn("before"))
    content = [{"type": "image_url", "image_url": {"url": "before.png"}}, {"type": "text", "text": "Invert it."}]
    record = {"id": "0", "messages": [{"role": "user", "content": content}]}
    (tmp_path / "edits.jsonl").write_text(json.dumps(record) + "\n")
    made = sha256_hex(media.edited(media.drawn("before")))
    with media.media_models() as models:
        painter = {"base_url": models.url, "model": "painter"}
        config = {
            "datasets": [{"dataset_id": "edits", "params": {"path": "edits.jsonl"}}],
            "backends": [
                {"backend_id": "painter", "type": "openai_images", "config": painter},
                {"backend_id": "liar", "type": "dummy", "config": {"answer": f"media://sha256/{made}"}},
            ],
            "role_adapters": [
                {"adapter_id": name, "role_type": "dut_model", "backend_id": name} for name in ("painter", "liar")
            ],
            "tasks": [
                {"task_id": name, "dataset_id": "edits", "adapter_id": name, "metrics": ["text_length"]}
                for name in ("painter", "liar")
            ],
        }
        (tmp_path / "edits.yaml").write_text(yaml.safe_dump(config))
        store = str(tmp_path / "store")
        run_inline(RunOptions(config=str(tmp_path / "edits.yaml"), store=store, run_id="made"))
    with viewer(tmp_path) as client:
        shown = {name: page(client, f"/runs/made/sample?task={name}&id=0") for name in ("painter", "liar")}
        assert f'<img src="/media/{made}"' in shown["painter"]
        assert f'<a href="/media/{made}" download>' in shown["painter"]
        assert f"/media/{sha256_hex(media.drawn('before'))}" in shown["painter"]
        assert f"media://sha256/{made}" in shown["liar"]
        assert f'src="/media/{made}"' not in shown["liar"]
        response = client.get(f"/media/{made}")
        assert (response.headers["content-type"], response.content) == (
            "image/png", media.edited(media.drawn("before"))
        )  # fmt: skip
