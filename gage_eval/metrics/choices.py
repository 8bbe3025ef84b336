"""Find the option that an answer chooses."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_uppercase

from gage_eval.canonical import JsonValue
from gage_eval.metrics.text_utils import as_text

LETTERS: dict[str, str] = dict.fromkeys(ascii_uppercase[:10], "")
"""The options A to J without texts, for data without options."""

_ENDS = " \t\r\n.,;:!?\"'`*_()[]{}<>。，；：！？“”‘’「」（）【】、"
_SPACE = re.compile(r"\s+")
_LEAD = (
    r"(?:answer|solution|choose|chose|select|pick|(?:correct|right|best|final|my)\s+(?:option|choice)"
    r"|答案|答え|正解|正确选项|选择|应选|選|选)"
)
# Words and signs between a declaration and its letter. Bounded, so that the time is linear in the length of a
# hostile text.
_FILL = (
    r"(?:[\s:：=*_`\"'“”‘’→>$]|\\(?:boxed|text|textbf|mathrm|mathbf)\{|"
    r"(?:is|was|would|should|must|be|most|likely|probably|definitely|clearly|therefore|then|the|option|choice"
    r"|letter|correct|final|one|as|only)\b|是|为|為|は|应该|項|项){0,16}"
)
_OPEN, _CLOSE = r"[(\[{（【]", r"[)\]}）】]"


def option_texts(options: JsonValue) -> dict[str, str]:
    """Options as a mapping from letter (or other id) to text, in order.

    Args:
        options: a mapping; a list of objects with ``label``, ``id``, ``key`` or ``index`` and ``text``, ``content`` or
            ``value``; or a list of texts, which are lettered from A.

    Raises:
        ValueError: the value has another form.
    """
    if isinstance(options, Mapping):
        return {str(key): as_text(text) for key, text in options.items()}
    if isinstance(options, list | tuple):
        if all(isinstance(item, Mapping) for item in options):
            return dict(_labelled(item) for item in options)
        if len(options) <= len(ascii_uppercase):
            return {ascii_uppercase[index]: as_text(text) for index, text in enumerate(options)}
    raise ValueError("the options are neither a mapping from letter to text nor a list of {label, text}")


def choose(answer: str, options: Mapping[str, str], *, allow_text_match: bool = True) -> str | None:
    """The one option that an answer chooses; None when it names none or several.

    The first of these rules that matches decides:

    1. the answer is only an option's letter: ``B``, ``(b)``, ``**B.**``
    2. the answer is only an option's text
    3. a declaration: ``the answer is B``, ``ANSWER: (b)``, ``\\boxed{B}``, ``B is correct``, ``答案是 B``; of
       several the last
    4. a letter that opens the answer: ``B. the mitochondria``, ``B) …``, ``B: …``
    5. the one letter in brackets: ``so it must be (B)``
    6. the one capital letter on its own; ``A`` as an article and ``I`` as a pronoun are words
    7. the one option whose text occurs in the answer as whole words

    Args:
        answer: the model's text, thinking already removed.
        options: letter (or other id) → text; a text may be empty.
        allow_text_match: whether an option may be named by its text (rules 2 and 7).
    """
    text = answer.strip()
    if not text or not options:
        return None
    forms = _forms(tuple(options))
    bare = text.strip(_ENDS).upper()
    if bare in forms.keys:
        return forms.keys[bare]
    if allow_text_match:
        folded = _folded(text.strip(_ENDS))
        equal = [key for key, content in options.items() if content and _folded(content.strip(_ENDS)) == folded]
        if len(equal) == 1:
            return equal[0]
    declared = list(forms.find(forms.declared, text))
    if declared:
        return declared[-1]
    for pattern in (forms.opening, forms.bracketed, forms.alone):
        found = set(forms.find(pattern, text))
        if found and (len(found) == 1 or pattern is not forms.opening):
            return found.pop() if len(found) == 1 else None
    return _named_by_text(text, options) if allow_text_match else None


@dataclass(frozen=True)
class _Forms:
    """The patterns for one set of option ids. ``keys`` maps their upper-case forms back."""

    keys: dict[str, str]
    declared: re.Pattern[str]
    opening: re.Pattern[str]
    bracketed: re.Pattern[str]
    alone: re.Pattern[str]

    def find(self, pattern: re.Pattern[str], text: str) -> Iterator[str | None]:
        """The option of every match; None for a match that names two at once (``A and B``)."""
        for match in pattern.finditer(text):
            groups = match.groupdict()
            letter = next(value for name, value in groups.items() if value is not None and name != "more")
            yield None if groups.get("more") else self.keys[letter.upper()]


@lru_cache(maxsize=256)
def _forms(ids: tuple[str, ...]) -> _Forms:
    keys = {option.upper(): option for option in ids}
    ordered = sorted(keys, key=len, reverse=True)
    any_case = "(?i:" + "|".join(map(re.escape, ordered)) + ")"
    capital = "(?:" + "|".join(_capital(key) for key in ordered) + ")"
    end = r"(?![A-Za-z0-9'’-])"
    more = rf"\s*(?:,|/|&|\+|、|and\b|or\b|和|或|与)\s*{_OPEN}?{capital}{end}(?!\s+(?:is|was|are)\b)"

    def letter(bracketed: str, bare: str) -> str:
        return rf"(?:{_OPEN}(?P<{bracketed}>{any_case}){_CLOSE}|(?P<{bare}>{capital}){end})"

    said = rf"(?i:\b{_LEAD}|\\boxed\{{|{_LEAD}){_FILL}{letter('a', 'b')}"
    praised = (
        rf"(?<![A-Za-z0-9'’-]){letter('c', 'd')}[*_]*\s+(?:is|are)\s+(?:the\s+)?"
        r"(?:(?:most|only)\s+)?(?:correct|right|best|answer)\b"
    )
    start = r"^[ \t*_`#>]*"
    return _Forms(
        keys=keys,
        declared=re.compile(rf"(?:{said}|{praised})(?P<more>{more})?"),
        opening=re.compile(
            rf"{start}(?:{_OPEN}(?P<a>{any_case}){_CLOSE}|(?P<b>{capital})(?:[)\].:：]|\s+[-–—]\s|[*_]*\s*$))"
            rf"(?!{more})",
            re.MULTILINE,
        ),
        bracketed=re.compile(rf"(?<![A-Za-z0-9]){_OPEN}\s*(?P<a>{any_case})\s*{_CLOSE}"),
        alone=re.compile(rf"(?<![A-Za-z0-9'’-])(?P<a>{capital}){end}"),
    )


def _capital(key: str) -> str:
    """An id without brackets: single letters only as capitals, and not as an article or pronoun."""
    if len(key) != 1 or not key.isalpha():
        return f"(?i:{re.escape(key)})"
    if key in "AI":
        return rf"{key}(?!\s+(?!(?:is|was|and|or|because|since|as)\b)[a-z])"
    return re.escape(key)


def _named_by_text(answer: str, options: Mapping[str, str]) -> str | None:
    """The option whose text occurs as whole words, outside any longer option's text; None for several."""
    folded = _folded(answer)
    needles = {key: _folded(content.strip(_ENDS)) for key, content in options.items()}
    covered = bytearray(len(folded))
    named: list[str] = []
    for length in sorted({len(needle) for needle in needles.values() if needle}, reverse=True):
        found: list[int] = []
        for key, needle in needles.items():
            if len(needle) == length:
                starts = _word_starts(needle, folded)
                found += starts
                if any(0 in covered[start : start + length] for start in starts):
                    named.append(key)
        for start in found:
            covered[start : start + length] = b"\x01" * length
    return named[0] if len(named) == 1 else None


def _word_starts(needle: str, text: str) -> list[int]:
    """The positions where a text occurs as whole words; scripts without spaces have no word boundaries."""
    left = r"(?<![a-z0-9])" if needle[0].isascii() and needle[0].isalnum() else ""
    right = r"(?![a-z0-9])" if needle[-1].isascii() and needle[-1].isalnum() else ""
    return [match.start() for match in re.finditer(left + re.escape(needle) + right, text)]


def _labelled(item: Mapping[str, JsonValue]) -> tuple[str, str]:
    label = next((item[name] for name in ("label", "id", "key", "index") if item.get(name) is not None), None)
    text = next((item[name] for name in ("text", "content", "value") if item.get(name) is not None), "")
    if label is None:
        raise ValueError("an option has neither label, id, key nor index")
    return str(label), as_text(text)


def _folded(text: str) -> str:
    return _SPACE.sub(" ", text).strip().lower()
