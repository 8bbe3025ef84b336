#!/usr/bin/env python3
"""Run the stages up to infer of a config in this process and print infer's wall and CPU seconds as JSON.

engine.py CONFIG --store FOLDER
"""

import argparse
import time

import orjson

from gage_eval import stages
from gage_eval.cli.lean import be_lean
from gage_eval.runs.options import RunOptions
from gage_eval.runs.session import RunSession


def measure(config: str, store: str) -> dict[str, float]:
    """CPU and wall seconds of infer (all threads of the process), and its number of answers."""
    be_lean()
    with RunSession(RunOptions(config=config, store=store)) as session:
        task = session.plan.tasks[0]
        raw = stages.load(session.env, task.load)
        samples = stages.standardize(session.env, task.standardize, raw=raw)
        prepared = stages.preprocess(session.env, task.preprocess, samples=samples)
        wall, cpu = time.perf_counter(), time.process_time()
        responses = stages.infer(session.env, task.infer, prepared=prepared, samples=samples, support_responses=None)
        return {
            "cpu_s": time.process_time() - cpu,
            "wall_s": time.perf_counter() - wall,
            "rows": responses.counts["ok"],
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--store", required=True)
    options = parser.parse_args()
    print(orjson.dumps(measure(options.config, options.store)).decode())
