"""``--freshness`` reaches every model of a config, however it is written."""

from pathlib import Path

import pytest

from gage_eval.config.load import parse_config

LISTED = """
datasets: [{params: {path: rows.jsonl}}]
backends:
  - {backend_id: one, type: dummy}
  - {backend_id: two, type: dummy, config: {answer: "[[5]]", freshness: of the file}}
prompts: [{prompt_id: ask, renderer: jinja, template: "Right or wrong? {{ model_answer }}"}]
role_adapters:
  - {adapter_id: dut, role_type: dut_model, backend_id: one}
  - {adapter_id: judge, role_type: judge_model, backend_id: two, prompt_id: ask}
metrics: [exact_match]
"""
INLINE = """
datasets: [{params: {path: rows.jsonl}}]
role_adapters: [{adapter_id: dut, role_type: dut_model, backend: {type: dummy}}]
metrics: [exact_match]
"""


@pytest.mark.parametrize("text", [LISTED, INLINE])
def test_every_model_gets_the_freshness_of_the_command_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": "a", "answer": "b"}\n')
    loaded = parse_config(text, base_dir=tmp_path, freshness="2030-01-02")
    built = loaded.context.built or {}
    assert built
    assert {backend.config.freshness for backend in built.values()} == {"2030-01-02"}
    paths = [path for path, origin in loaded.origins.items() if origin.source == "--freshness"]
    assert len(paths) == len(built)
