"""One file per record, with an image next to it; or several records in each text file."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gage_eval.base import canonical, patterns
from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError, closest
from gage_eval.data.datasets.base import Record, Source, record_text, text_param
from gage_eval.data.datasets.reading import MAX_BYTES, open_bytes, reading, stem
from gage_eval.data.sample.record import unreadable
from gage_eval.extend import registry

_PARAMS = ("parser", "image", "image_field", "text_field", "source_field", "record_pattern")
_PARSERS = ("json", "txt")


@registry.loaders.register("files", version=1, params=_PARAMS)
class FilesLoader:
    """One record per file, as sets of scanned receipts are published.

    A JSON file is a record. A text file is a record with its text in one field. A record without ``id`` gets the
    file's name without endings.

    Parameters (``params``):
        path: glob pattern or list of the files (read in sorted order).
        parser: ``json`` or ``txt``. Default: json for ``.json``, else txt.
        image: the path of a record's image, relative to the dataset's ``content_root``; ``{stem}`` stands for the
            file's name without endings, as in ``img/{stem}.jpg``.
        image_field: the record's field for the image's path. Default ``image``.
        text_field: the field for a text file's text. Default ``text``.
        source_field: the record's field that takes the file's name without endings.
        record_pattern: a regular expression with named groups. Each match in a text file is then a record; the groups
            are its fields, and its number follows the file's name in its id.

    Raises:
        InputError: a parameter is unknown or wrong, or no file is there.
    """

    def __init__(self, params: Mapping[str, Any], base_dir: Path) -> None:
        self._source = Source.of(params, base_dir, "files", _PARAMS)
        self._parser: str | None = params.get("parser")
        if self._parser is not None and self._parser not in _PARSERS:
            near = closest(str(self._parser), _PARSERS)
            raise InputError(f"loader files has no parser {self._parser!r}. Parsers: {', '.join(_PARSERS)}.{near}")
        self._image: str | None = params.get("image")
        if self._image is not None and (not isinstance(self._image, str) or "{stem}" not in self._image):
            raise InputError("loader files: image is a path with {stem} in it, as img/{stem}.jpg.")
        self._image_field = text_param(params, "image_field", "files") or "image"
        self._text_field = text_param(params, "text_field", "files") or "text"
        self._pattern = text_param(params, "record_pattern", "files")
        if self._pattern is not None:
            _check_pattern(self._pattern)

    def identity(self) -> JsonValue:
        """sha256 of each file's bytes, its name (which is its record's id), and the reading parameters.

        The images' own bytes count in preprocess, where they are read.
        """
        pattern = {} if self._pattern is None else {"record_pattern": self._pattern}
        return {
            **self._source.identity(),
            **pattern,
            "names": [stem(file) for file in self._source.files],
            "parsers": [self._parser_of(file) for file in self._source.files],
            "image": self._image,
            "fields": [self._image_field, self._text_field],
        }

    def records(self) -> Iterator[Record]:
        """(position from 1, text) of each record.

        Raises:
            InputError: a file cannot be read, is longer than 64 MiB, or has no match of ``record_pattern``.
        """
        position = 0
        for path in self._source.files:
            for text in [self._text(path)] if self._pattern is None else self._matches(path, self._pattern):
                position += 1
                yield position, text

    def _parser_of(self, path: str) -> str:
        return self._parser or ("json" if ".json" in Path(path).suffixes else "txt")

    def _matches(self, path: str, pattern: str) -> Iterator[str]:
        """The records of a text file, one for each match of the pattern."""
        name = Path(path).name
        try:
            matches = patterns.fields_of_matches(pattern, _bytes(path).decode())
        except (ValueError, patterns.PatternTooSlow) as error:
            raise InputError(f"'{name}' cannot be read: {error}.") from error
        if not matches:
            raise InputError(f"'{name}' has no match of record_pattern.")
        for number, fields in enumerate(matches, 1):
            yield record_text(self._source.named({"id": f"{stem(path)}-{number}", **fields}, path))

    def _text(self, path: str) -> str:
        name = Path(path).name
        data = _bytes(path)
        try:
            text = data.decode()
            record: JsonValue = {self._text_field: text} if self._parser_of(path) == "txt" else canonical.decode(text)
        except ValueError as error:
            return unreadable(f"'{name}' is not {self._parser_of(path)} text: {error}.", "")
        if not isinstance(record, dict):
            return record_text(record)
        own = stem(path)
        made: dict[str, JsonValue] = {"id": own, **record}
        if self._image is not None:
            made[self._image_field] = self._image.replace("{stem}", own)
        return record_text(self._source.named(made, path))


def _bytes(path: str) -> bytes:
    """A file's content without a byte order mark.

    Raises:
        InputError: it cannot be read or is longer than 64 MiB.
    """
    name = Path(path).name
    with reading(name), open_bytes(path) as file:
        data = file.read(MAX_BYTES + 1).removeprefix(b"\xef\xbb\xbf")
    if len(data) > MAX_BYTES:
        raise InputError(f"'{name}' is longer than {MAX_BYTES >> 20} MiB.")
    return data


def _check_pattern(pattern: str) -> None:
    reason = patterns.problem(pattern)
    if reason is not None:
        raise InputError(f"loader files: record_pattern is not a regular expression ({reason}).")
    if not patterns.group_names(pattern):
        raise InputError("loader files: record_pattern needs named groups, the record's fields, as (?P<question>.+).")
