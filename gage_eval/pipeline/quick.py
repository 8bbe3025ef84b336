"""A random part of a task's samples, with its share of each subject, that is the same for every model."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

from gage_eval.base.canonical import JsonValue, canonical_text
from gage_eval.base.field_paths import MISSING, compile_path
from gage_eval.data.sample.table import rows_of
from gage_eval.store import Artifact


@dataclass(frozen=True)
class Quick:
    """Which samples are drawn.

    Attributes:
        size: how many, of all tables of samples; larger ones are drawn from, smaller ones are taken whole.
        seed: of the draw. A sample's chance depends on it and on the sample's id.
        fields: paths of the sample. Each combination of their values has its share.
    """

    size: int
    seed: int
    fields: tuple[str, ...] = ()

    def material(self) -> JsonValue:
        return {"size": self.size, "seed": self.seed, "fields": list(self.fields)}

    def rows(self, samples: Artifact) -> list[int]:
        """The row indexes of the samples that are drawn, in their order."""
        paths = [compile_path(text) for text in self.fields]
        columns = frozenset({"row_index", "id"}).union(*(path.sample_columns for path in paths))
        strata: dict[str, list[tuple[bytes, int]]] = {}
        for table in samples.tables(columns=sorted(columns)):
            for row in rows_of(table, columns):
                values = [path.get(row) for path in paths]
                stratum = canonical_text([None if value is MISSING else value for value in values])
                rank = hashlib.sha256(f"{self.seed}:{row['id']}".encode("utf-8", "surrogatepass")).digest()
                strata.setdefault(stratum, []).append((rank, row["row_index"]))
        counts = _shares({name: len(ranked) for name, ranked in strata.items()}, self.size)
        return sorted(row for name, ranked in strata.items() for _, row in sorted(ranked)[: counts[name]])


def _shares(sizes: Mapping[str, int], size: int) -> dict[str, int]:
    """How many of each stratum are drawn: its share, rounded so that all together are ``size`` (largest remainder)."""
    total = sum(sizes.values())
    if total <= size:
        return dict(sizes)
    shares = {name: math.floor(size * count / total) for name, count in sizes.items()}
    left = size - sum(shares.values())
    by_remainder = sorted(sizes, key=lambda name: (-(size * sizes[name] % total), name))
    return {name: share + (name in by_remainder[:left]) for name, share in shares.items()}
