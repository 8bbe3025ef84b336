"""A judge of pairs for tests: it prefers the answer that says that it is good to others, and others to a bad one."""

import re
from typing import Any


class PairJudge:
    """Reads the last message, in which the second answer comes after its heading."""

    def generate(self, request: Any) -> str:
        """The place of the good answer, or of the other one than the bad."""
        text = request["messages"][-1]["content"]
        heading = re.search(r"Start of Assistant B|Answer B:", text)
        assert heading is not None
        second = text[heading.start() :]
        is_second = "good one" in second if "good one" in text else "bad one" not in second
        return "[[B]]" if is_second else "[[A]]"
