"""Several verdicts on one answer: two judges, two slots and two draws go through a run and stay apart everywhere."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gage_eval
from gage_eval.base.errors import EndpointFailed, InputError
from gage_eval.base.tables import ASKS
from gage_eval.pipeline.asks import AskTable
from gage_eval.pipeline.generate_spec import Binding
from gage_eval.pipeline.judge_spec import JudgeSpec
from gage_eval.report.sample_view import SampleView
from gage_eval.runs.results.report_details import task_details
from gage_eval.runs.results.sample_view import sample_view
from gage_eval.store import Artifact, Store
from tests.support.workspace import ROWS, write_config

PLACES = list(product(("judge", "expert"), (0, 1), (0, 1)))
CONFIG: dict[str, Any] = {
    "backends": [
        {"backend_id": "model", "type": "dummy", "config": {"answer": "2"}},
        {"backend_id": "small", "type": "dummy", "config": {"mode": "echo"}},
        {"backend_id": "large", "type": "dummy", "config": {"mode": "echo", "seed": 1}},
    ],
    "prompts": [
        {"prompt_id": "rate", "template": "{{ sample.id }}\nSCORE: {{ 1 + prompt_params.slot }}"},
        {"prompt_id": "weigh", "template": "{{ sample.id }}\nSCORE: {{ 3 + prompt_params.slot }}"},
    ],
    "role_adapters": [
        {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"},
        {"adapter_id": "judge", "role_type": "judge_model", "backend_id": "small", "prompt_id": "rate"},
        {"adapter_id": "expert", "role_type": "judge_model", "backend_id": "large", "prompt_id": "weigh"},
    ],
    "tasks": [{"task_id": "sums", "dataset_id": "sums", "judge_adapter_id": "judge"}],
    "metrics": [{"metric_id": "spread", "implementation": "panel.py:spread"}],
}
METRIC = """
from gage_eval.scoring.metrics import metric

@metric("spread", value="score", bounds=(0, 100),
        fields={"scores": "verdicts.score", "judges": "verdicts.judge", "draws": "verdicts.draw"})
def spread(scores: list, judges: list, draws: list) -> float:
    assert judges == ["expert"] * 4 + ["judge"] * 4 and draws == [0, 1] * 4
    return sum(place * score for place, score in enumerate(scores))
"""


class Panel:
    """Every judge in both slots, twice: an `AskTable`."""

    def __init__(self, prepared: Artifact, spec: JudgeSpec) -> None:
        self._prepared = prepared
        self._bound: dict[tuple[str, int], Binding] = {}
        for judge, slot in product(spec.judges, (0, 1)):
            assert judge.prompt is not None
            prompt = replace(judge.prompt, params={"slot": slot})
            self._bound[judge.adapter_id, slot] = Binding(judge, prompt, judge.params)

    @property
    def parts(self) -> Sequence[int]:
        return [part.index for part in self._prepared.parts]

    def bindings(self, part: int) -> Mapping[str, Binding]:
        return {binding.digest: binding for binding in self._bound.values()}

    def read(self, part: int) -> pa.Table:
        rows = self._prepared.read(part)["row_index"].to_pylist()
        asks = [
            {"row_index": row, "replicate": 0, "judge": judge, "slot": slot, "draw": draw, "why": "panel"}
            | {"binding": self._bound[judge, slot].digest}
            for row in rows
            for judge, slot, draw in PLACES
        ]
        return pa.Table.from_pylist(asks, schema=ASKS.arrow)


@pytest.fixture
def panel(here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder in which every answer is judged eight times."""

    def explicit(spec: JudgeSpec, store: Store, inputs: Mapping[str, str]) -> AskTable:
        return Panel(store.artifact(inputs["prepared"]), spec)

    monkeypatch.setattr(JudgeSpec, "_asks_of_all", explicit)
    (here / "panel.py").write_text(METRIC)
    write_config(here, **CONFIG)
    return here


def test_each_verdict_is_asked_once_and_kept_apart(panel: Path) -> None:
    run = gage_eval.run("mine.yaml", run_id="r")
    judged = run.reader.stored.record.stages["sums/judge"]
    assert judged.counts["sent"] == ROWS * len(PLACES), "two draws are two questions"
    for row in run.rows():
        assert [(judgment["judge"], judgment["slot"], judgment["draw"]) for judgment in row.judgments] == PLACES
        assert [judgment["score"] for judgment in row.judgments] == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]
        assert len({judgment["response_key"] for judgment in row.judgments}) == len(PLACES)


def test_a_metric_reads_them_all_in_the_order_of_judge_slot_and_draw(panel: Path) -> None:
    run = gage_eval.run("mine.yaml", run_id="r")
    (number,) = run.summary.metrics
    assert number.value == sum(place * score for place, score in enumerate([3, 3, 4, 4, 1, 1, 2, 2]))


def test_a_metric_that_reads_the_only_verdict_is_refused(panel: Path) -> None:
    write_config(panel, **{**CONFIG, "metrics": ["judge_threshold"]})
    with pytest.raises(InputError, match=r"'judge_output\.score' reads the only one.*'verdicts\.score'"):
        gage_eval.run("mine.yaml", run_id="r")


def test_sql_tells_them_apart(panel: Path) -> None:
    gage_eval.run("mine.yaml", run_id="r")
    counts = gage_eval.sql(
        "SELECT judge, slot, draw, count(*) AS n, avg(score) AS mean FROM judgments GROUP BY ALL ORDER BY mean, draw"
    ).to_pylist()
    assert [(count["judge"], count["slot"], count["draw"]) for count in counts] == PLACES
    assert {count["n"] for count in counts} == {ROWS}
    assert [count["mean"] for count in counts] == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]


def test_each_is_shown_with_its_own_request(panel: Path) -> None:
    run = gage_eval.run("mine.yaml", run_id="r")
    row = next(iter(run.rows(ids=["s3"])))
    shown = sample_view(run.reader.task(), row, 0, None, "right")
    assert shown is not None
    names = ["judge", "judge, draw 1", "judge, slot 1", "judge, slot 1, draw 1"]
    assert [judgment.name for judgment in shown.judgments] == [
        *names,
        *(name.replace("judge", "expert") for name in names),
    ]
    assert [judgment.messages[0].parts[0].text[-1] for judgment in shown.judgments] == list("11223344")
    cards: Sequence[SampleView] = [card for kind in task_details(run.reader.task()).kinds for card in kind.cards]
    assert cards[0].judgments[1].name == "judge, draw 1"


def test_only_a_changed_judge_is_asked_again(panel: Path) -> None:
    gage_eval.run("mine.yaml", run_id="r")
    prompts = [CONFIG["prompts"][0], {"prompt_id": "weigh", "template": "{{ sample.id }}\nSCORE: 7"}]
    write_config(panel, **{**CONFIG, "prompts": prompts})
    again = gage_eval.run("mine.yaml", run_id="again")
    judged = again.reader.stored.record.stages["sums/judge"]
    assert judged.counts["sent"] == ROWS * 2, "both slots of the expert ask the same now, and each draw once"


def test_while_one_judge_waits_the_verdicts_of_the_other_are_shown(panel: Path) -> None:
    gone = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "max_attempts": 1, "give_up_after": 0.1}
    backends = [*CONFIG["backends"][:2], {"backend_id": "large", "type": "openai_http", "config": gone}]
    write_config(panel, **{**CONFIG, "backends": backends})
    with pytest.raises(EndpointFailed):
        gage_eval.run("mine.yaml", run_id="r")
    task = gage_eval.open_run("r").reader.task()
    calls = [call for call in task.calls(next(task.rows(limit=1))) if call.stage == "judge"]
    answers = [call.response and call.response["answer"][-1] for call in calls]
    assert answers == [*"1122", None, None, None, None]
    assert len({call.response["response_key"] for call in calls if call.response}) == 4
