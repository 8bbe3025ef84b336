"""Count words, sentences and languages as IFEval does."""

import re
from functools import cache
from typing import TYPE_CHECKING

from gage_eval.scoring.metrics.ifeval.sentences import split_sentences, split_words

if TYPE_CHECKING:
    from langdetect.detector_factory import DetectorFactory

_WORD = re.compile(r"\w+")


def word_count(text: str) -> int:
    """Runs of letters, digits and underscores."""
    return sum(1 for _ in _WORD.finditer(text))


def sentence_count(text: str) -> int:
    """Sentences; text after the last mark is one more, and the end of a line does not end one."""
    return len(split_sentences(text))


def capital_word_count(text: str) -> int:
    """Words all in capitals, split as the Penn Treebank splits: ``I'M`` counts two, ``A-B`` and ``A/B`` one."""
    return sum(1 for word in split_words(text) if word.isupper())


def is_language(text: str, language: str) -> bool:
    """Whether langdetect, seeded with 0, detects the language; a text without letters passes for any language.

    ``zh`` is any Chinese, which langdetect knows as ``zh-cn`` and ``zh-tw`` only.
    """
    from langdetect import LangDetectException

    detector = _languages().create()
    detector.append(text)
    try:
        detected = detector.detect()
        return language in (detected, detected.partition("-")[0])
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
