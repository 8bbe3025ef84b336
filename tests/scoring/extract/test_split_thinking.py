"""Thinking is split from the answer by one rule, for backends, filters and metrics alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.scoring.extract.thinking import Thought, split_thinking, strip_thinking


@pytest.mark.parametrize(
    ("text", "thought"),
    [
        ("<think>2 + 2</think>\n\n4", Thought("2 + 2", "4")),
        ("2 + 2</think> 4", Thought("2 + 2", "4")),
        ("<think></think>4", Thought(None, "4")),
        ("<think>a</think>b</think>c", Thought("a</think>b", "c")),
        ("  <think>2 +", Thought("2 +", "", closed=False)),
        ("4", Thought(None, "4")),
        ("Well. <think>2 +", Thought("Well. <think>2 +", "", closed=False)),
        ("<think>a</think>b<think>c", Thought("a</think>b<think>c", "", closed=False)),
    ],
)
def test_the_last_part_after_the_end_marker_is_the_answer(text: str, thought: Thought) -> None:
    assert split_thinking(text) == thought
    assert strip_thinking(text) == (thought.answer if thought.closed else None)


@given(st.text(), st.text())
def test_whatever_was_thought_the_answer_is_what_follows(reasoning: str, answer: str) -> None:
    if "<think>" not in answer and "</think>" not in answer:
        assert split_thinking(f"<think>{reasoning}</think>{answer}").answer == answer.lstrip()
