"""``gage pin``: fix the commits of a config's datasets of the Hugging Face hub."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from gage_eval.base.errors import InputError, closest
from gage_eval.base.git import is_commit
from gage_eval.base.processes import user_name
from gage_eval.config.files import read_config
from gage_eval.config.load import read_document
from gage_eval.config.pins import unpinned
from gage_eval.data.datasets.build import build_loader
from gage_eval.runs.options import Locations, RunOptions
from gage_eval.runs.stored_pins import Pin, pins_of, write_pin
from gage_eval.store import Store


def pin(options: RunOptions, commits: Mapping[str, str]) -> tuple[list[Pin], list[Pin]]:
    """Pin the datasets of a config that lie on the hub and have no fixed commit.

    Args:
        options: the config and the store.
        commits: the commit of a dataset by its name, chosen by the user. Unless given, it is the one of which the
            config's data were made, else the newest of the hub.

    Returns:
        The new pins, and those that the store had.

    Raises:
        InputError: the config has no such dataset, or the hub does not tell the commit.
    """
    file = options.file
    _, config = read_document(read_config(file), str(file), file.parent)
    wanted = unpinned(config.datasets, file.parent)
    for name, commit in commits.items():
        if name not in wanted:
            known = ", ".join(wanted) or "none"
            raise InputError(
                f"--revision {name}: the config has no unpinned dataset of that name. Unpinned: {known}."
                f"{closest(name, wanted)}"
            )
        if not is_commit(commit):
            raise InputError(f"--revision {name}={commit}: give the full commit hash, 40 hex digits.")
    store = Store.open(Locations.at(options.store, options.output_dir).store)
    before = {existing.hub: existing for existing in pins_of(store)}
    loaded = {data.hub: data.commit for dataset in config.datasets for data in dataset.built_from}
    made, kept = [], []
    for name in wanted:
        if name in before and name not in commits:
            kept.append(before[name])
            continue
        commit = commits.get(name) or loaded.get(name) or _newest(name)
        new_pin = Pin(name, commit, datetime.now(UTC).isoformat(timespec="seconds"), user_name())
        write_pin(store, new_pin)
        made.append(new_pin)
    return made, kept


def _newest(name: str) -> str:
    """The commit that the hub's main branch is at."""
    try:
        identity = build_loader("hf_hub", {"hub": name}, Path()).identity()
    except InputError as error:
        raise InputError(f"{error} Or name the commit: --revision {name}=COMMIT.") from error
    assert isinstance(identity, dict)
    return str(identity["commit"])
