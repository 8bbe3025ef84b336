"""Models of the Hugging Face hub, fetched into the library's cache before an engine asks for them."""

from pathlib import Path

from gage_eval.base.errors import EndpointFailed
from gage_eval.extend.extras import missing

# Forms of the weights that engines do not read where safetensors are there, and copies in the authors' own layout.
_OTHER_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.msgpack", "*.h5", "*.ot", "*.gguf", "*.onnx", "original/*")


def fetch_model(name: str, revision: str | None) -> Path:
    """Fetch the files of a model that an engine reads, continuing what is there (``HF_HOME``).

    Args:
        name: on the hub, as ``org/name``.
        revision: a commit, a tag or a branch; the main branch by default.

    Returns:
        The folder of the files.

    Raises:
        InputError: huggingface_hub is not installed.
        EndpointFailed: the hub does not answer, or has no such model; or the cache cannot be written.
    """
    try:
        import huggingface_hub as hub
    except ImportError:
        raise missing("fetching a model", "huggingface_hub", "hf") from None
    try:
        info = hub.HfApi().model_info(name, revision=revision)
        files = [file.rfilename for file in info.siblings or ()]
        has_safetensors = any(file.endswith(".safetensors") for file in files)
        ignored = list(_OTHER_WEIGHTS) if has_safetensors else None
        # By commit: the files are those of the list, even when the branch moves on.
        return Path(hub.snapshot_download(name, revision=info.sha, ignore_patterns=ignored))
    except Exception as error:  # the library raises those of its HTTP client, whose type depends on its version
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise EndpointFailed(
            f"model '{name}' cannot be fetched from the hub: {reason}. Check its name and revision; a model behind a "
            "licence needs HF_TOKEN."
        ) from error
