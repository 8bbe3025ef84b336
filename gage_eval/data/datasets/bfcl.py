"""Questions and conversations of BFCL v4 that are answered by calls of functions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import JsonValue, digest
from gage_eval.base.errors import InputError
from gage_eval.data import bfcl
from gage_eval.data.datasets.base import Record, check_params, record_text
from gage_eval.extend import registry

CONVERSATIONS = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")
QUESTIONS = ("simple_python", "multiple", "parallel", "parallel_multiple")
LIVE_QUESTIONS = ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple")
# Whether functions are called at all is checked: there are no published calls.
UNANSWERED = ("irrelevance", "live_irrelevance", "live_relevance")
CATEGORIES = (*CONVERSATIONS, *QUESTIONS, *LIVE_QUESTIONS, *UNANSWERED)
PYTHON = " Note that the provided function is in Python 3 syntax."
"""What the description of a function ends with (`_get_language_specific_hint`)."""
MORE_FUNCTIONS = "I have updated some more functions you can choose from. What about now?"
"""What the user says where functions are added (`DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC`)."""


@registry.loaders.register("bfcl", version=3)
class BfclLoader:
    """The tasks of a category of BFCL v4, from the package bfcl-eval (installed with `--no-deps`).

    ``category`` is one of the four of several turns, as `multi_turn_base` (the default); of the eight of one turn, as
    `simple_python` and `live_multiple`; or `irrelevance`, `live_irrelevance` or `live_relevance`. What calls are
    checked with is in ``metadata.bfcl``. A question has its functions as ``tools``. In a conversation the first message
    of the user is the prompt; the others are in ``metadata.user_turns``, for a scripted user, with the functions that a
    turn adds. The functions that it offers from the start are in ``metadata.tool_names``.

    Raises:
        InputError: there is no such category, or the package is not installed or has another form.
    """

    def __init__(self, params: Mapping[str, Any], base_dir: Path) -> None:
        check_params(params, ("category",), "bfcl")
        self._category = params.get("category", CATEGORIES[0])
        if self._category not in CATEGORIES:
            raise InputError(
                f"loader bfcl: no category '{self._category}'. Categories in Python: {', '.join(CATEGORIES)}."
            )
        file = f"BFCL_v4_{self._category}.json"
        self._tasks = bfcl.lines_of(f"data/{file}")
        answers = [] if self._category in UNANSWERED else bfcl.lines_of(f"data/possible_answer/{file}")
        self._answers = {row["id"]: row["ground_truth"] for row in answers}

    def identity(self) -> JsonValue:
        """Digest of the tasks and their answers."""
        return {"tasks": digest(self._tasks), "answers": digest(self._answers)}

    def records(self) -> Iterator[Record]:
        """(position from 1, sample) of each task."""
        for position, task in enumerate(self._tasks, 1):
            try:
                is_conversation = self._category in CONVERSATIONS
                yield position, record_text(self._conversation(task) if is_conversation else self._question(task))
            except (KeyError, TypeError, ValueError):
                raise InputError(f"loader bfcl: task {position} is not of the form of BFCL v4.") from None

    def _question(self, task: Mapping[str, Any]) -> dict[str, Any]:
        (messages,) = task["question"]
        check = {
            "category": self._category,
            "functions": task["function"],
            "ground_truth": None if self._category in UNANSWERED else self._answers[task["id"]],
        }
        return {
            "id": task["id"],
            "messages": messages,
            "references": [],
            "tools": [bfcl.definition(document, PYTHON) for document in task["function"]],
            # As text, which keeps 1.0 from becoming 1.
            "metadata": {"bfcl": json.dumps(check)},
        }

    def _conversation(self, task: Mapping[str, Any]) -> dict[str, Any]:
        gold, held_out = self._answers[task["id"]], task.get("missed_function", {})
        first, *later = [_turn(messages, held_out.get(str(number))) for number, messages in enumerate(task["question"])]
        if len(gold) != 1 + len(later):
            raise ValueError("a turn of the user has no answer")
        added = [name for names in held_out.values() for name in names]
        return {
            "id": task["id"],
            "messages": [{"role": "user", "content": first}],
            "references": [],
            "metadata": {
                "user_turns": later,
                "tool_names": list(bfcl.tool_names(task["involved_classes"], added)),
                "bfcl": {
                    "classes": task["involved_classes"],
                    # As text, which keeps 1.0 from becoming 1.
                    "initial_config": json.dumps(task["initial_config"]),
                    "long_context": self._category == "multi_turn_long_context",
                    "ground_truth": gold,
                },
            },
        }


def _turn(messages: Sequence[Mapping[str, Any]], added: Sequence[str] | None) -> str | dict[str, Any]:
    """What the user says in a turn; with the functions that it adds, if any."""
    if added is not None:
        return {"content": MORE_FUNCTIONS, "tool_names": added}
    (message,) = messages
    return str(message["content"])
