"""What the blocks of a Prefect API give a run, by their names."""

import os
from collections.abc import Mapping
from typing import Any

from prefect.blocks.core import Block
from prefect.blocks.system import Secret
from prefect.settings import temporary_settings

from blocks.api import settings_at
from blocks.artifact_store import ArtifactStore
from blocks.described import BackendBlock
from blocks.model_endpoint import ModelEndpoint
from blocks.vllm_engine import VLLMEngine
from gage_eval.base.errors import InputError
from gage_eval.runs.options import BLOCK_PREFIX

_BACKENDS: tuple[type[BackendBlock], ...] = (ModelEndpoint, VLLMEngine)


class PrefectBlocks:
    """The blocks of a Prefect API. Each is read when it is needed, from any thread.

    Args:
        api_url: the API; the configured one by default.
    """

    def __init__(self, api_url: str | None = None) -> None:
        self._settings = settings_at(api_url) if api_url is not None else {}

    def secret(self, name: str) -> str:
        """The value of a Secret block, or the key of ``model-endpoint/NAME``.

        Raises:
            InputError: the block does not exist, or has no key.
        """
        with temporary_settings(self._settings):
            return self._secret(name)

    def _secret(self, name: str) -> str:
        slug, _, document = name.rpartition("/")
        if slug == ModelEndpoint.get_block_type_slug():
            endpoint = _found(ModelEndpoint, document)
            assert isinstance(endpoint, ModelEndpoint)
            return endpoint.api_key.get_secret_value()
        block = _found(Secret, name)
        assert isinstance(block, Secret)
        return str(block.get())

    def backend(self, name: str) -> Mapping[str, Any]:
        """Type and config of the Model Endpoint or vLLM Engine of that name, or of ``TYPE/NAME``.

        Raises:
            InputError: there is no such block, there are two of the name, or it lacks a value.
        """
        slug, _, document = name.rpartition("/")
        kinds = [kind for kind in _BACKENDS if slug in ("", kind.get_block_type_slug())]
        with temporary_settings(self._settings):
            blocks = [block for kind in kinds if (block := _read(kind, document)) is not None]
        names = " or ".join(kind.get_block_type_name() for kind in kinds or _BACKENDS)
        if not blocks:
            raise InputError(f"the Prefect API has no {names} block '{document}'. Create it in the UI under Blocks.")
        if len(blocks) > 1:
            ways = " or ".join(f"{kind.get_block_type_slug()}/{document}" for kind in kinds)
            raise InputError(f"two blocks are named '{document}': write {ways}.")
        block = blocks[0]
        assert isinstance(block, BackendBlock)
        for field in block.REQUIRED:
            if not getattr(block, field):
                title = type(block).model_fields[field].title
                raise InputError(f"the block '{document}' has no {title}. Fill it in, in the UI under Blocks.")
        return {"type": block.BACKEND, "config": dict(block.config(document))}


def open_store(url: str | None) -> str | None:
    """The URL of a store that may be named as ``block:NAME``. The block's S3 settings count for this process.

    Raises:
        InputError: there is no such block, or it has no URL.
    """
    if url is None or not url.startswith(BLOCK_PREFIX):
        return url
    name = url.removeprefix(BLOCK_PREFIX)
    block = _found(ArtifactStore, name.removeprefix(f"{ArtifactStore.get_block_type_slug()}/"))
    assert isinstance(block, ArtifactStore)
    if not block.url:
        raise InputError(f"the block '{name}' has no URL. Fill it in, in the UI under Blocks.")
    os.environ.update(block.environment())
    return block.url


def _found(kind: type[Block], name: str) -> Block:
    block = _read(kind, name)
    if block is None:
        raise InputError(
            f"the Prefect API has no {kind.get_block_type_name()} block '{name}'. Create it in the UI under Blocks."
        )
    return block


def _read(kind: type[Block], name: str) -> Block | None:
    """The block of that type and name. None if there is none, or if the type is not registered."""
    try:
        block = kind.load(name, _sync=True)  # type: ignore[call-arg]
    except ValueError:
        return None
    except Exception as problem:
        reason = type(problem).__name__
        raise InputError(f"the Prefect API did not give the block '{name}' ({reason}): see that it runs.") from problem
    assert isinstance(block, Block)
    return block
