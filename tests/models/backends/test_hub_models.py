"""A model of the hub is fetched before its engine needs it: one commit, and the weights that engines read."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest

from gage_eval.base.errors import EndpointFailed
from gage_eval.models.backends.hub_models import fetch_model

COMMIT = "a" * 40


class Hub:
    """The library's two functions, on a hub of one model."""

    def __init__(self, files: list[str]) -> None:
        self._files = files
        self.fetched: dict[str, Any] = {}

    def model_info(self, name: str, revision: str | None) -> Any:
        if name != "org/model":
            raise ConnectionError(f"no {name}\nhere.")
        return SimpleNamespace(sha=COMMIT, siblings=[SimpleNamespace(rfilename=file) for file in self._files])

    def snapshot_download(self, name: str, **how: Any) -> str:
        self.fetched = {"name": name, **how}
        return f"/models/{name}"


@pytest.fixture(params=[["config.json", "model.safetensors", "model.bin"], ["config.json", "pytorch_model.bin"]])
def hub(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Hub:
    made = Hub(request.param)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: made)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", made.snapshot_download)
    return made


def test_the_commit_of_a_revision_is_fetched_without_weights_that_stand_there_twice(hub: Hub) -> None:
    assert fetch_model("org/model", "main") == Path("/models/org/model")
    ignored = hub.fetched.pop("ignore_patterns")
    assert hub.fetched == {"name": "org/model", "revision": COMMIT}
    assert ("*.bin" in (ignored or ())) == ("model.safetensors" in hub._files)


def test_a_model_that_cannot_be_fetched_is_one_sentence(hub: Hub) -> None:
    with pytest.raises(EndpointFailed, match=r"^model 'org/other' cannot be fetched from the hub: no org/other here\."):
        fetch_model("org/other", None)
