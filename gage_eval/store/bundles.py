"""Files that travel with a run or a served engine: in the store by content hash, and in a folder where they are read.

bundles/<sha256>.json        the files of a run: sha256 by path, and which of them is the config
media/sha256/…               their content
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from gage_eval.base.canonical import canonical_json, decode, sha256_hex
from gage_eval.base.errors import InputError, StoreError
from gage_eval.store.media import Media, media_url
from gage_eval.store.objects import Objects, is_digest

ROOT = "bundles"
_FORMAT = 1


@dataclass(frozen=True)
class Bundle:
    """The files of a run.

    Attributes:
        config: path of the config among the files.
        files: sha256 of each file by its path below the config's folder, with ``/``.
    """

    config: str
    files: Mapping[str, str]

    @property
    def name(self) -> str:
        """Its name in the store: the sha256 of its text."""
        return sha256_hex(self._text)

    @property
    def _text(self) -> bytes:
        return canonical_json({"format": _FORMAT, **asdict(self)})

    def put(self, objects: Objects) -> str:
        """Store the bundle and return its name. Store its files first (`put_files`)."""
        text = self._text
        name = sha256_hex(text)
        path = bundle_path(name)
        while not objects.create(path, text) and not objects.renew(path):
            continue  # collected in between
        return name

    @classmethod
    def find(cls, objects: Objects, name: str) -> "Bundle":
        """The bundle of that name.

        Raises:
            InputError: the store does not have it, or it is not what was stored.
        """
        if not is_digest(name):
            raise InputError(f"'{name[:80]}' does not name a bundle: a name has 64 hex digits.")
        try:
            text = objects.get(bundle_path(name))
        except FileNotFoundError:
            raise InputError(
                f"store {objects.url} has no bundle {name}: start the run again from its config."
            ) from None
        if sha256_hex(text) != name:
            raise InputError(
                f"{bundle_path(name)} in store {objects.url} was changed: start the run again from its config."
            )
        try:
            value = decode(text)
            if value.pop("format") != _FORMAT:
                raise InputError(f"bundle {name} has another format: update gage-eval.")
            bundle = cls(**value)
            if bundle.config in bundle.files:
                return bundle
        except (ValueError, TypeError, KeyError, AttributeError):
            pass
        raise InputError(f"{bundle_path(name)} in store {objects.url} is not a bundle.")


def bundle_path(name: str) -> str:
    """The path of a bundle in the store."""
    return f"{ROOT}/{name}.json"


def put_files(media: Media, files: Mapping[str, bytes]) -> dict[str, str]:
    """Store files, several at a time. Returns the sha256 of each by its path.

    Raises:
        StoreError: a file cannot be stored.
    """
    with media.keeper() as keeper:
        return {name: keeper.put(data).rpartition("/")[2] for name, data in files.items()}


def write_files(media: Media, files: Mapping[str, str], folder: Path) -> None:
    """Write stored files into a new folder.

    Args:
        media: the store's media.
        files: sha256 by path below the folder.
        folder: nothing but these files is in it.

    Raises:
        InputError: a path leads out of the folder or is that of compiled code, or a file is missing or is not what was
            stored.
    """
    _check_paths(files)
    for name, digest in files.items():
        try:
            data = media.get(media_url(digest))
        except StoreError as error:
            raise InputError(
                f"the file '{name}' of the run is gone from the store or was changed: start the run again from its "
                "config."
            ) from error
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def _check_paths(names: Iterable[str]) -> None:
    for name in names:
        path = PurePosixPath(name)
        if "__pycache__" in path.parts:
            # Python may load it in place of the source next to it, whose hash an operator allowed.
            raise InputError(f"{name!r} is compiled code, which does not travel; nothing was written.")
        if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
            raise InputError(f"the path {name!r} of a file leads out of the run's folder; nothing was written.")
