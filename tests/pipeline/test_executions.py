"""Programs of answers: run once, logged, found again, counted, and read by metrics."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pipeline.calling import Bench
from support.boxes import FakeExecutor
from support.waiting import PATIENCE_S

from gage_eval.base.errors import InputError
from gage_eval.base.stages import StageResult
from gage_eval.box.types import BoxSpec, Execution, Program
from gage_eval.config.execution import ExecutionConfig
from gage_eval.data.prepare.media import MediaRules
from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.boxed import LARGEST_PROGRAM
from gage_eval.pipeline import boxes, stages
from gage_eval.pipeline.execution_spec import ExecutionSpec
from gage_eval.pipeline.specs import ScoreSpec
from gage_eval.scoring.metrics import BoundMetric, bind
from gage_eval.store import Store

PASSED = bind("execution_passed")
SHARE = bind("tests_passed")
Answered = dict[str, StageResult]


@pytest.fixture(autouse=True)
def _found_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boxes, "_backends", {})


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> FakeExecutor:
    executor = FakeExecutor()
    monkeypatch.setattr(boxes, "open_executor", lambda settings: executor)
    return executor


def answered(bench: Bench, answers: list[str], replicates: int = 1, **sample: Any) -> Answered:
    """Samples whose model answers with these texts, and their responses."""
    fields = {"metadata": {"tests": ["assert f(1)", "assert f(2)"], "entry": "f"}, **sample}
    samples = bench.samples([{"id": f"s{row}", "question": text, **fields} for row, text in enumerate(answers)])
    prepared = bench.preprocess(samples, replicates=replicates)
    return {"samples": samples, "responses": bench.infer(prepared, bench.model(mode="echo"))}


def spec_of(bench: Bench, metrics: list[BoundMetric], **section: Any) -> ScoreSpec:
    fields = {"mode": "calls", "entry": "metadata.entry", "tests": "metadata.tests", **section}
    config = ExecutionConfig.model_validate({name: value for name, value in fields.items() if value is not None})
    execution = ExecutionSpec(config, MediaRules(root=bench.folder))
    return ScoreSpec("t", tuple(metrics), max_unscored_share=1.0, execution=execution)


def scored(bench: Bench, made: Answered, metrics: list[BoundMetric] | None = None, **section: Any) -> StageResult:
    return stages.auto_eval(bench.env, spec_of(bench, metrics or [PASSED], **section), **made)


def values(bench: Bench, result: StageResult) -> dict[str, float]:
    return {row["metric_id"]: row["value"] for row in bench.rows(result, "metrics")}


def test_each_answer_is_run_with_its_tests_and_metrics_read_how_it_ended(bench: Bench, box: FakeExecutor) -> None:
    result = scored(bench, answered(bench, ["good", "failed", "timed_out"]), [PASSED, SHARE])
    program, limits, _ = next(ran for ran in box.ran if ran[0].code == "good")
    assert (program.mode, program.entry, program.tests) == ("calls", "f", "assert f(1)\nassert f(2)")
    assert (limits.cpu_s, limits.wall) == (5.0, 50.0)
    assert values(bench, result) == {"execution_passed": pytest.approx(1 / 3), "tests_passed": pytest.approx(2 / 3)}
    rows = bench.rows(result, "executions")
    assert [(row["status"], row["text"], row["code"]) for row in rows[:2]] == [
        ("passed", "", "good"),
        ("failed", "assert failed", "failed"),
    ]
    assert {(row["mode"], row["containment"]) for row in rows} == {("calls", "namespaces")}
    assert [row["cpu_s"] for row in bench.rows(result, "execution_telemetry")] == [0.25] * 3
    assert (result.counts["passed"], result.counts["failed"], result.counts["timed_out"]) == (1, 1, 1)


def test_equal_programs_run_once_and_pass_at_k_counts_each_repetition(bench: Bench, box: FakeExecutor) -> None:
    inputs = answered(bench, ["good", "good", "failed"], replicates=4)
    result = scored(bench, inputs, [bind("execution_passed", aggregation=["pass@2", "pass^4"])])
    assert box.codes == ["failed", "good"]
    assert len(bench.rows(result, "executions")) == 12
    assert {row["aggregation"]: row["value"] for row in bench.rows(result, "metrics")} == {
        "pass@2": pytest.approx(2 / 3),
        "pass^4": pytest.approx(2 / 3),
    }


def test_another_metric_label_or_limit_runs_only_what_it_must(bench: Bench, box: FakeExecutor) -> None:
    inputs = answered(bench, ["good", "failed"])
    first = scored(bench, inputs)
    again = scored(bench, inputs, [PASSED, SHARE, bind("execution_passed", metric_id="other")])
    assert again.outputs["executions"] == first.outputs["executions"]
    assert len(box.ran) == 2
    scored(bench, answered(bench, ["good", "new"], label="x"))
    assert box.codes == ["failed", "good", "new"], "programs of other samples are found too"
    scored(bench, inputs, limits={"cpu_s": 6.0})
    assert len(box.ran) == 5
    scored(bench, inputs, slots=3)
    assert len(box.ran) == 5


def test_another_interpreter_runs_them_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = answered(bench, ["good"])
    for version, expected in (("3.11", 1), ("3.12", 1), ("3.11", 0)):
        executor = FakeExecutor(version=version)
        monkeypatch.setattr(boxes, "open_executor", lambda settings, made=executor: made)
        monkeypatch.setattr(boxes, "_backends", {})
        with Runtime() as runtime:
            bench.env.runtime = runtime
            scored(bench, inputs)
        assert (len(executor.ran), executor.closed) == (expected, expected or 0)


def test_a_box_error_is_unscored_and_alone_is_run_again(bench: Bench, box: FakeExecutor) -> None:
    inputs = answered(bench, ["good", "box_error x", "failed"])
    result = scored(bench, inputs)
    assert not result.complete
    assert values(bench, result) == {"execution_passed": 0.5}
    assert result.counts["box_error"] == 1
    box.ran.clear()
    scored(bench, inputs)
    assert box.codes == ["box_error x"]


def test_a_killed_run_resumes_without_what_it_logged(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        """Ends the run as a kill would: nothing is committed."""

    ran: list[str] = []
    alive = 3

    def ends(program: Program, spec: BoxSpec) -> Execution:
        if len(ran) == alive:
            raise Killed
        ran.append(program.code)
        return Execution("passed")

    inputs = answered(bench, [f"p{number}" for number in range(8)])
    monkeypatch.setattr(boxes, "open_executor", lambda settings: FakeExecutor(ends))
    with pytest.raises(BaseException):  # noqa: B017
        scored(bench, inputs)
    assert len(ran) == 3
    alive = 100
    result = scored(bench, inputs)
    assert sorted(ran) == [f"p{number}" for number in range(8)], "nothing was run twice"
    assert result.counts["passed"] == 8


def test_a_program_that_starved_is_tried_again_and_under_the_official_rule_timed_out(bench: Bench) -> None:
    tries: list[str] = []

    def ends(program: Program, spec: BoxSpec) -> Execution:
        tries.append(program.code)
        return Execution("box_error", "starved", "it waited for a processor")

    inputs = answered(bench, ["slow"])
    for section, status, count, wall in (({}, "box_error", 3, 50.0), ({"compat": "official"}, "timed_out", 1, 5.0)):
        tries.clear()
        box = FakeExecutor(ends)
        with pytest.MonkeyPatch.context() as patch, Runtime() as runtime:
            patch.setattr(boxes, "open_executor", lambda settings, made=box: made)
            bench.env.runtime = runtime
            result = scored(bench, inputs, **section)
        assert [row["status"] for row in bench.rows(result, "executions")] == [status]
        assert len(tries) == count
        assert {limits.wall for _, limits, _ in box.ran} == {wall}


@pytest.mark.parametrize(
    ("answer", "filters", "status", "reason"),
    [
        ("no code here", [{"regex": {"pattern": "```(.*)```"}}], "refused", "no_program"),
        ("x" * (LARGEST_PROGRAM + 1), [], "refused", "too_long"),
        ("a\0b", [], "failed", "syntax"),
    ],
)
def test_an_answer_that_is_no_program_has_a_status_and_a_sentence_and_never_enters_the_box(
    bench: Bench, box: FakeExecutor, answer: str, filters: list[Any], status: str, reason: str
) -> None:
    result = scored(bench, answered(bench, [answer]), filters=filters)
    (row,) = bench.rows(result, "executions")
    assert (row["status"], row["reason"]) == (status, reason)
    assert row["text"].endswith(".")
    assert box.ran == []
    assert values(bench, result) == {"execution_passed": 0.0}


@pytest.mark.parametrize(
    ("sandbox", "said"),
    [
        ({"env": {"KEY": "env:SECRET"}}, "no secret enters a box"),
        ({"env": {"KEY": "block:secret/mine"}}, "no secret enters a box"),
        ({"files": {"data.txt": "nowhere.txt"}}, "does not exist"),
        ({"files": {"data.txt": "../outside.txt"}}, "leads out of content_root"),
        ({"files": {"data.txt": "link.txt"}}, "leads out of content_root"),
        ({"files": {"data.txt": "http://127.0.0.1:9/data.txt"}}, "http"),
    ],
)
def test_a_sample_whose_surroundings_cannot_be_made_is_unscored_with_a_sentence(
    bench: Bench, box: FakeExecutor, sandbox: dict[str, Any], said: str
) -> None:
    (bench.folder.parent / "outside.txt").write_text("secret")
    (bench.folder / "link.txt").symlink_to(bench.folder.parent / "outside.txt")
    samples = bench.samples(
        [
            {"id": "bad", "question": "good", "metadata": {"tests": "t", "entry": "f"}, "sandbox": sandbox},
            {"id": "fine", "question": "good", "metadata": {"tests": "t", "entry": "f"}},
        ]
    )
    inputs = {"samples": samples, "responses": bench.infer(bench.preprocess(samples), bench.model(mode="echo"))}
    result = scored(bench, inputs)
    row = bench.rows(result, "executions")[0]
    assert (row["status"], row["reason"]) == ("box_error", "sample")
    assert "sample 'bad'" in row["text"]
    assert said in row["text"]
    assert len(box.ran) == 1


def test_a_path_that_no_sample_has_ends_the_run_before_anything_is_run(bench: Bench, box: FakeExecutor) -> None:
    with pytest.raises(InputError, match=r"sample 's0': the sample has no metadata\.test, the program's tests"):
        scored(bench, answered(bench, ["good"]), tests="metadata.test")
    assert box.ran == []


@pytest.mark.parametrize("where", ["sandbox", "metadata.execution"])
def test_surroundings_of_a_sample_enter_the_box_and_the_key(bench: Bench, box: FakeExecutor, where: str) -> None:
    own = {"image": "img", "files": {"in/data.txt": "data.txt"}, "setup": "make", "env": {"A": "b"}}
    metadata = {"tests": "t", "entry": "f"}
    fields = {"sandbox": own} if where == "sandbox" else {"metadata": {**metadata, "execution": own}}
    (bench.folder / "data.txt").write_text("one")
    inputs = answered(bench, ["good"], **{"metadata": metadata, **fields})
    scored(bench, inputs)
    assert box.ran[0][2] == BoxSpec("img", {"in/data.txt": b"one"}, "make", {"A": "b"})
    (bench.folder / "data.txt").write_text("two")
    scored(bench, inputs)
    assert box.ran[1][2].files == {"in/data.txt": b"two"}


@pytest.mark.parametrize("where", ["sample", "section"])
def test_another_image_of_the_same_name_another_setup_and_another_variable_run_programs_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    box = FakeExecutor()
    monkeypatch.setattr(boxes, "open_executor", lambda settings: box)
    own = {"setup": "make", "env": {"A": "b"}, **({"image": "img"} if where == "sample" else {})}
    section = {"image": "img"} if where == "section" else {}

    def ran(**changed: Any) -> int:
        before = len(box.ran)
        with Runtime() as runtime:
            bench.env.runtime = runtime
            scored(bench, answered(bench, ["good"], sandbox={**own, **changed}), **section)
        return len(box.ran) - before

    assert (ran(), ran(), ran(setup="make all"), ran(env={"A": "c"})) == (1, 0, 1, 1)
    box.images["img"] = "img@sha256:1"
    assert (ran(), ran()) == (1, 0)


def test_expected_outputs_of_a_stdio_program_never_enter_the_box(bench: Bench, box: FakeExecutor) -> None:
    metadata = {"in": ["1", "2"], "out": ["good 1\n", "other"]}
    section = {"mode": "stdio", "entry": None, "tests": None, "inputs": "metadata.in", "outputs": "metadata.out"}
    inputs = answered(bench, ["good"], metadata=metadata)
    (row,) = bench.rows(scored(bench, inputs, **section), "executions")
    assert "other" not in repr(box.ran)
    assert (row["status"], row["reason"], row["tests_passed"], row["tests_failed"]) == ("failed", "wrong_output", 1, 1)
    assert row["text"] == "test 2: expected 'other', printed 'good 2'"
    metadata["out"][1] = "good 2"
    (row,) = bench.rows(scored(bench, answered(bench, ["good"], metadata=metadata), **section), "executions")
    assert (row["status"], row["tests_passed"], len(box.ran)) == ("passed", 2, 1)


def test_a_refresh_runs_every_program_again(bench: Bench, box: FakeExecutor) -> None:
    inputs = answered(bench, ["good"])
    scored(bench, inputs)
    bench.env.refresh = frozenset({("t", "auto_eval")})
    scored(bench, inputs)
    assert len(box.ran) == 2


def test_a_run_whose_executions_another_run_commits_first_scores_those(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = answered(bench, ["good"])
    together, ended = threading.Barrier(2), itertools.count()

    def ends(program: Program, spec: BoxSpec) -> Execution:
        together.wait(PATIENCE_S)
        return Execution("passed", cpu_s=next(ended))

    monkeypatch.setattr(boxes, "open_executor", lambda settings: FakeExecutor(ends))

    def run(name: str) -> str:
        with Runtime() as runtime:
            racer = Bench(tmp_path, runtime)
            racer.env.store = Store.open(str(tmp_path / "store"), locks=False)
            racer.env.run_id, racer.env.refresh = name, frozenset({("t", "auto_eval")})
            result = scored(racer, inputs)
            assert values(racer, result) == {"execution_passed": 1.0}
            return result.outputs["executions"]

    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(run, ["one", "other"]))) == 1


def with_expected(program: Program, surroundings: BoxSpec) -> Execution:
    """A program of mode stdio prints three; one whose code is 'bad' fails."""
    if program.mode != "stdio":
        return Execution("passed", tests_passed=1)
    return Execution("failed" if program.code == "bad" else "passed", outputs=("[3]",))


@pytest.mark.parametrize(
    ("mode", "program", "ran", "tests"),
    [
        ("calls", "show", 1, "EXPECTED = '[3]'\nassert f(1)"),
        # Without what is expected, the tests do what they do alone.
        ("calls", "bad", 1, "assert f(1)"),
        # Here the tests run in the answer's process, which could read it.
        ("script", "show", 0, "assert f(1)"),
    ],
)
def test_what_tests_expect_is_computed_once_for_all_answers_and_kept_from_the_process_of_the_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, mode: str, program: str, ran: int, tests: str
) -> None:
    box = FakeExecutor(with_expected)
    monkeypatch.setattr(boxes, "open_executor", lambda settings: box)
    metadata = {"tests": "assert f(1)", "entry": "f", "expected": program}
    section = {"mode": mode, "expected": "metadata.expected"}
    first = answered(bench, ["one", "two"], replicates=2, metadata=metadata)
    scored(bench, first, **section)
    # Other answers, as of another model; and other samples whose program is the same.
    scored(bench, answered(bench, ["three"], label="x", metadata=metadata), **section)
    expecting = [made for made, _, _ in box.ran if made.mode == "stdio"]
    assert [(made.code, made.tests) for made in expecting] == [(program, "")] * ran
    answers = [made for made, _, _ in box.ran if made.mode == mode]
    assert sorted(made.code for made in answers) == ["one", "three", "two"]
    assert {made.tests for made in answers} == {tests}
    assert not any("[3]" in made.code + made.prelude for made in answers)
