"""An answer that was cut while it repeated itself is looped, however it came, and its key is the same."""

from dataclasses import replace
from pathlib import Path

import pytest
from engine.asking import KEY, Prompts, Scripted, generate
from hypothesis import given
from hypothesis import strategies as st
from support.logs import read_logs

from gage_eval.base.errors import EndpointFailed
from gage_eval.engine.loops import LEAST, REPEATS, WINDOW, ends_in_loop
from gage_eval.models.client.types import Request, Response
from gage_eval.store import Store

SENTENCE = "The answer is not the answer. "
CUT = Response("truncated", answer=SENTENCE * 9)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(str(tmp_path / "store"))


def saying(response: Response) -> Scripted:
    async def answer(request: Request) -> Response:
        return replace(response)

    return Scripted(answer)


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        (SENTENCE * 4, True),
        ("First, some thoughts. " + SENTENCE * 4 + "The answer", True),
        (SENTENCE * 3, False),
        (SENTENCE * 4 + "At last: 7.", False),
        ("a" * LEAST, True),
        ("a" * (LEAST - 1), False),
        ("".join(f"{number}. the same step\n" for number in range(99)), False),
        ("", False),
        ("x" * WINDOW + "no", False),
    ],
)
def test_a_text_loops_that_ends_in_one_passage_over_and_over(text: str, loops: bool) -> None:
    assert ends_in_loop(text) is loops


@given(st.text("ab", max_size=6), st.text("ab", min_size=1, max_size=60), st.integers(0, 5), st.text("ab", max_size=3))
def test_the_rule_is_that_of_the_formula(start: str, passage: str, times: int, end: str) -> None:
    text = start + passage * times + end
    by_formula = any(
        text[-length:][period:] == text[-length:][:-period]
        for length in range(LEAST, len(text) + 1)
        for period in range(1, length // REPEATS + 1)
    )
    assert ends_in_loop(text) is by_formula


@pytest.mark.parametrize(
    ("response", "status"),
    [
        (CUT, "looped"),
        (Response("truncated", answer="", reasoning=SENTENCE * 9), "looped"),
        (Response("truncated", answer="It goes on and"), "truncated"),
        (Response("ok", answer=SENTENCE * 9), "ok"),
        (Response("refused", answer=SENTENCE * 9), "refused"),
    ],
)
def test_only_answers_that_were_cut_loop(store: Store, response: Response, status: str) -> None:
    assert generate(store, Prompts([SENTENCE]), saying(response)).column("status") == [status]


def test_an_answer_in_the_log_is_not_asked_again_to_learn_that_it_loops(store: Store) -> None:
    async def once(request: Request) -> Response:
        if len(first.asked) > 1:
            raise EndpointFailed("gone.")
        return replace(CUT)

    first = Scripted(once, width=1)
    with pytest.raises(EndpointFailed):
        generate(store, Prompts(["a", "b"]), first)
    ((_, logged),) = read_logs(store.scratch(KEY))
    assert Response.from_bytes(logged).status == "truncated", "the log has what the engine said"
    again = saying(Response("ok", answer="7"))
    assert generate(store, Prompts(["a", "b"]), again).column("status") == ["looped", "ok"]
    assert len(again.asked) == 1
