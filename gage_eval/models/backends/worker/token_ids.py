"""A digest of the token ids of a prompt: equal digests are equal prompts to a model."""

import hashlib
from collections.abc import Sequence


def token_digest(tokens: Sequence[int]) -> str:
    """The sha256 of the ids in decimal, with commas between them."""
    return hashlib.sha256(",".join(map(str, tokens)).encode()).hexdigest()
