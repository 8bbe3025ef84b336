"""Count words, sentences and languages as IFEval does, without the data files of nltk."""

import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langdetect.detector_factory import DetectorFactory

_WORD = re.compile(r"\w+")
_CLOSING = "\"')]}*_”’»"
_ENDS = (".", "!", "?")
# Words that end in a full stop inside a sentence. Single letters are initials.
_ABBREVIATIONS = frozenset(
    "dr mr mrs ms prof rev hon gen col maj capt lt sgt sen rep gov pres st jr sr vs inc ltd corp co bros e.g i.e cf al "
    "fig no vol pp approx dept est jan feb mar apr jun jul aug sep sept oct nov dec u.s u.k u.n ph.d a.m p.m".split()
)
# Joined capitals that the Penn Treebank convention counts as separate words.
_TOGETHER = re.compile(
    r"\b(can)(?=not\b)|\b(gon)(?=na\b)|\b(got)(?=ta\b)|\b(lem)(?=me\b)|\b(gim)(?=me\b)|\b(wan)(?=na\b)|\b(d'|'t)(?=ye\b|is\b|was\b)",
    re.IGNORECASE,
)
_SIGNS = re.compile(r"[;@#$%&?!\"“”‘(){}\[\]<>]|--|\.\.\.|[:,](?!\d)|(?<=[^'])'(?=\s|$)")
_CLITIC = re.compile(r"(?<=[^\s'])(?='(?:s|m|d|ll|re|ve)\b)|(?<=\w)(?=n't\b)", re.IGNORECASE)


def word_count(text: str) -> int:
    """Runs of letters, digits and underscores."""
    return sum(1 for _ in _WORD.finditer(text))


def sentence_count(text: str) -> int:
    """Sentences: a full stop, exclamation or question mark ends one, abbreviations and initials do not.

    The official script uses nltk's trained Punkt model. These rules replace it: the end of a line does not end a
    sentence, and text after the last mark is one more sentence.
    """
    tokens = text.split()
    count = sum(1 for token, following in pairwise(tokens) if _ends_sentence(token, following))
    return count + bool(tokens)


def _ends_sentence(token: str, following: str) -> bool:
    core = token.rstrip(_CLOSING)
    if not core.endswith(_ENDS):
        return False
    if not core.endswith(".") or core.endswith(".."):
        return not (core.endswith("...") and following[:1].islower())
    word = core[:-1].lstrip("\"'([{*_“‘«").lower()
    if word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha()):
        return False
    return not (word.isdigit() and following[:1].islower())


def capital_word_count(text: str) -> int:
    """Words all in capitals, split as the Penn Treebank splits: ``I'M`` counts two, ``A-B`` and ``A/B`` one.

    The official script counts nltk's ``word_tokenize``.
    """
    spaced = _SIGNS.sub(" ", text)
    spaced = _CLITIC.sub(" ", spaced)
    spaced = _TOGETHER.sub(lambda match: f"{match[0]} ", spaced)
    return sum(1 for word in spaced.split() if word.isupper())


def is_language(text: str, language: str) -> bool:
    """Whether langdetect, seeded with 0, detects the language; a text without letters passes for any language."""
    from langdetect import LangDetectException

    detector = _languages().create()
    detector.append(text)
    try:
        return bool(detector.detect() == language)
    except LangDetectException:
        return True


@cache
def _languages() -> "DetectorFactory":
    """Our own factory: langdetect's global one is shared with other code in the process."""
    from langdetect import detector_factory

    factory = detector_factory.DetectorFactory()
    factory.load_profile(detector_factory.PROFILES_DIRECTORY)
    factory.set_seed(0)
    return factory
