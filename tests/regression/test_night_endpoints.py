"""A night checks the endpoints of its models before it runs them, and says where one is another model."""

from pathlib import Path

import yaml

from gage_eval.engine.endpoint_check import write_reference
from gage_eval.regression.nightly import Night, Nightly
from gage_eval.regression.pages import night_page
from gage_eval.runs import RunOptions
from gage_eval.runs.planned import planned
from gage_eval.runs.probes import probe_models
from tests.support.nights import FIRST, SECOND, night_of
from tests.support.workspace import write_config, write_rows


def recorded(folder: Path) -> str:
    run = planned(RunOptions(config=str(folder / "mine.yaml"), store=str(folder / "store")))
    (model,) = probe_models(run, prompts=20)
    assert model.endpoint is not None
    # The throughput depends on this machine.
    return write_reference(folder / "m.json", model.endpoint.model_copy(update={"tokens_per_s": None}), run.store)


def night(folder: Path, label: str, answer: str, reference: str) -> Night:
    options = {"overrides": [f"backends.model.config.answer='{answer}'"]}
    content = {
        "schedule": {"cron": "0 2 * * *"},
        "rows": [{"config": "mine.yaml"}],
        "models": [{"name": "m", "options": options, "reference": reference}, {"name": "other"}],
    }
    return night_of(Nightly.of_text(yaml.safe_dump(content), "nightly.yaml"), folder, label)


def test_the_endpoint_of_a_model_is_checked_every_night(tmp_path: Path) -> None:
    write_rows(tmp_path)
    write_config(tmp_path)
    reference = recorded(tmp_path)
    same = night(tmp_path, FIRST, "2", reference)
    (endpoint,) = same.endpoints
    assert (endpoint.model.name, endpoint.problem, endpoint.is_bad, same.is_bad) == ("m", None, False, False)
    assert same.verdict == "unmeasured"
    assert endpoint.sentence.startswith("endpoint of m: ")
    other = night(tmp_path, SECOND, "[THINK]so[/THINK]2", reference)
    assert (other.is_bad, other.verdict) == (True, "failed")
    assert other.sentence == "endpoint of m: failed (thinking: the thinking is in the answer)"
    # The runs went on.
    assert all(cell.run is not None for cell in other.cells)
    page = night_page(other)
    assert "endpoint of m: failed" in page
    assert "the thinking is in the answer" in page


def test_an_endpoint_that_cannot_be_checked_fails_the_night_and_leaves_its_runs(tmp_path: Path) -> None:
    write_rows(tmp_path)
    write_config(tmp_path)
    unchecked = night(tmp_path, FIRST, "2", "0" * 64)
    assert unchecked.sentence.startswith("endpoint of m: not checked (the store has no reference 000")
    assert (unchecked.is_bad, [cell.verdict for cell in unchecked.cells]) == (True, ["unmeasured", "unmeasured"])
