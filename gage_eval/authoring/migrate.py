"""``gage migrate``: a config of another tool as ours, with a report of each key."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gage_eval.authoring.migrate_promptfoo import migrate_promptfoo
from gage_eval.authoring.migration import Migration, keys_of
from gage_eval.base.canonical import decode
from gage_eval.base.errors import InputError, closest
from gage_eval.base.files import closest_file
from gage_eval.config.compose import other_tool
from gage_eval.config.legacy_names import BACKENDS, CONVERTERS, FIRST_VERSIONS_CONVERTERS, PREPROCESSORS
from gage_eval.config.secrets import scrub
from gage_eval.config.yaml.lines import MAX_BYTES, Node, as_written, parse
from gage_eval.config.yaml.lines import Mapping as YamlMapping
from gage_eval.config.yaml.nodes import child, text_of

_MOST_ROWS_BYTES = 512 * 2**20
_ADAPTERS = "gage_eval.role.adapters."
# Keys of llm-eval that name the data, and the scripts of its tasks with our metric.
_DATA = ("data_path", "dataset_path", "data_file", "input_file")
_TASKS = {"mmmu": "mmmu_accuracy", "docvqa": "docvqa_anls"}


def migrate(file: Path, tool: str | None = None) -> Migration:
    """Read a config of another tool.

    Args:
        file: the config; for OpenAI Evals, the file of samples.
        tool: one of `TOOLS`, told by the content unless given.

    Returns:
        Our config with a report. Secrets are masked by the rules for configs.

    Raises:
        InputError: it cannot be read, its tool is not known, or nothing of it can be mapped.
        ConfigError: it is not YAML.
    """
    if tool is not None and tool not in TOOLS:
        raise InputError(f"--from '{tool}' is unknown: {', '.join(TOOLS)}.{closest(tool, TOOLS)}")
    if not file.is_file():
        raise InputError(f"there is no file '{file}'.{closest_file(file)}")
    rows = file.suffix in (".jsonl", ".ndjson")
    most = _MOST_ROWS_BYTES if rows else MAX_BYTES
    try:
        if file.stat().st_size > most:
            raise InputError(f"'{file.name}' has more than {most >> 20} MiB.")
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"'{file.name}' cannot be read: {reason}.") from error
    if rows:
        if tool not in (None, "openai-evals"):
            raise InputError(f"'{file.name}' has rows, and configs of {tool} are YAML.")
        made = _openai_evals(text, file.name)
    else:
        tree = parse(text, file.name)
        if not isinstance(tree, YamlMapping):
            raise InputError(f"'{file.name}' is not a config: it has no keys.")
        tool_name = tool or other_tool(text) or ("gage" if child(tree, "datasets") is not None else None)
        if tool_name is None or tool_name not in _OF_TREES:
            known = ", ".join(TOOLS)
            raise InputError(f"'{file.name}' is of no tool that can be migrated ({known}); name it with --from.")
        made = _OF_TREES[tool_name](tree)
    made.config, made.files = scrub(made.config), scrub(made.files)
    return made


def _gage(tree: Node) -> Migration:
    """A config of the first architecture: names that are read are replaced, and keys that must change are changed."""
    made = Migration("gage", as_written(tree))
    config: dict[str, Any] = made.config
    for item, node in _items(config, tree, "metrics"):
        _renamed(item, node, "implementation", {"rouge_l": "rouge"}, made)
    for item, node in _backends(config, tree):
        _renamed(item, node, "type", BACKENDS, made)
        own, inner = item.get("config"), child(node, "config")
        if isinstance(own, dict):
            for key, line, _ in keys_of(inner):
                if key == "max_pixels":
                    pixels = own.pop(key)
                    for dataset, _ in _items(config, tree, "datasets"):
                        params = dataset.setdefault("params", {})
                        if isinstance(params, dict):
                            params["image_max_pixels"] = pixels
                    made.changed(line, key, "image_max_pixels of every dataset")
                elif key == "model_name_or_path" and "model_path" not in own:
                    own["model_path"] = own.pop(key)
                    made.mapped(line, key, "model_path")
    for adapter, node in _items(config, tree, "role_adapters"):
        if str(adapter.get("class_path", "")).startswith(_ADAPTERS):
            del adapter["class_path"]
            made.mapped(_line(node, "class_path"), "class_path", "role_type says what the adapter does")
    for dataset, node in _items(config, tree, "datasets"):
        params = dataset.get("params")
        if isinstance(params, dict):
            _renamed(params, child(node, "params"), "preprocess", PREPROCESSORS, made)
            converters = {
                f"{FIRST_VERSIONS_CONVERTERS}{mark}{name}": own for name, own in CONVERTERS.items() for mark in ":."
            }
            for key in ("doc_to_visual", "doc_to_audio"):
                _renamed(params, child(node, "params"), key, converters, made)
    touched = {finding.key for finding in made.findings}
    for key, line, _ in keys_of(tree):
        if key not in touched:
            made.mapped(line, key, "the same")
    return made


def _items(config: dict[str, Any], tree: Node, section: str) -> list[tuple[dict[str, Any], Node | None]]:
    listed = config.get(section)
    listed = listed if isinstance(listed, list) else []
    pairs = [(item, child(child(tree, section), place)) for place, item in enumerate(listed)]
    return [(item, node) for item, node in pairs if isinstance(item, dict)]


def _backends(config: dict[str, Any], tree: Node) -> list[tuple[dict[str, Any], Node | None]]:
    """The backends, also those that stand in an adapter."""
    inner = [(item.get("backend"), child(node, "backend")) for item, node in _items(config, tree, "role_adapters")]
    return _items(config, tree, "backends") + [(item, node) for item, node in inner if isinstance(item, dict)]


def _line(node: Node | None, key: str) -> int:
    return next((line for name, line, _ in keys_of(node) if name == key), 0)


def _renamed(item: dict[str, Any], node: Node | None, key: str, names: Mapping[str, str], made: Migration) -> None:
    value = item.get(key)
    if isinstance(value, str) and value in names:
        item[key] = names[value]
        made.mapped(_line(node, key), key, f"{value} is {names[value]}")


def _llm_eval(tree: Node) -> Migration:
    """A config of llm-eval: the model, the judge, the task and the data; other keys are listed."""
    made = Migration("llm-eval")
    model, judge, task = (text_of(child(tree, name)) for name in ("model_path", "judge_model_path", "task_name"))
    if model is None:
        raise InputError("it has no 'model_path', which names the model in configs of llm-eval.")
    data = next((text_of(child(tree, name)) for name in _DATA if child(tree, name) is not None), None)
    kind = next((name for name in _TASKS if name in (task or "").lower()), None)
    for key, line, _ in keys_of(tree):
        if key == "model_path":
            made.changed(line, key, "a backend of type vllm, which runs on this machine")
        elif key == "judge_model_path":
            made.changed(line, key, "a judge with a prompt of your own; write the prompt and a metric judge_score")
        elif key == "task_name" and kind is not None:
            made.mapped(line, key, f"metric {_TASKS[kind]}")
        elif key in _DATA and text_of(child(tree, key)) == data:
            made.changed(line, key, "the dataset; look at its fields with: gage preview config.yaml")
        else:
            made.left(line, key, "is not known; see docs/migrate/llm-eval.md for what configs here have")
    if data is None:
        made.left(0, "data", "no key names the data: write their file in place of data.jsonl")
    name = task if task and task.replace("_", "").replace("-", "").isalnum() else "task"
    adapters = [{"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"}]
    backends = [{"backend_id": "model", "type": "vllm", "config": {"model_path": model}}]
    if judge is not None:
        backends.append({"backend_id": "judge", "type": "vllm", "config": {"model_path": judge}})
        adapters.append({"adapter_id": "judge", "role_type": "judge_model", "backend_id": "judge"})
    made.config = {
        "datasets": [{"dataset_id": name, "params": {"path": data or "data.jsonl"}}],
        "backends": backends,
        "role_adapters": adapters,
        "metrics": [_TASKS[kind] if kind else "exact_match"],
    }
    return made


def _openai_evals(text: str, source: str) -> Migration:
    """Samples of OpenAI Evals: ``input`` and ``ideal``, scored as its class Match does."""
    made = Migration("openai-evals")
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            sample = decode(line)
        except ValueError as error:
            raise InputError(f"line {number} of '{source}' is not JSON: {error}.") from error
        question, ideal = (sample.get("input"), sample.get("ideal")) if isinstance(sample, dict) else (None, None)
        messages = [{"role": "user", "content": question}] if isinstance(question, str) else question
        answers = ideal if isinstance(ideal, list) else [ideal]
        if not isinstance(messages, list) or not messages or not all(isinstance(answer, str) for answer in answers):
            made.left(number, "sample", "it has no 'input' with an 'ideal' text or list of texts")
            continue
        for key in sample.keys() - {"input", "ideal"}:
            made.left(number, key, "is no part of a sample that Match reads")
        rows.append({"id": str(number), "messages": messages, "references": answers})
    if not rows:
        raise InputError(f"'{source}' has no sample with 'input' and 'ideal', as those of OpenAI Evals have.")
    made.mapped(1, "input, ideal", f"messages and references of {len(rows):,} samples")
    made.changed(0, "class", "the file names none: Match is meant; for Includes write contains(case_sensitive=true)")
    made.left(0, "model", "the file names none: write its endpoint and name in backends")
    made.files = {"samples.jsonl": rows}
    endpoint = {"base_url": "http://127.0.0.1:8000/v1", "model": "my-model"}
    made.config = {
        "datasets": [{"dataset_id": "evals", "params": {"path": "samples.jsonl"}}],
        "backends": [{"backend_id": "model", "type": "openai_http", "config": endpoint}],
        "metrics": [
            {
                "metric_id": "match",
                "implementation": "match",
                "params": {"location": "begin", "ignore_case": False, "label_field": "sample.label"},
            }
        ],
    }
    return made


_OF_TREES: Mapping[str, Callable[[Node], Migration]] = {
    "promptfoo": migrate_promptfoo,
    "llm-eval": _llm_eval,
    "gage": _gage,
}
TOOLS = (*_OF_TREES, "openai-evals")
"""The tools whose configs can be migrated."""
