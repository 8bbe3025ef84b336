"""vLLM on real GPUs: ``make test-gpu``. Nothing here runs in CI."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.runs import gage, stage_outputs, summary, write_sums

from gage_eval.store import Store

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
ROWS = 64
PAGE = ROOT / "build" / "benchmarks-vllm-gpu.md"

HOLD = """
import sys, torch
free, total = torch.cuda.mem_get_info()
held = torch.empty(int(total * float(sys.argv[1])), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""


def write_config(folder: Path, type_: str, python: Path, model: Path, **engine: Any) -> None:
    """A run of short greedy answers."""
    write_sums(folder / "sums.jsonl", ROWS)
    backend = {"model_path": str(model), "python": str(python), "dtype": "float32", "max_model_len": 1024, **engine}
    config = {
        "datasets": [{"dataset_id": "sums", "params": {"path": "sums.jsonl"}}],
        "backends": [{"backend_id": "model", "type": type_, "config": backend}],
        "metrics": ["exact_match"],
        "tasks": [
            {"task_id": "t", "dataset_id": "sums", "sampling_params": {"temperature": 0, "max_new_tokens": 16}},
        ],
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def run(folder: Path, run_id: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return gage(folder, "run", "run.yaml", "--inline", "--run-id", run_id, env=env)


def answers(folder: Path, run_id: str) -> list[str]:
    """The answers of a run in the order of its rows."""
    table = Store.open(str(folder / ".gage")).artifact(stage_outputs(folder, run_id)["t/infer"]["responses"]).table()
    assert set(table["status"].to_pylist()) <= {"ok", "truncated"}
    assert table.num_rows == ROWS
    return [str(answer) for answer in table["answer"].to_pylist()]


def alike(texts: list[str], other: list[str]) -> float:
    """Share of equal answers. Kernels of different batches round differently."""
    return sum(a == b for a, b in zip(texts, other, strict=True)) / len(texts)


@contextmanager
def memory_held(python: Path, share: float) -> Iterator[None]:
    """Another process holds a share of the first GPU's memory."""
    process = subprocess.Popen(
        [str(python), "-c", HOLD, str(share)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "held\n"
        yield
    finally:
        process.communicate(timeout=60)


def test_both_engines_answer_alike_and_a_second_run_is_cached(tmp_path: Path, python: Path, model: Path) -> None:
    rows = []
    for type_ in ("vllm", "vllm_native"):
        folder = tmp_path / type_
        folder.mkdir()
        write_config(folder, type_, python, model)
        run(folder, "first")
        rows.append(answers(folder, "first"))
        run(folder, "second")
        assert summary(folder, "second")["run"]["sent"] == 0
    assert alike(*rows) >= 0.9


@pytest.mark.parametrize("type_", ["vllm", "vllm_native"])
def test_an_engine_that_gets_too_little_memory_takes_a_smaller_share(
    tmp_path: Path, python: Path, model: Path, type_: str
) -> None:
    write_config(tmp_path, type_, python, model, gpu_memory_utilization=0.9)
    with memory_held(python, 0.4):
        done = run(tmp_path, "ladder", CUDA_VISIBLE_DEVICES="0")

    printed = done.stdout + done.stderr
    assert "ran out of memory with gpu_memory_utilization 0.9; trying 0.7" in printed
    assert "ran out of memory with gpu_memory_utilization 0.7; trying 0.5" in printed
    assert len(answers(tmp_path, "ladder")) == ROWS


@pytest.mark.parametrize("type_", ["vllm", "vllm_native"])
def test_two_replicas_share_the_requests(
    tmp_path: Path, gpus: list[str], python: Path, model: Path, type_: str
) -> None:
    # With one GPU both are on it, each with a part of its memory.
    visible, share = ("0,1", 0.8) if len(gpus) > 1 else ("0,0", 0.35)
    write_config(tmp_path, type_, python, model, replicas=2, gpu_memory_utilization=share, max_concurrency=8)
    run(tmp_path, "two", CUDA_VISIBLE_DEVICES=visible)

    assert len(answers(tmp_path, "two")) == ROWS
    logs = sorted(path.stem for path in (tmp_path / ".gage" / "runs" / "two" / "engines").iterdir())
    assert logs == [f"{type_}-0", f"{type_}-1"]


@pytest.mark.parametrize("type_", ["vllm", "vllm_native"])
def test_a_model_over_two_gpus_answers_as_on_one(
    tmp_path: Path, gpus: list[str], python: Path, even_model: Path, type_: str
) -> None:
    if len(gpus) < 2:
        pytest.skip(f"needs two GPUs for tensor parallelism, and here is one ({gpus[0]})")
    rows = []
    for size in (1, 2):
        folder = tmp_path / f"over-{size}"
        folder.mkdir()
        write_config(folder, type_, python, even_model, tensor_parallel_size=size)
        run(folder, "parallel")
        rows.append(answers(folder, "parallel"))
    assert alike(*rows) >= 0.9


def test_throughput_is_that_of_vllms_own_benchmark(python: Path, model: Path) -> None:
    engine = {"dtype": "bfloat16", "max_model_len": 2048}
    command = [sys.executable, "-m", "bench.vllm", "--python", str(python), "--model", str(model)]
    command += ["--engine", json.dumps(engine), "--prompts", "4000", "--output-len", "128", "--minutes", "10"]
    done = subprocess.run(
        [*command, "--page", str(PAGE)], cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
