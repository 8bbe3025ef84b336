"""Record what the lm-eval harness's own `hf` model says about rows of its tasks: ``make record-likelihoods``.

Run by the interpreter that has lm-eval and torch: ``python -m tests.vllm.record_harness MODEL FILE``. It imports
nothing of the package, because the two are compared.
"""

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.scoring.harness.local_tasks import write_group

TASKS = (
    *("piqa", "arc_easy", "hellaswag", "mmlu_global_facts", "truthfulqa_mc2", "wikitext", "winogrande"),
    *("lambada_openai", "ceval-valid_law", "own_mutual"),
)
ROWS = 6
# Tokens that the model takes: some rows are longer, so that windows and cuts are compared as well.
WINDOW = 96


def main() -> None:
    import torch
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    torch.set_num_threads(1)
    model = HFLM(pretrained=sys.argv[1], dtype="float32", batch_size=1, device="cpu", max_length=WINDOW)
    with tempfile.TemporaryDirectory() as folder:
        write_group(Path(folder), TASKS, ROWS)
        manager = TaskManager(include_path=folder)
        done = simple_evaluate(model, tasks=["local"], task_manager=manager, log_samples=True, bootstrap_iters=0)
    tasks = {
        task: [
            [_number(responses[0]) for responses in sample["resps"]]
            for sample in sorted(samples, key=lambda sample: sample["doc_id"])
            if sample["filter"] == samples[0]["filter"]
        ]
        for task, samples in done["samples"].items()
    }
    versions = {name: version(name) for name in ("lm-eval", "transformers", "torch")}
    text = json.dumps({"versions": versions, "tasks": tasks}).replace("]], ", "]],\n") + "\n"
    Path(sys.argv[2]).write_text(text, encoding="utf-8")


def _number(response: Any) -> float:
    """A log-likelihood, alone or beside whether it is greedy."""
    return round(float(response[0] if isinstance(response, tuple) else response), 6)


if __name__ == "__main__":
    main()
