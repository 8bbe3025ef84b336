"""The origins of a config's values: found by location, and forgotten with what they are in."""

from gage_eval.config.problems import unknown
from gage_eval.config.suites.digest import changed_paths
from gage_eval.config.yaml.loc_tree import LocTree


def test_the_nearest_value_is_that_of_the_location_or_of_what_is_around_it() -> None:
    tree = LocTree[str]()
    tree.set((), "file")
    tree.set(("tasks", 0), "task")
    tree.set(("tasks", 0, "steps", 1), "step")
    assert [tree.nearest(("tasks", 0, "steps", at)) for at in (0, 1)] == ["task", "step"]
    assert tree.nearest(("tasks", 1, "x")) == tree.nearest(("other",)) == "file"
    assert (tree.get(("tasks",)), tree.get(("tasks", 0))) == (None, "task")
    assert list(tree.below(("tasks",))) == [(("tasks", 0), "task"), (("tasks", 0, "steps", 1), "step")]


def test_what_is_removed_is_gone_with_all_below_it_and_nothing_else() -> None:
    tree = LocTree[str]()
    for loc in ((), ("a",), ("a", "b"), ("a", "b", "c"), ("a", "d")):
        tree.set(loc, ".".join(loc))
    tree.remove(("a", "b"))
    tree.remove(("not", "there"))
    assert [loc for loc, _ in tree.below(())] == [(), ("a",), ("a", "d")]
    tree.remove(())
    assert list(tree.below(())) == []


def test_long_lists_of_two_definitions_are_compared_item_by_item() -> None:
    was = {"records": [{"id": index} for index in range(20_000)]}
    now = {"records": [*was["records"][:-1], {"id": "other"}, {"id": "new"}]}
    assert changed_paths(was, now) == ["records[19999].id", "records[20000]"]


def test_a_message_names_some_of_many_names_and_their_number() -> None:
    message = unknown("dataset", "mine", [f"other_{index}" for index in range(1000)])
    assert "other_49 and 950 more." in message
    assert "other_50" not in message
