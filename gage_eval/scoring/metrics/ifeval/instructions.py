"""The 25 instructions of IFEval, each a function of the response and the instruction's arguments.

Written to the rules of google-research ``instruction_following_eval``. Patterns that would take more than
linear time on a hostile response are written out line by line.
"""

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from gage_eval.scoring.metrics.ifeval import text as texts

Check: TypeAlias = Callable[..., bool]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One kind of instruction: its id, its check, and the names of the arguments that the check needs."""

    name: str
    check: Check
    needs: tuple[str, ...]

    def arguments(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The check's arguments from ``kwargs``, which may also hold others and nulls.

        Raises:
            ValueError: an argument is missing. The official script would draw it at random.
        """
        missing = [name for name in self.needs if kwargs.get(name) is None]
        if missing:
            raise ValueError(f"instruction {self.name} lacks {', '.join(missing)}")
        return {name: kwargs[name] for name in self.needs}


INSTRUCTIONS: dict[str, Instruction] = {}
"""All instructions by id."""

_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_HIGHLIGHT = re.compile(r"\*[^\n*]*\*")
_DOUBLE_HIGHLIGHT = re.compile(r"\*\*[^\n*]*\*\*")
_DIVIDER = re.compile(r"\s?\*\*\*\s?")
_POSTSCRIPTS = {
    "P.S.": re.compile(r"p\.\s?s\."),
    "P.P.S": re.compile(r"p\.\s?p\.\s?s"),
}
_ENDS_FIRST_WORD = frozenset(".,?!'\"")
_FENCES = ("```json", "```Json", "```JSON", "```")


def _instruction(name: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        kinds = inspect.signature(check).parameters.values()
        needs = tuple(argument.name for argument in kinds if argument.kind is argument.KEYWORD_ONLY)
        INSTRUCTIONS[name] = Instruction(name, check, needs)
        return check

    return register


def _compare(count: int, relation: str, bound: int) -> bool:
    if relation not in ("at least", "less than"):
        raise ValueError(f"relation {relation!r} is neither 'at least' nor 'less than'")
    return count >= bound if relation == "at least" else count < bound


def _hits(word: str, response: str, *, whole: bool = False) -> int:
    """How often a word occurs, ignoring case. The word is taken literally."""
    pattern = rf"\b{re.escape(word)}\b" if whole else re.escape(word)
    return sum(1 for _ in re.finditer(pattern, response, re.IGNORECASE))


@_instruction("keywords:existence")
def _existence(response: str, *, keywords: list[str]) -> bool:
    return all(_hits(word, response) for word in keywords)


@_instruction("keywords:frequency")
def _frequency(response: str, *, keyword: str, frequency: int, relation: str) -> bool:
    return _compare(_hits(keyword, response), relation, frequency)


@_instruction("keywords:forbidden_words")
def _forbidden_words(response: str, *, forbidden_words: list[str]) -> bool:
    return not any(_hits(word, response, whole=True) for word in forbidden_words)


@_instruction("keywords:letter_frequency")
def _letter_frequency(response: str, *, letter: str, let_frequency: int, let_relation: str) -> bool:
    """The script draws another letter when the data set asks for a sign; here the sign itself is counted."""
    return _compare(response.lower().count(letter.lower()), let_relation, let_frequency)


@_instruction("language:response_language")
def _response_language(response: str, *, language: str) -> bool:
    return texts.is_language(response, language)


@_instruction("length_constraints:number_sentences")
def _number_sentences(response: str, *, num_sentences: int, relation: str) -> bool:
    return _compare(texts.sentence_count(response), relation, num_sentences)


@_instruction("length_constraints:number_words")
def _number_words(response: str, *, num_words: int, relation: str) -> bool:
    return _compare(texts.word_count(response), relation, num_words)


@_instruction("length_constraints:number_paragraphs")
def _number_paragraphs(response: str, *, num_paragraphs: int) -> bool:
    """Paragraphs are divided by ``***``; an empty one fails unless it is the first or the last."""
    paragraphs = [bool(paragraph.strip()) for paragraph in _DIVIDER.split(response)]
    return all(paragraphs[1:-1]) and sum(paragraphs) == num_paragraphs


@_instruction("length_constraints:nth_paragraph_first_word")
def _nth_paragraph_first_word(response: str, *, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    """Paragraphs are divided by empty lines; empty paragraphs do not count, but keep their number."""
    paragraphs = response.split("\n\n")
    filled = sum(1 for paragraph in paragraphs if paragraph.strip())
    if not 1 <= nth_paragraph <= filled:
        return False
    words = paragraphs[nth_paragraph - 1].split()
    if not words:
        return False
    word = words[0].lstrip("'").lstrip('"').lower()
    end = next((index for index, letter in enumerate(word) if letter in _ENDS_FIRST_WORD), len(word))
    return filled == num_paragraphs and word[:end] == first_word.lower()


@_instruction("detectable_content:number_placeholders")
def _number_placeholders(response: str, *, num_placeholders: int) -> bool:
    """A placeholder is the text between a ``[`` and the next ``]`` of its line."""
    closed = (part for line in response.split("\n") for part in line.split("]")[:-1])
    return sum(1 for part in closed if "[" in part) >= num_placeholders


@_instruction("detectable_content:postscript")
def _postscript(response: str, *, postscript_marker: str) -> bool:
    pattern = _POSTSCRIPTS.get(postscript_marker) or re.compile(re.escape(postscript_marker.lower()))
    return pattern.search(response.lower()) is not None


@_instruction("detectable_format:number_bullet_lists")
def _number_bullet_lists(response: str, *, num_bullets: int) -> bool:
    lines = response.split("\n")
    return _starred(lines) + sum(1 for line in lines if line.lstrip().startswith("-")) == num_bullets


def _starred(lines: list[str]) -> int:
    """Lines that start with one star. A star alone counts together with the line below it."""
    count, below = 0, False
    for number, line in enumerate(lines, 1):
        text = line.lstrip()
        alone = text == "*" and number < len(lines)
        bullet = not below and text.startswith("*") and (alone or (len(text) > 1 and text[1] != "*"))
        count += bullet
        below = bullet and alone
    return count


@_instruction("detectable_format:constrained_response")
def _constrained_response(response: str) -> bool:
    return any(answer in response for answer in _ANSWERS)


@_instruction("detectable_format:number_highlighted_sections")
def _number_highlighted_sections(response: str, *, num_highlights: int) -> bool:
    single = sum(1 for match in _HIGHLIGHT.finditer(response) if match[0].strip("*").strip())
    double = sum(1 for match in _DOUBLE_HIGHLIGHT.finditer(response) if match[0][2:-2].strip())
    return single + double >= num_highlights


@_instruction("detectable_format:multiple_sections")
def _multiple_sections(response: str, *, section_spliter: str, num_sections: int) -> bool:
    pattern = re.compile(rf"{re.escape(section_spliter)}\s?\d+")
    return sum(1 for _ in pattern.finditer(response)) >= num_sections


@_instruction("detectable_format:json_format")
def _json_format(response: str) -> bool:
    bare = response.strip()
    for fence in _FENCES:
        bare = bare.removeprefix(fence)
    try:
        # Not the project's JSON decoder: the rule is what Python's decoder accepts, including NaN.
        json.loads(bare.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


@_instruction("detectable_format:title")
def _title(response: str) -> bool:
    """A line has ``<<`` and ``>>`` after it, with text between the first and the last of them."""
    return any(_titled(line) for line in response.split("\n"))


def _titled(line: str) -> bool:
    start, end = line.find("<<"), line.rfind(">>")
    return start >= 0 and end >= start + 3 and bool(line[start : end + 2].lstrip("<").rstrip(">").strip())


@_instruction("combination:two_responses")
def _two_responses(response: str) -> bool:
    """Two different texts divided by ``******``; an empty one fails unless it is the first or the last."""
    parts = [part.strip() for part in response.split("******")]
    filled = [part for part in parts if part]
    return all(parts[1:-1]) and len(filled) == 2 and filled[0] != filled[1]


@_instruction("combination:repeat_prompt")
def _repeat_prompt(response: str, *, prompt_to_repeat: str) -> bool:
    return response.strip().lower().startswith(prompt_to_repeat.strip().lower())


@_instruction("startend:end_checker")
def _end_checker(response: str, *, end_phrase: str) -> bool:
    return response.strip().strip('"').lower().endswith(end_phrase.strip().lower())


@_instruction("startend:quotation")
def _quotation(response: str) -> bool:
    bare = response.strip()
    return len(bare) > 1 and bare.startswith('"') and bare.endswith('"')


@_instruction("change_case:capital_word_frequency")
def _capital_word_frequency(response: str, *, capital_frequency: int, capital_relation: str) -> bool:
    return _compare(texts.capital_word_count(response), capital_relation, capital_frequency)


@_instruction("change_case:english_capital")
def _english_capital(response: str) -> bool:
    return response.isupper() and texts.is_language(response, "en")


@_instruction("change_case:english_lowercase")
def _english_lowercase(response: str) -> bool:
    return response.islower() and texts.is_language(response, "en")


@_instruction("punctuation:no_comma")
def _no_comma(response: str) -> bool:
    return "," not in response
