"""A run records what the probe knew of its models when it began. What is measured later does not change that."""

from pathlib import Path

import orjson
import pytest

from gage_eval.base.errors import InputError
from gage_eval.engine.probe import probed as verdicts
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.build import build_backend
from gage_eval.models.backends.hf_transformers import Transformers
from gage_eval.models.client.types import Request
from gage_eval.regression.baselines import Baselines
from gage_eval.regression.compare import compare
from gage_eval.regression.gating import gate
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.planned import planned
from gage_eval.runs.probes import ModelProbe, probe_models
from gage_eval.runs.results.reading import RunReader
from gage_eval.store import Store
from tests.support.workspace import write_config, write_rows

EXACT = "dummy is exact: answers (it gives no log probabilities) to 64 prompts are the same"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    write_config(tmp_path)
    return tmp_path


def probed() -> ModelProbe:
    (result,) = probe_models(planned(RunOptions(config="mine.yaml", store="store")))
    return result


def run(name: str, **options: object) -> RunReader:
    run_inline(RunOptions(config="mine.yaml", run_id=name, store="store", **options))
    return RunReader.open(Locations.at("store"), name)


def test_the_verdict_of_its_time_is_in_run_json_and_in_the_report() -> None:
    assert run("before").stored.record.probes == []
    result = probed()
    (record,) = run("after").stored.record.probes
    assert (record.model, record.tasks, record.verdict, record.probed) == (
        *("dummy", ["sums"], "exact"),
        result.verdict.created,
    )
    assert Path("store", "probes", f"{record.identity}.json").is_file()
    assert EXACT in Path("store", "runs", "after", "report.html").read_text()
    assert EXACT not in Path("store", "runs", "before", "report.html").read_text()


def test_a_verdict_on_other_settings_or_another_concurrency_is_not_recorded() -> None:
    probed()
    assert run("crowded", concurrency=3).stored.record.probes == []
    write_config(Path(), backends=[{"backend_id": "model", "type": "dummy", "config": {"answer": "3"}}])
    assert run("other").stored.record.probes == []


def test_comparison_and_gate_say_what_was_known_when_the_runs_were_asked() -> None:
    before, probe = run("before"), probed()
    first = run("first", freshness="1")
    verdicts(Store.open("store")).replace(probe.verdict.model_copy(update={"verdict": "drifting"}))
    second = run("second", freshness="2")
    (result,) = compare(first, second)
    assert [note.partition(": ")[0] for note in result.notes if " is " in note] == ["first", "second"]
    assert any(note.startswith(f"first: {EXACT}") for note in result.notes)
    assert any(note.startswith("second: dummy is drifting") for note in result.notes)
    assert not [note for note in compare(before, before)[0].notes if "is exact" in note]
    entry = Baselines(Store.open("store")).add("main", [first, run("again", freshness="3")], promote=False)
    assert entry.runs[0].tasks["sums"].probe == first.stored.record.probes[0]
    remarks = gate(second, entry).tasks[0].remarks
    assert any(remark.startswith(f"first: {EXACT}") for remark in remarks)
    assert any(remark.startswith("again, second: dummy is drifting") for remark in remarks)


def test_a_resumed_run_keeps_a_verdict_only_if_it_held_both_times() -> None:
    result = probed()
    assert len(run("same", resume=False).stored.record.probes) == 1
    assert len(run("same", resume=True).stored.record.probes) == 1
    verdicts(Store.open("store")).replace(result.verdict.model_copy(update={"verdict": "near"}))
    assert run("same", resume=True).stored.record.probes == []


def test_a_damaged_verdict_does_not_stop_a_run() -> None:
    probed()
    (file,) = Path("store", "probes").iterdir()
    file.write_bytes(b"{")
    assert run("damaged").stored.record.probes == []


def deterministic(**config: object) -> None:
    own = {"mode": "fixed", "answer": "2", "deterministic": True, **config}
    write_config(Path(), backends=[{"backend_id": "model", "type": "dummy", "config": own}])


def warnings(name: str) -> list[str]:
    log = Path("store", "runs", name, "events.jsonl").read_bytes().splitlines()
    events = [orjson.loads(line) for line in log]
    return [event["payload"]["message"] for event in events if event["type"] == "warning"]


def test_a_model_that_is_asked_to_be_deterministic_is_not_called_exact_unless_the_probe_agrees() -> None:
    deterministic()
    run("before")
    begin = "dummy is asked to be deterministic, and its answers are not called exact, because "
    assert warnings("before") == [f"{begin}no probe has measured it: gage probe"]
    result = probed()
    run("agrees", freshness="1")
    assert warnings("agrees") == []
    verdicts(Store.open("store")).replace(result.verdict.model_copy(update={"verdict": "near"}))
    run("disagrees", freshness="2")
    (warning,) = warnings("disagrees")
    assert warning.startswith(f"{begin}the probe does not agree: dummy is near")


def test_the_mode_is_part_of_what_answers_a_question_and_not_sent() -> None:
    write_config(Path(), backends=[{"backend_id": "model", "type": "dummy", "config": {"answer": "2"}}])
    assert run("plain").stored.stages["sums", "infer"].state == "finished"
    deterministic(deterministic=False)
    assert run("off").stored.stages["sums", "infer"].state == "cached"
    deterministic()
    assert run("on").stored.stages["sums", "infer"].state == "finished"
    config = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "deterministic": True}
    backend = build_backend("openai_http", config, BackendContext())
    body = backend.body(Request("chat", messages=[{"role": "user", "content": "hello"}]))
    assert "deterministic" not in body
    assert backend.identity()["deterministic"] is True


@pytest.mark.parametrize(
    ("config", "size"), [({}, 16), ({"deterministic": True}, 1), ({"deterministic": True, "batch_size": 1}, 1)]
)
def test_transformers_computes_one_request_at_a_time(config: dict[str, object], size: int, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "config.json").write_text("{}")
    backend = build_backend("transformers", {"model_path": "checkpoint", **config}, BackendContext(tmp_path))
    assert isinstance(backend, Transformers)
    assert backend._options()["batch_size"] == size
    with pytest.raises(InputError, match="deterministic: true needs batch_size: 1"):
        build_backend("transformers", {"model_path": "c", "deterministic": True, "batch_size": 4}, BackendContext())
