"""A task of the lm-eval harness: its own command against ``gage suite lm-eval:``, at the same endpoint."""

import json
import shutil
from pathlib import Path

from bench.figures import Figure
from bench.process import BenchFailed, mock, run

_ROWS, _IN_FLIGHT = 1319, 64


def lm_eval_task(folder: Path, repeats: int) -> list[Figure]:
    """gsm8k with five examples, as chats: both commands from start to end, in turns."""
    task = _task(folder)
    theirs, first, again = [], [], []
    with mock("--latency-ms", "50") as endpoint:
        url = f"{endpoint.url}/chat/completions"
        model = f"model=mock,base_url={url},num_concurrent={_IN_FLIGHT},max_retries=3"
        harness = ["-m", "lm_eval", "run", "--model", "local-chat-completions", "--model_args", model]
        harness += ["--tasks", "local", "--include_path", str(task.parent), "--apply_chat_template"]
        harness += ["--fewshot_as_multiturn", "true"]
        ours = ["-m", "gage_eval", "suite", f"lm-eval:{task},chat=true", "--model", "mock", "--endpoint", endpoint.url]
        ours += ["--concurrency", str(_IN_FLIGHT), "--inline", "--store", str(folder / "store")]
        for number in range(repeats):
            for written in ("store", "cache"):
                shutil.rmtree(folder / written, ignore_errors=True)
            env = {"GAGE_EVAL_DATA_CACHE": str(folder / "cache"), "HF_HOME": str(folder / "hf")}
            theirs.append(run(harness, folder, env).wall_s)
            first.append(run(ours, folder, env).wall_s)
            # The documents are stored, and all answers are asked for again.
            again.append(run([*ours, "--freshness", str(number)], folder, env).wall_s)
        if endpoint.answered() != 3 * repeats * _ROWS:
            raise BenchFailed(f"{endpoint.answered()} requests were answered instead of {3 * repeats * _ROWS}")
    return [
        Figure("lm_eval", "s", theirs),
        Figure("gage suite", "s", first),
        Figure("gage suite, stages 1 to 3 cached", "s", again),
        Figure("lm_eval ÷ gage suite", "×", [a / b for a, b in zip(theirs, first, strict=True)], 2.0, "≥"),
        Figure(
            "lm_eval ÷ gage suite, stages 1 to 3 cached",
            "×",
            [a / b for a, b in zip(theirs, again, strict=True)],
            5.0,
            "≥",
        ),
    ]


def _task(folder: Path) -> Path:
    """gsm8k on made rows, in a file of its user."""
    data = folder / "gsm8k.jsonl"
    rows = ({"question": f"What is {n} + 1?", "answer": f"It is {n + 1}. #### {n + 1}"} for n in range(_ROWS))
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    source = {"dataset_path": "json", "dataset_name": None}
    files = {"data_files": {"train": str(data), "test": str(data)}}
    place = folder / "task"
    place.mkdir(exist_ok=True)
    file = place / "local.yaml"
    # JSON is YAML.
    file.write_text(json.dumps({"group": "local", "task": [{"task": "gsm8k", **source, "dataset_kwargs": files}]}))
    return file
