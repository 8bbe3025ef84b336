"""Built-in ``doc_to_visual`` functions, under their names in the first version of GAGE.

Pictures in messages need no conversion: preprocess stores local files by their content and backends send them. So these
functions only find the addresses of pictures that are not in the messages. A key hashes what a function like these
imports, so this module imports no other module of gage-eval.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gage_eval.base.field_paths import walk


def embed_local_message_images(
    sample: Mapping[str, Any], *, content_field: str = "messages.0.content", content_root: str | None = None
) -> list[str]:
    """The addresses of the pictures in a list of content segments.

    Args:
        sample: in canonical form.
        content_field: path of the segments.
        content_root: folder of relative addresses; by default that of the dataset.
    """
    content = _at(sample, content_field)
    segments = content if isinstance(content, list) else []
    urls = (segment.get("image_url") for segment in segments if isinstance(segment, Mapping))
    return _addresses([url.get("url") if isinstance(url, Mapping) else url for url in urls], content_root)


def embed_local_image_as_data_url(
    sample: Mapping[str, Any], *, image_field: str = "metadata.image_url", content_root: str | None = None
) -> list[str]:
    """The address of the picture at a field, or the addresses where the field holds a list.

    Args:
        sample: in canonical form.
        image_field: path of the address.
        content_root: folder of relative addresses; by default that of the dataset.
    """
    value = _at(sample, image_field)
    return _addresses(value if isinstance(value, list) else [value], content_root)


def _addresses(urls: Sequence[Any], root: str | None) -> list[str]:
    named = [url for url in urls if isinstance(url, str) and url]
    return [url if root is None or "://" in url or url.startswith(("/", "data:")) else f"{root}/{url}" for url in named]


def _at(sample: Mapping[str, Any], field: str) -> Any:
    """The value at a dotted path of a sample, or of its extra fields; None where there is none."""
    parts = field.removeprefix("sample.").split(".")
    return walk(sample if parts[0] in sample else sample.get("extra"), parts, None)
