"""How the final answer is taken out of an answer's text."""

from dataclasses import dataclass
from functools import cached_property

from gage_eval.base import patterns
from gage_eval.base.errors import InputError
from gage_eval.data.sample.record import RecordRejected


@dataclass(frozen=True)
class AnswerRule:
    """How the final answer is taken out of an answer's text.

    Attributes:
        split: the answer is what follows the last occurrence of this text (GSM8K: ``"#### "``).
        regex: the answer is the last match's first group, or the whole match.
        strip: characters that are removed (``","`` for thousands separators).
    """

    split: str | None
    regex: str | None
    strip: str | None

    def __call__(self, text: str, field: str) -> str:
        """The final answer, without outer white space when a rule applied.

        Raises:
            RecordRejected: the text has no answer of that form, or the search takes too long.
        """
        if self.split is not None:
            _, separator, tail = text.rpartition(self.split)
            if not separator:
                raise RecordRejected(f"{field}: there is no '{self.split}' before a final answer.")
            text = tail.strip()
        if self.regex is not None:
            try:
                last = patterns.find(self.regex, text, take="last")
            except patterns.PatternTooSlow as error:
                raise RecordRejected(f"{field}: {error}.") from None
            if last is None:
                raise RecordRejected(f"{field}: no answer matches '{self.regex}'.")
            text = ((last[1] if last.re.groups else last[0]) or "").strip()
        for character in self.strip or "":
            text = text.replace(character, "")
        return text

    @cached_property
    def active(self) -> bool:
        """Whether the rule changes anything."""
        return bool(self.split or self.regex or self.strip)


def answer_rule(split: str | None, regex: str | None, strip: str | None) -> AnswerRule:
    """The rule of the arguments ``answer_split``, ``answer_regex`` and ``answer_strip``.

    Raises:
        InputError: the regular expression is wrong, or the text to split at is empty.
    """
    if split == "":
        raise InputError("answer_split: it is empty; name the text before the final answer.")
    if regex is not None and (problem := patterns.problem(regex)) is not None:
        raise InputError(f"answer_regex: '{regex}' is not a regular expression ({problem}).")
    return AnswerRule(split, regex, strip)
