"""Promises of the events of a night: one per cell with a verdict that somebody may act on."""

from pathlib import Path
from typing import Any

import pytest

from flows import nightly
from gage_eval.regression.nightly import Night
from gage_eval.runs.options import Locations
from tests.support.nights import FIRST, SECOND, answer, night_of, set_baselines, two_models


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """The events that are sent, with their payloads."""
    sent: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(nightly, "emit_event", lambda event, resource, payload: sent.append((event, payload)))
    return sent


def tell(night: Night, folder: Path) -> None:
    for cell in night.cells:
        nightly._tell(night.nightly, cell, Locations.at(str(folder / "store")))


@pytest.mark.parametrize(
    ("right", "event"),
    [(280, "gage.regression.detected"), (360, "gage.regression.improved"), (313, "gage.regression.inconclusive")],
)
def test_a_verdict_that_asks_for_action_is_an_event(
    emitted: list[tuple[str, dict[str, Any]]], tmp_path: Path, right: int, event: str
) -> None:
    nightly_runs = two_models(tmp_path)
    unmeasured = night_of(nightly_runs, tmp_path, FIRST)
    tell(unmeasured, tmp_path)
    assert [(name, payload["model"], payload["tasks"]) for name, payload in emitted] == [
        ("gage.regression.unmeasured", "steady", []),
        ("gage.regression.unmeasured", "shaky", []),
    ]
    assert "gage baseline set steady" in emitted[0][1]["problem"]
    emitted.clear()
    set_baselines(unmeasured, tmp_path)
    answer(tmp_path, "shaky", right)
    tell(night_of(nightly_runs, tmp_path, SECOND), tmp_path)
    # The other model has passed.
    ((name, payload),) = emitted
    assert name == event
    assert (payload["model"], payload["baseline"]) == ("shaky", "shaky")
    assert payload["run"] == "every-night-2026-03-02-mine-shaky"
    assert payload["tasks"][0]["current_score"] == right / 400
    assert payload["alarm"] is False
    assert payload["policy"] is None
    sentence, *links = payload["text"].splitlines()
    assert sentence.startswith(f"mine.yaml with shaky: {event.rpartition('.')[2]}".replace("detected", "regressed"))
    assert [link.partition(": ")[0] for link in links] == ["Night", "Report"]
    assert links[-1].endswith("every-night-2026-03-02-mine-shaky/report.html")
