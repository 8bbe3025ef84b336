"""What a user can get wrong or meet, each said in one sentence: what, where, what to do.

The command line prints ``str(error)`` and exits with ``error.exit_code``; a traceback is shown with
``--debug`` only. Anything that is not a `GageError` is a defect of ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice

_MOST_KNOWN = 10_000
_LONGEST_WORD = 200


class GageError(Exception):
    """Base of every error meant for a user's eyes. ``exit_code`` 1: the run failed."""

    exit_code = 1


class InputError(GageError):
    """The user's input (config, data, command line) cannot be used."""

    exit_code = 2


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

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(self._text())

    def _text(self) -> str:
        count = len(self.problems)
        head = f"{self.source} has {count} problem{'s' if count != 1 else ''}:"
        lines = [head]
        for problem in self.problems:
            place = f"line {problem.line}  " if problem.line is not None else ""
            path = f"{problem.path}: " if problem.path else ""
            lines.append(f"  {place}{path}{problem.message}")
        return "\n".join(lines)


class StoreError(GageError):
    """The artifact store cannot be read or written."""


class ArtifactDamaged(StoreError):
    """A stored object is not what was committed. The message names the object and what differs."""


class EndpointFailed(GageError):
    """A model endpoint ended the run (unreachable, refused the key, unknown model)."""


class RunFailed(GageError):
    """The run went through, but its result may not count (too many errors or rejects)."""


class BudgetSpent(RunFailed):
    """A limit the user set for the run is reached; what was answered is kept."""


def visible(text: str) -> str:
    r"""The text with escapes for line breaks, control characters and others that cannot be seen.

    >>> visible("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def closest(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` for the nearest known word, or an empty string.

    >>> closest("treshold", ["threshold", "lengths"])
    " Did you mean 'threshold'?"
    """
    # Bounded: a folder or a dataset may hold millions of names, and each is compared letter by letter.
    found = get_close_matches(word[:_LONGEST_WORD], islice(known, _MOST_KNOWN), n=1, cutoff=0.6)
    return f" Did you mean '{found[0]}'?" if found else ""
