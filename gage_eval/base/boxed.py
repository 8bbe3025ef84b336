r"""LaTeX answers: the content of ``\boxed{…}``."""

_BOXES = ("\\boxed", "\\fbox")
_BARE = "\\boxed "


def boxed_answer(text: str) -> str | None:
    r"""The content of the last box of a text; None without a box.

    >>> boxed_answer(r"so \boxed{1} or \boxed{\frac{1}{2}}.")
    '\\frac{1}{2}'
    """
    box = last_boxed(text)
    return None if box is None else boxed_content(box)


def last_boxed(text: str) -> str | None:
    r"""The last ``\boxed{…}`` of a text with its braces, else the last ``\fbox{…}``.

    The rule of hendrycks/math: ``\boxed 5`` without braces is preferred to boxes with braces, and ends at the next
    ``$``. A box whose braces never close does not count.
    """
    if _BARE in text:
        return _BARE + text.rpartition(_BARE)[2].partition("$")[0]
    start = next((position for name in _BOXES if (position := text.rfind(name)) >= 0), None)
    if start is None:
        return None
    depth = 0
    for index in range(start, len(text)):
        if text[index] == "{":
            depth += 1
        elif text[index] == "}":
            depth -= 1
            if depth == 0:
                return text[start : index + 1]
    return None


def boxed_content(box: str) -> str | None:
    r"""The content of a box found by `last_boxed`."""
    if box.startswith(_BARE):
        return box.removeprefix(_BARE)
    _, brace, content = box.partition("{")
    return content.removesuffix("}") if brace else None
