"""The answers of a task and those of another run, sample by sample: which got worse, which got better."""

from pathlib import Path

from gage_eval.base.errors import InputError
from gage_eval.runs.results.sql import literal
from gage_eval.viewer.index import About, IndexedMeasure


def build_pairs(mine: Path, theirs: Path, measure: str, file: Path) -> None:
    """Write the table ``pairs``: one row per answer that both indexes have.

    Columns: ``pos`` and ``other_pos``; ``value`` and ``other_value``, null where unscored; ``other_kind``,
    ``other_read``, ``other_status``; and ``change``: how much better the answer is than the other run's.

    Args:
        mine, theirs: the indexes.
        measure: name of the measure.
        file: where to write.

    Raises:
        InputError: one of them does not have the measure.
    """
    import duckdb

    with duckdb.connect(str(file), config={"memory_limit": "256MB", "threads": 2}) as database:
        columns = []
        for name, source in (("mine", mine), ("theirs", theirs)):
            database.execute(f"ATTACH {literal(str(source))} AS {name} (READ_ONLY)")
            columns.append(_measure(About.of(database, name), measure))
        this, other = columns
        sign = "-" if this.higher_is_better is False else ""
        values = [f"CASE WHEN {side}.status_{x.number} <> 'unscored' THEN {side}.value_{x.number} END"
                  for side, x in (("m", this), ("t", other))]  # fmt: skip
        database.execute(
            f"CREATE TABLE pairs AS SELECT m.pos, t.pos AS other_pos, {values[0]} AS value, "  # noqa: S608
            f"{values[1]} AS other_value, t.kind_{other.number} AS other_kind, "
            f"t.read_{other.number} AS other_read, t.status AS other_status, "
            f"{sign}(({values[0]}) - ({values[1]})) AS change "
            "FROM mine.answers m JOIN theirs.answers t USING (sample_id, replicate) ORDER BY m.pos"
        )


def _measure(about: About, name: str) -> IndexedMeasure:
    matches = [measure for measure in about.measures if measure.name == name]
    if not matches:
        known = ", ".join(measure.name for measure in about.measures) or "none"
        raise InputError(f"the runs cannot be paired: one of them has no metric '{name}'. Metrics: {known}.")
    return matches[0]
