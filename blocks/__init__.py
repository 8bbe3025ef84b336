"""Prefect blocks of gage-eval: stores, endpoints and engines that configs and forms refer to by name."""

from blocks.api import settings_at
from blocks.artifact_store import ArtifactStore
from blocks.by_name import PrefectBlocks, open_store
from blocks.model_endpoint import ModelEndpoint
from blocks.vllm_engine import VLLMEngine

__all__ = ["BLOCKS", "ArtifactStore", "ModelEndpoint", "PrefectBlocks", "VLLMEngine", "open_store", "settings_at"]

# The types that `gage blocks register` brings to a server.
BLOCKS = (ArtifactStore, ModelEndpoint, VLLMEngine)
