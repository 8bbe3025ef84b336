"""The spec and the asks of a judge stage: which judge is asked about which response, with which prompt."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.canonical import JsonValue, decode, digest
from gage_eval.metrics.overrides import COLUMN, eval_configs
from gage_eval.metrics.verdicts import VerdictParser, read_parser
from gage_eval.planning.asks import Asks
from gage_eval.planning.generate_spec import Binding, GenerateSpec, PromptBinding
from gage_eval.planning.judge_overrides import JudgeOverride, judge_override
from gage_eval.planning.outputs import of_other_judge
from gage_eval.store import Artifact, Store
from gage_eval.store.content import content_hash
from gage_eval.tables import ASKS

# Why an ask differs from the task's own judge settings.
_SET_BY = "eval_config.judge"


@dataclass(frozen=True)
class JudgeSpec:
    """The judge and the parser of its verdicts. Without `generate` there is no judge.

    Attributes:
        generate: the task's judge.
        others: the config's other judges; a sample may name one in its ``eval_config``.
        prompts: by adapter id, the prompts that a sample may name, with the adapter's prompt parameters.
        parsers: verdict parsers by adapter id; other judges have the default parser.
    """

    task_id: str
    generate: GenerateSpec | None = None
    others: tuple[GenerateSpec, ...] = ()
    prompts: Mapping[str, Mapping[str, PromptBinding]] = field(default_factory=dict)
    parsers: Mapping[str, VerdictParser] = field(default_factory=dict)

    def parser_of(self, judge: GenerateSpec) -> VerdictParser:
        """The verdict parser of a judge."""
        return self.parsers.get(judge.adapter_id) or read_parser()

    @property
    def reads_support(self) -> bool:
        """Whether a judge may see the support model's answer."""
        prompts = [prompt for named in self.prompts.values() for prompt in named.values()]
        return any(judge.reads_support for judge in self.judges) or any(prompt.reads_support for prompt in prompts)

    @property
    def judges(self) -> tuple[GenerateSpec, ...]:
        """The judges that may be asked, the task's own first; empty without a judge."""
        return () if self.generate is None else (self.generate, *self.others)

    def asks(self, explicit: "JudgeAsks | None") -> list[Asks]:
        """The asks of each model, the task's judge first. Models without questions are left out.

        Args:
            explicit: the result of `explicit_asks`.
        """
        if self.generate is None:
            return []
        if explicit is None:
            return [Asks.implicit(self._own)]
        by_judge: dict[str, dict[str, Binding]] = {judge.adapter_id: {} for judge in self.judges}
        for digest_, binding in explicit.bindings.items():
            by_judge[binding.spec.adapter_id][digest_] = binding
        return [
            Asks(judge, bindings, self._output(judge), explicit)
            for judge in self.judges
            if (bindings := by_judge[judge.adapter_id])
        ]

    def material(self) -> JsonValue:
        if self.generate is None:
            return None
        return {"generate": self.generate.material(), "parser": self.parser_of(self.generate).identity()}

    def input_material(self, store: Store, inputs: Mapping[str, str]) -> dict[str, JsonValue]:
        """The content of explicit asks; nothing for implicit ones."""
        explicit = self.explicit_asks(store, inputs)
        return {} if explicit is None else {"asks": explicit.identity()}

    def explicit_asks(self, store: Store, inputs: Mapping[str, str]) -> "JudgeAsks | None":
        """The explicit asks; None without a judge, and if no sample sets anything for it.

        Args:
            store: where the inputs are.
            inputs: artifact ids of ``samples`` and ``prepared``.
        """
        if self.generate is None:
            return None
        samples = store.artifact(inputs["samples"])
        changed = {}
        for texts in eval_configs(samples):
            for text in texts:
                if text is not None and text not in changed and (override := self._override(text)) is not None:
                    changed[text] = override
        if not changed:
            return None
        bound = {text: self._bind(override) for text, override in changed.items()}
        return JudgeAsks(store.artifact(inputs["prepared"]), samples, self._own, bound)

    def _override(self, text: str) -> JudgeOverride | None:
        known = [judge.adapter_id for judge in self.judges]
        prompts = {prompt_id for named in self.prompts.values() for prompt_id in named}
        return judge_override(decode(text), sorted(prompts), known)

    def _output(self, judge: GenerateSpec) -> str:
        return judge.output if judge is self.generate else of_other_judge(judge.adapter_id)

    def _bind(self, override: JudgeOverride) -> Binding | str:
        """The binding that an ``eval_config`` sets, or the reason why it cannot be used."""
        if override.refused is not None:
            return override.refused
        named = override.adapter_id
        judge = next(one for one in self.judges if named in (None, one.adapter_id))
        prompt = judge.prompt
        if override.prompt_id is not None:
            prompt = self.prompts[judge.adapter_id][override.prompt_id]
        if prompt is not None and override.prompt_params:
            prompt = replace(prompt, params={**prompt.params, **override.prompt_params})
        params = {**judge.params, **override.params}
        return Binding(judge, prompt, params, self.parser_of(judge).identity())

    @property
    def _own(self) -> Binding:
        """The binding of samples that set nothing."""
        assert self.generate is not None
        return replace(self.generate.binding, parser=self.parser_of(self.generate).identity())


class JudgeAsks:
    """The asks of a judge stage whose samples have settings for the judge (`tables.ASKS`, computed when read)."""

    def __init__(
        self, prepared: Artifact, samples: Artifact, own: Binding, changed: Mapping[str, Binding | str]
    ) -> None:
        """Args:
        prepared: the rows whose responses are judged.
        samples: the samples with their ``eval_config``.
        own: the binding of rows that set nothing.
        changed: by text of an ``eval_config``, the binding that it sets, or the reason why it cannot be used.
        """
        self._prepared = prepared
        self._samples = samples
        self._changed = list(changed)
        self._bindings: dict[str, Binding] = {own.digest: own}
        digests: list[str | None] = []
        reasons: list[str | None] = []
        for binding in changed.values():
            if isinstance(binding, Binding):
                self._bindings.setdefault(binding.digest, binding)
            digests.append(binding.digest if isinstance(binding, Binding) else None)
            reasons.append(_SET_BY if isinstance(binding, Binding) else binding)
        self._digests = pa.array([*digests, own.digest], pa.string())
        self._reasons = pa.array([*reasons, None], pa.string())

    @cached_property
    def bindings(self) -> Mapping[str, Binding]:
        """The bindings in use by digest, the task's own first."""
        asked: set[str] = set()
        for part in self._prepared.parts:
            asked.update(pc.unique(self.read(part.index)["binding"]).to_pylist())
        return {digest_: binding for digest_, binding in self._bindings.items() if digest_ in asked}

    def identity(self) -> str:
        """Digest of the asks, without their reasons."""
        content = [self.read(part.index).drop_columns(["why"]) for part in self._prepared.parts]
        return digest([content_hash(table) for table in content])

    def read(self, part: int) -> pa.Table:
        rows = self._prepared.read(part, columns=["row_index", "replicates"])
        samples = self._samples.read(part, columns=["row_index", COLUMN])
        texts = samples[COLUMN].take(pc.index_in(rows["row_index"], samples["row_index"]))
        # Without an `eval_config`, or with one that changes nothing, the ask has the task's own binding: the last one.
        found = pc.fill_null(pc.index_in(texts, pa.array(self._changed, pa.string())), len(self._changed))
        times = rows["replicates"].to_numpy()
        which = pa.array(np.repeat(found.to_numpy(), times))
        first = np.repeat(np.cumsum(times) - times, times)
        nothing = np.zeros(len(which), np.int32)
        return pa.table(
            {
                "row_index": np.repeat(rows["row_index"].to_numpy(), times),
                "replicate": (np.arange(len(which)) - first).astype(np.int32),
                "draw": nothing,
                "slot": nothing,
                "binding": self._digests.take(which),
                "why": self._reasons.take(which),
            },
            schema=ASKS.arrow,
        )
