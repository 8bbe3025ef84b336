"""Split English text into sentences and words as nltk does, without nltk's data.

The algorithm is Punkt (Kiss and Strunk 2006, "Unsupervised multilingual sentence boundary detection"), as nltk has it.
nltk's English model for it has no licence that lets us pass it on, so the parameters here are our own: abbreviations
and words that begin sentences, written by hand and checked against the model's results, and common words with their
case. They differ from the model's for rare abbreviations (initials of two letters, ticker symbols) and for rare words
in capitals after an initial.
"""

from functools import cache
from pathlib import Path
from typing import Any

# Words that at least two of GSM8K (MIT), PIQA (AFL-3.0), MMLU (MIT) and TruthfulQA (Apache-2.0) write in lower case, at
# least three times altogether. Those of the second file stand with a capital inside a sentence, too.
_LOWER_CASE, _EITHER_CASE = (Path(__file__).with_name(name) for name in ("lower_case.txt", "either_case.txt"))
# The model does not know ``e.g``, ``i.e``, ``etc``, ``no`` or ``fig``: their full stops end sentences.
_ABBREVIATIONS = """
c d e f g h k l m n p r s t v w
dr mr mrs ms messrs prof rep reps sen gen maj col lt adm st jr sr
jan feb aug sep sept oct nov dec tues wed fri
ala ariz calif colo conn fla ga ill kan ky mich minn nev okla ore pa tenn va vt w.va wash wis ave
bros co cos corp inc ltd vs ft yr mg
u.s u.s.a u.k u.n u.s.s.r d.c n.y n.j n.c n.d n.h n.m s.c r.i l.a a.m p.m a.d ph.d m.b.a
j.b j.c j.j j.k j.p j.r m.j r.h r.j t.j l.p s.a
"""
_STARTERS = """
the a an this that these those there here it he she they we you i his her its their our my your
and but or nor so yet for if when while although though because since as after before until unless whether where
in on at by with from to of under over during among despite without within between through about
however moreover therefore thus hence then also still instead indeed meanwhile nevertheless nonetheless otherwise
finally first next now later according similarly both each even every many most some such all any no not only one other
several nobody none nothing everyone everybody everything someone somebody something anyone please note yes
what which who why how let can could did do does is are was were will would should may might must
"""
_SEEN_INSIDE = {"lower": 1 << 5, "upper": 1 << 2}


def split_sentences(text: str) -> list[str]:
    """The sentences of a text; none of white space."""
    return list(_sentences().tokenize(text))


def split_words(text: str) -> list[str]:
    """The words and signs of a text, as nltk's ``word_tokenize`` splits it."""
    words = _words()
    return [word for sentence in split_sentences(text) for word in words.tokenize(sentence)]


@cache
def _sentences() -> Any:
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    known = PunktParameters()
    known.abbrev_types = set(_ABBREVIATIONS.split())
    known.sent_starters = set(_STARTERS.split())
    for word in _LOWER_CASE.read_text(encoding="utf-8").split():
        known.ortho_context[word] = _SEEN_INSIDE["lower"]
    either = _EITHER_CASE.read_text(encoding="utf-8").split()
    for word in (*either, *known.sent_starters - known.ortho_context.keys()):
        known.ortho_context[word] = _SEEN_INSIDE["lower"] | _SEEN_INSIDE["upper"]
    return PunktSentenceTokenizer(known)


@cache
def _words() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()
