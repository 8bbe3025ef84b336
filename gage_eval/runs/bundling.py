"""What a run needs on another machine: its config, its plug-ins and its small data go there through the store.

A worker shares nothing with the machine that a run is submitted from, except the store. So the files that the config
names below its folder are put into the store as one bundle, by their content, and the bundle becomes the run's config.
The texts stay as they are, so a run has the same keys wherever it is started. Models, interpreters, secrets and large
data do not travel.
"""

import glob
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import sha256_hex
from gage_eval.base.errors import ConfigError, InputError
from gage_eval.base.files import local_path
from gage_eval.base.marks import mark_of
from gage_eval.base.packaged import configs_dir
from gage_eval.config.effects import ConfigAudit, NamedFile
from gage_eval.config.files import read_config
from gage_eval.config.secrets import has_token
from gage_eval.config.settings import Settings, load_settings
from gage_eval.data.datasets.reading import matching_files
from gage_eval.extend.loading import code_files
from gage_eval.models.backends.base import Blocks
from gage_eval.report.console import size_text
from gage_eval.runs.effects import examined
from gage_eval.runs.options import BUNDLE_PREFIX, SUITE_PREFIX, RunOptions
from gage_eval.store import Store, local_folder
from gage_eval.store.bundles import Bundle, put_files

# The config of a run that is given as text.
_TEXT_FILE = "config.yaml"
_MOST_FILES = 10_000
_KEY_FILES = (".pem", ".key", ".p12", ".pfx", ".jks")
# A shorter value of a variable may occur in a file by chance.
_LEAST_SECRET = 8
_PARQUET = ".parquet"
# Data files whose text holds the names of media as they are; the pieces of such a text that may be names.
_RECORDS = (".jsonl", ".json", ".csv", ".tsv", _PARQUET)
_PIECE = re.compile(r"""[^"'\\\n\r\t,<>|]+""")
_LONGEST_NAME = 250
_MEDIA = frozenset(
    f".{ending}" for ending in "png jpg jpeg gif webp bmp tif tiff wav mp3 flac ogg opus m4a aac mp4 webm mov".split()
)
_NOT_SENT = {
    "model": "is a model, and models do not travel; give an absolute path that the worker has, or a name on the hub",
    "program": "is a program of this machine; give the absolute path of one that the worker has",
}


@dataclass(frozen=True)
class RunFiles:
    """The files of a run, read and ready to be stored.

    Attributes:
        config: path of the config among the files.
        files: content by path below the config's folder.
        stays: why the run cannot be carried out from these files, one sentence each; empty if it can.
        needs: what the worker must have itself, one phrase each.
    """

    config: str
    files: Mapping[str, bytes]
    stays: tuple[str, ...]
    needs: tuple[str, ...]

    @property
    def bundle(self) -> str | None:
        """The name of the files' bundle; None if the run cannot be carried out from it."""
        return None if self.stays else self._bundle.name

    @property
    def _bundle(self) -> Bundle:
        return Bundle(self.config, {name: sha256_hex(data) for name, data in self.files.items()})

    def put(self, store: Store) -> str | None:
        """Store the files, if the run can be carried out from them. Returns `bundle`."""
        if not self.stays:
            put_files(store.media, self.files)
            self._bundle.put(store.objects)
        return self.bundle


@dataclass(frozen=True)
class Submission:
    """A run that a worker will carry out.

    Attributes:
        run_id: its name.
        pool: the work pool that it waits in.
        url: its page in the UI; None if the server has none.
    """

    run_id: str
    pool: str
    url: str | None


def pack(options: RunOptions, blocks: Blocks | None, *, strict: bool = False) -> RunFiles | None:
    """Read the files that a run needs on another machine, as `pack_together`."""
    return pack_together([options], blocks, strict=strict)


def pack_together(runs: Sequence[RunOptions], blocks: Blocks | None, *, strict: bool = False) -> RunFiles | None:
    """Read the files that some runs need on another machine. Nothing that the config names is imported or started.

    Args:
        runs: the options of each run. All have the same config.
        blocks: the blocks of the Prefect API.
        strict: refuse a config with mistakes, as far as they can be found without its plug-ins.

    Returns:
        None for a suite, whose files come with the package, and for a run from a bundle, which travelled already.

    Raises:
        ConfigError: the mistakes of the config.
        InputError: it cannot be read.
    """
    first = runs[0]
    if first.config.startswith((SUITE_PREFIX, BUNDLE_PREFIX)):
        return None
    selection = _FileSelection(first.base_dir.resolve())
    secrets: list[str] = []
    for options in runs:
        audit = examined(options, blocks=blocks)
        if strict and audit.problems:
            raise ConfigError(audit.source, audit.problems)
        selection.add_all(audit.files)
        selection.needs += _needs(options, audit)
        secrets += audit.secrets
    if first.text is None:
        config, text = first.file.name, read_config(first.file)
    else:
        config, text = _TEXT_FILE, first.text
        while config in selection.places:
            config = f"_{config}"
    files = selection.read({config: text.encode()}, secrets)
    return RunFiles(config, files, tuple(dict.fromkeys(selection.stays)), tuple(dict.fromkeys(selection.needs)))


def lacks(packed: RunFiles | None, store: str, pool: str | None) -> Iterator[str]:
    """What does not travel with a run that is submitted to a work pool, one sentence each.

    Args:
        packed: its files.
        store: URL of the store.
        pool: name of the work pool, if its workers may be on other machines.

    Raises:
        InputError: the run cannot be carried out on another machine, and the store is for other machines.
    """
    stays, needs = (packed.stays, packed.needs) if packed is not None else ((), ())
    is_folder = local_folder(store) is not None
    if stays and not is_folder:
        raise InputError(f"the run cannot go to a worker on another machine. {' '.join(stays)}")
    if stays:
        yield f"only a worker on this machine can carry out the run, from the config where it is. {' '.join(stays)}"
    if is_folder and pool is not None:
        yield f"the workers of '{pool}' must have the store at the same path, '{store}'; else give --store s3://…"
    for need in needs:
        yield f"the worker needs {need}."


@dataclass
class _FileSelection:
    """The files that travel, by path below the folder; and what does not travel."""

    folder: Path
    places: dict[str, Path] = field(default_factory=dict)
    code: set[str] = field(default_factory=set)
    stays: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)

    def add_all(self, named: Iterable[NamedFile]) -> None:
        """Add what the names of a config stand for."""
        named = list(named)
        unsent = {file.name for file in named if file.kind in _NOT_SENT}
        for file in named:
            if file.kind in _NOT_SENT or file.name not in unsent:
                self._add_named(file)

    def _add_named(self, named: NamedFile) -> None:
        """Add what a name stands for. What is missing is left to the run, which says so."""
        place = local_path(named.name, self.folder)
        is_absolute = Path(named.name).expanduser().is_absolute()
        if named.kind == "config":
            if place.is_file() and not place.resolve().is_relative_to(configs_dir()):
                self._add(named, place)
        elif is_absolute and place.exists():
            self.needs.append(f"'{named.name}' at the same path ({named.path})")
        elif named.kind in _NOT_SENT:
            if place.exists():
                self._stays(named, _NOT_SENT[named.kind])
        elif place.is_file():
            for file in code_files(place) if place.suffix == ".py" else [place]:
                self._add(named, file)
                self._add_media(named, file)
        elif place.is_dir():
            self._add_folder(named, place)
        elif glob.has_magic(named.name) and not is_absolute:
            self._add_matches(named)

    def _add_matches(self, named: NamedFile) -> None:
        try:
            matches = matching_files(named.name, self.folder)
        except InputError as error:
            self._stays(named, f"cannot travel: {str(error).rstrip('.')}")
            return
        for file in map(Path, matches):
            self._add(named, file)
            self._add_media(named, file)

    def _add_media(self, named: NamedFile, data: Path) -> None:
        """Add the media next to a data file that its records name. Media of `content_root` travel with their folder."""
        if data.suffix not in _RECORDS or data.stat().st_size > _most():
            return
        pieces = (piece.group() for piece in _PIECE.finditer(_text_of(data)))
        for name in sorted({piece for piece in pieces if len(piece) <= _LONGEST_NAME and _is_media(piece)}):
            if not os.path.isabs(name) and (data.parent / name).is_file():
                self._add(named, data.parent / name)

    def _add_folder(self, named: NamedFile, folder: Path) -> None:
        files = list(islice(_visible_files(folder), _MOST_FILES + 1))
        if len(files) > _MOST_FILES:
            self._stays(named, f"has more than {_MOST_FILES:,} files; give an absolute path that the worker has")
            return
        for file in files:
            self._add(named, file)

    def _add(self, named: NamedFile, file: Path) -> None:
        """Add one file, if it may travel."""
        leads = file.resolve()
        plain = Path(os.path.normpath(file))
        if not plain.is_relative_to(self.folder):
            plain = leads
        if not plain.is_relative_to(self.folder):
            self._stays(named, "is outside the config's folder; move it there")
            return
        name = plain.relative_to(self.folder)
        if not leads.is_relative_to(self.folder):
            self._stays(named, f"leads out of the config's folder: '{name}' is a link; put a copy in its place")
        elif any(part.startswith(".") for part in name.parts) or name.suffix.lower() in _KEY_FILES:
            self._stays(named, f"is a hidden file or a key ('{name}'), which never travels")
        else:
            self.places[name.as_posix()] = file
            if named.kind in ("code", "config"):
                self.code.add(name.as_posix())

    def _stays(self, named: NamedFile, reason: str) -> None:
        where = f"{named.path}: " if named.path else ""
        self.stays.append(f"{where}'{named.name}' {reason}.")

    def read(self, texts: Mapping[str, bytes], references: Collection[str]) -> dict[str, bytes]:
        """The content of the files, and of some texts; nothing if they are too large.

        Args:
            texts: content by path.
            references: the references to secrets in the config.
        """
        most = _most()
        sizes = {name: file.stat().st_size for name, file in self.places.items()}
        sizes |= {name: len(text) for name, text in texts.items()}
        size = sum(sizes.values())
        if size > most:
            largest = max(sizes, key=lambda name: sizes[name])
            self.stays.append(
                f"the config's files have {size_text(size)} ('{largest}' has {size_text(sizes[largest])}), and at most "
                f"{size_text(most)} travel (GAGE_EVAL_TRAVEL_MIB)."
            )
            return {}
        files = {**{name: _content(file) for name, file in self.places.items()}, **texts}
        for name, data in files.items():
            is_code = name in self.code or name in texts
            if (secret := _secret_in(data, references, is_code=is_code)) is not None:
                self.stays.append(f"'{name}' holds {secret}, and secrets never travel; write env:NAME in the config.")
        return files


def _is_media(name: str) -> bool:
    return "." in name[-6:] and name[name.rindex(".") :].lower() in _MEDIA


def _most() -> int:
    """How many bytes travel at most."""
    return load_settings().travel_mib * 2**20


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"'{file}' cannot be read: {error.strerror}.") from error


def _text_of(data: Path) -> str:
    """The text of a data file; of a Parquet file its cells, line by line."""
    if data.suffix != _PARQUET:
        return _content(data).decode(errors="replace")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(data) as file:
            leaves = [file.schema.column(index) for index in range(len(file.schema.names))]
            texts = [leaf.path for leaf in leaves if leaf.logical_type.type == "STRING"]
            batches = file.iter_batches(columns=texts) if texts else ()
            return "\n".join(text for batch in batches for column in batch.columns for text in _cells(column))
    except (OSError, pa.ArrowException):
        return ""  # The run says what is wrong with the file.


def _cells(column: Any) -> Iterator[str]:
    """The texts in a column of Arrow, also those in its lists and structs."""
    import pyarrow as pa

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        yield from column.unique().drop_null().to_pylist()
    elif pa.types.is_struct(column.type):
        for child in column.flatten():
            yield from _cells(child)
    elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        yield from _cells(column.flatten())


def _secret_in(data: bytes, references: Collection[str], *, is_code: bool) -> str | None:
    """What secret a file holds; None without one."""
    for reference in references:
        kind, _, name = reference.partition(":")
        value = os.environ.get(name, "") if kind == "env" else ""
        if len(value) >= _LEAST_SECRET and value.encode() in data:
            return f"the value of {name}"
    return "what looks like a key" if is_code and has_token(data.decode(errors="replace")) else None


def _visible_files(folder: Path) -> Iterator[Path]:
    """The files below a folder, without hidden ones and caches of compiled code."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        yield from (Path(place, name) for name in sorted(names) if not name.startswith("."))


def _needs(options: RunOptions, audit: ConfigAudit) -> Iterator[str]:
    """What the worker needs in its environment."""
    if options.data_dir is not None:
        yield f"the folder '{options.data_dir}' at the same path (--data)"
    secrets = [text.removeprefix("env:") for text in audit.secrets if text.startswith("env:")]
    placeholders = [name for names in audit.variables.values() for name in names]
    if names := list(dict.fromkeys([*placeholders, *secrets])):
        yield f"values of its own for {', '.join(names)}"
    set_here = load_settings().values_set()
    changing = [setting.variable for name, setting in set_here.items() if mark_of(Settings, name)[0] != "scheduling"]
    if changing:
        yield f"the same {', '.join(changing)}, which changes results"
