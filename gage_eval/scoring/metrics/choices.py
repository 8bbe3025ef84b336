"""Find the option that an answer chooses."""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from string import ascii_uppercase

from gage_eval.base.canonical import JsonValue
from gage_eval.scoring.metrics.choice_languages import in_english
from gage_eval.scoring.metrics.choice_statements import FIRST_MENTION, reader_for
from gage_eval.scoring.metrics.choice_words import BOX
from gage_eval.scoring.metrics.text_utils import as_text

LETTERS: dict[str, str] = dict.fromkeys(ascii_uppercase[:10], "")
"""The options A to J without texts, for data without options."""

_ENDS = " \t\r\n.,;:!?\"'`*_()[]{}<>。，；：！？“”‘’「」（）【】、"
_SPACE = re.compile(r"\s+")
# Characters that stand for options and boxes here.
_PRIVATE = re.compile("[\ue000-\uf8ff]")
_BLANKS = re.compile(r"[^\S\n]+")
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {ord(sign): "'" for sign in "’‘"} | {0x3000: " "}
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{([^{}]*)\}")
_COMMAND = re.compile(
    r"\\(?:text(?:bf|it|rm|sf)?|math(?:rm|bf|sf|it|bb)|boldsymbol|bm|emph|underline|rm|bf)\s*\{([^{}]*)\}"
)
_MARKUP = re.compile(
    r"\\[()\[\],;! ]|\\(?:left|right|quad|qquad)\b|\$|\*+|`+|__+|(?m:^\s{0,3}#{1,6}\s)|\b[nN]/[aA]\b|</?(?:b|strong)>"
)
_MARKS = ("\\", "$", "*", "`", "__", "#", "N/A", "n/a", "N/a", "<b", "<s")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_QUOTES = tuple("\"'“‘「『《_")
_MOST_NESTED = 4
# Texts of options that sentences about options use too: "B is correct" does not name the option "correct".
_VOCABULARY = frozenset("correct incorrect right wrong true false 正确 错误 对 错 不对 不正确".split())
_SUBJECT = re.compile(r"(?:\b[A-Z]\)?\s+(?:is|are|was)\s+(?:not\s+)?|[A-Z项]\s*(?:是|不)?)$")
_QUOTED = re.compile(r"[\"'“”‘’「『《]([A-Za-z])[\"'“”‘’」』》]|(?<!\w)_(\w)_(?!\w)")


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
    r"""The one option that an answer chooses, None when it chooses none or several: version 4 of the rule.

    LaTeX and Markdown around a letter do not count (``\boxed{\text{B}}``, ``$\mathbf{B}$``, ``**B**``), nor do
    full-width forms and ``N/A``. The first of these steps that finds an option decides:

    1. The answer is only a letter, in any case: ``B``, ``(b)``, ``**B.**``.
    2. The answer is only an option's text.
    3. Sentences choose options or reject them, by letter or by text. These choose: ``the answer is b``,
       ``ANSWER: (B)``, ``\boxed{B}``, ``option b is right``, ``B fits best``, ``so it is B``, ``答案是B``, ``故选B``,
       ``错误的是B``, and ``B`` as the last line. These reject: ``not A``, ``I would not choose A``, ``A is wrong``,
       ``neither A nor B``, ``rather than A``, ``不选A``, ``A不正确``. The last sentence that chooses decides, unless a
       later one rejects its option. A sentence that chooses several (``A and C are correct``, ``the correct options
       are A, ECB; B, CFB``) chooses none, nor does one that adds an option (``A is correct as well``).
    4. The one letter that opens a line: ``B. the mitochondria``, ``(b) …``, ``B: …``.
    5. The one capital in brackets: ``probably (B)``.
    6. The one capital on its own. After a noun or a number, and before a noun, a capital is part of a name:
       ``vitamin A``, ``5 A``, ``B cells``. ``A`` as the article and ``I`` as the pronoun are words, and a letter that
       is defined is a symbol: ``A is the surface area``, ``B has eigenvalues``.
    7. The one option whose text occurs in the answer as whole words; of texts within each other the longest.

    Sentences are read in English and Chinese, and those that choose an option in twelve further languages
    (`gage_eval.scoring.metrics.choice_languages`). Options that all carry their own letter (``A)0.2``) are read without
    it.

    Steps 4 to 7 leave out options that were rejected. From step 3 on, options in questions, conditions and
    alternatives do not count: ``is it A?``, ``if A is right``, ``between A and B``. ``The answer may be A`` and ``the
    answer is A or B`` choose nothing. A lower-case letter counts only in steps 1 and 3 and, in brackets, in 4. A letter
    within an option's text, as in ``vitamin A``, is not a letter where the text is an option.

    Args:
        answer: the model's text, thinking already removed.
        options: letter (or other id) → text; a text may be empty.
        allow_text_match: whether an option may be named by its text.
    """
    text = _plain(answer).strip()
    if not text or not options:
        return None
    reader = reader_for(tuple(options))
    bare = text.strip(_ENDS + BOX + "-•").upper()
    if bare in reader.keys:
        return reader.keys[bare]
    texts = {option: _folded(_plain(content).strip(_ENDS)) for option, content in _without_labels(options).items()}
    if allow_text_match:
        folded = _folded(text.strip(_ENDS + BOX))
        equal = [option for option, content in texts.items() if content and content == folded]
        if len(equal) == 1:
            return equal[0]
        text = _mentioned(text, texts, reader.keys)
    reading = reader.read(in_english(text))
    chosen: list[tuple[str, ...]] = []
    rejected: set[str] = set()
    for statement in reading.statements():
        if statement.kind == "chooses":
            before = chosen[-1] if statement.added and chosen else ()
            chosen.append(tuple(dict.fromkeys((*before, *statement.options))))
            rejected.difference_update(statement.options)
        else:
            chosen = [options for options in chosen if not set(options) <= set(statement.options)]
            rejected.update(statement.options)
    if chosen:
        return chosen[-1][0] if len(chosen[-1]) == 1 else None
    opening = reader.opening(reading.text) - rejected
    if len(opening) == 1:
        return opening.pop()
    letters = reading.letters() - reader.defined(reading.text)
    for candidates in (reader.bracketed(reading.text), letters, reading.mentions()):
        if remaining := candidates - rejected:
            return remaining.pop() if len(remaining) == 1 else None
    return None


def _plain(text: str) -> str:
    """The text without LaTeX and Markdown around words, full-width letters and signs as ASCII."""
    if not text.isascii():
        text = _PRIVATE.sub("", text.translate(_WIDE))
    if "\\" in text:
        for _ in range(_MOST_NESTED):
            bare = _COMMAND.sub(r"\1", _BOXED.sub(rf"{BOX}\1 ", text))
            if bare == text:
                break
            text = bare
    # The searches that find nothing would take longer than all the rest.
    if any(sign in text for sign in _MARKS):
        text = _MARKUP.sub("", text)
    if "," in text:
        text = _THOUSANDS.sub("", text)
    if any(sign in text for sign in _QUOTES):
        text = _QUOTED.sub(r"\1\2", text)
    return _BLANKS.sub(" ", text)


def _without_labels(options: Mapping[str, str]) -> Mapping[str, str]:
    """The options' texts without their own letters, where each begins with its letter: ``A)0.2``, ``(B) 0.4``."""
    labels = {option: re.match(rf"\s*\(?{re.escape(option)}\s?[).:]\s*", text) for option, text in options.items()}
    if not all(labels.values()):
        return options
    return {option: options[option][label.end() :] for option, label in labels.items() if label is not None}


def _mentioned(text: str, texts: Mapping[str, str], letters: Collection[str]) -> str:
    """The text with a private character in place of every option's text, the longest texts first."""
    lowered = text.lower().replace("\n", " ")
    if len(lowered) != len(text):
        lowered = "".join(low if len(low := sign.lower()) == 1 else sign for sign in text).replace("\n", " ")
    places: dict[int, tuple[int, int]] = {}
    covered = bytearray(len(text))
    options = list(texts)
    shared = Counter(texts.values())
    for option in sorted(options, key=lambda option: -len(texts[option])):
        needle = texts[option]
        if not needle or shared[needle] > 1 or needle.upper() in letters:
            continue
        start = lowered.find(needle)
        while start >= 0:
            end = start + len(needle)
            if not any(covered[start:end]) and _is_whole(lowered, start, end) and not _is_said(text, start, needle):
                covered[start:end] = b"\x01" * len(needle)
                places[start] = (end, options.index(option))
            start = lowered.find(needle, end)
    if not places:
        return text
    parts: list[str] = []
    done = 0
    for start in sorted(places):
        end, index = places[start]
        parts += [text[done:start], chr(FIRST_MENTION + index)]
        done = end
    return "".join([*parts, text[done:]])


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether a part of a text consists of whole words and numbers; scripts without spaces have no such bounds."""
    first, last = text[start], text[end - 1]
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    if first.isascii() and first.isalnum():
        if before[-1:].isascii() and before[-1:].isalnum():
            return False
        if first.isdigit() and (before[-1:] in ("-", "−") or re.fullmatch(r"\d[.,]", before)):
            return False
    if last.isascii() and last.isalnum():
        if after[:1].isascii() and after[:1].isalnum():
            return False
        if last.isdigit() and (after[:1] == "%" or re.fullmatch(r"[.,/]\d", after)):
            return False
    return True


def _is_said(text: str, start: int, needle: str) -> bool:
    """Whether a text of an option is what a sentence says of another option."""
    return needle in _VOCABULARY and _SUBJECT.search(text[max(0, start - 16) : start]) is not None


def _labelled(item: Mapping[str, JsonValue]) -> tuple[str, str]:
    label = next((item[name] for name in ("label", "id", "key", "index") if item.get(name) is not None), None)
    text = next((item[name] for name in ("text", "content", "value") if item.get(name) is not None), "")
    if label is None:
        raise ValueError("an option has neither label, id, key nor index")
    return str(label), as_text(text)


def _folded(text: str) -> str:
    return _SPACE.sub(" ", text).strip().lower()
