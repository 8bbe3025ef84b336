"""Promises of gage compare, gate and baseline on the command line."""

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import orjson
import pytest
import yaml

from tests.cli.conftest import Gage
from tests.support.engines import starts, write_fake_vllm
from tests.support.workspace import write_config

COUNT = 400
# The 182nd sample: an id that would be a mention, a cell and a tag on a page.
HOSTILE = "@all`|<b>"


def sample_id(number: int) -> str:
    return HOSTILE if number == 181 else f"s{number}"


@pytest.fixture
def runs(workspace: Path, gage: Gage) -> Path:
    """Runs ``good`` (60 % right) and ``bad`` (45 %) of one config name."""
    rows = [{"id": sample_id(n), "question": f"{n} + 1 = ?", "answer": str(n + 1)} for n in range(COUNT)]
    write(workspace / "rows.jsonl", rows)
    for name, right in (("good", 240), ("bad", 180)):
        write(
            workspace / f"{name}.jsonl",
            [{"id": sample_id(n), "output": str(n + 1) if n < right else "no"} for n in range(COUNT)],
        )
        backend = {
            "backend_id": "model",
            "type": "replay",
            "config": {"path": f"{name}.jsonl", "answer_field": "output"},
        }
        write_config(workspace, f"{name}.yaml", backends=[backend])
        assert gage("run", f"{name}.yaml", "--run-id", name).code == 0
    return workspace


def write(file: Path, rows: list[dict[str, Any]]) -> None:
    file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def test_a_regression_exits_with_3_and_an_equal_run_with_0(runs: Path, gage: Gage) -> None:
    assert gage("baseline", "set", "main", "good").code == 0
    bad = gage("gate", "bad", "--baseline", "main")
    assert bad.code == 3
    assert "REGRESSED  run bad against baseline main, entry 1" in bad.out
    assert "worse: s180" in bad.out
    (log,) = runs.rglob("runs/bad/events.jsonl")
    told = orjson.loads(log.read_bytes().splitlines()[-1])
    assert (told["type"], told["payload"]["baseline"], told["payload"]["verdict"]) == ("gate", "main", "regressed")
    good = gage("gate", "good", "--baseline", "main")
    assert good.code == 0
    assert "PASSED" in good.out
    assert "run noise not estimated" in good.out
    record = gage("gate", "bad", "--baseline", "main", "--json")
    assert record.code == 3
    task = record.json["tasks"][0]
    assert (task["baseline_score"], task["current_score"], task["regressed"]) == (0.6, 0.45, True)
    assert task["delta"] == pytest.approx(-0.15)
    assert len(task["details"]["worse"]) == 60


def test_the_verdict_is_written_for_continuous_integration(runs: Path, gage: Gage) -> None:
    gage("baseline", "set", "main", "good")
    files = ("--junit", "ci/gate.xml", "--markdown", "ci/gate.md")

    def cases(*arguments: str) -> tuple[int, list[str]]:
        """The exit code, and the outcome of each test case."""
        code = gage("gate", *arguments, "--baseline", "main", *files).code
        (suite,) = ElementTree.parse(runs / "ci" / "gate.xml").getroot()
        outcomes = [case[0].tag for case in suite]
        counts = {name: suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")}
        assert sum(map(int, counts.values())) == len(outcomes) + sum(x != "system-out" for x in outcomes)
        return code, outcomes

    assert cases("bad") == (3, ["failure"])
    written = (runs / "ci" / "gate.md").read_text(encoding="utf-8")
    for shown in ("Regressed", "| −0.150 | −0.1", "60 samples became worse", "worse: `s180`", "accepted"):
        assert shown in written
    assert "- worse: `@all|<b>`" in written, "neither a mention nor a tag outside of code"
    assert len([line for line in written.splitlines() if line.startswith("- worse: ")]) == 10
    assert cases("good") == (0, ["system-out"])
    assert gage("run", "bad.yaml", "--run-id", "fewer", "--max-samples", "390").code == 0
    assert cases("fewer") == (0, ["skipped"])
    assert cases("fewer", "--fail-on", "inconclusive") == (4, ["failure"])
    assert cases("none") == (2, ["error"])
    assert "Not compared" in (runs / "ci" / "gate.md").read_text(encoding="utf-8")
    assert "cannot be written" in gage("gate", "good", "--baseline", "main", "--junit", "ci").err


def test_a_run_ends_with_its_change_against_each_baseline_of_its_config(runs: Path, gage: Gage) -> None:
    assert "vs " not in gage("run", "bad.yaml", "--run-id", "before").out
    gage("baseline", "set", "main", "good")
    said = gage("run", "bad.yaml", "--run-id", "after").out
    (head,) = [line for line in said.splitlines() if line.startswith("task ")]
    (row,) = [line for line in said.splitlines() if line.startswith("sums ")]
    assert row[head.index("vs main") :] == "−0.150 ▼  regressed (p < 0.001)"
    assert head.endswith("  vs main")


def test_a_run_of_other_rows_ends_with_the_reason_why_nothing_is_decided(runs: Path, gage: Gage) -> None:
    gage("baseline", "set", "main", "good")
    said = gage("run", "bad.yaml", "--run-id", "few", "--max-samples", "100").out
    (row,) = [line for line in said.splitlines() if line.startswith("sums ")]
    assert "inconclusive (" in row
    assert "of the rows are scored in one run only" in row
    assert "(p " not in row


def test_the_tolerance_mode_and_a_wide_tolerance_decide_otherwise(runs: Path, gage: Gage) -> None:
    gage("baseline", "set", "main", "good")
    assert gage("gate", "bad", "--baseline", "main", "--mode", "tolerance", "--tolerance", "0.2").code == 0
    assert gage("gate", "bad", "--baseline", "main", "--mode", "tolerance", "--tolerance", "0.1").code == 3
    assert gage("gate", "bad", "--baseline", "main", "--tolerance", "0.2").code == 0


def test_mode_exact_without_a_probe_lists_the_changed_rows_and_decides_nothing(runs: Path, gage: Gage) -> None:
    assert gage("baseline", "set", "main", "good").code == 0
    exact = ("gate", "bad", "--baseline", "main", "--mode", "exact")
    shown = gage(*exact, "--markdown", "verdict.md", "--junit", "verdict.xml")
    assert shown.code == 0
    assert "INCONCLUSIVE" in shown.out
    assert "60 of 400 rows changed: s180" in " ".join(shown.out.split())
    assert "nothing shows that the engine of run good is exact" in " ".join(shown.out.split())
    assert "no answer may change" in (runs / "verdict.md").read_text()
    assert "inconclusive: 60 of 400 rows changed" in (runs / "verdict.xml").read_text()
    assert gage(*exact, "--fail-on", "inconclusive").code == 4
    record = gage(*exact, "--json")
    assert len(record.json["tasks"][0]["details"]["changed"]) == 60
    wrong = gage("gate", "bad", "--baseline", "main", "--mode", "exactly")
    assert (wrong.code, "--mode" in wrong.err) == (2, True)


def test_a_policy_says_which_numbers_fail_a_run(runs: Path, gage: Gage) -> None:
    gage("baseline", "set", "main", "good")
    policy = runs / "policy.yaml"
    policy.write_text("advisory: [exact_match]\n", encoding="utf-8")
    refused = gage("gate", "bad", "--baseline", "main", "--policy", "policy.yaml")
    assert (refused.code, "nothing could fail" in refused.err) == (2, True)
    policy.write_text("critical: [exact_match]\nrequire_evidence: true\n", encoding="utf-8")
    assert "regressed (critical)" in gage("gate", "bad", "--baseline", "main", "--policy", "policy.yaml").out
    record = gage("gate", "bad", "--baseline", "main", "--policy", "policy.yaml", "--json").json
    assert (record["policy"]["require_evidence"], record["tasks"][0]["tier"]) == (True, "critical")
    both = gage("gate", "bad", "--baseline", "main", "--policy", "policy.yaml", "--metric", "exact_match")
    assert (both.code, "give one of them" in both.err) == (2, True)


def test_a_policy_that_asks_for_evidence_fails_what_is_undecided(runs: Path, gage: Gage) -> None:
    policy = runs / "policy.yaml"
    policy.write_text("critical: [exact_match]\nrequire_evidence: true\n", encoding="utf-8")
    assert gage("baseline", "set", "main", "good", "--policy", "policy.yaml").code == 0
    gage("run", "good.yaml", "--run-id", "few", "--max-samples", "100")
    # The policy of the baseline decides where none is named.
    said = gage("gate", "few", "--baseline", "main", "--junit", "gate.xml")
    assert said.code == 4
    assert "the policy asks for evidence" in said.out
    assert ElementTree.parse(runs / "gate.xml").getroot().find("testsuite").get("failures") == "1"  # type: ignore[union-attr]
    assert gage("gate", "few", "--baseline", "main", "--metric", "exact_match").code == 0


def test_repeats_are_runs_of_their_own_and_are_asked_anew(runs: Path, gage: Gage) -> None:
    assert gage("baseline", "set", "main", "good", "--repeats", "3").code == 0
    shown = gage("baseline", "show", "main", "--json").json
    assert len(set(shown["runs"])) == 3
    for run_id in shown["runs"][1:]:
        record = json.loads((runs / ".gage" / "runs" / run_id / "run.json").read_text(encoding="utf-8"))
        assert record["stages"]["sums/infer"]["state"] == "finished"
    assert "run noise not estimated" not in gage("gate", "good", "--baseline", "main").out


def test_all_repeats_use_one_engine(workspace: Path, gage: Gage) -> None:
    engine = write_fake_vllm(workspace)
    write_config(workspace, backends=[{"backend_id": "model", "type": "vllm", "config": engine}])
    assert gage("run", "mine.yaml", "--run-id", "first").code == 0
    assert gage("baseline", "set", "main", "first", "--repeats", "3").code == 0
    # One start for the run, and one for both repeats.
    assert len(starts(workspace)) == 2


def test_the_gate_says_which_of_verdict_and_alarm_has_fired(runs: Path, gage: Gage) -> None:
    gage("baseline", "set", "once", "good")
    once = gage("gate", "bad", "--baseline", "once").out
    assert "REGRESSED" in once
    assert "the sequential alarm is withheld: the baseline needs 5 repeats and has 1" in once
    gage("baseline", "set", "often", "good", "--repeats", "5")
    often = gage("gate", "bad", "--baseline", "often").out
    assert "the sequential alarm rings: significant even after correcting for 365 nightly looks" in often


def test_what_was_allowed_to_differ_is_said_in_every_output(runs: Path, gage: Gage) -> None:
    gage("baseline", "set", "main", "good")
    prompted = ("--set", "datasets.sums.params.preprocess_kwargs.system_prompt=Be brief.", "--run-id", "prompted")
    assert gage("run", "good.yaml", *prompted).code == 0
    allow = ("--allow-different", "prompts")
    assert "different prompts" in gage("gate", "prompted", "--baseline", "main").err

    said = "NOT THE SAME prompts, as allowed"
    assert said in gage("compare", "good", "prompted", *allow).out
    assert said in gage("gate", "prompted", "--baseline", "main", *allow).out
    (compared,) = gage("compare", "good", "prompted", *allow, "--json").json
    assert compared["tasks"][0]["allowed_different"] == ["prompts"]
    gated = gage("gate", "prompted", "--baseline", "main", *allow, "--json").json
    assert gated["tasks"][0]["details"]["allowed_different"] == ["prompts"]
    (log,) = runs.rglob("runs/prompted/events.jsonl")
    told = orjson.loads(log.read_bytes().splitlines()[-1])
    assert told["payload"]["tasks"][0]["allowed_different"] == ["prompts"]
    assert gage("compare", "good", "prompted", *allow, "--html", "page.html").code == 0
    assert "Not the same prompts, as allowed." in (runs / "page.html").read_text(encoding="utf-8")


def test_more_than_one_row_in_a_hundred_without_a_partner_leaves_no_verdict(runs: Path, gage: Gage) -> None:
    gage("baseline", "set", "main", "good")
    assert gage("run", "bad.yaml", "--run-id", "fewer", "--max-samples", "390").code == 0
    fewer = gage("gate", "fewer", "--baseline", "main")
    assert fewer.code == 0
    assert "INCONCLUSIVE" in fewer.out
    assert gage("gate", "fewer", "--baseline", "main", "--fail-on", "inconclusive").code == 4
    assert "2.5% of the rows are scored in one run only" in fewer.out
    assert "10 of 400 samples are in one run only, or scored in one only: too many for a verdict" in (
        gage("compare", "good", "fewer").out
    )
    assert gage("run", "bad.yaml", "--run-id", "nearly", "--max-samples", "398").code == 0
    assert gage("gate", "nearly", "--baseline", "main").code == 3


def test_a_task_that_the_baseline_lacks_is_never_passed_over(runs: Path, gage: Gage) -> None:
    gage("baseline", "set", "main", "good")
    more = yaml.safe_load((runs / "good.yaml").read_text(encoding="utf-8"))
    more["tasks"] = [{"task_id": name, "dataset_id": "sums"} for name in ("sums", "new")]
    (runs / "more.yaml").write_text(yaml.safe_dump(more), encoding="utf-8")
    said = gage("run", "more.yaml", "--run-id", "more").out
    sentence = "task 'new' is not in the baseline, so nothing watches it: gage baseline promote main more"
    assert sentence in said
    gated = gage("gate", "more", "--baseline", "main")
    assert "INCONCLUSIVE" in gated.out
    assert sentence in gated.out
    assert gage("gate", "more", "--baseline", "main", "--json").json["unwatched"] == ["new"]
    assert gage("gate", "more", "--baseline", "main", "--fail-on", "inconclusive").code == 4
    assert sentence.replace("'", "&#39;") in (runs / ".gage/runs/more/report.html").read_text(encoding="utf-8")


def test_promotion_asks_again_and_leaves_the_anchor(runs: Path, gage: Gage) -> None:
    gage("baseline", "set", "main", "good")
    assert gage("baseline", "promote", "main", "bad").code == 0
    entries = gage("baseline", "history", "main", "--json").json
    assert [(entry["number"], entry["why"]) for entry in entries] == [(1, "set"), (2, "promoted")]
    assert entries[0]["runs"] == ["good"]
    assert entries[1]["runs"] != ["bad"], "a lucky run must not be its own proof"
    passed = gage("gate", "bad", "--baseline", "main")
    assert passed.code == 0
    assert "Against the anchor (entry 1) the verdict is regressed." in passed.out


def test_a_config_without_a_name_keeps_its_baselines_when_it_is_asked_again(runs: Path, gage: Gage) -> None:
    unnamed = yaml.safe_load((runs / "good.yaml").read_text(encoding="utf-8"))
    del unnamed["metadata"]["name"]
    (runs / "capitals.yaml").write_text(yaml.safe_dump(unnamed), encoding="utf-8")
    assert gage("run", "capitals.yaml", "--run-id", "first").code == 0
    assert gage("baseline", "set", "main", "first", "--repeats", "2").code == 0
    assert gage("baseline", "promote", "main", "first").code == 0
    again = gage("baseline", "history", "main", "--json").json[1]["runs"][-1]
    assert gage("baseline", "history", "main", "--suite", "capitals").code == 0
    assert gage("baseline", "promote", "main", again).code == 0, "a repeat is called like its config, too"


def test_a_collection_keeps_what_a_baseline_names(runs: Path, gage: Gage) -> None:
    gage("baseline", "set", "main", "good")
    shutil.rmtree(runs / ".gage" / "runs" / "good")
    assert gage("cache", "gc", "--min-age", "0s").code == 0
    assert gage("gate", "bad", "--baseline", "main").code == 3


def test_a_run_that_is_measured_against_its_own_answers_says_so(runs: Path, gage: Gage) -> None:
    gage("baseline", "set", "main", "good")
    assert "run good is one of the baseline's repeats" in gage("gate", "good", "--baseline", "main").out
    assert gage("run", "good.yaml", "--run-id", "cached").code == 0
    assert "all answers are those of run good, from the store" in gage("gate", "cached", "--baseline", "main").out
    assert gage("run", "good.yaml", "--run-id", "asked", "--freshness", "today").code == 0
    assert "those of run" not in gage("gate", "asked", "--baseline", "main").out


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (
            ("gate", "bad", "--baseline", "good"),
            "'good' is a run, not a baseline. To compare them: gage compare good bad",
        ),
        (("gate", "bad", "--baseline", "mian"), "no baseline 'mian'. Baselines of 'small': main. Did you mean 'main'?"),
        (("gate", "bad", "--baseline", "main", "--tolerance", "-1"), "--tolerance: "),
        (("gate", "bad", "--baseline", "main", "--mode", "hope"), "--mode: "),
        (("gate", "bad", "--baseline", "main", "--fail-on", "hope"), "--fail-on 'hope' is unknown"),
        (("gate", "bad", "--baseline", "main", "--allow-different", "prompt"), "--allow-different 'prompt' is unknown"),
        (("baseline", "set", "main", "bad"), "baseline 'main' of 'small' exists."),
        (("baseline", "set", "../up", "bad"), "'../up' cannot be the name of a baseline"),
        (("baseline", "promote", "other", "bad"), "no baseline 'other'."),
        (("baseline", "show", "nothing"), "no baseline 'nothing'. Baselines: main."),
        (("compare", "good"), "compare needs two runs or more"),
        (("compare", "good", "none"), "none"),
    ],
)
def test_mistakes_are_told_in_one_sentence(runs: Path, gage: Gage, command: tuple[str, ...], sentence: str) -> None:
    gage("baseline", "set", "main", "good")
    said = gage(*command)
    assert said.code == 2
    assert sentence in said.err
    assert "Traceback" not in said.err


def test_compare_and_trend_show_both_runs(runs: Path, gage: Gage) -> None:
    said = gage("compare", "good", "bad")
    assert said.code == 0
    assert "−0.150" in said.out
    assert "+0 −60" in said.out
    assert "model" in gage("diff", "good", "bad").out
    gage("baseline", "set", "main", "good")
    points = gage("baseline", "trend", "main", "--json").json
    assert [(point["run_id"], point["value"]) for point in points] == [("good", 0.6), ("bad", 0.45)]


def test_the_trend_fits_a_terminal_with_bars_where_there_is_room(
    runs: Path, gage: Gage, monkeypatch: pytest.MonkeyPatch
) -> None:
    gage("baseline", "set", "main", "good")
    monkeypatch.setattr("gage_eval.report.console.terminal_width", lambda stream: 60)
    lines = gage("baseline", "trend", "main").out.splitlines()
    assert lines[0] == "sums exact_match"
    assert [line.split()[1:3] for line in lines[2:]] == [["good", "0.600"], ["bad", "0.450"]]
    assert all("●" in line for line in lines[2:])
    assert max(map(len, lines)) <= 60
    monkeypatch.setattr("gage_eval.report.console.terminal_width", lambda stream: 50)
    assert "●" not in gage("baseline", "trend", "main").out


def test_the_gate_adds_verdict_and_trend_to_the_report(runs: Path, gage: Gage) -> None:
    gage("baseline", "set", "main", "good")
    said = gage("gate", "bad", "--baseline", "main")
    assert "report  .gage/runs/bad/report.html" in said.out
    report = (runs / ".gage/runs/bad/report.html").read_text(encoding="utf-8")
    assert "Against baseline main, entry 1" in report
    assert "−0.150 regressed" in report


def test_the_comparison_is_written_as_a_page(runs: Path, gage: Gage) -> None:
    assert gage("compare", "good", "bad", "--html", "page.html").code == 0
    page = (runs / "page.html").read_text(encoding="utf-8")
    for shown in ("Against good", "<dt>run</dt><dd>bad</dd>", "<b>60</b> worse", "<b>0</b> better", "−0.150", "s180"):
        assert shown in page
    assert "Against" not in (runs / ".gage/runs/bad/report.html").read_text(encoding="utf-8")
    assert gage("compare", "good", "bad", "--html", "new/folder/page.html").code == 0
    assert (runs / "new/folder/page.html").read_text(encoding="utf-8") == page
    refused = gage("compare", "good", "bad", "--html", "page.html/page.html")
    assert refused.code == 2
    assert "'page.html/page.html' cannot be written" in refused.err
