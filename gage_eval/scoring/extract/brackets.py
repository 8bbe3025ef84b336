"""Marks in double brackets that judges end with, as MT-bench reads them (Zheng et al. 2023, arXiv:2306.05685)."""

import re

# Linear time: the dot must stand between the digits, so a long run of digits matches in only one way.
_NUMBER = r"[0-9]+(?:\.[0-9]*)?"
_DOUBLE = re.compile(rf"\[\[({_NUMBER})\]\]")
_SINGLE = re.compile(rf"\[({_NUMBER})\]")
_VERDICTS = {"[[A]]": "A", "[[B]]": "B", "[[C]]": "tie"}


def double_bracketed(text: str) -> str | None:
    """The first number in double brackets, ``[[7.5]]``."""
    match = _DOUBLE.search(text)
    return None if match is None else match[1]


def single_bracketed(text: str) -> str | None:
    """The first number in brackets, ``[7.5]``."""
    match = _SINGLE.search(text)
    return None if match is None else match[1]


def pairwise_verdict(text: str) -> str | None:
    """``A``, ``B`` or ``tie`` for ``[[A]]``, ``[[B]]`` or ``[[C]]``, searched in this order anywhere in the text."""
    return next((verdict for mark, verdict in _VERDICTS.items() if mark in text), None)
