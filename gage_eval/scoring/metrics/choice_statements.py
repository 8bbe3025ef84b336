"""What an answer says about options: sentences that choose one, reject it or only weigh it, and single letters.

A text becomes a row of kinds, one character for each word (`gage_eval.scoring.metrics.choice_words`), and a sentence is
a pattern over kinds. Options have kinds too: ``O`` a capital letter, ``o`` a small one, ``q`` a small one in brackets,
``M`` an option named by its text. Repetitions are bounded, so that the time is linear in the length of a hostile text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from gage_eval.scoring.metrics.choice_words import BOX, KIND_OF_WORD, KINDS, PLAIN_WORD

FIRST_MENTION = 0xE000
"""The character that stands for the first option named by its text; those of the other options follow it."""
MENTIONS = "\ue000-\uf8ef"

# Words that may follow a letter; any other word makes "A" the article and "I" the pronoun.
_AFTER = (
    "is|isn't|was|are|and|or|nor|because|since|as|but|so|for|not|which|in|with|by|from|given|due|based|per|if|when|while"
    "|although|though|rather|instead|over|than|then|here|would|wouldn't|seems|appears|looks|must|can|can't|cannot|could"
    "|should|has|fits|matches|does|doesn't|it|on|to"
)
_AFTER_SMALL = "is|was|and|or|because|since|as|but|for|not"
_ENDS_AFTER = rf"\s*(?:$|[.,;:!?)\]}}\"'<(。\n—–]|-\s|[\u3040-\u9fff{MENTIONS}{BOX}])"
_LEFT, _RIGHT = r"(?<![A-Za-z0-9_'°])(?<![A-Za-z0-9]-)", r"(?![A-Za-z0-9_'°#]|-[A-Za-z0-9]|\+(?!\s))"
_OPEN, _CLOSE = r"[(\[{【]", r"[)\]}】]"

_LIST = r"[OM](?:[,&|/]{1,2}[TKF]?[OM]){0,25}"
_ANY = "[OoqM]"
# Another option with its own verb starts another sentence.
_OBJECT = rf"{_ANY}(?:[,&|/]{{1,2}}[TKF]?{_ANY}(?![CQNvrxKY])){{0,25}}+"
# What is said of the options before it.
_PREDICATE = (
    # is (not) correct, would be wrong, isn't the answer, doesn't fit
    r"(?:(?=[FfdEHh2]*[CQN])[CQNFfdEHh2]{1,8}(?:[RWYLDKh](?![Pu])|(?<=N)v|(?<=N)Cv)"
    # fits best; are not; 是正确的, 错误
    r"|v[Ffdw]{0,2}R|[CQFE]{0,3}N(?=[.,?n&]|$)|K?[CQFfEHNV]{0,5}[rxY]"
    # is close but not right; A: wrong
    r"|[CQ][^.,nOoqM]{1,4}[B&]N[FfdE]{0,2}[Rrv]|[:.][FN]{0,2}[RWrx](?=[.,n]|$)"
    # says Paris, which is wrong
    r"|[^.,;nOoqIB?]{0,8},P[CQ][CQNFfdE]{0,5}[RWxY])"
)
_SENTENCES = re.compile(
    "|".join(
        [
            # all except C are wrong; all are wrong except C; none but C; 除了C其他都错
            rf"(?P<exception>E[^.n]{{0,8}}?[XB][FK]*{_ANY}[CQFE]*[Wx]|E[^.n]{{0,6}}?[Wx],?[XB][FK]*{_ANY}"
            rf"|Z[^.n]{{0,8}}?[XB][FK]*{_ANY}|X[FK]*{_ANY}K?c?,?[^.n]{{0,2}}?E[^.n]{{0,3}}?[Wx])",
            # B is correct; A and C are wrong; I don't think A is right
            rf"(?P<predicate>(?P<denied>N[CQFfP2RKHD]{{0,6}})?(?P<subject>{_LIST}(?!K?Q)|[OMq]|(?<=[KD])o)"
            rf"(?P<said>{_PREDICATE}))",
            # the answer is B; I would not choose A; the correct option: C; the answer to this question is B
            rf"(?P<lead>(?P<before>N[CQFfP2RKHDc]{{0,6}}|W2[CQFfP]{{0,4}}|[Wx]|H[CQFfP2]{{0,4}})?"
            r"(?P<head>Ln{0,2}|V|R?[KD](?=[FfH]*[CQ:=])|R(?=[FfH]*[CQ:=]))"
            r"(?P<fill>[CQFfHN2PSKDRE:=]{0,12}|[^.,?nIBWOoqM]{1,12}[CQ:][FfKDE]*)"
            rf"(?P<object>{_OBJECT})(?!{_PREDICATE}))",
            # not A; rather than A; not A but B
            rf"(?P<rejection>(?:[NXY]|EB)[CQFfKDLTHE2]{{0,4}}(?P<rejected>{_OBJECT})(?:,?B[FfPCQ]*(?P<but>{_ANY}))?)",
            # it must be B; so C
            rf"(?P<point>(?:P[CQ]|S,?)[PCQFfKD2]{{0,5}}(?P<pointed>{_OBJECT})(?=[.,?:ncBXS]|N[OM]|$))",
            # a last line with nothing but the option, but not the last of several such lines
            r"(?P<last>(?:(?<=nn)|(?<=[^OMoqn]n))(?P<line>[OM])\.?n{0,2}$)",
        ]
    )
)
_FORMS = ("exception", "predicate", "lead", "rejection", "point", "last")
# Options in these parts are only weighed: questions, conditions, "between A and B".
_QUESTION = re.compile(r"[^.n?:]+(?P<asked>\?)?")
_WEIGHED = re.compile(rf"I[^.,nS]*|N{_ANY}FC{_ANY}|T[FKD]*{_ANY}(?:,[KF]?{_ANY}){{0,25}}?,?[&|][KF]?{_ANY}")
# A list that a plural announces: "the correct options are A, ECB; B, CFB". An option with its own verb is not of it.
_SEVERAL = re.compile(r"(?i:answers|choices|options|responses|statements|letters)")
_LISTED = re.compile(rf"(?:[^CQNLVXYBESIOoqM]|{_ANY}(?![CQNvrxKY])){{0,40}}")
# A choice in addition to the one before it: "A is correct, too".
_TOO = re.compile(r"(?i:\W*(?:as well|too|also)\b)")
_ALSO = re.compile(r"(?i:\balso\b)")
_ONLY_OPTIONS = re.compile(rf"[FfH]*{_LIST}\?")
_NAME_BEFORE = re.compile(r"[wsud=](?:[OM][,&|/][,&|/KFT]?){0,25}$")
_ALONE = re.compile(
    r"(?<![wsud=oq])(?<!w/)(?<![OM][,&|/])(?<![OM][,&|/][,&|/KFT])O(?:[,&|/]{1,2}[KF]?O){0,25}(?![ws=d])(?!(?<=[.?]O):)"
)
# A symbol and what it means; the word that follows tells it from a choice: "B is the best".
_DEFINED = re.compile(
    r"(?<!\w)(?P<a>[A-Z])\s(?:(?:is|are|was)\s(?=(?:the|its|their|our|an?)\s)|has\s|have\s|denotes\s|represents\s)"
    r"(?:(?:the|its|their|our|an?)\s)?(?P<noun>[a-z]+)(?<!est)"
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence that ``chooses`` or ``rejects`` options. A choice of several is a choice of none.

    One that is ``added`` chooses its options in addition to those before: ``A is correct as well``.
    """

    kind: Literal["chooses", "rejects"]
    options: tuple[str, ...]
    added: bool = False


class Reader:
    """Reads texts about one set of option ids."""

    def __init__(self, ids: tuple[str, ...]) -> None:
        self.ids = ids
        self.keys = {option.upper(): option for option in ids}
        letters = "".join(key for key in self.keys if len(key) == 1 and key.isalpha())
        longer = sorted((key for key in self.keys if len(key) != 1 or not key.isalpha()), key=len, reverse=True)
        others = "|".join(rf"(?i:{re.escape(key)})(?![.,]\d)" for key in longer) or "(?!)"
        plain = "".join(letter for letter in letters if letter not in "AI")
        capital = "|".join(
            [f"[{plain}]" if plain else "(?!)"]
            + ([rf"A(?!\s+(?!(?:{_AFTER})\b)[a-z])"] if "A" in letters else [])
            + (
                [rf"I(?={_ENDS_AFTER}|\s+(?:(?:is|was|because|since)\b|(?:and|or)\s+[(A-Z]))(?!,\s*[a-z])"]
                if "I" in letters
                else []
            )
        )
        small = rf"[{letters.lower()}](?={_ENDS_AFTER}|\s+(?:{_AFTER_SMALL})\b)" if letters else "(?!)"
        # The initials of a person are not options: J. S. Bach.
        initials = rf"(?!\.\s?(?![{letters}])[A-Z]\.)" if letters else ""
        self.capital = rf"(?:(?:{capital}){initials}|{others})"
        any_case = rf"(?:(?i:[{letters}])|{others})" if letters else f"(?:{others})"
        options = (
            rf"(?=[(\[{{【])(?<![A-Za-z0-9]){_OPEN}{{1,2}}\s?(?:(?P<O_>{self.capital})|(?P<q_>{any_case}))"
            rf"\s?{_CLOSE}{{1,2}}"
            rf"|{_LEFT}(?:(?P<O>{self.capital})|(?P<o>{small})){_RIGHT}|(?P<M>[{MENTIONS}])"
        )
        words = "|".join(f"(?P<k{place}>{words})" for place, (_, words) in enumerate(KINDS))
        # Most words neither begin a phrase nor are an id: they need not be compared with either.
        plain_word = "" if longer else f"(?P<p>{PLAIN_WORD})|"
        self._words = re.compile(f" +|{plain_word}{options}|{words}")
        self._opening = re.compile(
            rf"^[ \t>#•-]*(?:{_OPEN}(?!i[)\]])(?P<a>{any_case}){_CLOSE}"
            rf"|(?P<b>{self.capital})(?:[)\].:](?!\s?\w\.)|\s+[-–—]\s|\s*$))"
            rf"(?!\s*(?:,|/|and\b|or\b)\s*{_OPEN}?{self.capital}(?![A-Za-z0-9']))",
            re.MULTILINE,
        )
        self._bracketed = re.compile(rf"(?<![A-Za-z0-9]){_OPEN}\s*(?P<a>{self.capital})\s*{_CLOSE}")

    def read(self, text: str) -> "Reading":
        """The words of a text, with options that are only weighed taken out."""
        kinds: list[str] = []
        named: list[str] = []
        places: list[tuple[int, int]] = []
        for match in self._words.finditer(text):
            group = match.lastgroup
            if group is None:
                continue
            kind, option = KINDS[int(group[1:])][0] if group[0] == "k" else group[0], ""
            if kind in ("p", "word"):
                kind = KIND_OF_WORD.get(match[0].lower(), "w")
            if kind == "n" and match[0].count("\n") > 1:
                kinds.append("n")
                named.append("")
                places.append(match.span())
            if kind == "M":
                option = self.ids[ord(match[0]) - FIRST_MENTION]
                if named and named[-1] == option and match.start() - places[-1][1] <= len(". ("):
                    continue  # "B. Rome" and "B (Rome)" name one option.
            elif kind in "Ooq":
                option = self.keys[match[group].upper()]
            kinds.append(kind)
            named.append(option)
            places.append(match.span())
        row, signs = "".join(kinds), list(text)
        questions = (part for part in _QUESTION.finditer(row) if part["asked"] and not _ONLY_OPTIONS.fullmatch(part[0]))
        for part in (*questions, *_WEIGHED.finditer(row)):
            for place in range(*part.span()):
                if named[place]:
                    kinds[place] = "z"
                    start, end = places[place]
                    signs[start:end] = " " * (end - start)
        text = "".join(signs)
        return Reading(self, text, "".join(kinds), named, places)

    def opening(self, text: str) -> set[str]:
        """Options whose letter begins a line: ``B. Rome``, ``(b) Rome``, ``B``."""
        return {self.keys[(match["a"] or match["b"]).upper()] for match in self._opening.finditer(text)}

    def bracketed(self, text: str) -> set[str]:
        """Options named as ``(B)``."""
        return {self.keys[match["a"].upper()] for match in self._bracketed.finditer(text)}

    def defined(self, text: str) -> set[str]:
        """Options whose letter is a symbol that the text defines: ``A is the surface area``."""
        nouns = (match for match in _DEFINED.finditer(text) if KIND_OF_WORD.get(match["noun"], "w") == "w")
        return {self.keys[match["a"]] for match in nouns if match["a"] in self.keys}


class Reading:
    """A text as a row of kinds, and the option that each place names."""

    def __init__(self, reader: Reader, text: str, row: str, named: list[str], spans: list[tuple[int, int]]) -> None:
        self._reader = reader
        self._spans = spans
        self._row = row
        self._named = named
        self.text = text
        """The text without options that are only weighed."""

    def statements(self) -> Iterator[Statement]:
        """The sentences that choose or reject options, in order."""
        for match in _SENTENCES.finditer(self._row):
            form = next(name for name in _FORMS if match[name] is not None)
            if form == "lead":
                yield from self._lead(match)
            elif form == "predicate":
                yield from self._predicate(match)
            elif form == "rejection":
                yield Statement("rejects", self._options(match, "rejected"))
                if match["but"] is not None:
                    yield Statement("chooses", self._options(match, "but"))
            else:
                group = {"exception": "exception", "point": "pointed", "last": "line"}[form]
                if form != "point" or "|" not in match["pointed"]:
                    yield Statement("chooses", self._options(match, group))

    def letters(self) -> set[str]:
        """Options named by a capital that is neither a word nor part of a name."""
        return {self._named[place] for match in _ALONE.finditer(self._row) for place in self._places(match, 0)}

    def mentions(self) -> set[str]:
        """Options named by their text."""
        return {self._named[match.start()] for match in re.finditer("M", self._row)}

    def _lead(self, match: re.Match[str]) -> Iterator[Statement]:
        before, head, fill = match["before"] or "", match["head"], match["fill"]
        options = self._options(match, "object")
        # "The wrong answer is A" rejects A; "the wrong statement is A" answers a question for it.
        wrong = before[:1] in ("W", "x") and head not in ("D", "V")
        if (before.count("N") + fill.count("N") + wrong) % 2:
            yield Statement("rejects", options)
        elif "H" not in before + fill and "|" not in match["object"]:
            yield Statement("chooses", options + self._listed(match), self._is_added(match))

    def _predicate(self, match: re.Match[str]) -> Iterator[Statement]:
        said, subject = match["said"], match["subject"]
        if match["denied"] is None and "K" not in self._row[: match.start("subject")][-1:] and self._is_name(match):
            return
        options = self._options(match, "subject")
        wrong = any(kind in said for kind in "WxY")
        if (said.count("N") + (match["denied"] or "").count("N") + wrong) % 2:
            if "H" not in said or "N" in said or "Y" in said:
                yield Statement("rejects", options)
        elif not wrong and "H" not in said and "h" not in said and "|" not in subject:
            yield Statement("chooses", options, self._is_added(match))

    def _listed(self, match: re.Match[str]) -> tuple[str, ...]:
        """The further options of a list that a plural announces."""
        if (
            _SEVERAL.search(self.text, self._spans[match.start("head")][0], self._spans[match.start("object")][0])
            is None
        ):
            return ()
        rest = _LISTED.match(self._row, match.end("object"))
        return () if rest is None else self._options(rest, 0)

    def _is_added(self, match: re.Match[str]) -> bool:
        start, end = self._spans[match.start()][0], self._spans[match.end() - 1][1]
        return _ALSO.search(self.text, start, end) is not None or _TOO.match(self.text, end) is not None

    def _is_name(self, match: re.Match[str]) -> bool:
        start = match.start("subject")
        return self._row[start] == "O" and _NAME_BEFORE.search(self._row[max(0, start - 60) : start]) is not None

    def _options(self, match: re.Match[str], group: str | int) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._named[place] for place in self._places(match, group)))

    def _places(self, match: re.Match[str], group: str | int) -> Iterator[int]:
        return (place for place in range(*match.span(group)) if self._named[place])


@lru_cache(maxsize=256)
def reader_for(ids: tuple[str, ...]) -> Reader:
    """The reader for these ids."""
    return Reader(ids)
