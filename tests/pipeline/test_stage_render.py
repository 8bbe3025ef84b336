"""render: the requests of a role, from what was prepared and what the prompt asks for."""

from typing import Any

import pytest
from pipeline.calling import Bench

from gage_eval.base.errors import InputError
from gage_eval.base.stages import StageResult
from gage_eval.models.backends.dummy import Dummy
from gage_eval.models.client.types import Request
from gage_eval.pipeline.asks import Asks
from gage_eval.pipeline.generate_spec import GenerateSpec
from gage_eval.pipeline.render import PreparedRow, RequestRenderer, RowContext
from gage_eval.pipeline.source import RoleSource

RECORDS = [{"id": f"s{row}", "question": f"Q{row}", "answer": f"A{row}"} for row in range(3)]


def requests(bench: Bench, spec: GenerateSpec, prepared: StageResult, **inputs: Any) -> list[Request]:
    artifacts = {name: bench.artifact(result, output) for name, (result, output) in inputs.items()}
    source = RoleSource(Asks.implicit(spec.binding), {"prepared": bench.artifact(prepared, "prepared"), **artifacts})
    return [request for part, asks in source.parts for request in source.open(part).render(0, asks)]


def said(request: Request) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in request.messages or []]


def test_without_a_prompt_the_samples_own_messages_are_sent(bench: Bench) -> None:
    prepared = bench.preprocess(bench.samples(RECORDS))
    rendered = requests(bench, bench.model(), prepared)
    assert [said(request) for request in rendered] == [[("user", f"Q{row}")] for row in range(3)]
    assert [(request.sample_id, request.row_index, request.kind) for request in rendered] == [
        (f"s{row}", row, "chat") for row in range(3)
    ]


def test_a_prompt_sees_the_sample_but_never_its_raw_assets(bench: Bench) -> None:
    samples = bench.samples([{**RECORDS[0], "raw_assets": {"key": "secret"}, "metadata": {"topic": "sums"}}])
    prepared = bench.preprocess(samples)
    spec = bench.model(prompt="{{ sample.metadata.topic }}: {{ sample.label }}", system="be brief")
    (request,) = requests(bench, spec, prepared, samples=(samples, "samples"))
    assert said(request) == [("system", "be brief"), ("user", "sums: A0")]
    for template in ("{{ sample.raw_assets }}", "{{ payload.sample.raw_assets }}"):
        (refused,) = requests(bench, bench.model(prompt=template), prepared, samples=(samples, "samples"))
        assert refused.unasked is not None
        assert refused.unasked.kind == "prompt_failed"
        assert "sample 's0'" in refused.unasked.message


def test_a_likelihood_after_a_chat_is_asked_of_backends_that_have_the_models_template(bench: Bench) -> None:
    options = [{"id": "A", "content": "red"}, {"id": "B", "content": "blue"}]
    record = {"id": "s", "messages": [{"role": "user", "content": "Which?"}], "options": options, "references": ["B"]}
    prepared = bench.preprocess(bench.samples([record]), kind="chat_likelihood")
    with pytest.raises(InputError, match="chat_likelihood requests, which backend 'dummy' cannot answer"):
        requests(bench, bench.model(), prepared)
    model = bench.model()
    model.model.capabilities = frozenset({"chat_likelihood"})
    (request,) = requests(bench, model, prepared)
    assert (request.kind, request.prompt, request.choices) == ("likelihood", None, ["red", "blue"])
    assert said(request) == [("user", "Which?")]


def test_the_rows_parameters_win_over_the_adapters(bench: Bench) -> None:
    prepared = bench.preprocess(bench.samples(RECORDS[:1]), {"temperature": 0})
    (request,) = requests(bench, bench.model(params={"temperature": 1, "top_p": 0.5}), prepared)
    assert request.params == {"temperature": 0, "top_p": 0.5}


def test_replicates_stand_side_by_side_and_have_seeds_of_their_own(bench: Bench) -> None:
    prepared = bench.preprocess(bench.samples(RECORDS[:2]), {"seed": 10}, replicates=3)
    rendered = requests(bench, bench.model(), prepared)
    assert [(r.row_index, r.replicate, r.params["seed"]) for r in rendered] == [
        (row, replicate, 10 + replicate) for row in range(2) for replicate in range(3)
    ]
    unseeded = bench.preprocess(bench.samples(RECORDS[:1]), replicates=2)
    assert [r.params for r in requests(bench, bench.model(), unseeded)] == [{}, {}]


def test_each_replicate_of_a_text_has_its_own_prompt_wherever_a_chunk_begins(bench: Bench) -> None:
    messages = [{"role": "user", "content": "Q"}]
    row = PreparedRow(0, "s0", "completion", "Q", None, None, None, None, '{"seed":10}', None, messages)
    context = RowContext(support={replicate: {"answer": f"hint {replicate}"} for replicate in range(3)})
    spec = bench.model(prompt="{{ history[0].content }} with {{ payload.support_output.answer }}")
    renderer, asks = RequestRenderer(spec.binding), [(replicate, replicate) for replicate in range(3)]
    whole = renderer.render(row, context, asks)
    assert [request.prompt for request in whole] == [f"Q with hint {replicate}" for replicate in range(3)]
    assert [request for ask in asks for request in renderer.render(row, context, [ask])] == whole


def test_a_judge_sees_the_answer_of_the_same_row_and_replicate(bench: Bench) -> None:
    samples = bench.samples(RECORDS)
    prepared = bench.preprocess(samples, replicates=2)
    answered = bench.infer(prepared, bench.model(mode="echo"))
    judge = bench.model("judge_model", prompt="{{ model_answer }} against {{ sample.label }}")
    rendered = requests(bench, judge, prepared, samples=(samples, "samples"), responses=(answered, "responses"))
    assert [said(r)[-1][1] for r in rendered] == [f"Q{row} against A{row}" for row in range(3) for _ in range(2)]


def test_chosen_samples_are_judged_against_their_own_sample(bench: Bench) -> None:
    samples = bench.samples(RECORDS)
    prepared = bench.preprocess(samples, sample_ids=("s2",))
    answered = bench.infer(prepared, bench.model(mode="echo"))
    judge = bench.model("judge_model", prompt="{{ model_answer }} against {{ sample.label }}")
    (request,) = requests(bench, judge, prepared, samples=(samples, "samples"), responses=(answered, "responses"))
    assert said(request)[-1][1] == "Q2 against A2"


def test_a_row_the_model_did_not_answer_asks_its_judge_nothing(bench: Bench) -> None:
    samples = bench.samples(RECORDS)
    prepared = bench.preprocess(samples)
    answered = bench.infer(prepared, bench.model(mode="echo", fail_sample_ids=["s1"], max_error_share=1.0))
    judge = bench.model("judge_model", prompt="{{ model_answer }}")
    rendered = requests(bench, judge, prepared, samples=(samples, "samples"), responses=(answered, "responses"))
    assert [request.messages == [] for request in rendered] == [False, True, False]


def test_a_kind_the_backend_cannot_answer_is_refused(bench: Bench) -> None:
    prepared = bench.preprocess(bench.samples(RECORDS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dummy, "capabilities", frozenset({"completion"}))
        with pytest.raises(InputError, match=r"^task 't' sends chat requests, which backend 'dummy' cannot answer\. "):
            requests(bench, bench.model(), prepared)
