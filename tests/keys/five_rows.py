"""A small evaluation of five rows, and a laboratory that changes one thing in it and says what was computed."""

import copy
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from support import mcp_tools

from gage_eval.base.stages import STAGES, StageResult
from gage_eval.observability import http_recorder
from gage_eval.runs import RunOptions, RunOutcome, run_inline

TASK = "sums"
_ROWS = [{"id": f"r{n}", "question": f"{n} + {n}", "answer": str(2 * n), "topic": "sums"} for n in range(5)]
_OTHER = [{**row, "question": f"{row['question']} + 0"} for row in _ROWS]
_SEEN = {
    "id": "p0",
    "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a.png"}}]}],
    "references": ["red"],
}
_ANSWERS = [{"id": row["id"], "text": row["answer"], "wrong": "7"} for row in _ROWS]


def write_data(folder: Path) -> None:
    """The data files the configs name; copy.jsonl holds the bytes of rows.jsonl."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(mcp_tools.__file__, folder / "tools.py")
    files = {
        "rows": _ROWS,
        "copy": _ROWS,
        "other": _OTHER,
        "other_copy": _OTHER,
        "answers": _ANSWERS,
        "more": _ANSWERS,
        "labelled": [{**row, "people": 1} for row in _ROWS],
    }
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    # pictures and pictures_copy hold the same image, pictures_other another.
    for name, colour in (("pictures", "red"), ("pictures_copy", "red"), ("pictures_other", "blue")):
        (folder / name).mkdir(exist_ok=True)
        Image.new("RGB", (40, 30), colour).save(folder / name / "a.png")
    (folder / "seen.jsonl").write_bytes(orjson.dumps(_SEEN) + b"\n")
    with (folder / "more.jsonl").open("ab") as file:
        file.write(b'{"id": "r9", "text": "18", "wrong": "7"}\n')


def config(base: str = "main") -> dict[str, Any]:
    """A fresh copy of a config. Whatever a reference may be changed to is declared, as ``…_twin`` and ``…_other``."""
    return copy.deepcopy(_CONFIGS[base])


def _dataset(name: str, file: str, **params: Any) -> dict[str, Any]:
    return {"dataset_id": name, "loader": "jsonl", "params": {"path": file, **params}}


def _adapter(name: str, role: str, backend: str, prompt: str | None, **fields: Any) -> dict[str, Any]:
    adapter = {"adapter_id": name, "role_type": role, "backend_id": backend, **fields}
    return adapter if prompt is None else {**adapter, "prompt_id": prompt}


def _prompt(name: str, text: str) -> dict[str, Any]:
    return {
        "prompt_id": name,
        "template": [{"role": "system", "content": "{{ prompt_params.tone }}"}, {"role": "user", "content": text}],
        "params": {"tone": "Be brief."},
    }


_ASK = "What is {{ sample.messages[0].content[0].text }}?"
_GRADE = "Is {{ model_answer }} right?"
_FIXED = {"mode": "fixed", "answer": "CORRECT: yes"}
_MAIN: dict[str, Any] = {
    "metadata": {"name": "five-rows"},
    "datasets": [
        _dataset("main", "rows.jsonl", shuffle=True, seed=1),
        _dataset("main_twin", "copy.jsonl", shuffle=True, seed=1),
        _dataset("main_other", "other.jsonl", shuffle=True, seed=1),
        _dataset("main_other_twin", "other_copy.jsonl", shuffle=True, seed=1),
    ],
    "backends": [
        {"backend_id": "model", "type": "dummy", "config": {"mode": "choice"}},
        {"backend_id": "model_twin", "type": "dummy", "config": {"mode": "choice"}},
        {"backend_id": "model_other", "type": "dummy", "config": {"mode": "choice", "seed": 5}},
        {"backend_id": "judge_model", "type": "dummy", "config": _FIXED},
    ],
    "role_adapters": [
        _adapter("dut", "dut_model", "model", "ask"),
        _adapter("dut_twin", "dut_model", "model", "ask"),
        _adapter("dut_other", "dut_model", "model_other", "ask"),
        _adapter("grader", "judge_model", "judge_model", "grade"),
        _adapter("grader_twin", "judge_model", "judge_model", "grade"),
        _adapter("grader_other", "judge_model", "model", "grade"),
        _adapter("helper", "support", "judge_model", "ask"),
        _adapter("helper_twin", "support", "judge_model", "ask"),
        _adapter("helper_other", "support", "model", "ask"),
    ],
    "prompts": [_prompt("ask", _ASK), _prompt("ask_twin", _ASK), _prompt("ask_other", f"{_ASK} Think."),
                _prompt("grade", _GRADE)],
    "metrics": [
        {"metric_id": "right", "implementation": "exact_match"},
        {"metric_id": "graded", "implementation": "exact_match",
         "params": {"prediction_field": "judge_output.answer", "case_sensitive": True}},
    ],
    "tasks": [
        {
            "task_id": TASK,
            "dataset_id": "main",
            "adapter_id": "dut",
            "judge_adapter_id": "grader",
            # Some changes below make judges that give no verdict.
            "max_unscored_share": 1.0,
            "steps": [{"step": "inference"}, {"step": "judge"}, {"step": "auto_eval"}, {"step": "report"}],
        }
    ],
}  # fmt: skip


def _variant(**task: Any) -> dict[str, Any]:
    """The main config with another task."""
    settings = {**_MAIN["tasks"][0], **task}
    return {**_MAIN, "tasks": [{name: value for name, value in settings.items() if value is not None}]}


def _programs(**execution: Any) -> dict[str, Any]:
    """A config that runs its answers as programs."""
    return {**_variant(execution=execution), "metrics": ["execution_passed"]}


_BOUND_STEPS = [{"step": "inference", "adapter_id": "dut"}, {"step": "judge", "adapter_id": "grader"}]
_CONFIGS: dict[str, dict[str, Any]] = {
    "main": _MAIN,
    # Steps that name their adapters, the task does not.
    "steps": _variant(adapter_id=None, judge_adapter_id=None, steps=_BOUND_STEPS),
    # A support model asked before inference.
    "support": _variant(
        support_adapter_id="helper", steps=[{"step": "support"}, {"step": "inference"}, {"step": "judge"}]
    ),
    # A support adapter bound nowhere: there is exactly one.
    "one_helper": {
        **_MAIN,
        "role_adapters": [a for a in _MAIN["role_adapters"] if not a["adapter_id"].startswith("helper_")],
    },
    # Examples of another dataset before each sample.
    "few_shot": {
        **_variant(few_shot={"k": 2, "dataset_id": "main_other", "strategy": "random"}),
        "prompts": [_prompt("ask", "{{ history[-1].content }}"), *_MAIN["prompts"][1:]],
    },
    # Callables that make the samples' content.
    "called": {
        **_MAIN,
        "datasets": [
            _dataset(
                "main",
                "rows.jsonl",
                shuffle=True,
                seed=1,
                doc_to_text="keys_plugins:words",
                doc_to_visual="keys_plugins:nothing",
                doc_to_audio="keys_plugins:nothing",
            ),
            *_MAIN["datasets"][1:],
        ],
    },
    # Completions of text.
    "completion": _variant(mode="completion"),
    # An image in each sample, and none of the settings of images.
    "pictures": {
        "datasets": [_dataset("main", "seen.jsonl", content_root="pictures")],
        "backends": [{"backend_id": "model", "type": "dummy", "config": {"mode": "echo"}}],
        "metrics": ["contains"],
    },
    # Metrics of the task's own in place of the config's.
    # Answers of a type, scored by its profile.
    "typed": {
        **_variant(answer_type="choice", parse_schema=[{"field": "answer", "type": "enum", "values": ["2", "4"]}]),
        "metrics": [],
    },
    "overrides": _variant(metric_overrides=[{"metric_id": "has", "implementation": "contains"}]),
    # Nothing said that a setting could say.
    "plain": {
        "datasets": [_dataset("main", "rows.jsonl")],
        "backends": [{"backend_id": "model", "type": "dummy", "config": {"mode": "echo"}}],
        "metrics": ["contains"],
    },
    # Programs that are run with tests, or that print.
    "programs": _programs(mode="script", tests="topic"),
    "stdio": _programs(mode="stdio", inputs="topic", outputs="sample.label"),
    # A model that may run commands.
    "boxed": {
        **_MAIN,
        "role_adapters": [
            {**_MAIN["role_adapters"][0], "tools": ["bash"], "tool_rounds": 2, "box": {}},
            *_MAIN["role_adapters"][1:],
        ],
    },
    # The same, whose files are checked at the end.
    "checked": {
        **_programs(mode="final_state", tests="topic"),
        "role_adapters": [
            {**_MAIN["role_adapters"][0], "tools": ["bash"], "tool_rounds": 2, "box": {"artifacts": ["out"]}},
            *_MAIN["role_adapters"][1:],
        ],
    },
    # A model that may call tools of an MCP server.
    "served": {
        **_MAIN,
        "role_adapters": [
            {
                **_MAIN["role_adapters"][0],
                "mcp_servers": [
                    {"command": ["python3", "tools.py"], "files": {"tools.py": "tools.py"}, "names": ["twice"]}
                ],
                "tool_rounds": 2,
            },
            *_MAIN["role_adapters"][1:],
        ],
    },
    # A program that asks the model.
    "program": {
        **_MAIN,
        "role_adapters": [
            {**_MAIN["role_adapters"][0], "agent": {"command": ["true"]}},
            *_MAIN["role_adapters"][1:],
        ],
    },
    # Samples that bring labels of people.
    "labelled": {**_MAIN, "datasets": [_dataset("main", "labelled.jsonl"), *_MAIN["datasets"][1:]]},
    # A task that stops when its score is known.
    "stopping": _variant(stop_when={"half_width": 0.2}),
    # A simulated user that talks with the model.
    "talked": {
        **_MAIN,
        "role_adapters": [
            *_MAIN["role_adapters"],
            {
                "adapter_id": "visitor",
                "role_type": "user",
                "backend_id": "judge_model",
                "prompt_id": "ask",
                "simulator": {"stop": "CORRECT"},
            },
            {
                "adapter_id": "caller",
                "role_type": "user",
                "backend_id": "judge_model",
                "prompt_id": "ask_twin",
                "simulator": {"stop": "CORRECT"},
            },
        ],
        "tasks": [{**_MAIN["tasks"][0], "user": "visitor"}, *_MAIN["tasks"][1:]],
    },
    # A backend written inside its adapter.
    "inline": {
        "datasets": [_dataset("main", "rows.jsonl")],
        "role_adapters": [
            {
                "adapter_id": "dut",
                "role_type": "dut_model",
                "backend": {"type": "dummy", "config": {"mode": "choice"}},
            }
        ],
        "metrics": ["contains"],
    },
    "replay": {
        "datasets": [_dataset("main", "rows.jsonl")],
        "backends": [
            {"backend_id": "model", "type": "replay", "config": {"path": "answers.jsonl", "answer_field": "text"}}
        ],
        "metrics": ["contains"],
    },
}


@dataclass(frozen=True)
class Change:
    """One change of a field.

    Attributes:
        config: path → value, as ``{"datasets.0.params.limit": 3}``.
        base: the config it is made in.
        options: of the run; ``{folder}`` in a text is the laboratory's.
        env: variables of the environment, likewise.
        same: for a field that names something: the new text names the same content.
        shown: the new name is shown, so the report may be made again.
        refused: the change is an error whose message holds this text.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    base: str = "main"
    options: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    same: bool = False
    shown: bool = False
    refused: str | None = None


class Laboratory:
    """Runs configs in fresh copies of a store that holds the base config's results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_data(folder)
        self._bases: dict[str, RunOutcome] = {}
        self._count = 0

    def base(self, name: str = "main") -> RunOutcome:
        """The outcome of an unchanged config, computed once."""
        if name not in self._bases:
            file = self.write(config(name), name)
            self._bases[name] = run_inline(RunOptions(config=str(file), store=str(self._store(name))))
        return self._bases[name]

    def write(self, value: dict[str, Any], name: str) -> Path:
        """A config file beside the data."""
        file = self.folder / f"{name}.json"
        file.write_bytes(orjson.dumps(value))
        return file

    def copy_store(self, base: str = "main") -> Path:
        """A store of its own that holds what the base config computed."""
        self.base(base)
        self._count += 1
        copied = self.folder / f"store-{self._count}"
        # Files of a store are never changed in place, so links are copies.
        shutil.copytree(self._store(base), copied, copy_function=os.link, ignore=shutil.ignore_patterns("runs"))
        return copied

    def run(self, change: Change, monkeypatch: pytest.MonkeyPatch, store: Path | None = None) -> RunOutcome:
        """Run the base config with a change, where the base config's results are stored."""
        store = store or self.copy_store(change.base)
        changed = config(change.base)
        for path, value in change.config.items():
            put(changed, path, value)
        file = self.write(changed, f"changed-{self._count}")
        with monkeypatch.context() as patch:
            # Nobody listens where changed sinks send events: they give up sooner.
            patch.setattr(http_recorder, "PAUSES_S", ())
            patch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
            for name, text in change.env.items():
                patch.setenv(name, self._placed(text))
            options = {name: self._placed(value) for name, value in change.options.items()}
            return run_inline(RunOptions.model_validate({"config": str(file), "store": str(store), **options}))

    def _placed(self, value: Any) -> Any:
        return value.replace("{folder}", str(self.folder)) if isinstance(value, str) else value

    def _store(self, base: str) -> Path:
        return self.folder / f"base-{base}"


def put(value: Any, path: str, new: Any) -> None:
    """Set what a dotted path leads to."""
    *steps, last = path.split(".")
    for step in steps:
        value = value[int(step)] if isinstance(value, list) else value.setdefault(step, {})
    if isinstance(value, list):
        value[int(last)] = new
    else:
        value[last] = new


def stages_of(outcome: RunOutcome) -> dict[str, StageResult]:
    """The results of the one task by stage, in the order of the DAG."""
    results = {stage: result for (_, stage), result in outcome.results.items()}
    return {stage: results[stage] for stage in STAGES if stage in results}


def computed(outcome: RunOutcome) -> list[str]:
    """The stages that computed, in order."""
    return [stage for stage, result in stages_of(outcome).items() if not result.cached]


def computed_metrics(outcome: RunOutcome) -> int:
    """How many metrics scored rows."""
    return stages_of(outcome)["auto_eval"].counts.get("computed_metrics", 0)


def readable(file: Path) -> bytes:
    """A file's bytes; those of a Parquet file unpacked."""
    if file.suffix != ".parquet":
        return file.read_bytes()
    table = pq.read_table(file)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
