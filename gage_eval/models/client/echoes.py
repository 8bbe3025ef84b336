"""Keys that an endpoint or an engine repeats are masked in its answers, errors and logs."""

import base64
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

_MASK = "***"
# Shorter keys are placeholders such as "EMPTY", which a text may hold by chance.
_SHORTEST_SECRET = 12
# An error may repeat the first part of a secret only; a text has so many characters of it hardly by chance.
_PART = 8
_BASE64_FROM_URL = str.maketrans("+/", "-_")


@dataclass(frozen=True)
class EchoedKey:
    """A key in the forms in which a text may repeat it."""

    key: str

    @property
    def is_secret(self) -> bool:
        """Whether it is long enough not to be a placeholder."""
        return len(self.key) >= _SHORTEST_SECRET

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """The key; of a secret also its base64, whatever stands before it, and its characters as JSON escapes."""
        if not self.is_secret:
            return (self.key,)
        encoded = [_base64_of(self.key.encode(), before) for before in range(3)]
        escaped = "".join(f"\\u{ord(character):04x}" for character in self.key)
        upper = "".join(f"\\u{ord(character):04X}" for character in self.key)
        forms = (self.key, *encoded, *(text.translate(_BASE64_FROM_URL) for text in encoded), escaped, upper)
        return tuple(dict.fromkeys(forms))

    def masked_in(self, text: str) -> str:
        """The text with a mask in place of the key."""
        for form in self.forms:
            if form in text:
                text = text.replace(form, _MASK)
        return text

    def masked_in_error(self, text: str) -> str:
        """The same for an error or a log, which may have been cut within the key."""
        text = self.masked_in(text)
        if not self.is_secret:
            return text
        before, *pieces = text.split(self.key[:_PART])
        return _MASK.join([before, *map(self._after_key, pieces)])

    def _after_key(self, text: str) -> str:
        """What follows the rest of the key, or a part of it, at the start of a text."""
        same = takewhile(lambda pair: pair[0] == pair[1], zip(text, self.key[_PART:], strict=False))
        return text[sum(1 for _ in same) :]


def _base64_of(data: bytes, before: int) -> str:
    """The characters that data alone determine in the base64 of ``before`` bytes, the data, and any other bytes."""
    text = base64.b64encode(bytes(before) + data).decode()
    return text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
