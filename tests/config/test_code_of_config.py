"""Code that a config names beside its plug-ins is checked when the config is validated."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.base.errors import ConfigError
from gage_eval.config.load import parse_config

CODE = """
class Hook:
    def prepare(self, request): return request

class Reader:
    def parse(self): return None

def text(): return "?"

def styled(record, style): return style
"""


def config(dataset: dict[str, Any], **adapter: str) -> str:
    return yaml.safe_dump(
        {
            "datasets": [{"dataset_id": "d", "params": {"path": "d.jsonl", **dataset}}],
            "backends": [{"backend_id": "m", "type": "dummy"}],
            "role_adapters": [{"adapter_id": "a", "role_type": "dut_model", "backend_id": "m", **adapter}],
            "metrics": ["exact_match"],
        }
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            config({}, class_path="code.py:Hook"),
            "role_adapters[0].class_path: code.py:Hook.prepare() must take (request, context): it takes self, request.",
        ),
        (
            config({}, class_path="code.py:Reader"),
            "role_adapters[0].class_path: code.py:Reader.parse() must take (response): it takes self.",
        ),
        (
            config({"doc_to_text": "code.py:text"}),
            "datasets[0].params.doc_to_text: 'code.py:text' cannot be called with a record: too many positional",
        ),
        (
            config({"doc_to_text": "code.py:styled"}),
            "datasets[0].params.doc_to_text: 'code.py:styled' cannot be called with a record: missing a required",
        ),
    ],
)
def test_a_hook_or_callable_of_another_form_is_refused_by_name(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(CODE)
    (tmp_path / "d.jsonl").write_text('{"question": "1+1?", "answer": "2"}\n')
    with pytest.raises(ConfigError) as refused:
        parse_config(text, base_dir=tmp_path)
    assert sentence in str(refused.value)
