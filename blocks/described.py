"""The base of blocks that describe a backend."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from prefect.blocks.core import Block

DOCUMENTATION = "https://github.com/gage-eval/gage-eval/blob/main/docs/prefect.md#blocks"


class BackendBlock(Block, ABC):
    """A block that gives a backend its type and config.

    Attributes:
        BACKEND: the backend's type.
        REQUIRED: the fields that must not be empty. All have a default, because Prefect reads old documents too.
    """

    BACKEND: ClassVar[str]
    REQUIRED: ClassVar[tuple[str, ...]]

    @abstractmethod
    def config(self, name: str) -> Mapping[str, Any]:
        """The config that the block gives its backend, without secrets. Fields that are not set are left out.

        Args:
            name: the name of the block, for references to its secrets.
        """
