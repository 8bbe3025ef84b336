"""Docs, docstrings, comments and messages avoid idioms that readers from all over the world stumble over."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("gage_eval", "flows", "tasks", "blocks", "tools", "bench")
# The changelog is a record, the other a list of words.
NOT_PROSE = ("CHANGELOG.md", "gage_eval/scoring/metrics/ifeval/sentences.py")

# Pattern → what to write instead.
IDIOMS = {
    r"how-manieth": "which",
    r"mend(?:s|ed|ing)?": "fix",
    r"(?:go|goes|going|gone|went) on with": "continue, resume",
    r"(?:comes?|came|coming) to (?:its|their|an) end": "end, finish",
    r"in vain": "without result",
    r"for ever": "forever",
    r"whence|thereof|lest|albeit|likewise|seldom": "a common word",
    r"what(?:ever)? (?:becomes|became) of": "what happens to",
    r"somebody|nobody|whoever": "name who it is, or use a sentence without a person",
    r"(?:a|one) (?:record|row|value|request|call|sample) a (?:line|row|sample|second|part)": "one record per line",
    r"(?!there\b)\w+ (?:is|are|was|were) no (?!longer|more|less|later)\w+": "is not a …, has no …",
    r"(?:is|are|be|cannot be) told(?! to)": "is reported, receives",
    r"of (?:ours|theirs)": "name whose it is",
    r"as (?:it|they) stands?": "unchanged, like any other",
    r"beside(?! (?:a|the) point)": "next to, in addition to",
    r"under way": "running, in flight",
    r"meanwhile": "in the meantime, at the same time",
    r"anew|afresh": "again",
    r"(?:a|an|the) \w+ of (?:its|their|our) own": "its own …, a separate …",
}
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"``[^`]*``|`[^`\n]*`")


def prose_of(file: Path) -> Iterator[tuple[int, str]]:
    """(first line, text) of a page without its code, or of the comments and strings of a module."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        yield 1, _blank(_CODE, _blank(_FENCE, text))
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.start[0], _blank(_CODE, token.string)


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """The text without what matches, with the same lines."""
    return pattern.sub(lambda match: "\n" * match[0].count("\n"), text)


def files() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    yield from (ROOT / "docs").rglob("*.md")
    for package in PACKAGES:
        yield from (ROOT / package).rglob("*.py")


@pytest.fixture(scope="module")
def texts() -> list[tuple[str, int, str]]:
    """(file, line, text) of all prose."""
    named = ((file, file.relative_to(ROOT).as_posix()) for file in files())
    return [(name, *text) for file, name in sorted(named) if name not in NOT_PROSE for text in prose_of(file)]


@pytest.mark.parametrize("idiom", IDIOMS, ids=list(IDIOMS.values()))
def test_no_text_has_the_idiom(idiom: str, texts: list[tuple[str, int, str]]) -> None:
    pattern = re.compile(rf"\b(?:{idiom})\b".replace(" ", r"(?:[ \t]+|[ \t]*\n[ \t]*(?:# )?)"), re.IGNORECASE)
    phrases = [
        f"{name}:{line + text.count(chr(10), 0, match.start())}: '{' '.join(match[0].split())}'"
        for name, line, text in texts
        for match in pattern.finditer(text)
    ]
    assert not phrases, f"write instead: {IDIOMS[idiom]}"


def test_the_check_sees_pages_comments_docstrings_and_messages(tmp_path: Path) -> None:
    page, module = tmp_path / "a.md", tmp_path / "a.py"
    page.write_text("One\n```\nanew\n```\n`anew` goes on\nwith it\n")
    module.write_text('"""Goes on\nwith."""\n\n# meanwhile\nTEXT = f"mend {TEXT}"  # `mend`\n')
    assert "anew" not in "".join(text for _, text in prose_of(page))
    assert [line for line, _ in prose_of(module)] == [1, 4, 5, 5]
    assert "mend" not in [*prose_of(module)][-1][1]
