"""Answers that were cut at the token limit while the model said the same thing over and over."""

from dataclasses import replace

from gage_eval.engine.episodes import Outcome

REPEATS = 3
LEAST = 120
WINDOW = 8192


def ends_in_loop(text: str) -> bool:
    """Whether a text ends in a repeated passage.

    It does where some end of it has length L and period p, in characters, with L ≥ `LEAST` and L ≥ `REPEATS` · p: each
    character of that end equals the one p before it. Only the last `WINDOW` characters are looked at. The smallest
    period of every end comes from the prefix function π of the reversed text, p = L − π(L), in time linear in the
    length (Knuth, Morris and Pratt 1977).
    """
    turned = text[-WINDOW:][::-1]
    borders = [0] * len(turned)
    border = 0
    for at in range(1, len(turned)):
        while border and turned[at] != turned[border]:
            border = borders[border - 1]
        border += turned[at] == turned[border]
        borders[at] = border
        length = at + 1
        if length >= LEAST and length >= REPEATS * (length - border):
            return True
    return False


def with_loop_noted(outcome: Outcome) -> Outcome:
    """The outcome; ``looped`` instead of ``truncated`` where the answer, or thinking without one, ends in a loop."""
    response = outcome.response
    if response.status != "truncated" or not ends_in_loop(response.answer or response.reasoning or ""):
        return outcome
    return replace(outcome, response=replace(response, status="looped"))
