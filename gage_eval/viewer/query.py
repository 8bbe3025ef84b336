"""The search line: words to find, and terms such as ``status:wrong``, ``topic:"linear algebra"`` or ``tokens>400``."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from gage_eval.base.errors import InputError, closest
from gage_eval.base.statuses import REASONS, RESPONSE_STATUSES
from gage_eval.runs.results.notes import VERDICTS
from gage_eval.runs.results.outcomes import ANSWER_KINDS
from gage_eval.viewer.fields import FIELDS, NUMBERS, TEXTS
from gage_eval.viewer.index import BETWEEN, About, IndexedMeasure

Noted: TypeAlias = Mapping[str, Collection[int]]
"""Numbers of noted responses (`index.response_number`) by verdict; under ``any`` all of them."""

NO_NOTES: Noted = {}
_FLIPS = {"worse": "p.change < 0", "better": "p.change > 0", "same": "p.change = 0", "changed": "p.change <> 0"}
# Terms that name a whole text, and their columns.
_WHOLE = {"error": "error_kind", "finish": "finish_reason"}
_NAME, _QUOTED = r"[^\W\d][\w.]*", r'(?:[^"\\]|\\.)*'
_TERM = re.compile(
    rf"""(?P<not>-)?(?:(?P<name>{_NAME})|"(?P<quoted_name>{_QUOTED})")(?P<operator>:|<=|>=|<|>|=)"""
    rf"""(?:"(?P<quoted>{_QUOTED})"|(?P<plain>[^\s"]*))"""
    rf"""|(?P<no>-)?"(?P<phrase>{_QUOTED})"|(?P<word>\S+)"""
)


@dataclass(frozen=True)
class Term:
    """A part of the search line.

    Attributes:
        name: the field; empty for words that are searched everywhere.
        operator: ``:`` or a comparison.
        value: what is compared with.
        negated: rows that do not match.
    """

    name: str
    operator: str
    value: str
    negated: bool

    @property
    def text(self) -> str:
        """The term as it is written."""
        return format_term(self.name, self.value, self.operator, negated=self.negated)


# Each term costs the planner of a query time, in which nothing can interrupt it.
MOST_TERMS = 500


@dataclass(frozen=True)
class Condition:
    """A condition in SQL with its values.

    Attributes:
        sql, values: the condition.
        of_texts: it is over ``task.texts``, not over the answers.
    """

    sql: str
    values: tuple[Any, ...] = ()
    of_texts: bool = False


def format_term(name: str, value: str, operator: str = ":", *, negated: bool = False) -> str:
    """A term for the search line.

    >>> format_term("topic", "linear algebra")
    'topic:"linear algebra"'
    >>> format_term("sub-topic", "algebra")
    '"sub-topic":algebra'
    """
    field = name if not name or re.fullmatch(_NAME, name) else f'"{_escaped(name)}"'
    bare = re.fullmatch(r'[^\s"\\]+', value) if name else re.fullmatch(r'[^\s"\\:<>=-][^\s"\\:<>=]*', value)
    shown = value if bare else f'"{_escaped(value)}"'
    return f"{'-' if negated else ''}{field}{operator if name else ''}{shown}"


def terms(line: str) -> Iterator[Term]:
    """The terms of a search line."""
    for match in _TERM.finditer(line):
        if operator := match["operator"]:
            name = match["name"] or _unescaped(match["quoted_name"])
            value = match["plain"] if match["quoted"] is None else _unescaped(match["quoted"])
            yield Term(name, operator, value, negated=match["not"] is not None)
        elif match["phrase"] is not None:
            yield Term("", ":", _unescaped(match["phrase"]), negated=match["no"] is not None)
        elif word := match["word"]:
            negated = word.startswith("-") and len(word) > 1
            yield Term("", ":", word[1:] if negated else word, negated)


def with_term(line: str, added: str) -> str:
    """The line with one more term; it replaces another term of the same field."""
    new = next(terms(added))
    kept = [term.text for term in terms(line) if not term.name or term.name != new.name]
    return " ".join([*kept, added])


def without_term(line: str, gone: Term) -> str:
    """The line without a term, however often it has it."""
    return " ".join(term.text for term in terms(line) if term != gone)


def condition_of(
    line: str,
    about: About,
    measure: IndexedMeasure | None,
    *,
    paired: bool = False,
    noted: Noted = NO_NOTES,
) -> Condition:
    """A search line as a condition over ``answers a`` (and ``pairs p`` if paired).

    Raises:
        InputError: a term names a field or a value that does not exist, or there are too many terms.
    """
    conditions: dict[Condition, None] = {}
    # One subquery for all texts that are wanted, and one for all that are not: the planner takes long for each.
    wanted: dict[Condition, None] = {}
    unwanted: dict[Condition, None] = {}
    for term in terms(line):
        condition = _note(term, noted) if term.name == "note" else _condition(term, about, measure, paired=paired)
        if condition.of_texts:
            (unwanted if term.negated else wanted)[condition] = None
        else:
            sql = f"NOT coalesce({condition.sql}, false)" if term.negated else f"({condition.sql})"
            conditions[Condition(sql, condition.values)] = None
    if len(conditions) + len(wanted) + len(unwanted) > MOST_TERMS:
        raise InputError(f"search: a line has at most {MOST_TERMS} terms. To look for a whole text, put it in quotes.")
    for joined, texts in ((" AND ", wanted), (" OR ", unwanted)):
        if texts:
            sql = f"a.pos IN (SELECT pos FROM task.texts WHERE {joined.join(text.sql for text in texts)})"  # noqa: S608
            values = tuple(value for text in texts for value in text.values)
            conditions[Condition(f"NOT {sql}" if texts is unwanted else sql, values)] = None
    return Condition(
        " AND ".join(condition.sql for condition in conditions) or "true",
        tuple(value for condition in conditions for value in condition.values),
    )


def _condition(term: Term, about: About, measure: IndexedMeasure | None, *, paired: bool) -> Condition:
    number = 0 if measure is None else measure.number
    if not term.name:
        _needs_texts(about, term.value)
        return Condition("contains(searchable, ?)", (term.value.lower(),), of_texts=True)
    if term.name in NUMBERS:
        return _comparison(term, _scored(NUMBERS[term.name], measure, term))
    if term.operator not in (":", "="):
        raise InputError(
            f"search: '{term.text}' compares '{term.name}', which is not a number. Numbers: {', '.join(NUMBERS)}."
        )
    if term.name == "status":
        column = f"a.kind_{number}" if term.value in ANSWER_KINDS else "a.status"
        return Condition(f"{column} = ?", (_known(term, (*ANSWER_KINDS, *RESPONSE_STATUSES)),))
    if term.name == "reason":
        _scored("reason", measure, term)
        return Condition(f"a.reason_{number} = ?", (_known(term, REASONS),))
    if term.name in _WHOLE:
        return Condition(f"a.{_WHOLE[term.name]} = ?", (term.value,))
    if term.name == "flip":
        return _flip(term, paired=paired)
    if term.name in TEXTS:
        return _text(term, about, measure)
    return _slice(term, about)


def _text(term: Term, about: About, measure: IndexedMeasure | None) -> Condition:
    """``asked:`` and ``answer:`` look for a text within, the others with ``=`` for the whole."""
    if term.name in ("asked", "answer"):
        _needs_texts(about, term.value)
        return Condition(
            f"(contains(searchable, ?) AND contains(lower({TEXTS[term.name]}), ?))",
            (term.value.lower(), term.value.lower()),
            of_texts=True,
        )
    column = _scored("read", measure, term) if term.name == "read" else f"a.{TEXTS[term.name]}"
    if term.operator == "=":
        return Condition(f"{column} = ?", (term.value,))
    return Condition(f"contains(lower({column}), ?)", (term.value.lower(),))


def _note(term: Term, noted: Noted) -> Condition:
    wanted = _known(term, ("any", *VERDICTS[:-1]))
    numbers = ", ".join(map(str, noted.get(wanted, ())))
    return Condition(f"a.response_key IN ({numbers or -1})")


def _flip(term: Term, *, paired: bool) -> Condition:
    if not paired:
        raise InputError("search: 'flip:' needs a run to compare with: choose one first.")
    return Condition(_FLIPS[_known(term, [*_FLIPS])])


def _slice(term: Term, about: About) -> Condition:
    matches = [x for x in about.slices if term.name == x.name or term.name.removeprefix("sample.") == x.path]
    if not matches:
        names = [*FIELDS, *(x.name for x in about.slices)]
        raise InputError(
            f"search: there is no field '{term.name}'. Fields: {', '.join(names)}.{closest(term.name, names)}"
        )
    column = f"a.slice_{matches[0].number}"
    if term.value == "(none)":
        return Condition(f"{column} IS NULL")
    inside = f"contains({column}, chr(31)) AND list_contains(string_split({column}, '{BETWEEN}'), ?)"
    return Condition(f"{column} = ? OR ({inside})", (term.value, term.value))


def _comparison(term: Term, column: str) -> Condition:
    operator = "=" if term.operator == ":" else term.operator
    if term.value == "none":
        return Condition(f"{column} IS NULL")
    try:
        return Condition(f"{column} {operator} ?", (float(term.value),))
    except ValueError:
        raise InputError(f"search: '{term.text}' needs a number, such as {term.name}>400.") from None


def _scored(column: str, measure: IndexedMeasure | None, term: Term) -> str:
    if column not in ("value", "read", "reason"):
        return f"a.{column}"
    if measure is None:
        raise InputError(f"search: '{term.text}' needs scores, and nothing is scored yet.")
    return f"a.{column}_{measure.number}"


def _known(term: Term, values: Sequence[str]) -> str:
    if term.value not in values:
        known = list(dict.fromkeys(values))
        raise InputError(
            f"search: '{term.text}': {term.name} is one of {', '.join(known)}.{closest(term.value, known)}"
        )
    return term.value


def _needs_texts(about: About, value: str) -> None:
    if not about.has_texts:
        raise InputError(
            f"search: '{value}' cannot be looked for, because the texts of this run are not indexed: start gage view "
            "with --texts."
        )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
