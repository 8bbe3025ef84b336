#!/usr/bin/env python3
"""Run stages of a config in this process and print the CPU and wall seconds of some of them as JSON.

stages_alone.py front CONFIG --store FOLDER    load, standardize and preprocess
stages_alone.py infer CONFIG --store FOLDER    infer; the three before it are run, but not measured
"""

import argparse
import time

import orjson

from gage_eval.extend.tuning import tune_process
from gage_eval.pipeline import stages
from gage_eval.runs.options import RunOptions
from gage_eval.runs.session import RunSession


def measure(measured: str, config: str, store: str) -> dict[str, float]:
    """CPU seconds (all threads of the process) and wall seconds of the measured stages, and their number of rows."""
    tune_process()
    with RunSession(RunOptions(config=config, store=store)) as session:
        env, task = session.env, session.plan.tasks[0]
        begin = _clocks()
        raw = stages.load(env, task.load)
        samples = stages.standardize(env, task.standardize, raw=raw)
        prepared = stages.preprocess(env, task.preprocess, samples=samples)
        if measured == "front":
            return _since(begin, prepared.counts["prepared"])
        begin = _clocks()
        responses = stages.infer(env, task.infer, prepared=prepared, samples=samples, support_responses=None)
        return _since(begin, responses.counts["ok"])


def _clocks() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


def _since(begin: tuple[float, float], rows: int) -> dict[str, float]:
    cpu, wall = _clocks()
    return {"cpu_s": cpu - begin[0], "wall_s": wall - begin[1], "rows": rows}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", choices=("front", "infer"))
    parser.add_argument("config")
    parser.add_argument("--store", required=True)
    options = parser.parse_args()
    print(orjson.dumps(measure(options.measured, options.config, options.store)).decode())
