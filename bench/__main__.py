"""``python -m bench [--quick | --full] [--case NAME]``: measure, print, and record for the documentation."""

import argparse
import os
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from bench.cases import CASES, Case
from bench.figures import commit, hardware, machine
from bench.page import page, table
from bench.process import HERE, BenchFailed

RESULTS = HERE / "results.json"
PAGE = HERE.parent / "docs" / "benchmarks.md"


def main() -> int:
    """Measure; 1 when a target is missed or a run failed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure speed and memory against the targets."
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="only the short cases; record nothing")
    size.add_argument("--full", action="store_true", help="also the cases with a million rows")
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES], help="only this case")
    parser.add_argument("--repeats", type=int, help="repetitions of every case")
    options = parser.parse_args()
    sizes = {"quick"} if options.quick else {"quick", "standard"} | ({"full"} if options.full else set())
    chosen = [case for case in CASES if (case.name in options.case if options.case else case.size in sizes)]
    (HERE / "out").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=HERE / "out"))
    try:
        measured = [_measure(case, folder, options.repeats or case.repeats) for case in chosen]
    except BenchFailed as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder)
    if not options.quick:
        record(measured)
    missed = [figure for case in measured for figure in case["figures"] if figure["met"] is False]
    return 1 if missed else 0


def record(measured: list[dict[str, Any]]) -> None:
    """Write results.json and the page: one record per machine, the last measured machine first.

    Cases that were not measured stay. If the software of this machine has changed, its record is replaced, and only by
    a run of at least all cases with less than a million rows.
    """
    here = machine()
    machines = orjson.loads(RESULTS.read_bytes())["machines"] if RESULTS.exists() else []
    others = [record for record in machines if hardware(record["machine"]) != hardware(here)]
    own = next((record for record in machines if record not in others), {"machine": here, "cases": []})
    cases = {case["name"]: case for case in measured}
    if own["machine"] == here:
        cases = {case["name"]: case for case in own["cases"]} | cases
    elif any(case.size != "full" and case.name not in cases for case in CASES):
        print(
            "Not recorded: this machine's record is of other software, and single cases do not replace it.",
            file=sys.stderr,
        )
        return
    fresh = {"machine": here, "cases": [cases[case.name] for case in CASES if case.name in cases]}
    results = {"schema_version": 2, "machines": [fresh, *others]}
    RESULTS.write_bytes(orjson.dumps(results, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    PAGE.write_text(page(results), encoding="utf-8")


def _measure(case: Case, folder: Path, repeats: int) -> dict[str, Any]:
    load = os.getloadavg()[0]
    figures = case.measure(folder, repeats)
    measured = {
        "name": case.name,
        "title": case.title,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "load_before": round(load, 1),
        "figures": [figure.to_json() for figure in figures],
    }
    print(table(measured), flush=True)
    return measured


if __name__ == "__main__":
    sys.exit(main())
