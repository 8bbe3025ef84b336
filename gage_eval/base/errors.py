"""Errors for users, each one sentence: what, where, what to do.

The command line prints ``str(error)`` and exits with ``error.exit_code``; a traceback is shown with
``--debug`` only. Programs read ``error.kind``, a word that stays when the sentence changes. Any other exception is a
defect in gage-eval.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any, ClassVar

_MOST_KNOWN = 10_000
_LONGEST_WORD = 200
_CANDIDATES = 5
# Among names of fewer letters than this, many differ by one letter.
_SHORT = 4
_NUMBERS = re.compile(r"\d+")
_NO_LETTER = re.compile(r"[\W\d_]+")
_WORDS = re.compile(r"[^\W_]+")


GATE_FAILED = 3
"""Exit code of a command whose gate found a regression; nothing went wrong."""

GATE_UNDECIDED = 4
"""Exit code of a gate that could not decide, where that was to count as a failure."""


class GageError(Exception):
    """Base of every error meant for a user's eyes. ``exit_code`` 1: the run failed."""

    exit_code = 1
    kind: ClassVar[str] = "error"

    def as_record(self) -> dict[str, Any]:
        """For JSON: the kind, the sentence and the exit code."""
        return {"kind": self.kind, "message": str(self), "exit_code": self.exit_code}


class InputError(GageError):
    """The user's input (config, data, command line) cannot be used."""

    exit_code = 2
    kind = "input"


class NotFound(InputError):
    """A run, a task or a metric that was named does not exist."""

    kind = "not_found"


class NotFinished(InputError):
    """A run has not got as far as what was asked for needs."""

    kind = "not_finished"


class NotComparable(InputError):
    """Runs measure different things."""

    kind = "not_comparable"


class NotInstalled(InputError):
    """A feature's package is not installed; the message has the command that installs it."""

    kind = "not_installed"


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a file.

    Attributes:
        path: where in the document, as ``tasks[1].dataset_id``; empty for the file as a whole.
        message: what is wrong and what would be right, one sentence on one line.
        line: 1-based line of the file, None when unknown.
    """

    path: str
    message: str
    line: int | None = None

    def __post_init__(self) -> None:
        # Both quote the file, which is not ours and may hold what a terminal acts on.
        object.__setattr__(self, "path", visible(self.path))
        object.__setattr__(self, "message", visible(self.message))


class ConfigError(InputError):
    """A config file with all its problems at once."""

    kind = "config"

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(self._text())

    def sentences(self) -> list[str]:
        """Each problem as one sentence that names the file, for an error of another file."""
        return [
            ": ".join(
                filter(None, (f"{self.source}:{item.line}" if item.line else self.source, item.path, item.message))
            )
            for item in self.problems
        ]

    def as_record(self) -> dict[str, Any]:
        """The same with each problem's place."""
        problems = [{"path": item.path, "line": item.line, "message": item.message} for item in self.problems]
        return {**super().as_record(), "source": self.source, "problems": problems}

    def _text(self) -> str:
        count = len(self.problems)
        head = f"{self.source} has {count} problem{'s' if count != 1 else ''}:"
        lines = [head]
        for problem in self.problems:
            where = f"line {problem.line}  " if problem.line is not None else ""
            path = f"{problem.path}: " if problem.path else ""
            lines.append(f"  {where}{path}{problem.message}")
        return "\n".join(lines)


class StoreError(GageError):
    """The artifact store cannot be read or written."""

    kind = "store"


class ArtifactDamaged(StoreError):
    """A stored object is not what was committed. The message names the object and what differs."""

    kind = "damaged"


class EndpointFailed(GageError):
    """A model endpoint ended the run (unreachable, refused the key, unknown model)."""

    kind = "endpoint"


class RunFailed(GageError):
    """The run finished, but its result may not count (too many errors or rejects)."""

    kind = "run_failed"


class BudgetSpent(RunFailed):
    """A limit that the user set for the run is reached; all answers so far are kept."""

    kind = "limit_reached"


class RunCancelled(KeyboardInterrupt):
    """The run was cancelled from outside. Like Ctrl-C a BaseException, so that no code handles it as its own error."""


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8 (lone surrogates cannot)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def visible(text: str) -> str:
    r"""The text with escapes for line breaks, control characters and others that cannot be seen.

    >>> visible("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def closest(word: str, known: Iterable[str], *, digits_count: bool = True) -> str:
    """`` Did you mean 'x'?`` for the name that a word was most likely meant as, or an empty string.

    >>> closest("treshold", ["threshold", "lengths"])
    " Did you mean 'threshold'?"
    """
    match = nearest(word, known, digits_count=digits_count)
    return f" Did you mean '{match}'?" if match is not None else ""


def check_known(word: str, known: Collection[str], what: str) -> None:
    """Check that a word is one of the known ones.

    Args:
        word: the word.
        known: all that there are.
        what: they are, such as ``cause``.

    Raises:
        NotFound: it is not; the message lists those that there are.
    """
    if word not in known:
        raise NotFound(f"there is no {what} '{word}': {', '.join(known) or 'none'}.{closest(word, known)}")


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6, digits_count: bool = True) -> str | None:
    """The known name that a word was most likely meant as; None when none is near enough.

    A name is near with one slip in every three letters, or when it begins with the word or has its words. Names that
    differ in their numbers are different things, not slips; without ``digits_count`` a digit is a letter like others,
    as in names of benchmarks.

    >>> nearest("MMLU", ["mmlu", "mmmu"])
    'mmlu'
    >>> nearest("v3", ["v1", "v2"])
    >>> nearest("gsm9k", ["gsm8k"], digits_count=False)
    'gsm8k'
    """
    # Bounded: a folder or a dataset may hold millions of names, and each is compared letter by letter.
    plain = word[:_LONGEST_WORD].casefold()
    names: dict[str, str] = {}
    for name in islice(known, _MOST_KNOWN):
        names.setdefault(name.casefold(), name)
    if word in names.values():
        return word
    matches = get_close_matches(plain, names, n=_CANDIDATES, cutoff=cutoff)
    return next((names[name] for name in matches if _may_mean(plain, name, digits_count=digits_count)), None)


def _may_mean(word: str, name: str, *, digits_count: bool) -> bool:
    if digits_count and _NUMBERS.findall(word) != _NUMBERS.findall(name):
        return False
    letters, others = _NO_LETTER.sub("", word), _NO_LETTER.sub("", name)
    if not letters or not others:
        return False
    words, parts = set(_WORDS.findall(word)), set(_WORDS.findall(name))
    length = min(len(letters), len(others))
    if length < _SHORT:
        # Of so few letters one more, one less or two swapped is a slip; another letter makes another name.
        same = Counter(letters) <= Counter(others) or Counter(others) <= Counter(letters)
        return length > 1 and same and _slips(letters, others) == 1
    return words <= parts or parts <= words or name.startswith(word) or _slips(letters, others) <= length // 3


def _slips(word: str, other: str) -> int:
    """How many letters are missing, too many, wrong, or in the place of their neighbour (optimal string alignment)."""
    before: list[int] = []
    last: list[int] = [*range(len(other) + 1)]
    for row, letter in enumerate(word, 1):
        this: list[int] = [row]
        for column, there in enumerate(other, 1):
            cost: int = min(last[column] + 1, this[-1] + 1, last[column - 1] + (letter != there))
            if row > 1 and column > 1 and letter == other[column - 2] and word[row - 2] == there:
                cost = min(cost, before[column - 2] + 1)
            this.append(cost)
        before, last = last, this
    return last[-1]
