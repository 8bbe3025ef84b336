"""The box: HumanEval's canonical programs in `calls` by bubblewrap, memory over 10,000 of them, CRUXEval's verdicts."""

import asyncio
import gzip
import os
import resource
import time
from pathlib import Path
from typing import Any

import orjson
import yaml

import gage_eval
from bench.figures import Figure
from bench.local_suites import template_of
from bench.process import HERE, BenchFailed
from gage_eval.authoring.self_test import self_test
from gage_eval.box.executors import ExecutorSettings, open_executor
from gage_eval.box.types import Executor, Limits, Program
from gage_eval.observability.observer import Observers
from gage_eval.runs.options import RunOptions

_SHARED = HERE.parents[1] / "shared" / "data"
_DATA = _SHARED / "humaneval" / "HumanEval.jsonl.gz"
CODE_SUITES = {"humaneval": 164, "humaneval_plus": 164, "mbpp": 500, "mbpp_plus": 378}
"""The problems of each suite that runs programs."""
_EXECUTIONS = 10_000
_ROUNDING = 1e-9


def programs(folder: Path, repeats: int) -> list[Figure]:
    """HumanEval's 164 canonical programs, all of which must pass."""
    rates = asyncio.run(_rates(repeats))
    return [Figure("canonical programs of HumanEval", "rows/s", rates, 80, "≥")]


def programs_10k(folder: Path, repeats: int) -> list[Figure]:
    """Memory of this process and of its slots, after 1,000 and after 10,000 executions."""
    return [Figure("memory after 10,000 executions, against 1,000", "×", [asyncio.run(_growth())], 1.1)]


def programs_cruxeval(folder: Path, repeats: int) -> list[Figure]:
    """The 8,000 stored answers of CodeLlama 7B to CRUXEval-O: their official verdicts, pass@1 and pass@5."""
    data = _DATA.parents[1]
    official = orjson.loads((data / "replays" / "cruxeval_codellama_7b" / "scored_output.json").read_bytes())
    os.environ["LOCAL_DATASETS_ROOT"] = str(data)
    config = HERE.parent / "configs" / "pipelines" / "replays" / "cruxeval_codellama_7b.yaml"
    run = gage_eval.run(str(config), store=str(folder / "store"))
    other = sum(
        (entry["status"] == "passed") != official["raw_scored_generations"][row.sample["id"]][entry["replicate"]]
        for row in run.rows()
        for entry in row.executions
    )
    shares = {metric.aggregation: metric.value for metric in run.summary.tasks[0].metrics}
    for k in (1, 5):
        if abs(100 * (shares[f"cruxeval_pass@{k}"] or 0) - official[f"pass_at_{k}"]) > _ROUNDING:
            raise BenchFailed(f"pass@{k} is {shares[f'cruxeval_pass@{k}']}, officially {official[f'pass_at_{k}']}")
    return [Figure("verdicts of 8,000 answers to CRUXEval that differ from the official ones", "verdicts", [other], 0)]


def canonical_programs(folder: Path, repeats: int) -> list[Figure]:
    """The own solutions of the code suites, through the pipeline; which do not pass, besides those that cards name."""
    figures = []
    for name, problems in CODE_SUITES.items():
        tested = self_test(code_suite(name, folder), Observers(), {})
        named = template_of(name)[1]["suite"].get("exceptions", ())
        failed = [len(task.failed.keys() - {*named}) for task in tested]
        if any(task.problems != problems for task in tested):
            raise BenchFailed(f"{name} has not its {problems} problems")
        figures.append(Figure(f"{name}: problems whose own solution does not pass", "", [float(max(failed))], 0))
    return figures


def code_suite(name: str, folder: Path, **options: Any) -> RunOptions:
    """The options of a suite that runs programs, with the data next to the checkout.

    Raises:
        BenchFailed: the data are not on this machine.
    """
    data = _SHARED / name
    if not data.is_dir():
        raise BenchFailed(f"the data of {name} are not at {data}")
    if name != "mbpp":
        return RunOptions(config=f"suite:{name}", data_dir=str(data), **options)
    _, template = template_of(name)
    definition = template["definition"]
    rows = (data / "mbpp.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "mbpp.jsonl").write_text("".join(row for row in rows if 11 <= orjson.loads(row)["task_id"] <= 510))
    params = {"path": "mbpp.jsonl", "preprocess": "mbpp"}
    definition["datasets"] = [{"dataset_id": "mbpp_test", "loader": "jsonl", "params": params}]
    definition["tasks"][0].pop("few_shot")
    definition["backends"] = [{"backend_id": "model", "type": "dummy"}]
    definition["role_adapters"] = [{"adapter_id": "model", "role_type": "dut_model", "backend_id": "model"}]
    (folder / "mbpp.yaml").write_text(yaml.safe_dump(definition))
    return RunOptions(config=str(folder / "mbpp.yaml"), **options)


async def _rates(repeats: int) -> list[float]:
    tasks = humaneval()
    executor = open_executor(ExecutorSettings())
    await _run(executor, tasks[:8])
    rates = []
    for _ in range(repeats):
        began = time.perf_counter()
        await _run(executor, tasks)
        rates.append(len(tasks) / (time.perf_counter() - began))
    await executor.close()
    return rates


async def _growth() -> float:
    tasks = humaneval()
    executor = open_executor(ExecutorSettings())
    early = 0.0
    for number in range(0, _EXECUTIONS, len(tasks)):
        await _run(executor, tasks)
        if number < 1000:
            early = _peak_mib()
    await executor.close()
    return _peak_mib() / early


async def _run(executor: Executor, tasks: list[Program]) -> None:
    """Run programs, as many at a time as there are slots; each must pass."""
    results = await asyncio.gather(*(executor.execute(task, Limits()) for task in tasks))
    failed = [result.text or result.status for result in results if result.status != "passed"]
    if failed:
        raise BenchFailed(f"{len(failed)} canonical programs did not pass: {failed[0]}")


def _peak_mib() -> float:
    """The largest resident memory so far of this process, and of the largest of those that have ended or serve it."""
    own, children = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    servers = sum(_resident_kib(folder) for folder in Path("/proc").glob("[0-9]*"))
    return (own + children + servers) / 1024


def _resident_kib(process: Path) -> int:
    try:
        if b"gage_eval.box.inside.server" not in (process / "cmdline").read_bytes():
            return 0
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)


def humaneval() -> list[Program]:
    """HumanEval's tasks with their canonical solutions.

    Raises:
        BenchFailed: the data are not on this machine.
    """
    if not _DATA.exists():
        raise BenchFailed(f"HumanEval.jsonl.gz is not at {_DATA}: take it from github.com/openai/human-eval")
    with gzip.open(_DATA) as file:
        rows = [orjson.loads(line) for line in file]
    return [
        Program(
            "calls",
            row["prompt"] + row["canonical_solution"],
            entry=row["entry_point"],
            prelude=row["prompt"],
            tests=f"{row['test']}\ncheck({row['entry_point']})\n",
        )
        for row in rows
    ]
