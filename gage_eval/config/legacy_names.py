"""The pass that reads names of the first version of GAGE: its backends, preprocessors, converters and fields.

A config keeps its file; everything behind this pass sees one name for one thing. docs/first-version.md lists the names.
"""

from collections.abc import Mapping

from gage_eval.config.document import Document
from gage_eval.config.problems import ConfigProblem, Loc

BACKENDS: Mapping[str, str] = {"hf_inference": "transformers"}
PREPROCESSORS: Mapping[str, str] = {
    "docvqa_image_standardizer": "docvqa",
    "multi_choice_standardizer": "multi_choice",
    "preprocess_docvqa": "docvqa",
    "preprocess_strip_assistant": "strip_assistant",
}
_CONVERTERS = "gage_eval.data.standardize.converters"
CONVERTERS: Mapping[str, str] = {
    "embed_local_message_images": f"{_CONVERTERS}:embed_local_message_images",
    "embed_local_image_as_data_url": f"{_CONVERTERS}:embed_local_image_as_data_url",
}
FIRST_VERSIONS_CONVERTERS = "gage_eval.assets.datasets.converters.image_utils"
# Built-in backends that name their model `model_path`; others may have a field of the other name.
_WITH_MODEL_PATH = frozenset({"transformers", "vlm_transformers", "vllm", "vllm_native", "llama_cpp"})


def read_spellings(document: Document) -> None:
    """Replace the names of the first version by ours."""
    for loc, backend in document.backends():
        _replace(document, (*loc, "type"), BACKENDS)
        if str(backend.get("type")) in _WITH_MODEL_PATH:
            _model_path(document, (*loc, "config"))
    for index, _ in document.mappings("datasets"):
        params: Loc = ("datasets", index, "params")
        _replace(document, (*params, "preprocess"), PREPROCESSORS)
        for name in ("doc_to_visual", "doc_to_audio"):
            _replace(document, (*params, name), CONVERTERS, FIRST_VERSIONS_CONVERTERS)


def _replace(document: Document, loc: Loc, names: Mapping[str, str], module: str | None = None) -> None:
    value = document.value(loc)
    if not isinstance(value, str):
        return
    bare = value.removeprefix(f"{module}:").removeprefix(f"{module}.") if module else value
    origin = document.nearest(loc)
    if bare in names and origin is not None:
        document.put(loc, names[bare], origin)


def _model_path(document: Document, loc: Loc) -> None:
    config = document.value(loc)
    if not isinstance(config, dict) or config.get("model_name_or_path") is None:
        return
    if config.get("model_path") is not None:
        text = "'model_path' and 'model_name_or_path' name the same model. Keep one."
        document.add([ConfigProblem((*loc, "model_name_or_path"), text)])
        return
    origin = document.nearest((*loc, "model_name_or_path"))
    if origin is not None:
        document.put((*loc, "model_path"), document.take((*loc, "model_name_or_path")), origin)
