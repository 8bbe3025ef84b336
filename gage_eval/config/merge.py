"""The pass that makes one pipeline of what a file brings together: today the definition of a suite's template."""

from dataclasses import replace

from gage_eval.config.document import Document
from gage_eval.config.problems import ConfigProblem

_SHARED = ("name", "description", "version")


def merge_template(document: Document) -> None:
    """Find the pipeline: the file itself, or the ``definition`` of a BuiltinTemplate with the template's metadata.

    Raises:
        ConfigError: there is none.
    """
    data = document.whole
    if not isinstance(data, dict):
        document.add([ConfigProblem((), "a config is a mapping of sections such as 'datasets' and 'backends'.")])
        raise document.error()
    if data.get("kind") != "BuiltinTemplate":
        return
    definition, metadata = data.get("definition"), data.get("metadata")
    if not isinstance(definition, dict):
        message = "a BuiltinTemplate needs a 'definition', the mapping of a pipeline."
        document.add([ConfigProblem(("definition",), message)])
        raise document.error()
    origins = {key: document.nearest(("metadata", key)) for key in _SHARED}
    document.enter("definition", "template")
    if isinstance(metadata, dict) and "metadata" not in definition:
        definition["metadata"] = {}
        for key, origin in origins.items():
            if metadata.get(key) is not None and origin is not None:
                document.put(("metadata", key), metadata[key], replace(origin, kind="template"))
