"""The benchmark page says what was measured, and the cases measure what they claim."""

from pathlib import Path

import orjson
import pytest

import bench.__main__
from bench.__main__ import record
from bench.cases import CASES, config, rows_1319, scored
from bench.data import dataset, records
from bench.figures import Figure, machine
from bench.media import MOST_MIB
from bench.page import page
from bench.process import HERE, BenchFailed, mock, run

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_results_say() -> None:
    """Stale: `make bench` writes both."""
    results = orjson.loads((ROOT / "bench" / "results.json").read_bytes())
    assert (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") == page(results)


def test_one_machines_results_cover_every_case_that_make_bench_measures() -> None:
    results = orjson.loads((ROOT / "bench" / "results.json").read_bytes())
    names = [{case["name"] for case in machine["cases"]} for machine in results["machines"]]
    assert any(of_one >= {case.name for case in CASES if case.size != "full"} for of_one in names)


def test_each_machine_has_a_record_and_single_cases_do_not_replace_one_of_other_software(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results, page_file = tmp_path / "results.json", tmp_path / "benchmarks.md"
    monkeypatch.setattr(bench.__main__, "RESULTS", results)
    monkeypatch.setattr(bench.__main__, "PAGE", page_file)
    figure = Figure("whole run", "s", [1.0]).to_json()
    measured = [
        {"name": case.name, "title": "x", "date": "d", "commit": "c", "load_before": 0.0, "figures": [figure]}
        for case in CASES
        if case.size != "full"
    ]

    def recorded() -> list[list[str]]:
        return [
            [case["date"] for case in machine["cases"]] for machine in orjson.loads(results.read_bytes())["machines"]
        ]

    record(measured)
    record([{**measured[0], "date": "later"}])
    own = ["later", *["d"] * (len(measured) - 1)]
    assert recorded() == [own]
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(bench.__main__, "machine", lambda: {**machine(), "cpu": "another"})
        record([{**measured[0], "date": "elsewhere"}])
    assert recorded() == [["elsewhere"], own]
    monkeypatch.setattr(bench.__main__, "machine", lambda: {**machine(), "python": "4.0"})
    record([{**measured[0], "date": "updated"}])
    assert recorded() == [["elsewhere"], own]
    assert "other software" in capsys.readouterr().err
    record([{**case, "date": "updated"} for case in measured])
    assert recorded() == [["updated"] * len(measured), ["elsewhere"]]


def test_data_is_a_function_of_the_number_of_rows_and_every_prompt_is_its_own(tmp_path: Path) -> None:
    assert list(records(50)) == list(records(50))
    assert len({record["question"] for record in records(500)}) == 500
    lines = dataset(tmp_path, 20).read_bytes().splitlines()
    assert [orjson.loads(line) for line in lines] == list(records(20))


@pytest.mark.parametrize(
    ("bound", "target", "met"), [("≤", 2.0, True), ("≤", 1.9, False), ("≥", 2.0, True), ("≥", 2.1, False)]
)
def test_the_median_decides_whether_a_target_is_met(bound: str, target: float, met: bool) -> None:
    figure = Figure("x", "s", [9.0, 2.0, 1.0], target, "≤" if bound == "≤" else "≥")
    assert figure.met is met
    assert figure.to_json()["target"] == f"{bound} {target:g}"


def test_a_figure_without_a_target_is_neither_met_nor_missed() -> None:
    assert Figure("x", "s", [1.0]).met is None


def test_a_case_measures_bare_loop_and_run_against_the_same_endpoint(tmp_path: Path) -> None:
    """One repetition of the shortest case, from command to score table; it checks the number of requests itself."""
    bare, ours = rows_1319(tmp_path, 1)
    assert [bare.name, ours.name] == ["bare loop", "whole run, inline"]
    assert bare.median > 1.03
    assert ours.median > 1.03


def test_a_run_without_an_event_log_is_the_same_run(tmp_path: Path) -> None:
    """What the case ``events`` compares with writes no events, and all results."""
    with mock("--accuracy", "0.75") as endpoint:
        path = config(tmp_path, 20, endpoint.url)
        program = [str(HERE / "without_events.py"), "run", path, "--inline", "--store", str(tmp_path / "store")]
        done = run([*program, "--run-id", "first"], tmp_path)
    assert b"numeric_match" in done.output
    files = {file.name for file in (tmp_path / "store" / "runs" / "first").iterdir()}
    assert {"summary.json", "report.html"} <= files
    assert "events.jsonl" not in files


def test_two_hundred_files_of_a_megabyte_take_little_memory(tmp_path: Path) -> None:
    """Measured from a small process: the peak of a child begins at the size of its parent."""
    measure = "import sys, pathlib, bench.media as m; print(m.recordings(pathlib.Path(sys.argv[1]), 200).peak_mib)"
    done = run(["-c", measure, str(tmp_path)], tmp_path, {"PYTHONPATH": str(ROOT)})
    assert 50 < float(done.output) < MOST_MIB


@pytest.mark.slow
def test_scoring_is_measured_on_the_rows_it_says_and_again_on_a_fresh_copy(tmp_path: Path) -> None:
    store = tmp_path / "scored-5000"
    run([str(HERE / "score.py"), "make", str(store), "--rows", "5000"], tmp_path)
    for processes in (1, 2):
        assert orjson.loads(scored(store, "exact_match", processes=processes).output)["cpu_s"] > 0
    with pytest.raises(BenchFailed, match="scored a wrong number of rows"):
        scored(store.rename(tmp_path / "scored-4000"), "exact_match")
