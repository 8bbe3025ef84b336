"""``--task`` runs some tasks of a config, and what needs the others is left out."""

from pathlib import Path

from tests.cli.conftest import Gage
from tests.support.workspace import write_config, write_rows

TASKS = {
    "tasks": [{"task_id": name, "dataset_id": "sums", "description": name} for name in ("one", "two", "three")],
    "groups": [{"group_id": "pair", "tasks": ["one", "two"]}, {"group_id": "all", "tasks": ["one", "two", "three"]}],
}


def test_only_the_named_tasks_run_and_groups_of_others_have_no_number(gage: Gage, workspace: Path) -> None:
    write_rows(workspace)
    write_config(workspace, **TASKS)
    summary = gage("run", "mine.yaml", "--inline", "--task", "one", "--task", "two", "--json").json
    assert [task["task_id"] for task in summary["tasks"]] == ["one", "two"]
    assert [group["group_id"] for group in summary["groups"]] == ["pair"]


def test_the_whole_run_reuses_what_a_chosen_task_computed(gage: Gage, workspace: Path) -> None:
    write_rows(workspace)
    write_config(workspace, **TASKS)
    gage("run", "mine.yaml", "--inline", "--task", "two")
    plan = gage("plan", "mine.yaml", "--task", "two", "--json").json
    assert {stage["state"] for stage in plan["stages"]} == {"cached"}


def test_an_unknown_task_is_refused_with_the_nearest_name(gage: Gage, workspace: Path) -> None:
    write_rows(workspace)
    write_config(workspace, **TASKS)
    said = gage("run", "mine.yaml", "--inline", "--task", "thre")
    assert said.code == 2
    assert "no task 'thre' in mine.yaml. Tasks: one, two, three. Did you mean 'three'?" in said.err
