"""Conversations of several turns of BFCL v4."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import JsonValue, digest
from gage_eval.base.errors import InputError
from gage_eval.data import bfcl
from gage_eval.data.datasets.base import Record, check_params, record_text
from gage_eval.extend import registry

_FILE = "BFCL_v4_multi_turn_base.json"


@registry.loaders.register("bfcl", version=1)
class BfclLoader:
    """The 200 tasks of BFCL v4's `multi_turn_base`, from the package bfcl-eval (installed with `--no-deps`).

    The first message of the user is the prompt; the others are in ``metadata.user_turns``, for a scripted user. The
    functions that a task offers are in ``metadata.tool_names``, and what they are checked with in ``metadata.bfcl``.

    Raises:
        InputError: the package is not installed, or has another form.
    """

    def __init__(self, params: Mapping[str, Any], base_dir: Path) -> None:
        check_params(params, (), "bfcl")
        self._tasks = bfcl.lines_of(f"data/{_FILE}")
        self._answers = {row["id"]: row["ground_truth"] for row in bfcl.lines_of(f"data/possible_answer/{_FILE}")}

    def identity(self) -> JsonValue:
        """Digest of the tasks and their answers."""
        return {"tasks": digest(self._tasks), "answers": digest(self._answers)}

    def records(self) -> Iterator[Record]:
        """(position from 1, sample) of each task."""
        for position, task in enumerate(self._tasks, 1):
            try:
                yield position, record_text(_sample(task, self._answers[task["id"]]))
            except (KeyError, TypeError, ValueError):
                raise InputError(f"loader bfcl: task {position} is not of the form of BFCL v4.") from None


def _sample(task: Mapping[str, Any], gold: list[list[str]]) -> dict[str, Any]:
    turns = [message["content"] for turn in task["question"] for message in turn]
    if len(turns) != len(gold):
        raise ValueError("a turn of the user is not one message")
    return {
        "id": task["id"],
        "messages": [{"role": "user", "content": turns[0]}],
        "references": [],
        "metadata": {
            "user_turns": turns[1:],
            "tool_names": list(bfcl.tool_names(task["involved_classes"], task.get("excluded_function", ()))),
            "bfcl": {
                "classes": task["involved_classes"],
                # As text, which keeps 1.0 from becoming 1.
                "initial_config": json.dumps(task["initial_config"]),
                "ground_truth": gold,
            },
        },
    }
