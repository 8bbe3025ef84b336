"""Stages called one by one, on a store of their own."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import JsonValue
from gage_eval.base.stages import StageResult
from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.base import BackendContext
from gage_eval.observability.observer import Observers
from gage_eval.pipeline import stages
from gage_eval.pipeline.action import StageContext
from gage_eval.pipeline.generate_spec import GenerateSpec, PromptBinding
from gage_eval.pipeline.judge_spec import JudgeSpec
from gage_eval.pipeline.specs import LoadSpec, PreprocessSpec, ScoreSpec, StandardizeSpec
from gage_eval.scoring.metrics import BoundMetric
from gage_eval.scoring.metrics.verdicts import read_parser
from gage_eval.store import Artifact, Store


class Bench:
    """Calls stages with specs of few words. ``data`` is the JSON lines file that `load` reads."""

    def __init__(self, folder: Path, runtime: Runtime) -> None:
        self.store = Store.open(str(folder / "store"))
        self.env = StageContext(self.store, runtime, Observers(), "the-run")
        self.folder = folder
        self.data = folder / "data.jsonl"

    def write(self, records: Sequence[Any]) -> None:
        """The dataset: records as JSON, texts as they are."""
        lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
        self.data.write_text("".join(line + "\n" for line in lines))

    def load(self, **spec: Any) -> StageResult:
        return stages.load(self.env, LoadSpec("t", "d", "jsonl", {"path": self.data.name}, self.folder, **spec))

    def standardize(self, raw: StageResult, **spec: Any) -> StageResult:
        return stages.standardize(
            self.env, StandardizeSpec("t", "d", "default", spec.pop("kwargs", {}), **spec), raw=raw
        )

    def preprocess(self, samples: StageResult, params: Mapping[str, Any] | None = None, **spec: Any) -> StageResult:
        return stages.preprocess(self.env, PreprocessSpec("t", params or {}, **spec), samples=samples)

    def samples(self, records: Sequence[Any], **spec: Any) -> StageResult:
        """The standardized dataset of these records."""
        self.write(records)
        return self.standardize(self.load(), **spec)

    def model(
        self, role: str = "dut_model", prompt: Any = None, system: str | None = None, **config: Any
    ) -> GenerateSpec:
        """A dummy model in a role, with a prompt."""
        binding = None if prompt is None and system is None else PromptBinding("p", prompt, system, {})
        params = config.pop("params", {})
        share = config.pop("max_error_share", 0.01)
        name = config.pop("adapter_id", "a")
        return GenerateSpec(
            "t", role, name, "dummy", config, BackendContext(self.folder), binding, params, max_error_share=share
        )

    def infer(self, prepared: StageResult, spec: GenerateSpec, samples: StageResult | None = None) -> StageResult:
        return stages.infer(self.env, spec, prepared=prepared, samples=samples)

    def judge(
        self, spec: GenerateSpec | None, parsers: Mapping[str, JsonValue] | None = None, **inputs: StageResult
    ) -> StageResult:
        read = {name: read_parser(entry) for name, entry in (parsers or {}).items()}
        return stages.judge(self.env, JudgeSpec("t", spec, parsers=read), **inputs)

    def auto_eval(self, metrics: Sequence[BoundMetric], **inputs: StageResult) -> StageResult:
        return stages.auto_eval(self.env, ScoreSpec("t", tuple(metrics)), **inputs)

    def artifact(self, result: StageResult, name: str) -> Artifact:
        return self.store.artifact(result.outputs[name])

    def rows(self, result: StageResult, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.artifact(result, name).table().to_pylist()
        return rows
