"""The process in which the lm-eval harness runs. It needs the distribution ``lm-eval`` and no torch.

It reads one JSON object per line and answers each with one, ``{"result": …}`` or ``{"error": sentence}``. Whatever else
the harness or a task prints goes to standard error.

Documents, few-shot examples, prompts, filters and the scores of a document are the harness's own code, called as
``lm_eval.evaluator`` of version 0.4.13 calls it.
"""

import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import digest
from gage_eval.base.errors import InputError, visible
from gage_eval.base.files import write_text
from gage_eval.scoring.harness.reads import CannotRun, Reads, yaml_files

# How the rows' values become one number, by the name of the harness's aggregation. Others are called with all rows.
_AGGREGATIONS = {
    "mean": "score",
    "perplexity": "perplexity",
    "weighted_perplexity": "perplexity",
    "bits_per_byte": "bits",
}
_BINARY = frozenset({"acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match"})
_DEFAULT_TOKENS = 256


class Harness:
    """The tasks that were loaded so far, each with its documents' sources as the key."""

    def __init__(self) -> None:
        self._tasks: dict[str, Any] = {}
        self._built: Any = None

    def names(self) -> dict[str, str]:
        """What may be asked for: ``task``, ``group`` or ``tag`` by name."""
        kinds = {"GROUP": "group", "TAG": "tag"}
        return {name: kinds.get(entry.kind.name, "task") for name, entry in _index().items()}

    def load(self, key: str, name: str, folder: str, data: Mapping[str, Any]) -> None:
        """Load what `score` is asked about.

        Args:
            key: the name for it from now on.
            name: of the harness, or the file of a task or group.
            folder: where the files of ``data`` are.
            data: as `sources.Sources` has them.
        """
        loader = _named(name)
        with Reads({}, data, Path(folder)).watched():
            self._tasks[key] = loader()["tasks"]

    def keep(self, key: str) -> None:
        """Give what was built last a name, as if it was loaded."""
        self._tasks[key] = self._built

    def build(
        self,
        name: str,
        folder: str,
        *,
        num_fewshot: int | None,
        seed: int,
        chat: bool,
        limit: int | None,
        pins: Mapping[str, str],
    ) -> dict[str, Any]:
        """Write the documents of a task, a group or a tag, one file for each task.

        Args:
            name: of the harness, or the file of a task or group.
            folder: where the files are written.
            num_fewshot: examples before a question; the task's own number unless given.
            seed: of the choice of examples.
            chat: messages in place of one text.
            limit: the first documents only.
            pins: the commits of data for which the task names none.

        Returns:
            ``tasks``, each with ``file`` and what its config needs, ``groups`` with the names of their tasks, ``files``
            and ``datasets`` that were read.

        Raises:
            CannotRun: a task asks for what is not there.
        """
        import numpy as np

        loader = _named(name)
        # As `simple_evaluate` begins.
        random.seed(0)
        np.random.seed(1234)
        reads = Reads(pins, {}, Path())
        with reads.watched():
            loaded = loader()
            facts = self._write(loaded["tasks"], folder, num_fewshot=num_fewshot, seed=seed, chat=chat, limit=limit)
        files = reads.files(Path(name) if name.endswith(".yaml") else None)
        # The tasks stay, because they score the answers.
        self._built = loaded["tasks"]
        groups = {group.name: [task.task_name for task in group.get_all_tasks()] for group in loaded["groups"].values()}
        return {"tasks": facts, "groups": groups, "files": files, "datasets": reads.datasets}

    def _write(
        self,
        tasks: Mapping[str, Any],
        folder: str,
        *,
        num_fewshot: int | None,
        seed: int,
        chat: bool,
        limit: int | None,
    ) -> list[dict[str, Any]]:
        facts = []
        for number, (task_name, task) in enumerate(tasks.items()):
            _set_fewshot(task, num_fewshot, seed)
            _check(task_name, task, chat=chat)
            # The template hands the messages through, as that of the harness's chat endpoints does.
            task.build_all_requests(
                limit=limit,
                apply_chat_template=chat,
                fewshot_as_multiturn=chat,
                chat_template=(lambda messages, **_: json.dumps(messages)) if chat else None,
            )
            _check_requests(task_name, task)
            file = f"{number}.jsonl"
            with open(Path(folder, file), "w", encoding="utf-8") as out:
                out.writelines(_line(task_name, row) + "\n" for row in _rows(task, chat=chat))
            hub = getattr(task, "DATASET_PATH", None)
            facts.append(
                {"name": task_name, "file": file, "hub": hub, "metrics": _metrics(task), **_asked(task, chat=chat)}
            )
            # The requests are written.
            task._instances = None
        return facts

    def score(self, key: str, task: str, document: Any, responses: list[Any]) -> dict[str, dict[str, Any]]:
        """The harness's values of one document, by filter and metric.

        Args:
            key: what was loaded.
            task: which of its tasks.
            document: as it was written.
            responses: one text, or ``[log-likelihood, is greedy]`` for each request.
        """
        from lm_eval.api.instance import Instance

        loaded = self._tasks[key][task]
        kind = "loglikelihood" if loaded.OUTPUT_TYPE == "multiple_choice" else loaded.OUTPUT_TYPE
        instances = [Instance(kind, document, (), place, (task, 0, 1)) for place, _ in enumerate(responses)]
        for instance, response in zip(instances, responses, strict=True):
            if loaded.OUTPUT_TYPE == "loglikelihood_rolling":
                instance.resps = [response[0]]
            else:
                instance.resps = [tuple(response) if isinstance(response, list) else response]
        for ensemble in loaded._filters:
            ensemble.apply(instances)
        return {
            ensemble.name: dict(
                loaded.process_results(document, [instance.filtered_resps[ensemble.name] for instance in instances])
            )
            for ensemble in loaded._filters
        }

    def aggregate(self, key: str, task: str, value: str, items: list[Any]) -> Any:
        """A number of all documents, by the harness's aggregation.

        Args:
            key: what was loaded.
            task: which of its tasks.
            value: the number's name.
            items: what `score` gave for it, in the order of the documents.
        """
        return self._tasks[key][task].aggregation()[value](items)


def _named(name: str) -> Callable[[], Any]:
    """Find a name of the harness, or a file, and give what loads its tasks and groups."""
    from lm_eval.tasks import TaskManager

    _keep_templates()
    manager, file, own = TaskManager(include_defaults=False), Path(name), name
    manager.task_index.update(_index())
    if file.suffix == ".yaml":
        entries = _entries(file.parent)
        manager.task_index.update(entries)
        # By its path the harness loads a file that is a task, but not one that is a group.
        own = next((entry.name for entry in entries.values() if entry.yaml_path == file), "")
        if not own:
            raise CannotRun(f"'{file.name}' is neither a task nor a group of the harness.")
    elif name not in manager.task_index:
        raise CannotRun(f"the harness has no task, group or tag '{name}'.")
    return partial(manager.load, own)


def _entries(folder: Path) -> dict[str, Any]:
    """What `TaskIndex.build` finds in a folder, without copies of tasks."""
    from lm_eval.tasks._index import TaskIndex
    from lm_eval.tasks._yaml_loader import load_yaml

    entries: dict[str, Any] = {}
    for file in yaml_files(folder):
        # A folder may have other files of YAML.
        with suppress(Exception):
            TaskIndex.process_cfg(load_yaml(file, resolve_func=False), file, entries)
    return entries


@cache
def _keep_templates() -> None:
    """Compile each template once. The harness does it for every document and example, which is most of its time."""
    from lm_eval.utils import env

    env.from_string = lru_cache(maxsize=1024)(env.from_string)


@cache
def _index() -> dict[str, Any]:
    """All tasks, groups and tags of the harness by name. Reading its 14,000 files takes 10 s, so it is kept."""
    from lm_eval.tasks import TaskManager
    from lm_eval.tasks._index import Entry, Kind

    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gage-eval")
    place = Path(sys.modules["lm_eval"].__file__ or "").parent
    kept = folder / f"lm-eval-{version('lm-eval')}-{digest(str(place))[:12]}.json"
    try:
        entries = json.loads(kept.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        entries = {
            name: [entry.kind.name, entry.yaml_path and str(entry.yaml_path), sorted(entry.tags)]
            for name, entry in TaskManager().task_index.items()
        }
        with suppress(OSError, InputError):
            write_text(kept, json.dumps(entries))
    return {
        name: Entry(name, Kind[kind], path and Path(path), None, set(tags))
        for name, (kind, path, tags) in entries.items()
    }


def _set_fewshot(task: Any, num_fewshot: int | None, seed: int) -> None:
    """As `lm_eval.evaluator.simple_evaluate` does it: a task that says 0 keeps it."""
    own = task.get_config("num_fewshot")
    if num_fewshot is not None and own != 0:
        task.set_config(key="num_fewshot", value=num_fewshot)
    elif own is None:
        task.set_config(key="num_fewshot", value=0)
    task.set_fewshot_seed(seed=seed)


def _check(name: str, task: Any, *, chat: bool) -> None:
    if not hasattr(task, "_filters"):
        raise CannotRun(f"task '{name}' is made by code without a config of the harness.")
    if getattr(task, "MULTIMODAL", False):
        raise CannotRun(f"task '{name}' sends images or sounds.")
    if getattr(task, "UNSAFE_CODE", False):
        raise CannotRun(f"task '{name}' runs the code of answers; the suites humaneval and mbpp do it in a box.")
    if (task.get_config("repeats") or 1) > 1:
        raise CannotRun(f"task '{name}' asks each question {task.get_config('repeats')} times and filters the answers.")
    if chat and task.OUTPUT_TYPE != "generate_until":
        raise CannotRun(f"task '{name}' compares log-likelihoods, which chats do not have here.")


def _check_requests(name: str, task: Any) -> None:
    kinds = {instance.request_type for instance in task.instances}
    if not kinds:
        raise CannotRun(f"task '{name}' has no documents.")
    expected = "loglikelihood" if task.OUTPUT_TYPE == "multiple_choice" else task.OUTPUT_TYPE
    if kinds != {expected}:
        raise CannotRun(f"task '{name}' is of type {expected}, and its code asks for {' and '.join(sorted(kinds))}.")
    if expected != "generate_until":
        return
    if len({instance.doc_id for instance in task.instances}) < len(task.instances):
        raise CannotRun(f"task '{name}' asks for several texts about one document.")
    if any(instance.arguments[1] != task.instances[0].arguments[1] for instance in task.instances):
        raise CannotRun(f"task '{name}' has other sampling parameters for each document.")


def _rows(task: Any, *, chat: bool) -> Iterator[dict[str, Any]]:
    """One sample for each document, in order, with what the harness asks about it."""
    by_document: dict[int, list[Any]] = {}
    for instance in task.instances:
        by_document.setdefault(instance.doc_id, []).append(instance)
    for number, instances in by_document.items():
        row: dict[str, Any] = {"id": str(number), "metadata": {"document": instances[0].doc}}
        context = instances[0].arguments[0]
        if task.OUTPUT_TYPE == "generate_until":
            row["messages"] = json.loads(context) if chat else [{"role": "user", "content": context}]
        elif task.OUTPUT_TYPE == "loglikelihood_rolling":
            row["messages"], row["options"] = [{"role": "user", "content": ""}], [{"id": "0", "content": context}]
        else:
            row |= _choices(task, [instance.arguments[:2] for instance in instances])
        yield row


def _line(name: str, row: dict[str, Any]) -> str:
    try:
        return json.dumps(row, default=_plain, allow_nan=False)
    except ValueError:
        raise CannotRun(f"document {row['id']} of task '{name}' holds a number that JSON lacks, such as NaN.") from None


def _choices(task: Any, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """The contexts and continuations of a document whose log-likelihoods are compared."""
    is_unconditioned = "acc_mutual_info" in getattr(task, "_metric_fn_list", ())
    choices = pairs[: len(pairs) // 2] if is_unconditioned else pairs
    contexts, endings = [context for context, _ in choices], [ending for _, ending in choices]
    has_inputs = bool(getattr(task, "multiple_input", 0))
    others = [("", ending) for ending in endings] if is_unconditioned else []
    if [*choices, *others] != pairs or (has_inputs and is_unconditioned):
        raise CannotRun(f"task '{task.task_name}' asks for log-likelihoods without a context in a way not known here.")
    if len(set(endings if has_inputs else contexts)) != 1:
        raise CannotRun(f"task '{task.task_name}' compares several contexts in a way that is not known here.")
    # Winogrande and its kin: the choices are in the texts, and one continuation follows each of them.
    fixed, options = (endings[0], contexts) if has_inputs else (contexts[0], endings)
    row: dict[str, Any] = {
        "messages": [{"role": "user", "content": fixed}],
        "options": [{"id": str(place), "content": option} for place, option in enumerate(options)],
    }
    return {**row, "unconditioned_input": ""} if is_unconditioned else row


def _asked(task: Any, *, chat: bool) -> dict[str, Any]:
    """The mode of a task's requests, and their sampling parameters."""
    if task.OUTPUT_TYPE != "generate_until":
        return {"mode": "partial_likelihood" if getattr(task, "multiple_input", 0) else "likelihood", "params": {}}
    # Tasks in Python classes have theirs in the requests only.
    own = dict(task.instances[0].arguments[1])
    until = own.pop("until", None) or []
    params = {
        "temperature": own.pop("temperature", 0),
        "max_new_tokens": own.pop("max_gen_toks", _DEFAULT_TOKENS),
        **({"stop": [until] if isinstance(until, str) else list(until)} if until else {}),
        **{key: value for key, value in own.items() if key != "do_sample"},
    }
    return {"mode": "chat" if chat else "completion", "params": params}


def _metrics(task: Any) -> list[dict[str, Any]]:
    """The numbers of a task."""
    import numpy as np
    from lm_eval.api.registry import AGGREGATION_REGISTRY

    names: dict[Callable[..., Any], str] = {function: name for name, function in AGGREGATION_REGISTRY.items()}
    metrics = []
    for name, function in task.aggregation().items():
        kind = _AGGREGATIONS.get("mean" if function is np.mean else names.get(function, ""), "corpus")
        if kind in ("score", "corpus") and not task.higher_is_better().get(name, True):
            kind = {"score": "loss", "corpus": "corpus_loss"}[kind]
        elif kind == "score" and name in _BINARY and task.get_config("process_results") is None:
            kind = "right"
        metrics += [{"value": name, "kind": kind, "filter": ensemble.name} for ensemble in task._filters]
    if not metrics:
        raise CannotRun(f"task '{task.task_name}' names no numbers.")
    return metrics


def _plain(value: Any) -> Any:
    """Numbers of numpy, dates and the like as JSON."""
    item = getattr(value, "tolist", None)
    return item() if item is not None else str(value)


def _answer(harness: Harness, request: Mapping[str, Any]) -> str:
    try:
        # Paths in a task's file may start from the folder of the caller.
        os.chdir(request["folder"])
        result = getattr(harness, request["call"])(**request["arguments"])
        return json.dumps({"result": result}, default=_plain)
    except CannotRun as error:
        return json.dumps({"error": str(error)})
    except Exception as error:  # noqa: BLE001 - the code of a task may raise anything
        text = " ".join(str(error).split())[:300]
        return json.dumps({"error": visible(f"the harness raised {type(error).__name__}: {text}".rstrip(".")) + "."})


def main() -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    harness = Harness()
    # The caller does something else in the meantime. The first request says what is wrong.
    with suppress(Exception):
        _index()
    for line in sys.stdin:
        answers.write(_answer(harness, json.loads(line)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
