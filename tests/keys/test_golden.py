"""Keys and content hashes are the same on every machine and in every release, until somebody means to change them."""

import json
from pathlib import Path
from typing import Any

from five_rows import Laboratory, stages_of

from gage_eval.base.canonical import digest
from gage_eval.base.stages import StageResult
from gage_eval.store import Store

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())
_VERSIONS = frozenset({"version", "render"})


def without_versions(value: Any) -> Any:
    """A key's document without versions of code, which change by themselves, and with inputs by name only."""
    if isinstance(value, dict):
        return {
            name: sorted(item) if name == "inputs" else without_versions(item)
            for name, item in value.items()
            if name not in _VERSIONS
        }
    return [without_versions(item) for item in value] if isinstance(value, list) else value


def documents(lab: Laboratory) -> dict[str, Any]:
    outcome = lab.base("support")
    store = Store.open(str(lab.folder / "base-support"), read_only=True)

    def document(result: StageResult) -> Any:
        action = store.actions.find(result.stage, result.key)
        assert action is not None
        return without_versions(action.document)

    return {stage: document(result) for stage, result in stages_of(outcome).items()}


def test_the_same_config_has_the_same_keys(lab: Laboratory) -> None:
    actual = documents(lab)
    digests = {stage: digest(document) for stage, document in actual.items()}
    changed = {stage: document for stage, document in actual.items() if digests[stage] != GOLDEN["keys"].get(stage)}
    assert changed == {}, (
        "what keys are made of has changed: all stored results of these stages would be computed again. "
        f"If that is meant, write into tests/keys/golden.json: {json.dumps(digests)}"
    )
    assert digests.keys() == GOLDEN["keys"].keys()


def test_the_same_rows_have_the_same_content_hashes(lab: Laboratory) -> None:
    results = stages_of(lab.base("support"))
    outputs = [results[stage].outputs for stage in ("load", "standardize", "preprocess")]
    assert {name: id_ for ids in outputs for name, id_ in ids.items()} == GOLDEN["artifacts"]
