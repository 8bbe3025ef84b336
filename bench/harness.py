"""Run the lm-eval harness on given documents and write log-likelihoods and scores row by row.

Run by the interpreter that has lm-eval: ``python -P bench/harness.py FOLDER``. Reads ``FOLDER/input.json``, ``{"model",
"dtype", "batch_size", "docs", "chat"}``, and writes ``FOLDER/output.json``, ``{"versions", "rows": [{"ll", "acc",
"acc_norm"}, …]}``. Downloads nothing, and imports nothing from
gage-eval, because the two are compared.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

TASK = "piqa_from_file"


def main() -> None:
    import torch
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    folder = Path(sys.argv[1])
    settings: dict[str, Any] = json.loads((folder / "input.json").read_text())
    task = {
        "task": TASK,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"validation": settings["docs"]}},
        "validation_split": "validation",
        "output_type": "multiple_choice",
        "doc_to_text": "Question: {{goal}}\nAnswer:",
        "doc_to_choice": "{{[sol1, sol2]}}",
        "doc_to_target": "label",
        "metric_list": [
            {"metric": name, "aggregation": "mean", "higher_is_better": True} for name in ("acc", "acc_norm")
        ],
    }
    # Several of these processes run at once.
    torch.set_num_threads(1)
    # JSON is YAML.
    (folder / f"{TASK}.yaml").write_text(json.dumps(task))
    model = HFLM(
        pretrained=settings["model"],
        dtype=settings["dtype"],
        batch_size=settings["batch_size"],
        device=settings["device"],
    )
    results = simple_evaluate(
        model,
        tasks=[TASK],
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        apply_chat_template=settings["chat"],
        log_samples=True,
        bootstrap_iters=0,
    )
    samples = sorted(results["samples"][TASK], key=lambda sample: sample["doc_id"])
    rows = [
        {
            "ll": [float(answer[0]) for answer in sample["filtered_resps"]],
            "acc": sample["acc"],
            "acc_norm": sample["acc_norm"],
        }
        for sample in samples
    ]
    versions = {name: version(name) for name in ("lm-eval", "transformers", "torch")}
    (folder / "output.json").write_text(json.dumps({"versions": versions, "rows": rows}))


if __name__ == "__main__":
    main()
