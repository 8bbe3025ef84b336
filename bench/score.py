#!/usr/bin/env python3
"""Run auto_eval on stored answers in this process and print CPU seconds and rows as JSON.

score.py make FOLDER --rows N            stores N samples with their answers
score.py measure FOLDER --metric NAME …  scores them
"""

import argparse
import time
from pathlib import Path

import orjson
import pyarrow as pa

from gage_eval.base.stages import StageResult
from gage_eval.base.tables import RESPONSES, SAMPLES
from gage_eval.data.sample.table import samples_to_table
from gage_eval.extend.tuning import tune_process
from gage_eval.observability.observer import Observers
from gage_eval.pipeline.action import StageContext
from gage_eval.pipeline.auto_eval import auto_eval
from gage_eval.pipeline.load import PART_ROWS
from gage_eval.pipeline.specs import ScoreSpec
from gage_eval.runs.scoring import scoring_processes
from gage_eval.scoring.metrics import bind
from gage_eval.store import Store

_MADE = "made.json"


def make(folder: Path, rows: int) -> None:
    """Store samples and answers of ten words with log-likelihoods. Every fourth answer is wrong."""
    store = Store.open(str(folder))
    samples, responses = store.writer(SAMPLES), store.writer(RESPONSES)
    for part, start in enumerate(range(0, rows, PART_ROWS)):
        indexes = range(start, min(start + PART_ROWS, rows))
        right = [f"Row {row} holds the answer {7919 * row} of so many words" for row in indexes]
        answers = [text if row % 4 else f"{text}, or not" for row, text in zip(indexes, right, strict=True)]
        samples.write(part, samples_to_table([_sample(*pair) for pair in zip(indexes, right, strict=True)], indexes))
        columns = {
            "row_index": list(indexes),
            "sample_id": [f"row-{row}" for row in indexes],
            "replicate": [0] * len(indexes),
            "status": ["ok"] * len(indexes),
            "answer": answers,
            "logprobs": [f'{{"choices":[{{"ll":-{row % 97}.5,"tokens":9}}]}}' for row in indexes],
        }
        arrays = [
            pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(len(indexes), field.type)
            for field in RESPONSES.arrow
        ]
        responses.write(part, pa.Table.from_arrays(arrays, schema=RESPONSES.arrow))
    made = {"samples": samples.commit().id, "responses": responses.commit(counts={"ok": rows}).id}
    (folder / _MADE).write_bytes(orjson.dumps(made))


def measure(folder: Path, metrics: list[str], processes: int) -> dict[str, float]:
    """CPU and wall seconds of the stage (of this process, all threads), and the rows it scored."""
    tune_process()
    made = orjson.loads((folder / _MADE).read_bytes())
    store = Store.open(str(folder))
    spec = ScoreSpec("bench", tuple(bind(name) for name in metrics))
    inputs = {name: StageResult(name, "bench", "", {name: id_}, cached=True) for name, id_ in made.items()}
    wall, cpu = time.perf_counter(), time.process_time()
    with scoring_processes(store, processes) as scoring:
        env = StageContext(store, None, Observers(), "bench", processes=scoring)
        result = auto_eval(env, spec, **inputs)
    taken = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
    return {**taken, "rows": store.artifact(result.outputs["metrics"]).table()["n"][0].as_py()}


def _sample(row: int, label: str) -> dict[str, object]:
    return {
        "schema_version": "v1",
        "id": f"row-{row}",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "?"}]}],
        "references": [{"answer": [{"type": "text", "text": label}]}],
        "label": label,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["make", "measure"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--metric", action="append", default=[])
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    if options.step == "make":
        make(options.folder, options.rows)
    else:
        print(orjson.dumps(measure(options.folder, options.metric, options.processes)).decode())
