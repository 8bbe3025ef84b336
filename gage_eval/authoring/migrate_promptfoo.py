"""Configs of promptfoo: providers, prompts with their variables, and the assertions that have a metric here."""

import json
import re
from typing import Any

from gage_eval.authoring.migration import Migration, is_text, keys_of
from gage_eval.base.canonical import canonical_text
from gage_eval.base.errors import InputError
from gage_eval.config.yaml.lines import Listing, Mapping, Node, as_written
from gage_eval.config.yaml.nodes import child, text_of

_FILE = re.compile(r"file://.*|\S+\.(txt|md|json|ya?ml|py|js|j2)(:\w+)?")
_TAG = re.compile(r"\{\{-?\s*([A-Za-z_]\w*)\s*-?\}\}")
_OPENAI = re.compile(r"openai:(?:chat:)?(?P<model>[^:]+)\Z")
_OLLAMA = re.compile(r"ollama:(?:chat:)?(?P<model>.+)\Z")
_SAMPLING = {
    "temperature": "temperature",
    "max_tokens": "max_new_tokens",
    "top_p": "top_p",
    "stop": "stop",
    "seed": "seed",
}
# Types of assertions: the metric, its parameters, and whether it reads the assertion's value as reference.
_METRICS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "equals": ("exact_match", {"case_sensitive": True, "strip_whitespace": False}, True),
    "contains": ("contains", {"case_sensitive": True}, True),
    "icontains": ("contains", {}, True),
    "contains-any": ("contains", {"case_sensitive": True}, True),
    "icontains-any": ("contains", {}, True),
    "contains-all": ("contains", {"case_sensitive": True}, True),
    "icontains-all": ("contains", {}, True),
    "starts-with": ("match", {"location": "begin", "ignore_case": False}, True),
    "is-json": ("json_valid", {}, False),
    "contains-json": ("json_valid", {"extract": True}, False),
}
_CHANGED = {
    "contains": "white space is collapsed before looking",
    "starts-with": "white space and punctuation at both ends do not count",
}
_MOST_TASKS = 200
# What promptfoo replaces in values: templates, and the names of files with content or code.
_REPLACED = re.compile(r"\{[{%#]|(?:\A|\")file://")


def migrate_promptfoo(tree: Node) -> Migration:
    """A config of promptfoo as ours: a task for each prompt, provider and set of assertions.

    Raises:
        InputError: no provider, prompt or test of it can be mapped.
    """
    made = Migration("promptfoo")
    backends, sampling = _providers(child(tree, "providers") or child(tree, "targets"), made)
    prompts = _prompts(child(tree, "prompts"), made)
    groups = _tests(tree, made)
    for what, items in (("providers", backends), ("prompts", prompts), ("tests", groups)):
        if not items:
            raise InputError(f"none of its {what} can be mapped, so there is no config to write.{_reasons(made)}")
    if len(backends) * len(prompts) * len(groups) > _MOST_TASKS:
        raise InputError(f"it would have more than {_MOST_TASKS} tasks; migrate a part of its tests.")
    known = {"providers", "targets", "prompts", "tests", "defaultTest", "description"}
    for key, line, _ in keys_of(tree):
        if key not in known:
            made.left(line, key, "has nothing like it here")
    datasets = [f"tests-{number}" for number in range(1, len(groups) + 1)]
    made.files = {f"{name}.jsonl": rows for name, (_, rows) in zip(datasets, groups, strict=True)}
    adapters = [
        {"adapter_id": f"{backend['backend_id']}-{prompt['prompt_id']}", "role_type": "dut_model"}
        | {"backend_id": backend["backend_id"], "prompt_id": prompt["prompt_id"]}
        for backend in backends
        for prompt in prompts
    ]
    made.config = {
        "metadata": {"name": "promptfoo", "description": text_of(child(tree, "description")) or "From promptfoo."},
        "datasets": [{"dataset_id": name, "params": {"path": f"{name}.jsonl"}} for name in datasets],
        "backends": backends,
        "prompts": prompts,
        "role_adapters": adapters,
        "tasks": [
            {
                "task_id": f"{name}-{adapter['adapter_id']}",
                "dataset_id": name,
                "adapter_id": adapter["adapter_id"],
                "metrics": metrics,
                **({"sampling_params": sampling[own]} if sampling.get(own := adapter["backend_id"]) else {}),
            }
            for adapter in adapters
            for name, (metrics, _) in zip(datasets, groups, strict=True)
        ],
    }
    return made


def _reasons(made: Migration) -> str:
    left = [
        f"line {finding.line}: {finding.key}: {finding.text}" for finding in made.findings if finding.state == "left"
    ][:3]
    return f" {'; '.join(left)}." if left else ""


def _providers(node: Node | None, made: Migration) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """The backends, and the sampling parameters of each."""
    backends: list[dict[str, Any]] = []
    sampling: dict[str, dict[str, Any]] = {}
    for item in node.items if isinstance(node, Listing) else [node] if is_text(node) else []:
        named = text_of(item if is_text(item) else child(item, "id")) or ""
        line = item.line if item is not None else 0
        config = {key: (at, value) for key, at, value in keys_of(child(item, "config"))}
        backend = _backend(named, text_of(config["apiBaseUrl"][1]) if "apiBaseUrl" in config else None)
        if backend is None:
            made.left(line, named or "providers", "this provider has no backend here; add one: gage list backends")
            continue
        backend_id = f"model-{len(backends) + 1}"
        backends.append({"backend_id": backend_id, **backend})
        made.mapped(line, named, f"backend '{backend_id}' of type {backend['type']}")
        for key, (at, value) in config.items():
            if key in _SAMPLING:
                sampling.setdefault(backend_id, {})[_SAMPLING[key]] = as_written(value)
                made.mapped(at, key, f"sampling_params.{_SAMPLING[key]} of its tasks")
            elif key == "apiKeyEnvar" and text_of(value):
                backend["config"]["api_key"] = f"env:{text_of(value)}"
                backends[-1] = {"backend_id": backend_id, **backend}
                made.mapped(at, key, f"api_key: env:{text_of(value)}")
            elif key == "apiBaseUrl":
                made.mapped(at, key, "base_url")
            else:
                made.left(at, key, "keys are never written into a config" if key == "apiKey" else "has no field here")
    return backends, sampling


def _backend(named: str, url: str | None) -> dict[str, Any] | None:
    if "{{" in named:
        return None
    if (matched := _OPENAI.match(named)) is not None:
        config = {"base_url": url or "https://api.openai.com/v1", "model": matched["model"]}
        return {"type": "openai_http", "config": config | ({} if url else {"api_key": "env:OPENAI_API_KEY"})}
    if (matched := _OLLAMA.match(named)) is not None:
        return {"type": "openai_http", "config": {"base_url": "http://127.0.0.1:11434/v1", "model": matched["model"]}}
    return {"type": "dummy", "config": {"mode": "echo"}} if named == "echo" else None


def _prompts(node: Node | None, made: Migration) -> list[dict[str, Any]]:
    prompts: list[dict[str, Any]] = []
    for item in node.items if isinstance(node, Listing) else [node] if is_text(node) else []:
        text = text_of(item if is_text(item) else child(item, "raw"))
        line = item.line if item is not None else 0
        if text is None or _FILE.fullmatch(text):
            made.left(line, "prompts", "a prompt in a file; put its text here and migrate again")
            continue
        template = _template(text)
        if template is None:
            made.left(line, "prompts", "this prompt uses more of the template language than names of variables")
            continue
        prompts.append({"prompt_id": f"prompt-{len(prompts) + 1}", "template": template})
        made.mapped(line, "prompts", f"prompt 'prompt-{len(prompts)}'; variables are sample.metadata.vars.NAME")
    return prompts


def _template(text: str) -> str | list[dict[str, str]] | None:
    """A prompt, or the messages that it holds as JSON; None where it uses more than names of variables."""
    if re.search(r"\{[%#]", text) or "{{" in _TAG.sub("", text):
        return None
    ours = _TAG.sub(r"{{ sample.metadata.vars.\1 }}", text)
    if not text.lstrip().startswith("["):
        return ours
    try:
        messages = json.loads(ours)
    except (ValueError, RecursionError):
        return ours
    if not all(isinstance(message, dict) and isinstance(message.get("content"), str) for message in messages):
        return None
    return [{"role": str(message.get("role")), "content": message["content"]} for message in messages]


def _tests(tree: Node, made: Migration) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """(metrics, rows) of the tests that have the same assertions."""
    node, default = child(tree, "tests"), child(tree, "defaultTest")
    if node is not None and not isinstance(node, Listing):
        made.left(node.line, "tests", "tests in a file; write them here as a list and migrate again")
        return []
    groups: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}
    _other_keys(default, made)
    for number, test in enumerate(node.items if isinstance(node, Listing) else []):
        if not isinstance(test, Mapping):
            made.left(test.line, "tests", "tests in a file; write them here as a list and migrate again")
            continue
        _other_keys(test, made)
        variables: dict[str, Any] = {}
        for part in (default, test):
            variables |= {key: as_written(value) for key, _, value in keys_of(child(part, "vars"))}
        listed = next((key for key, value in variables.items() if isinstance(value, list | dict)), None)
        if listed is not None:
            made.left(test.line, f"vars.{listed}", "a variable with several values is several tests; write them out")
            continue
        replaced = next((key for key, value in variables.items() if _REPLACED.search(_text(value))), None)
        if replaced is not None:
            made.left(test.line, f"vars.{replaced}", "a variable that is a template or a file; write its text")
            continue
        metrics: list[dict[str, Any]] = []
        expected: dict[str, Any] = {}
        for part in (default, test):
            asserts = child(part, "assert")
            for assertion in asserts.items if isinstance(asserts, Listing) else []:
                _assertion(assertion, metrics, expected, made)
        if not metrics:
            made.left(test.line, "tests", "a test without an assertion that has a metric here")
            continue
        shown = "\n".join(f"{name}: {_text(value)}" for name, value in variables.items())
        metadata = {"vars": {name: _text(value) for name, value in variables.items()}, "expected": expected}
        row = {"id": f"test-{number}", "messages": [{"role": "user", "content": shown}], "metadata": metadata}
        groups.setdefault(canonical_text(metrics), (metrics, []))[1].append(row)
    return list(groups.values())


def _text(value: Any) -> str:
    """A value as promptfoo writes it into a text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _other_keys(test: Node | None, made: Migration) -> None:
    for key, line, _ in keys_of(test):
        if key not in ("vars", "assert", "description"):
            made.left(line, key, "has nothing like it here; every assertion is a separate metric")


def _assertion(node: Node, metrics: list[dict[str, Any]], expected: dict[str, Any], made: Migration) -> None:
    """Add an assertion's metric, and its value as the reference."""
    kind, value = text_of(child(node, "type")) or "", child(node, "value")
    content = None if value is None else as_written(value)
    if _REPLACED.search(_text(content)):
        made.left(node.line, kind or "assert", "its value is a template or in a file; write it here")
        return
    if kind.endswith(("-any", "-all")) and isinstance(content, str):
        content = [part.strip() for part in content.split(",")]
    metric_id = re.sub(r"[^a-z0-9]+", "_", (text_of(child(node, "metric")) or kind).lower()).strip("_") or "score"
    if metric_id in {metric["metric_id"] for metric in metrics}:
        metric_id = f"{metric_id}_{len(metrics) + 1}"
    if kind == "regex" and isinstance(content, str):
        own: dict[str, Any] = {"implementation": "regex_match", "params": {"pattern": content}}
    elif kind == "is-json" and isinstance(content, dict):
        own = {"implementation": "json_schema", "params": {"schema": content, "extract": False}}
    elif (
        kind in _METRICS
        and (content is not None) == _METRICS[kind][2]
        and (not isinstance(content, list | dict) or (isinstance(content, list) and kind.endswith(("-any", "-all"))))
    ):
        implementation, params, reads = _METRICS[kind]
        place = {"label_field": f"sample.metadata.expected.{metric_id}"} if reads else {}
        own = {"implementation": implementation, "params": {**params, **place}}
        if kind.endswith("-all"):
            own["references"] = "all"
        if reads:
            expected[metric_id] = list(map(_text, content)) if isinstance(content, list) else _text(content)
    else:
        made.left(node.line, kind or "assert", "no metric here is this assertion; see gage list metrics")
        return
    metrics.append({"metric_id": metric_id, **own})
    change = _CHANGED.get(kind.removeprefix("i").partition("-a")[0])
    if change:
        made.changed(node.line, kind, f"metric {own['implementation']}: {change}")
    else:
        made.mapped(node.line, kind, f"metric {own['implementation']}")
    for key, line, _ in keys_of(node):
        if key not in ("type", "value", "metric"):
            made.left(line, key, "a metric has no weight, threshold or provider of its own row")
