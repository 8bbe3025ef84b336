"""Several references of a sample: alternatives, of which any may match, or a set, of which all are needed.

A metric that reads its references as a list (``answers``) does the first itself. A metric that compares with one
``reference`` is called once for each; the best result counts, or the worst where all are needed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from gage_eval.base.errors import InputError
from gage_eval.scoring.metrics.base import Definition, Score
from gage_eval.scoring.metrics.text_utils import as_text

References: TypeAlias = Literal["any", "all"]

_REFERENCE_FIELDS = ("reference", "answers")


def check_references(definition: Definition, references: References) -> None:
    """Refuse a metric that cannot read its references in this way.

    Raises:
        InputError: all are needed, and the metric has no rule for that.
    """
    if references == "any":
        return
    name = definition.plugin.name
    if position(definition) is None:
        raise InputError(f"{name} reads no reference, so 'references: all' has no effect. Remove it.")
    if definition.plugin.info.get("all_references") is None:
        raise InputError(
            f"{name} cannot need all references: an answer that equals one is not the others. Remove "
            "'references: all', or use contains, match, list, choice_set or choice_points."
        )


def position(definition: Definition) -> int | None:
    """The field that holds references."""
    names = [item.name for item in definition.fields]
    return next((names.index(name) for name in _REFERENCE_FIELDS if name in names), None)


def over_references(definition: Definition, function: Callable[..., Any], how: References) -> Callable[..., Any]:
    """The metric's function for rows with one reference or with several; unchanged where it reads them itself."""
    at = position(definition)
    if at is None or (how == "any" and definition.fields[at].name == "answers"):
        return function
    scales: Mapping[str, Mapping[str, Any]] = definition.plugin.info.get("scales", {})
    less_is_better = scales.get(definition.values[0], {}).get("higher_is_better") is False
    several = list if definition.fields[at].name == "answers" else tuple
    name, alternatives = definition.plugin.name, definition.plugin.info.get("alternatives", True)
    together = definition.plugin.info.get("all_references") == "together"

    def scored(*args: Any, **params: Any) -> Any:
        golds = args[at]
        if type(golds) is not several or len(golds) < 2:
            return function(*args, **params)
        if not alternatives:
            return Score.unscored(f"the sample has {len(golds)} references and {name} reads one")

        def of(gold: Any) -> Any:
            return function(*args[:at], gold, *args[at + 1 :], **params)

        if how == "all" and together:
            return of(as_text(list(golds)))
        results = [_as_score(of([gold] if several is list else gold)) for gold in golds]
        return _worst(results, less_is_better) if how == "all" else _best(results, golds, less_is_better)

    return scored


def _best(results: Sequence[Any], golds: Sequence[str], less_is_better: bool) -> Any:
    """The best result, the first of equal ones; it says which reference it is for."""
    usable = [(result, gold) for result, gold in zip(results, golds, strict=True) if _counts(result)]
    if not usable:
        return results[0]
    chosen = min if less_is_better else max
    best, gold = chosen(usable, key=lambda pair: _first(pair[0]))
    return replace(best, metadata={**best.metadata, "best_reference": gold})


def _worst(results: Sequence[Any], less_is_better: bool) -> Any:
    without = next((result for result in results if not _counts(result)), None)
    if without is not None:
        return without
    return (max if less_is_better else min)(results, key=_first)


def _as_score(result: Any) -> Any:
    return Score(result) if isinstance(result, float | int | Mapping) else result


def _counts(result: Any) -> bool:
    return isinstance(result, Score) and result.status != "unscored"


def _first(score: Score) -> float:
    value = score.value
    return float(next(iter(value.values()), 0.0)) if isinstance(value, Mapping) else float(value)
