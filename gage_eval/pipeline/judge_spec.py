"""The spec and the asks of a judge stage: which judge is asked about which response, with which prompt."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import JsonValue, decode
from gage_eval.base.tables import ASKS
from gage_eval.pipeline.asks import Asks, AskTable, identity_of
from gage_eval.pipeline.generate_spec import Binding, GenerateSpec, PromptBinding
from gage_eval.pipeline.judge_overrides import JudgeOverride, judge_override
from gage_eval.pipeline.outputs import of_other_judge
from gage_eval.scoring.metrics.overrides import COLUMN, eval_configs
from gage_eval.scoring.metrics.verdicts import VerdictParser, read_parser
from gage_eval.store import Artifact, Store

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
        return self.parsers.get(judge.adapter_id) or self._default_parser

    @cached_property
    def _default_parser(self) -> VerdictParser:
        return read_parser()

    @property
    def reads_support(self) -> bool:
        """Whether a judge may see the support model's answer."""
        prompts = [prompt for named in self.prompts.values() for prompt in named.values()]
        return any(judge.reads_support for judge in self.judges) or any(prompt.reads_support for prompt in prompts)

    @property
    def judges(self) -> tuple[GenerateSpec, ...]:
        """The judges that may be asked, the task's own first; empty without a judge."""
        return () if self.generate is None else (self.generate, *self.others)

    def asks(self, explicit: AskTable | None) -> list[Asks]:
        """The asks of each model, the task's judge first. Models without questions are left out.

        Args:
            explicit: the result of `explicit_asks`.
        """
        if self.generate is None:
            return []
        if explicit is None:
            return [Asks.implicit(self._own)]
        named = {judge for part in explicit.parts for judge in pc.unique(explicit.read(part)["judge"]).to_pylist()}
        return [Asks(judge, self._output(judge), table=explicit) for judge in self.judges if judge.adapter_id in named]

    def material(self) -> JsonValue:
        if self.generate is None:
            return None
        return {"generate": self.generate.material(), "parser": self.parser_of(self.generate).identity()}

    def input_material(self, store: Store, inputs: Mapping[str, str]) -> dict[str, JsonValue]:
        """The content of explicit asks; nothing for implicit ones."""
        explicit = self.explicit_asks(store, inputs)
        return {} if explicit is None else {"asks": identity_of(explicit)}

    def explicit_asks(self, store: Store, inputs: Mapping[str, str]) -> AskTable | None:
        """The explicit asks; None without a judge, and if no sample sets anything for it.

        Args:
            store: where the inputs are.
            inputs: artifact ids of ``samples`` and ``prepared``.
        """
        if self.generate is None:
            return None
        samples = store.artifact(inputs["samples"])
        if not any(self._override(text) for texts in eval_configs(samples) for text in texts):
            return None
        return JudgeAsks(store.artifact(inputs["prepared"]), samples, self._own, self._bound)

    def _override(self, text: str | None) -> JudgeOverride | None:
        if text is None:
            return None
        known = [judge.adapter_id for judge in self.judges]
        prompts = {prompt_id for named in self.prompts.values() for prompt_id in named}
        return judge_override(decode(text), sorted(prompts), known)

    def _output(self, judge: GenerateSpec) -> str:
        return judge.output if judge is self.generate else of_other_judge(judge.adapter_id)

    def _bound(self, text: str | None) -> Binding | str:
        """The binding of samples with this ``eval_config``, or the reason why its settings cannot be used."""
        override = self._override(text)
        if override is None:
            return self._own
        if override.refused is not None:
            return override.refused
        named = override.adapter_id
        judge = next(candidate for candidate in self.judges if named in (None, candidate.adapter_id))
        prompt = judge.prompt
        if override.prompt_id is not None:
            prompt = self.prompts[judge.adapter_id][override.prompt_id]
        if prompt is not None and override.prompt_params:
            prompt = replace(prompt, params={**prompt.params, **override.prompt_params})
        params = {**judge.params, **override.params}
        return Binding(judge, prompt, params, self.parser_of(judge).identity())

    @cached_property
    def _own(self) -> Binding:
        """The binding of samples that set nothing."""
        assert self.generate is not None
        return replace(self.generate.binding, parser=self.parser_of(self.generate).identity())


class JudgeAsks:
    """The asks of a judge stage whose samples have settings for the judge: an `AskTable`, computed when read."""

    def __init__(
        self, prepared: Artifact, samples: Artifact, own: Binding, bound: Callable[[str | None], Binding | str]
    ) -> None:
        """Args:
        prepared: the rows whose responses are judged.
        samples: the samples with their ``eval_config``.
        own: the binding of rows that set nothing.
        bound: returns the binding of samples with an ``eval_config``, or the reason why it cannot be used.
        """
        self._prepared = prepared
        self._samples = samples
        self._own = own
        self._bound = bound
        self._computed = lru_cache(1)(self._compute)

    @property
    def parts(self) -> Sequence[int]:
        """Indexes of the parts, in order."""
        return [part.index for part in self._prepared.parts]

    def bindings(self, part: int) -> Mapping[str, Binding]:
        """The bindings of a part's asks, by digest."""
        return self._computed(part)[1]

    def read(self, part: int) -> pa.Table:
        """`tables.ASKS` rows of a part."""
        return self._computed(part)[0]

    def _compute(self, part: int) -> tuple[pa.Table, Mapping[str, Binding]]:
        rows = self._prepared.read(part, columns=["row_index", "replicates"])
        samples = self._samples.read(part, columns=["row_index", COLUMN])
        texts = samples[COLUMN].take(pc.index_in(rows["row_index"], samples["row_index"])).combine_chunks()
        encoded = texts.dictionary_encode("encode")
        bound = [self._bound(text) for text in encoded.dictionary.to_pylist()]
        bindings = [binding if isinstance(binding, Binding) else None for binding in bound]
        times = rows["replicates"].to_numpy()
        which = pa.array(np.repeat(encoded.indices.to_numpy(), times))
        first = np.repeat(np.cumsum(times) - times, times)
        nothing = np.zeros(len(which), np.int32)
        by_text = {
            "judge": [binding and binding.spec.adapter_id for binding in bindings],
            "binding": [binding and binding.digest for binding in bindings],
            "why": [b if isinstance(b, str) else None if b is self._own else _SET_BY for b in bound],
        }
        table = pa.table(
            {
                "row_index": np.repeat(rows["row_index"].to_numpy(), times),
                "replicate": (np.arange(len(which)) - first).astype(np.int32),
                "slot": nothing,
                "draw": nothing,
                **{name: pa.array(values, pa.string()).take(which) for name, values in by_text.items()},
            }
        )
        by_digest = {binding.digest: binding for binding in bindings if binding is not None}
        return table.select(ASKS.arrow.names).cast(ASKS.arrow), by_digest
