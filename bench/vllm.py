"""``python -m bench.vllm``: compare vllm_native in a run with ``vllm bench throughput``.

Both use the same engine arguments, prompts and lengths. They run in pairs, in alternating order, as long as there is
time. The ratio is taken within a pair, because a temporary slow-down of the machine then affects both.
The time to load the model does not count, and both are warmed up. Our time includes all work of a run: rendering,
keys, the write-ahead log, chunks and the artifact.
"""

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.figures import Figure, commit, machine
from bench.page import cells, table
from bench.process import HERE, BenchFailed
from gage_eval.base.canonical import digest
from gage_eval.base.tables import RESPONSE_TELEMETRY, RESPONSES
from gage_eval.engine.generate import Generate
from gage_eval.engine.job import Job
from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.base import Backend, BackendContext
from gage_eval.models.client.types import Request
from gage_eval.stats import mean_stderr, t_interval
from gage_eval.store import Store

ROOT = HERE.parent
PAGE = ROOT / "docs" / "benchmarks-vllm.md"
# vLLM's command needs a distribution named `vllm`, but the build for CPUs has another name.
THEIRS = """
from vllm.benchmarks import throughput
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
throughput.add_cli_args(parser)
throughput.main(parser.parse_args())
"""
TARGET = 0.97
FEWEST_PAIRS = 3
# On a CPU: memory for the cache, and no compilation.
ON_CPU: dict[str, Any] = {"enforce_eager": True, "dtype": "bfloat16", "max_model_len": 1024}


def main() -> int:
    """Measure and write the page; 1 when the ratio is below its target."""
    parser = argparse.ArgumentParser(prog="python -m bench.vllm", description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=str(ROOT / ".venv-vllm" / "bin" / "python"), help="interpreter with vLLM")
    parser.add_argument("--model", default=str(ROOT / "build" / "smollm2-135m"), help="the model's folder")
    parser.add_argument("--engine", type=json.loads, default=ON_CPU, help="arguments of the engine, as JSON")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--words", type=int, default=96, help="words per prompt")
    parser.add_argument("--output-len", type=int, default=64, help="tokens per answer")
    parser.add_argument("--minutes", type=float, default=12, help=f"of all; at least {FEWEST_PAIRS} pairs are measured")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page with the figures")
    options = parser.parse_args()
    (HERE / "out").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=HERE / "out"))
    prompts = make_prompts(options.prompts, options.words)
    load = round(os.getloadavg()[0], 1)
    sides = [throughput_of_ours, throughput_of_vllm]
    pairs: list[dict[str, float]] = []
    began = time.monotonic()
    try:
        while len(pairs) < FEWEST_PAIRS or (time.monotonic() - began) * (1 + 1 / len(pairs)) <= options.minutes * 60:
            pairs.append({side.__name__: side(folder, options, prompts) for side in sides})
            sides.reverse()
            print({name: round(value) for name, value in pairs[-1].items()}, flush=True)
    except BenchFailed as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder)
    ours, theirs = ([pair[side.__name__] for pair in pairs] for side in (throughput_of_ours, throughput_of_vllm))
    return record(options, ours, theirs, load)


def make_prompts(count: int, words: int) -> list[str]:
    """Prompts with different beginnings, the same ones every time."""
    chosen = random.Random(0)
    known = [
        "".join(chosen.choice(pair) for pair in ("bdgklmnprst", "aeiou") * chosen.randint(1, 3)) for _ in range(500)
    ]
    return [" ".join(chosen.choice(known) for _ in range(words)) for _ in range(count)]


def environment() -> dict[str, str]:
    """The environment of the engine, the same for both."""
    return {"VLLM_CPU_KVCACHE_SPACE": "2"}


def throughput_of_vllm(folder: Path, options: argparse.Namespace, prompts: Sequence[str]) -> float:
    """Tokens per second (prompts and answers) in vLLM's own benchmark."""
    data, result = folder / "prompts.json", folder / "result.json"
    pair = [{"conversations": [{"value": prompt}, {"value": "answer"}]} for prompt in prompts]
    data.write_text(json.dumps(pair))
    flags = [
        *("--backend", "vllm", "--dataset-name", "sharegpt", "--dataset-path", str(data)),
        *("--output-len", str(options.output_len), "--num-prompts", str(len(prompts))),
        *("--num-warmups", str(warm_up(prompts)), "--model", options.model, "--output-json", str(result)),
    ]
    for name, value in options.engine.items():
        flags += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    done = subprocess.run(
        [options.python, "-c", THEIRS, *flags],
        env={**os.environ, **environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BenchFailed(f"vllm bench throughput ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return float(json.loads(result.read_text())["tokens_per_second"])


def throughput_of_ours(folder: Path, options: argparse.Namespace, prompts: Sequence[str]) -> float:
    """Tokens per second (prompts and answers) of a generate step."""
    params = {"temperature": 1.0, "max_new_tokens": options.output_len, "ignore_eos": True}
    config = {"model_path": options.model, "python": options.python, "env": environment(), **options.engine}
    store = Store.open(str(Path(tempfile.mkdtemp(dir=folder))))
    with Runtime() as runtime:
        backend = runtime.backend("vllm_native", config, BackendContext(ROOT))
        _generate(runtime, store, backend, Prompts(list(reversed(prompts))[: warm_up(prompts)], params), "warm-up")
        began = time.perf_counter()
        tokens = _generate(runtime, store, backend, Prompts(prompts, params), "measured")
        return tokens / (time.perf_counter() - began)


def warm_up(prompts: Sequence[str]) -> int:
    """Number of warm-up requests."""
    return max(1, len(prompts) // 8)


class Prompts:
    """A source of completion requests (`gage_eval.engine.job.Source`)."""

    def __init__(self, prompts: Sequence[str], params: dict[str, Any]) -> None:
        self._prompts = prompts
        self._params = params
        self.parts = [(0, len(prompts))]

    def open(self, part: int) -> "Prompts":
        """The only part."""
        return self

    def render(self, start: int, stop: int) -> list[Request]:
        return [
            Request("completion", prompt=self._prompts[row], params=self._params, sample_id=str(row), row_index=row)
            for row in range(start, stop)
        ]


def _generate(runtime: Runtime, store: Store, backend: Backend, source: Prompts, name: str) -> int:
    """Run a generate step. Returns the number of tokens of prompts and answers."""
    key = digest(name)
    responses, telemetry = store.writer(RESPONSES), store.writer(RESPONSE_TELEMETRY)
    job = Job(source, backend, digest(name), store, store.wip(key), store.scratch(key), responses, telemetry)
    runtime.call(Generate(job).run())
    telemetry.commit()
    made = responses.commit().table(columns=["status", "prompt_tokens", "completion_tokens"])
    if set(made["status"].to_pylist()) != {"truncated"}:
        raise BenchFailed(f"every answer should reach its token limit: {made['status'].value_counts().to_pylist()}")
    return sum(int(tokens) for name in ("prompt_tokens", "completion_tokens") for tokens in made[name].to_pylist())


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the geometric mean, by Student's t."""
    mean, stderr = mean_stderr([math.log(ratio) for ratio in ratios])
    assert mean is not None
    ends = t_interval(mean, stderr, len(ratios) - 1)
    assert ends is not None, "there are several pairs"
    return math.exp(ends[0]), math.exp(ends[1])


def gpus() -> str:
    """The machine's NVIDIA GPUs for the page; empty without any."""
    if shutil.which("nvidia-smi") is None:
        return ""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    names = done.stdout.split("\n")[:-1] if done.returncode == 0 else []
    return f", {', '.join(names)}" if names else ""


def record(options: argparse.Namespace, ours: list[float], theirs: list[float], load: float) -> int:
    """Print and write the page."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    ratio = Figure("ours / vLLM's own", "×", ratios, TARGET, "≥")
    low, high = interval(ratios)
    figures = [
        Figure("vllm bench throughput", "tokens/s", theirs),
        Figure("vllm_native, fed by a run", "tokens/s", ours),
        ratio,
    ]
    case = {
        "title": f"{options.prompts:,} prompts of {options.words} words, {options.output_len} tokens of answer each",
        "figures": [figure.to_json() for figure in figures],
    }
    print(table(case))
    text = f"95 % interval of the ratio over {len(ratios)} pairs: {low:.3f} to {high:.3f}."
    print(text)
    here = machine()
    lines = [
        "# vLLM: throughput",
        "",
        "The backend `vllm_native` against vLLM's own throughput benchmark, with the same engine arguments,",
        "prompts and lengths. The time to load the model is not counted. Both are warmed up, run in pairs, and",
        "take turns to go first. Our time includes all that a run does with a row: rendering, keys, the",
        "write-ahead log, chunks, the artifact.",
        "",
        "Tokens are those of prompts and answers. A figure is the median; the smallest and the largest value are",
        "in brackets. The ratio is that of the two runs of a pair. A load average well above zero means that",
        "others used the machine, so the two runs of a pair may not have had the same conditions.",
        "",
        "`make bench-vllm` writes this page. To measure another model or other engine arguments: `python -m",
        "bench.vllm --model … --engine '{…}'`.",
        "",
        f"Machine: {here['cores']} cores of {here['cpu']}, {here['memory_gib']} GiB{gpus()}. Engine: "
        f"`{json.dumps(options.engine)}`, model {Path(options.model).name}.",
        "",
        f"## {case['title']}",
        "",
        "| | measured | target | |",
        "|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(cells(figure.to_json()))} |" for figure in figures]
    how = f"{text} {datetime.now(UTC):%Y-%m-%d}, commit {commit()}, load average before {load:g}."
    lines += ["", how]
    options.page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0 if ratio.met else 1


if __name__ == "__main__":
    sys.exit(main())
