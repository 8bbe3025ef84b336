"""The digest of a definition changes with its values and with nothing else, and a difference is named by its place."""

import pytest

from gage_eval.config.suites.digest import changed_paths, definition_digest
from gage_eval.config.yaml import lines

TEXT = """\
definition:
  datasets: [{dataset_id: mine, params: {path: data.jsonl, limit: 5}}]
  tasks:
    - {task_id: one, dataset_id: mine, sampling_params: {temperature: 0}}
    - {task_id: two, dataset_id: mine, description: "${NAME}"}
"""


def definition(text: str) -> dict[str, object]:
    value = lines.as_written(lines.parse(text, "a test"))["definition"]
    assert isinstance(value, dict)
    return value


def test_style_comments_and_the_order_of_keys_do_not_count() -> None:
    other = """\
# A comment.
definition:
  tasks:
    - dataset_id: 'mine'
      task_id: one
      sampling_params:
        temperature: 0.0
    - {task_id: two, dataset_id: mine, description: '${NAME}'}
  datasets:
    - params: {limit: 5, path: data.jsonl}
      dataset_id: mine
"""
    assert definition_digest(definition(other)) == definition_digest(definition(TEXT))
    assert changed_paths(definition(TEXT), definition(other)) == []


def test_the_environment_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = definition_digest(definition(TEXT))
    monkeypatch.setenv("NAME", "else")
    assert definition_digest(definition(TEXT)) == before


@pytest.mark.parametrize(
    ("old", "new", "paths"),
    [
        ("limit: 5", "limit: 6", ["datasets[0].params.limit"]),
        ("limit: 5", "limit: true", ["datasets[0].params.limit"]),
        (", limit: 5", "", ["datasets[0].params.limit"]),
        ("temperature: 0", "temperature: 0, top_p: 1", ["tasks[0].sampling_params.top_p"]),
        ("task_id: one", "task_id: other", ["tasks[0]"]),
        ("${NAME}", "${OTHER}", ["tasks[1].description"]),
    ],
)
def test_a_change_has_another_digest_and_is_named(old: str, new: str, paths: list[str]) -> None:
    was, now = definition(TEXT), definition(TEXT.replace(old, new))
    assert definition_digest(was) != definition_digest(now)
    assert changed_paths(was, now) == paths


def test_an_item_that_is_new_does_not_change_the_others() -> None:
    was = {"tasks": [{"task_id": "b", "n": 1}]}
    assert changed_paths(was, {"tasks": [{"task_id": "a"}, {"task_id": "b", "n": 1}]}) == ["tasks[0]"]
    assert changed_paths(was, {"tasks": []}) == ["tasks[0]"]


def test_the_order_of_items_counts() -> None:
    first, second = {"task_id": "a"}, {"task_id": "b"}
    assert changed_paths({"tasks": [first, second]}, {"tasks": [second, first]}) == ["tasks"]
    assert definition_digest({"tasks": [first, second]}) != definition_digest({"tasks": [second, first]})
