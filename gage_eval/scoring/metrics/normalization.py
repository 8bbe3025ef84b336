"""The normalisation of answers and references in a scoring profile."""

import re
from functools import cached_property
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gage_eval.base.canonical import JsonValue

_SPACE = re.compile(r"\s+")


class NormalizationConfig(BaseModel):
    """Normalise both sides of a comparison: units, case, inner white space, then outer white space."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    lowercase: bool = Field(default=True, description="Lower all letters.")
    trim_whitespace: bool = Field(default=True, description="Remove white space at both ends.")
    collapse_spaces: bool = Field(default=True, description="Make one space of every run of white space.")
    unit_aliases: dict[str, list[str]] = Field(
        default={}, description="Spellings of a unit that count as the unit: {kg: [kilogram, kilograms]}."
    )

    @field_validator("unit_aliases")
    @classmethod
    def _no_empty_unit(cls, aliases: dict[str, list[str]]) -> dict[str, list[str]]:
        if not all(name.strip() and all(alias.strip() for alias in spellings) for name, spellings in aliases.items()):
            raise ValueError("a unit and its spellings must be non-empty texts")
        return aliases

    @model_validator(mode="after")
    def _one_unit_a_spelling(self) -> "NormalizationConfig":
        seen: dict[str, str] = {}
        for unit, spellings in self.unit_aliases.items():
            for alias in spellings:
                if seen.setdefault(self._cased(alias), unit) != unit:
                    raise ValueError(f"'{alias}' is a spelling of '{seen[self._cased(alias)]}' and of '{unit}'")
        return self

    def apply(self, text: str) -> str:
        """The text in normal form.

        A unit's spelling counts where no letter touches it: ``5 Kilograms`` and ``5kilograms``, not ``kilogramsish``.

        >>> NormalizationConfig(unit_aliases={"kg": ["kilograms"]}).apply("  5  Kilograms ")
        '5 kg'
        """
        if self.unit_aliases:
            # Letters that match each other in a pattern but are not lowered to each other (ſ and s) stay unchanged.
            text = self._pattern.sub(lambda match: self._units.get(self._cased(match[0]), match[0]), text)
        if self.lowercase:
            text = text.lower()
        if self.collapse_spaces:
            text = _SPACE.sub(" ", text)
        return text.strip() if self.trim_whitespace else text

    def identity(self) -> JsonValue:
        """Its part of keys."""
        return self.model_dump(mode="json")

    def _cased(self, text: str) -> str:
        return text.lower() if self.lowercase else text

    @cached_property
    def _units(self) -> dict[str, str]:
        return {self._cased(alias): unit for unit, spellings in self.unit_aliases.items() for alias in spellings}

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        # Longest first, so that "square metres" is not read as "metres".
        words = "|".join(re.escape(alias) for alias in sorted(self._units, key=len, reverse=True))
        return re.compile(rf"(?<![^\W\d_])(?:{words})(?![^\W\d_])", re.IGNORECASE if self.lowercase else 0)
