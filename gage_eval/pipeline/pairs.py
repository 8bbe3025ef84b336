"""Pairs of answers: the other answer that a judge compares a model's answer with, and where it comes from."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import JsonValue
from gage_eval.base.field_paths import Path
from gage_eval.store import Artifact

NO_PARTNER = "no_partner"
"""The error kind of a pair without another answer."""

# Answers of a row by replicate, as rows of `tables.RESPONSES`.
Replicates: TypeAlias = Mapping[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Pairs:
    """Where the other answers are. Without a field and a run they are the support model's.

    Attributes:
        field: a field of the samples: a text, or a list with the text of each turn.
        run: a stored run.
        responses: id of the artifact with its answers; they are matched by sample id.
    """

    field: Path | None = None
    run: str | None = None
    responses: str | None = None

    @property
    def reads_support(self) -> bool:
        """Whether the other answers are those of the support model."""
        return self.field is None and self.responses is None

    def material(self) -> JsonValue:
        """What determines the other answers, except those of the support model, which are an input."""
        return {"field": None if self.field is None else self.field.canonical, "responses": self.responses}

    @property
    def lack(self) -> str:
        """Why a sample has no other answer, for sentences."""
        if self.field is not None:
            return f"the field '{self.field.text}' has no text"
        return "the support model gave no answer" if self.run is None else f"run {self.run} has no answer to it"

    def other(self, sample: Mapping[str, Any], answers: Replicates, replicate: int) -> Mapping[str, Any] | None:
        """The other answer, in the form of a response; None where there is none.

        Args:
            sample: the sample.
            answers: those of the run or the support model to it.
            replicate: of the model's answer. Where the others were not repeated, their only answer counts.
        """
        if self.field is None:
            other = answers.get(replicate if len(answers) > 1 else 0)
            return None if other is None or other["answer"] is None else other
        value = self.field.get(sample)
        turns = value if isinstance(value, list) else [value]
        if not turns or not all(isinstance(text, str) and text.strip() for text in turns):
            return None
        return {"answer": turns[-1], "turns": [{"answer": text} for text in turns]}


class OtherAnswers:
    """The stored answers of another run, found by sample id. Its rows may have another order."""

    def __init__(self, responses: Artifact) -> None:
        self._responses = responses

    @cached_property
    def _part_of(self) -> Mapping[str, int]:
        """The part of each sample."""
        parts = (
            (part.index, self._responses.read(part.index, columns=["sample_id"])) for part in self._responses.parts
        )
        return {name: index for index, table in parts for name in pc.unique(table["sample_id"]).to_pylist()}

    def of(self, sample_ids: Collection[str]) -> Mapping[str, Replicates]:
        """The answers to some samples, by sample id."""
        wanted = pa.array(sample_ids, pa.string())
        out: dict[str, dict[int, Mapping[str, Any]]] = {}
        for part in sorted({self._part_of[name] for name in sample_ids if name in self._part_of}):
            table = self._responses.read(part)
            for row in table.filter(pc.is_in(table["sample_id"], wanted)).to_pylist():
                out.setdefault(row["sample_id"], {})[row["replicate"]] = row
        return out
