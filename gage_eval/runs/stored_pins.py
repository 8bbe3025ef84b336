"""The pins of a store: the commit of each dataset of the Hugging Face hub that everybody who uses the store runs.

<store>/pins/<owner=2Fname>.json
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from urllib.parse import quote

from gage_eval.base.canonical import canonical_json, decode
from gage_eval.base.errors import InputError, StoreError
from gage_eval.store import Store

_FOLDER = "pins"


@dataclass(frozen=True)
class Pin:
    """A dataset of the hub at one commit.

    Attributes:
        hub: the dataset's name.
        commit: the full hash.
        created: when it was chosen.
        by: who chose it.
    """

    hub: str
    commit: str
    created: str
    by: str


def stored_pins(store: str) -> Mapping[str, str]:
    """The pinned commits of a store by the dataset's name; none where there is no store yet."""
    try:
        opened = Store.open(store, read_only=True)
    except InputError:
        return {}
    return {pin.hub: pin.commit for pin in pins_of(opened)}


def write_pin(store: Store, pin: Pin) -> None:
    """Keep a pin in a store, in the place of an earlier one."""
    name = quote(pin.hub, safe="").replace("%", "=")
    store.objects.replace(f"{_FOLDER}/{name}.json", canonical_json(asdict(pin)))


def pins_of(store: Store) -> list[Pin]:
    """All pins of a store.

    Raises:
        StoreError: one of them is damaged.
    """
    pins = []
    for item in store.objects.list(_FOLDER):
        try:
            pins.append(Pin(**decode(store.objects.get(item.path))))
        except (ValueError, TypeError) as error:
            raise StoreError(f"{item.path} in the store is damaged: remove it, and pin again.") from error
    return pins
