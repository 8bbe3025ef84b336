"""``python -m bench.piqa``: compare PIQA log-likelihoods with the lm-eval harness, row by row.

Both use the same checkpoint, questions, dtype and library: the harness with its transformers model in its own
environment, and ``gage run`` with the backend `transformers`. Compares plain prompts and the model's chat template.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from bench.figures import commit, machine
from bench.process import HERE, BenchFailed, environment
from gage_eval.store import Store

ROOT = HERE.parent
PAGE = ROOT / "docs" / "benchmarks-lm-eval.md"
METRICS = ("acc", "acc_norm")
# Both compute in float32 with batches of different shape. So a sum of a few dozen log probabilities differs by this.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Row:
    """One question: the log-likelihoods of its two solutions, and whether the better one is right."""

    ll: list[float]
    acc: float
    acc_norm: float


@dataclass(frozen=True)
class Comparison:
    """The results of both sides on the same questions."""

    chat: bool
    ours: list[Row]
    theirs: list[Row]

    @property
    def differing(self) -> list[int]:
        """Rows with a different value of a metric."""
        pairs = zip(self.ours, self.theirs, strict=True)
        return [
            row
            for row, (own, other) in enumerate(pairs)
            if any(getattr(own, name) != getattr(other, name) for name in METRICS)
        ]

    @property
    def furthest(self) -> float:
        """The largest difference between two log-likelihoods, in nats."""
        pairs = zip(self.ours, self.theirs, strict=True)
        return max(abs(a - b) for own, other in pairs for a, b in zip(own.ll, other.ll, strict=True))


def main() -> int:
    """Compare and write the page; 1 when a row differs."""
    options = arguments()
    (HERE / "out").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=HERE / "out"))
    try:
        write_data(options, folder)
        write_data(options, folder, chat=True)
        with ThreadPoolExecutor(options.jobs) as pool:
            calls = [(options, folder, chat) for chat in (False, True)]
            jobs = [(pool.submit(run_harness, *each), pool.submit(run_ours, *each)) for each in calls]
            comparisons = [
                Comparison(chat, ours.result(), theirs.result()[0])
                for (_, _, chat), (theirs, ours) in zip(calls, jobs, strict=True)
            ]
            versions = jobs[0][0].result()[1]
        for compared in comparisons:
            print("\n".join(lines_of(compared)))
    except BenchFailed as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder)
    agree = not any(comparison.differing or comparison.furthest > TOLERANCE for comparison in comparisons)
    write_page(options, comparisons, versions)
    return 0 if agree else 1


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.piqa", description=__doc__.splitlines()[0])
    data = os.environ.get("LOCAL_DATASETS_ROOT", "local-datasets")
    parser.add_argument("--data", type=Path, default=Path(data) / "piqa", help="folder of valid.jsonl and its labels")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--chat-rows", type=int, default=100, help="rows that are also compared in the chat template")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=2, help="computations at the same time, of four")
    parser.add_argument("--model", type=Path, default=ROOT / "build" / "smollm2-135m", help="the model's folder")
    parser.add_argument(
        "--python", default=str(ROOT / ".venv-vllm" / "bin" / "python"), help="Python with transformers"
    )
    parser.add_argument("--lm-eval", default=str(ROOT / ".venv-lm-eval" / "bin" / "python"), help="Python with lm-eval")
    options = parser.parse_args()
    if not (options.data / "valid.jsonl").is_file():
        parser.error(f"no valid.jsonl in '{options.data}': name PIQA's folder with --data, or set LOCAL_DATASETS_ROOT")
    return options


def write_data(options: argparse.Namespace, folder: Path, *, chat: bool = False) -> None:
    """Write the first questions, with and without their labels."""
    count = options.chat_rows if chat else options.rows
    with (options.data / "valid.jsonl").open() as file:
        records = list(islice(file, count))
    with (options.data / "valid-labels.lst").open() as file:
        labels = list(islice(file, count))
    with (folder / docs(chat)).open("w") as out:
        for record, label in zip(records, labels, strict=True):
            out.write(json.dumps({**json.loads(record), "label": int(label)}) + "\n")


def docs(chat: bool) -> str:
    """The name of the file with the questions."""
    return "chat.jsonl" if chat else "plain.jsonl"


def run_harness(options: argparse.Namespace, data: Path, chat: bool) -> tuple[list[Row], dict[str, str]]:
    """The harness's rows, and the versions of its packages."""
    folder = Path(tempfile.mkdtemp(dir=data))
    settings = {
        "model": str(options.model.resolve()),
        "dtype": options.dtype,
        "batch_size": options.batch_size,
        "device": options.device,
        "docs": str(data / docs(chat)),
        "chat": chat,
    }
    (folder / "input.json").write_text(json.dumps(settings))
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "hf")}
    command([options.lm_eval, "-P", str(HERE / "harness.py"), str(folder)], folder, offline)
    results = json.loads((folder / "output.json").read_text())
    return [Row(**row) for row in results["rows"]], results["versions"]


def run_ours(options: argparse.Namespace, data: Path, chat: bool) -> list[Row]:
    """Our rows, from the artifacts of a run."""
    folder = Path(tempfile.mkdtemp(dir=data))
    backend = {
        "model_path": str(options.model.resolve()),
        # Not resolved: Python finds its environment by the path of this link.
        "python": os.path.abspath(options.python),
        "dtype": options.dtype,
        "batch_size": options.batch_size,
        "device": options.device,
        "threads": 1,
        # No timeout on a busy machine.
        "timeout": 86_400,
    }
    config = {
        "datasets": [
            {
                "dataset_id": "piqa",
                "params": {
                    "path": str(data / docs(chat)),
                    "preprocess": "piqa",
                    "preprocess_kwargs": {"template": "Question: {{ question }}\nAnswer:"},
                },
            }
        ],
        "backends": [{"backend_id": "model", "type": "transformers", "config": backend}],
        "metrics": list(METRICS),
        "tasks": [{"task_id": "piqa", "dataset_id": "piqa", "mode": "chat_likelihood" if chat else "likelihood"}],
    }
    # JSON is YAML.
    (folder / "run.yaml").write_text(json.dumps(config))
    gage = [sys.executable, "-m", "gage_eval", "run", "run.yaml", "--inline", "--run-id", "r"]
    command(gage, folder, {"PYTHONPATH": str(ROOT)})
    return rows_of(folder)


def rows_of(folder: Path) -> list[Row]:
    """The stored rows of the run, in the dataset's order."""
    store = Store.open(str(folder / ".gage"), read_only=True)
    stages = json.loads((folder / ".gage" / "runs" / "r" / "run.json").read_text())["stages"]
    responses = store.artifact(stages["piqa/infer"]["outputs"]["responses"]).table(columns=["row_index", "logprobs"])
    by_index: dict[int, dict[str, Any]] = {
        row["row_index"]: {"ll": [float(choice["ll"]) for choice in json.loads(row["logprobs"])["choices"]]}
        for row in responses.to_pylist()
    }
    metrics = store.artifact(stages["piqa/auto_eval"]["outputs"]["metrics"]).table().to_pylist()
    for metric in metrics:
        for row in store.artifact(metric["scores"]).table().to_pylist():
            by_index[row["row_index"]].update(row["values"])
    return [Row(**by_index[index]) for index in sorted(by_index)]


def command(arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
    """Run a process and wait for it.

    Raises:
        BenchFailed: the process failed; the message ends with its last lines.
    """
    done = subprocess.run(
        arguments, cwd=folder, env={**environment(), **env}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BenchFailed(f"{' '.join(arguments)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")


def lines_of(compared: Comparison) -> list[str]:
    """The comparison as a section of the page."""
    count = len(compared.ours)
    lines = [
        f"## {'In the chat template' if compared.chat else 'Plain text'}, {count} rows",
        "",
        "| | lm-eval | gage-eval | rows that agree |",
        "|---|---|---|---|",
    ]
    for name in METRICS:
        theirs, ours = ([getattr(row, name) for row in rows] for rows in (compared.theirs, compared.ours))
        same = sum(a == b for a, b in zip(theirs, ours, strict=True))
        lines.append(f"| `{name}` | {sum(theirs) / count:.3f} | {sum(ours) / count:.3f} | {same} of {count} |")
    lines += ["", f"Log-likelihoods differ by {compared.furthest:.1e} nats at most."]
    for row in compared.differing:
        own, other = compared.ours[row], compared.theirs[row]
        lines.append(f"- Row {row}: log-likelihoods {own.ll} here, {other.ll} there.")
    return lines


def write_page(options: argparse.Namespace, comparisons: Sequence[Comparison], versions: Mapping[str, str]) -> None:
    """docs/benchmarks-lm-eval.md."""
    here = machine()
    lines = [
        "# Log-likelihoods: lm-eval and ours, row by row",
        "",
        f"The first validation questions of PIQA, 0-shot, with {options.model.name} in {options.dtype}: the lm-eval",
        "harness with its `hf` model against `gage run` with the backend `transformers`. A row agrees when both choose",
        "the same solution. `acc_norm` divides by the characters of a solution. Log-likelihoods differ in their last",
        "digits, because the two form other batches.",
        "",
        "`make bench-piqa` writes this page. It installs lm-eval into a separate environment and needs PIQA in",
        "`LOCAL_DATASETS_ROOT/piqa`.",
        "",
    ]
    for compared in comparisons:
        lines += [*lines_of(compared), ""]
    lines += [
        f"Versions: {', '.join(f'{name} {number}' for name, number in sorted(versions.items()))}. "
        f"{here['cores']} cores of {here['cpu']}, {datetime.now(UTC):%Y-%m-%d}, commit {commit()}.",
    ]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
