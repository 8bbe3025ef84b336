"""Actions: the first to come stands, and a hit always has its artifacts."""

import pytest

from gage_eval.base.canonical import canonical_json, decode
from gage_eval.base.errors import ArtifactDamaged, StoreError
from gage_eval.store import Store
from tests.store.small import commit, rows

KEY = "a" * 64


def test_a_committed_action_is_found_with_its_document(store: Store) -> None:
    artifact = commit(store, rows(0, 3))

    made = store.actions.commit("infer", KEY, {"responses": artifact}, complete=False, document={"model": "m"})

    action = store.actions.find("infer", KEY)
    assert action == made
    assert action is not None
    assert (action.stage, action.key, action.complete) == ("infer", KEY, False)
    assert (action.outputs, action.document) == ({"responses": artifact.id}, {"model": "m"})
    assert store.actions.find("judge", KEY) is None
    assert store.actions.find("infer", "b" * 64) is None
    assert list(store.actions.all("infer")) == [made]


def test_the_first_to_come_stands(store: Store) -> None:
    first, two = commit(store, rows(0, 3)), commit(store, rows(0, 4))

    store.actions.commit("infer", KEY, {"responses": first}, document={})
    second = store.actions.commit("infer", KEY, {"responses": two}, document={})

    assert second.outputs == {"responses": first.id}
    assert second.artifacts["responses"].table().equals(rows(0, 3))


def test_a_complete_action_takes_the_place_of_an_incomplete_one_and_never_the_other_way(store: Store) -> None:
    smallest, two, three = (commit(store, rows(0, count)) for count in (3, 4, 5))
    store.actions.commit("infer", KEY, {"responses": smallest}, complete=False, document={})

    second = store.actions.commit("infer", KEY, {"responses": two}, document={})
    third = store.actions.commit("infer", KEY, {"responses": three}, complete=False, document={})

    assert second.outputs == third.outputs == {"responses": two.id}
    assert store.actions.find("infer", KEY) == second


def test_an_action_is_replaced_only_while_it_stands(store: Store) -> None:
    smallest, two, three = (commit(store, rows(0, count)) for count in (3, 4, 5))
    first = store.actions.commit("infer", KEY, {"responses": smallest}, document={})

    second = store.actions.commit("infer", KEY, {"responses": two}, document={}, replaces=first)
    late = store.actions.commit("infer", KEY, {"responses": three}, document={}, replaces=first)

    assert second.outputs == late.outputs == {"responses": two.id}
    assert store.actions.find("infer", KEY) == second


def test_an_action_whose_artifact_is_gone_is_a_miss_and_gives_way(store: Store) -> None:
    lost, two = commit(store, rows(0, 3)), commit(store, rows(0, 4))
    store.actions.commit("infer", KEY, {"responses": lost}, document={})
    store.objects.delete(f"artifacts/{lost.id}/manifest.json")

    assert store.actions.find("infer", KEY) is None
    made = store.actions.commit("infer", KEY, {"responses": two}, document={})

    assert made.outputs == {"responses": two.id}
    assert store.actions.find("infer", KEY) == made


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"stage":"infer"}'])
def test_a_damaged_action_is_refused_by_name(store: Store, data: bytes) -> None:
    store.objects.create(f"actions/infer/{KEY}.json", data)

    with pytest.raises(ArtifactDamaged, match=rf"actions/infer/{KEY}\.json is not a valid action .*verify --remove"):
        store.actions.find("infer", KEY)


def test_an_action_moved_to_another_key_is_refused(store: Store) -> None:
    store.actions.commit("infer", KEY, {}, document={})
    store.objects.create(f"actions/infer/{'b' * 64}.json", store.objects.get(f"actions/infer/{KEY}.json"))

    with pytest.raises(ArtifactDamaged, match="holds the action of"):
        store.actions.find("infer", "b" * 64)


def test_an_action_cannot_name_a_path(store: Store) -> None:
    store.actions.commit("infer", KEY, {"responses": commit(store, rows(0, 3))}, document={})
    fields = decode(store.objects.get(f"actions/infer/{KEY}.json"))
    assert isinstance(fields, dict)
    store.objects.replace(
        f"actions/infer/{KEY}.json", canonical_json({**fields, "outputs": {"responses": "../../secrets"}})
    )
    with pytest.raises(ArtifactDamaged, match="not an artifact id"):
        store.actions.find("infer", KEY)
    with pytest.raises(StoreError, match="not an action key"):
        store.actions.find("infer", "../x")
    with pytest.raises(StoreError, match="cannot name an object"):
        store.actions.find("../infer", KEY)


def test_two_racers_write_the_same_action(store: Store) -> None:
    """Nothing of the moment or the machine is in it."""
    artifact = commit(store, rows(0, 3))
    store.actions.commit("infer", KEY, {"responses": artifact}, document={"b": 1, "a": 2})
    first = store.objects.get(f"actions/infer/{KEY}.json")
    store.objects.delete(f"actions/infer/{KEY}.json")
    store.actions.commit("infer", KEY, {"responses": artifact}, document={"a": 2, "b": 1})

    assert store.objects.get(f"actions/infer/{KEY}.json") == first
    assert set(decode(first)) == {"format", "stage", "key", "outputs", "complete", "document", "created_by"}
