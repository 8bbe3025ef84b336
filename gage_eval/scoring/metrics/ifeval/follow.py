"""Check which instructions a response follows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gage_eval.scoring.metrics.ifeval.instructions import INSTRUCTIONS


@dataclass(frozen=True, slots=True)
class Compliance:
    """One flag per instruction, in their order.

    Attributes:
        strict: whether the response itself follows it.
        loose: whether one of its eight variants does.
    """

    strict: tuple[bool, ...]
    loose: tuple[bool, ...]


def follow(response: str, names: Sequence[str], kwargs: Sequence[Mapping[str, Any]]) -> Compliance:
    """Check a response against its instructions.

    Args:
        response: the model's text; an empty text follows nothing.
        names: instruction ids, as ``keywords:existence``.
        kwargs: the arguments of each.

    Raises:
        ValueError: an instruction is unknown or lacks an argument, or names and arguments differ in number.
    """
    if len(names) != len(kwargs):
        raise ValueError(f"there are {len(names)} instructions, but {len(kwargs)} sets of arguments")
    checks = [_bound(name, arguments) for name, arguments in zip(names, kwargs, strict=True)]
    variants = list(dict.fromkeys(_variants(response)))
    strict = tuple(bool(response.strip()) and check(response) for check in checks)
    loose = tuple(
        follows or any(bool(variant.strip()) and check(variant) for variant in variants)
        for follows, check in zip(strict, checks, strict=True)
    )
    return Compliance(strict, loose)


def _bound(name: str, arguments: Mapping[str, Any]) -> Callable[[str], bool]:
    instruction = INSTRUCTIONS.get(name)
    if instruction is None:
        raise ValueError(f"there is no instruction {name!r}")
    return partial(instruction.check, **instruction.arguments(arguments))


def _variants(response: str) -> Iterator[str]:
    """The response, and without its first line, its last line, and both; each also without stars."""
    lines = response.split("\n")
    for variant in (
        response,
        "\n".join(lines[1:]).strip(),
        "\n".join(lines[:-1]).strip(),
        "\n".join(lines[1:-1]).strip(),
    ):
        yield variant
        yield variant.replace("*", "")
