"""Calculators that give several values each, named ``{name}_…``: for numbers, lists, and the fields of an answer.

``name`` is the config's name for the quantity (``price``), so that several quantities of one answer stay apart.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, TypeAlias

from pydantic import Field

from gage_eval.base.field_paths import MISSING, walk
from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.json_text import find_json
from gage_eval.scoring.metrics.lists import list_items
from gage_eval.scoring.metrics.numbers import exact, last_number
from gage_eval.scoring.metrics.words import f1

Name: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")]
_FARTHEST = 10**305
Tolerance: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@metric(
    "number",
    value=("{name}_within_tol", "{name}_exact", "{name}_abs_error"),
    binary=("{name}_within_tol", "{name}_exact"),
    higher_is_better={"{name}_abs_error": False},
    bounds={"{name}_abs_error": (0, None)},
    perfect={"{name}_abs_error": 0},
    version=4,
    normalized=True,
)
def number(
    prediction: str,
    reference: str,
    *,
    name: Name = "value",
    tolerance: Tolerance = 0.0,
    relative_tolerance: Tolerance = 0.0,
    percent: bool = False,
) -> Score:
    """Compare the last numbers of answer and reference: within tolerance, equal, and their distance.

    Numbers are read as by `numeric_match`. The difference may be ``tolerance``, or ``relative_tolerance`` times the
    reference, whichever is larger. An answer without a number is unparsed: 0, 0, and no distance. A distance of more
    than 1e305 is not given either.
    """
    wanted, predicted = last_number(reference), last_number(prediction)
    if wanted is None:
        return Score.unscored("the reference is not a number")
    if predicted is None:
        nothing = {f"{name}_within_tol": 0.0, f"{name}_exact": 0.0}
        return Score.unparsed("the answer holds no number", value=nothing)
    target = wanted.resolved(percent=percent)
    off = abs(Fraction(predicted.resolved(percent=percent) - target))
    leeway = max(exact(tolerance), abs(exact(relative_tolerance) * target))
    values = {f"{name}_within_tol": float(off <= leeway), f"{name}_exact": float(off == 0)}
    if off <= _FARTHEST:
        values[f"{name}_abs_error"] = float(off)
    return Score(values, extracted=predicted.text)


@metric(
    "list",
    value=("{name}_precision", "{name}_recall", "{name}_f1", "{name}_exact"),
    binary=("{name}_exact",),
    bounds=(0, 1),
    version=1,
    normalized=True,
    all_references="together",
)
def list_calculator(
    prediction: str,
    reference: str,
    *,
    name: Name = "list",
    separator: str | None = None,
    case_sensitive: bool = False,
    ordered: bool = False,
) -> Score:
    """Precision, recall and F1 of the answer's items against the reference's, and whether they are the same.

    A side is a JSON list (alone, fenced or among words), else its lines if there are several, else its parts between
    commas or semicolons; ``separator`` replaces these. Items are stripped, white space collapsed, bullets
    removed and case lowered; repeated items count repeatedly. ``exact`` checks the order only when
    ``ordered``. Two empty lists are equal. An answer without items, where there should be some, is unparsed.
    """
    wanted = list_items(reference, separator, case_sensitive=case_sensitive)
    items = list_items(prediction, separator, case_sensitive=case_sensitive)
    keys = (f"{name}_precision", f"{name}_recall", f"{name}_f1", f"{name}_exact")
    if not items and wanted:
        return Score.unparsed("the answer lists nothing", value=dict.fromkeys(keys, 0.0))
    if not items:
        return Score(dict.fromkeys(keys, 1.0))
    bag, right = Counter(items), Counter(wanted)
    shared = (bag & right).total()
    same = items == wanted if ordered else bag == right
    values = (shared / len(items), shared / len(wanted) if wanted else 0.0, f1(bag, right), float(same))
    return Score(dict(zip(keys, values, strict=True)))


@metric("field_completeness", value="{name}", bounds=(0, 1), version=2)
def field_completeness(
    prediction: str, *, fields: Annotated[Sequence[str], Field(min_length=1)], name: Name = "completeness"
) -> Score:
    """The share of the fields that the answer's JSON fills in, 0..1.

    Fields are dotted paths (``address.city``). A field does not count as filled in when it is missing, null, an empty
    list or object, or text with only white space. An answer without JSON is unparsed.
    """
    document = find_json(prediction)
    if document is None:
        return Score.unparsed("the answer holds no JSON")
    missing = [path for path in fields if _is_empty(walk(document[0], path))]
    note = f"not filled in: {', '.join(missing)}" if missing else None
    return Score({name: 1 - len(missing) / len(fields)}, explanation=note)


def _is_empty(value: object) -> bool:
    return value is MISSING or value is None or value in ([], {}) or (isinstance(value, str) and not value.strip())
