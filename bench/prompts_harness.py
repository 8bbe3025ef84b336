"""The lm-eval harness's prompts for documents of gage-eval.

Run by the interpreter that has lm-eval: ``python -P bench/prompts_harness.py FOLDER``. Reads ``FOLDER/asked.json``, a
list of ``{"task": YAML file below lm_eval/tasks, "docs": {split: JSONL file}, "samples": [...] or null, "num_fewshot",
"chat": bool, "multiturn": bool}``, and writes ``FOLDER/told.json``, ``{"version", "tasks": [{"version", "prompts":
[{"context" or "messages", "choices"}, …]}, …]}``. Nothing is downloaded. It knows nothing of the package, which it is
compared with.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

# The modules of these tasks need libraries or a checker that scoring takes, and prompts do not.
_NOT_IMPORTED = ("humaneval/", "ifeval/", "mbpp/")
_KEPT = (
    *("task", "output_type", "doc_to_text", "doc_to_target", "doc_to_choice", "target_delimiter", "fewshot_delimiter"),
    *("num_fewshot", "description", "fewshot_config", "generation_kwargs", "gen_prefix", "process_docs", "metadata"),
    *("test_split", "validation_split", "fewshot_split", "doc_to_image"),
)


def main() -> None:
    import lm_eval.tasks

    folder = Path(sys.argv[1])
    tasks: list[dict[str, Any]] = json.loads((folder / "asked.json").read_text())
    root = Path(lm_eval.tasks.__file__).parent
    told = {"version": version("lm-eval"), "tasks": [prompts_of(root, settings) for settings in tasks]}
    (folder / "told.json").write_text(json.dumps(told))


def prompts_of(root: Path, settings: dict[str, Any]) -> dict[str, Any]:
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks._yaml_loader import load_yaml

    path = root / settings["task"]
    loaded = load_yaml(path, resolve_func=not settings["task"].startswith(_NOT_IMPORTED))
    config = {key: loaded[key] for key in _KEPT if key in loaded}
    if settings["samples"] is not None:
        config["fewshot_config"] = {"sampler": "first_n", "samples": settings["samples"]}
    config |= {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": settings["docs"]},
        "metric_list": [{"metric": "acc" if config["output_type"] == "multiple_choice" else "exact_match"}],
    }
    for split in ("test_split", "validation_split", "fewshot_split"):
        if config.get(split) not in settings["docs"]:
            config.pop(split, None)
    if settings["num_fewshot"] is not None:
        config["num_fewshot"] = settings["num_fewshot"]
    task = ConfigurableTask(config=config)
    task.build_all_requests(
        apply_chat_template=settings["chat"],
        fewshot_as_multiturn=settings["multiturn"],
        chat_template=_as_json if settings["chat"] else None,
    )
    by_doc: dict[int, list[Any]] = {}
    for instance in task.instances:
        by_doc.setdefault(instance.doc_id, []).append(instance)
    prompts = [_prompt(instances, chat=settings["chat"]) for _, instances in sorted(by_doc.items())]
    return {"version": (loaded.get("metadata") or {}).get("version"), "prompts": prompts}


def _as_json(messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
    return json.dumps(messages)


def _prompt(instances: list[Any], *, chat: bool) -> dict[str, Any]:
    context = instances[0].args[0]
    if chat:
        messages, end = json.JSONDecoder().raw_decode(context)
        return {"messages": messages, "choices": None, "after": context[end:]}
    choices = [instance.args[1] for instance in instances] if instances[0].request_type == "loglikelihood" else None
    return {"context": context, "choices": choices}


if __name__ == "__main__":
    main()
