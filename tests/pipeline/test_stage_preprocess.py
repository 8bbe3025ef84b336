"""preprocess: what a request carries whatever the model."""

import re
from typing import Any

import pytest
from pipeline.calling import Bench

from gage_eval.base.canonical import decode
from gage_eval.base.errors import InputError
from gage_eval.base.stages import StageResult
from gage_eval.data.sample.table import messages_from_array
from gage_eval.pipeline.load import PART_ROWS


def chat(*texts: str, **fields: Any) -> dict[str, Any]:
    """A sample record; texts of the form ``role: content``."""
    messages = [dict(zip(("role", "content"), text.split(": ", 1), strict=True)) for text in texts]
    return {"messages": messages, **fields}


def shot(question: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}], **fields}


def said(bench: Bench, prepared: StageResult) -> list[list[str]]:
    """The messages of each prepared row as ``role: content``."""
    table = bench.artifact(prepared, "prepared").table()
    rows = messages_from_array(table["messages"], collapse=True)
    return [[f"{message['role']}: {message['content']}" for message in row] for row in rows]


def test_few_shot_examples_stand_after_the_system_message_each_with_its_answer(bench: Bench) -> None:
    shots = [
        shot("1 + 1?", label="2"),
        shot("Capital of Italy?", references=["Rome", "Roma"]),
    ]
    samples = bench.samples(
        [
            chat("system: be brief", "user: 2 + 2?", few_shot_examples=shots),
            chat("user: 3 + 3?", few_shot_examples=shots[:1]),
            chat("system: be brief", "user: 4 + 4?"),
        ]
    )
    assert said(bench, bench.preprocess(samples)) == [
        [
            "system: be brief",
            "user: 1 + 1?",
            "assistant: 2",
            "user: Capital of Italy?",
            "assistant: Rome",
            "user: 2 + 2?",
        ],
        ["user: 1 + 1?", "assistant: 2", "user: 3 + 3?"],
        ["system: be brief", "user: 4 + 4?"],
    ]


def test_the_samples_own_parameters_win_over_the_tasks(bench: Bench) -> None:
    samples = bench.samples(
        [
            chat("user: a", sampling_params={"temperature": 0.5}, generation_params={"temperature": 0.9, "top_k": 3}),
            chat("user: b"),
        ]
    )
    prepared = bench.preprocess(samples, {"temperature": 0, "max_new_tokens": 7})
    assert [decode(row["params"]) for row in bench.rows(prepared, "prepared")] == [
        {"temperature": 0.5, "top_k": 3, "max_new_tokens": 7},
        {"temperature": 0, "max_new_tokens": 7},
    ]


def test_parameters_and_replicates_are_the_key_and_equal_numbers_are_one(bench: Bench) -> None:
    samples = bench.samples([chat("user: a")])
    first = bench.preprocess(samples, {"temperature": 1.0})
    assert bench.preprocess(samples, {"temperature": 1}).cached
    assert not bench.preprocess(samples, {"temperature": 2}).cached
    replicated = bench.preprocess(samples, {"temperature": 1}, replicates=4)
    assert not replicated.cached
    assert (first.counts["requests"], replicated.counts["requests"]) == (1, 4)
    assert bench.rows(replicated, "prepared")[0]["replicates"] == 4


def test_chosen_samples_are_prepared_alone_and_parts_keep_their_places(bench: Bench) -> None:
    samples = bench.samples([chat(f"user: {row}", id=f"s{row}") for row in range(PART_ROWS + 2)])
    prepared = bench.preprocess(samples, sample_ids=("s5", f"s{PART_ROWS + 1}"))
    parts = bench.artifact(prepared, "prepared").parts
    assert [(part.index, part.rows) for part in parts] == [(0, 1), (1, 1)]
    assert [row["row_index"] for row in bench.rows(prepared, "prepared")] == [5, PART_ROWS + 1]
    message = "task 't': no sample has the id 'nobody' or 'none'."
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        bench.preprocess(samples, sample_ids=("nobody", "none"))


def test_the_models_input_does_not_depend_on_labels_or_metadata(bench: Bench) -> None:
    first = bench.preprocess(bench.samples([chat("user: a", id="s", label="x", metadata={"k": 1})]))
    second = bench.preprocess(bench.samples([chat("user: a", id="s", label="y", data_tag={"topic": "z"})]))
    assert first.key != second.key
    assert first.outputs == second.outputs


LISTED = {"options": ["Shark", "Dolphin "], "references": ["A"]}


def test_options_that_no_message_holds_are_listed_below_the_question(bench: Bench) -> None:
    samples = bench.samples(
        [
            chat("system: be brief", "user: Which is a fish?", task_type="multiple-choice", **LISTED),
            {"question": "Which?", "choices": ["a stone", "an apple"], "answer": 1},
            chat("user: Is it a Shark or not?", **LISTED),
            chat("user: Which is a fish?", task_type="dialogue", **LISTED),
            chat("user: Go on.", references=[]),
        ]
    )
    assert said(bench, bench.preprocess(samples, lists_options=True)) == [
        ["system: be brief", "user: Which is a fish?\n\nA. Shark\nB. Dolphin"],
        ["user: Which?\n\nA. a stone\nB. an apple"],
        ["user: Is it a Shark or not?"],
        ["user: Which is a fish?"],
        ["user: Go on."],
    ]
    # A prompt of the config shows them its own way.
    assert said(bench, bench.preprocess(samples))[1] == ["user: Which?"]


def test_examples_list_their_options_as_the_question_does(bench: Bench) -> None:
    shots = [shot("Which flies?", options=["Crow", "Cow"], references=["A"])]
    samples = bench.samples([chat("user: Which is a fish?", few_shot_examples=shots, **LISTED)])
    assert said(bench, bench.preprocess(samples, lists_options=True)) == [
        ["user: Which flies?\n\nA. Crow\nB. Cow", "assistant: A", "user: Which is a fish?\n\nA. Shark\nB. Dolphin"]
    ]
