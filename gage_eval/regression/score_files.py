"""Scores of two files, such as the logs of other tools, compared sample by sample."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gage_eval.base.errors import InputError, NotComparable, closest
from gage_eval.config.record_files import records_of
from gage_eval.stats.arrays import PairedScores, pair
from gage_eval.stats.evidence import Evidence, evidence
from gage_eval.stats.verdicts import MAX_UNPAIRED_SHARE

_WORDS = {"true": 1.0, "false": 0.0}
_SHOWN = 20


@dataclass(frozen=True)
class ScoreFields:
    """Where a record has what is compared, as dotted paths.

    Attributes:
        sample_id: its sample; records of one sample are replicates.
        score: its number.
        cluster: its cluster; None where samples are independent.
    """

    sample_id: str
    score: str
    cluster: str | None = None


@dataclass(frozen=True)
class FileComparison:
    """Two files, compared.

    Attributes:
        baseline, current: the files.
        pairs: the scores by sample.
        evidence: tests; low and high are the ends of the two-sided 95 % interval.
    """

    baseline: str
    current: str
    pairs: PairedScores
    evidence: Evidence

    @property
    def note(self) -> str | None:
        """A sentence about samples without a partner; None if all have one."""
        if not self.pairs.unpaired:
            return None
        many = ": too many for a verdict" if self.pairs.unpaired_share > MAX_UNPAIRED_SHARE else ""
        samples = len(self.pairs.ids) + self.pairs.unpaired
        return f"{self.pairs.unpaired:,} of {samples:,} samples are in one file only, or scored in one only{many}"

    def as_record(self) -> dict[str, Any]:
        """For JSON."""
        numbers = self.evidence
        better, worse = self.pairs.changed
        return {
            "baseline_file": self.baseline,
            "current_file": self.current,
            "n": numbers.n,
            "baseline": numbers.baseline,
            "current": numbers.current,
            "difference": numbers.difference,
            "ci_low": numbers.bounds and numbers.bounds[0],
            "ci_high": numbers.bounds and numbers.bounds[1],
            "test": numbers.test,
            "p": None if numbers.test == "none" else numbers.p,
            "unpaired": self.pairs.unpaired,
            "better": [*map(str, better)],
            "worse": [*map(str, worse)],
        }


def compare_files(baseline: str, current: str, fields: ScoreFields, *, higher_is_better: bool = True) -> FileComparison:
    """Compare the scores of two files of records (jsonl, json, csv, tsv, parquet or xlsx).

    Args:
        baseline, current: paths or addresses.
        fields: where a record has its id and its score.
        higher_is_better: whether a larger number is a better one.

    Raises:
        InputError: a file cannot be read, or a record lacks a field.
        NotComparable: no sample is scored in both files.
    """
    before, now = (list(_records(path, fields)) for path in (baseline, current))
    cluster = None if fields.cluster is None else "cluster"
    pairs = pair(before, now, cluster=cluster, higher_is_better=higher_is_better)
    if not pairs.ids:
        raise NotComparable(
            f"no '{fields.sample_id}' of '{current}' is scored in '{baseline}': name files of the same samples."
        )
    return FileComparison(baseline, current, pairs, evidence(pairs.rows, alpha=0.025))


def _records(path: str, fields: ScoreFields) -> Iterator[dict[str, Any]]:
    for where, record in records_of(path):
        cluster = {} if fields.cluster is None else {"cluster": str(_at(record, fields.cluster, where, "--cluster"))}
        sample_id = _at(record, fields.sample_id, where, "--id")
        if sample_id is None:
            raise InputError(f"{where} has no value in '{fields.sample_id}': every record needs an id.")
        score = _number(_at(record, fields.score, where, "--score"), f"the '{fields.score}' of {where}")
        yield {"id": str(sample_id), "score": score, **cluster}


def _at(record: dict[str, Any], path: str, where: str, option: str) -> Any:
    if path in record:
        return record[path]
    value: Any = record
    for step in path.split("."):
        if not isinstance(value, dict) or step not in value:
            known = [*value] if isinstance(value, dict) else [*record]
            fields = (
                f"Fields there: {', '.join(known[:_SHOWN])}.{closest(step, known)}" if known else "It has no field."
            )
            raise InputError(f"{option}: {where} has no field '{path}'. {fields}")
        value = value[step]
    return value


def _number(value: Any, what: str) -> float | None:
    """A score as a number; None where there is none."""
    if value is None or value == "":
        return None
    try:
        return _WORDS[value.lower()] if isinstance(value, str) and value.lower() in _WORDS else float(value)
    except (TypeError, ValueError):
        raise InputError(f"{what} is not a number: {str(value)[:60]!r}.") from None
