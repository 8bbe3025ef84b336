"""Records in GAIA's form: the file goes into the box under the name that the question says."""

from typing import Any

import pytest

from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.standardize.gaia import Gaia

RECORD = {"task_id": "a", "Question": "How many?", "Level": 2, "Final answer": "3", "file_name": "b.csv"}


def sample(**changes: Any) -> dict[str, Any]:
    return Gaia(folder="files").to_sample({**RECORD, **changes})


def test_a_file_is_put_into_the_box_and_named_in_the_question() -> None:
    made = sample()
    assert made["sandbox"] == {"files": {"b.csv": "files/b.csv"}}
    system, user = made["messages"]
    assert system["content"].startswith("You are a general AI assistant.")
    assert user["content"] == "How many?\n\nThe file of this question is b.csv in the working folder."
    assert (made["references"], made["data_tag"]) == (["3"], {"level": "2"})


@pytest.mark.parametrize("name", ["", None])
def test_a_question_without_a_file_has_no_box_of_its_own(name: str | None) -> None:
    made = sample(file_name=name)
    assert "sandbox" not in made
    assert made["messages"][-1]["content"] == "How many?"


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd"])
def test_a_file_out_of_the_folder_costs_the_record(name: Any) -> None:
    with pytest.raises(RecordRejected, match="file_name"):
        sample(file_name=name)
