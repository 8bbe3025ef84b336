"""The spec and the asks of a judge stage: which judge is asked about which response, with which prompt."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import JsonValue, decode, given
from gage_eval.base.errors import InputError
from gage_eval.base.field_paths import reference_media
from gage_eval.base.tables import ASKS
from gage_eval.data.prepare.media import files_identity
from gage_eval.data.sample.table import rows_of
from gage_eval.pipeline.asks import Asks, AskTable, identity_of
from gage_eval.pipeline.generate_spec import Binding, GenerateSpec, PromptBinding
from gage_eval.pipeline.judge_overrides import JudgeOverride, judge_override
from gage_eval.pipeline.judge_rule import JudgeRule, RuleDecisions, undecided
from gage_eval.pipeline.outputs import of_other_judge, of_second
from gage_eval.pipeline.second_judge import SecondJudge
from gage_eval.scoring.metrics.label_verdicts import SettledForm
from gage_eval.scoring.metrics.overrides import COLUMN, eval_configs
from gage_eval.scoring.metrics.verdicts import VerdictReader, read_parser
from gage_eval.store import Artifact, Store

# Why an ask differs from the task's own judge settings.
_SET_BY = "eval_config.judge"


@dataclass(frozen=True)
class JudgeForm:
    """A judge as it is asked for verdicts of one form.

    Attributes:
        spec: with the prompt and parameters of this form.
        parser: reads the verdicts.
        prompts: the prompts that a sample may name, by id.
    """

    spec: GenerateSpec
    parser: VerdictReader
    prompts: Mapping[str, PromptBinding]


@dataclass(frozen=True)
class JudgeSpec:
    """The judge and the parser of its verdicts. Without `generate` there is no judge.

    Attributes:
        generate: the task's judge.
        others: the config's other judges; a sample may name one in its ``eval_config``.
        prompts: by adapter id, the prompts that a sample may name, with the adapter's prompt parameters.
        parsers: by adapter id, how verdicts are read; other judges have the default parser.
        retries: by adapter id, how often a judge is asked again where its answer holds no verdict.
        panel: adapter ids of the judges that each give a verdict; the task's judge alone where it is empty.
        both_orders: every judge is asked twice, with the prompt parameter ``swapped`` false and true; a judge's first
            order has an even slot.
        draws: how often each judge is asked.
        rule: decides answers before a judge is asked.
        second: a judge that is asked where the first ones are not sure.
        unsettled: by adapter id, the forms that a judge's verdicts may have, the best one first. Until it is asked, its
            spec is that of the last one (see `gage_eval.pipeline.judge_forms`).
    """

    task_id: str
    generate: GenerateSpec | None = None
    others: tuple[GenerateSpec, ...] = ()
    prompts: Mapping[str, Mapping[str, PromptBinding]] = field(default_factory=dict)
    parsers: Mapping[str, VerdictReader] = field(default_factory=dict)
    retries: Mapping[str, int] = field(default_factory=dict)
    panel: tuple[str, ...] = ()
    both_orders: bool = False
    draws: int = 1
    rule: JudgeRule | None = None
    second: SecondJudge | None = None
    unsettled: Mapping[str, Mapping[SettledForm, JudgeForm]] = field(default_factory=dict)

    def to_settle(self, store: Store, inputs: Mapping[str, str]) -> list[str]:
        """Adapter ids of the judges whose form is not settled, and that are asked about these inputs.

        Args:
            store: where the inputs are.
            inputs: artifact ids; those of ``samples`` are read, whose settings may name a judge.
        """
        if not self.unsettled:
            return []
        names = {judge.adapter_id for judge in self.asked}
        for texts in eval_configs(store.artifact(inputs["samples"])):
            names.update(override.adapter_id or "" for text in texts if (override := self._override(text)) is not None)
        return [name for name in self.unsettled if name in names]

    def settled(self, forms: Mapping[str, SettledForm]) -> "JudgeSpec":
        """The spec with settled forms, by adapter id.

        Raises:
            InputError: a second judge depends on probabilities that a judge does not give.
        """
        chosen = {name: self.unsettled[name][form] for name, form in forms.items()}
        if self.second is not None and self.second.below is not None:
            first = {judge.adapter_id for judge in self.asked} - {self.second.adapter_id}
            if without := [name for name, form in forms.items() if name in first and form != "labels"]:
                raise InputError(
                    f"task '{self.task_id}', second_judge.below: judge '{without[0]}' gives no probabilities: its "
                    f"verdict is {forms[without[0]]}. Remove 'below', or name another judge."
                )
        own, *others = [chosen[name].spec if (name := judge.adapter_id) in chosen else judge for judge in self.judges]
        return replace(
            self,
            generate=own,
            others=tuple(others),
            prompts={**self.prompts, **{name: judge.prompts for name, judge in chosen.items()}},
            parsers={**self.parsers, **{name: judge.parser for name, judge in chosen.items()}},
            unsettled={name: forms for name, forms in self.unsettled.items() if name not in chosen},
        )

    def parser_of(self, judge: GenerateSpec) -> VerdictReader:
        """The verdict parser of a judge."""
        return self.parsers.get(judge.adapter_id) or self._default_parser

    def retries_of(self, judge: GenerateSpec) -> int:
        """How often a judge is asked again where its answer holds no verdict."""
        return self.retries.get(judge.adapter_id, 0)

    def reading(self, judge: GenerateSpec) -> JsonValue:
        """What determines the verdict in a judge's answers: its parser, and retries where there are any."""
        parser, retries = self.parser_of(judge).identity(), self.retries_of(judge)
        return {"parser": parser, "retries": retries} if retries else parser

    @cached_property
    def _default_parser(self) -> VerdictReader:
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

    @property
    def asked(self) -> list[GenerateSpec]:
        """The judges that the config asks; samples may name others."""
        panel = [judge for judge in self.judges if judge.adapter_id in self.panel] or [*self.judges[:1]]
        return panel if self.second_spec is None else [*panel, self.second_spec]

    @property
    def second_spec(self) -> GenerateSpec | None:
        """The second judge; None without one."""
        name = None if self.second is None else self.second.adapter_id
        return next((judge for judge in self.judges if judge.adapter_id == name), None)

    def asks_second(self, table: AskTable) -> Asks:
        """The asks of the second judge that are in a table."""
        assert self.second_spec is not None
        return Asks(self.second_spec, of_second(self.second_spec.adapter_id), table=table)

    def material(self) -> JsonValue:
        if self.generate is None:
            return None
        assert not self.unsettled.keys() & {judge.adapter_id for judge in self.asked}, "a key holds settled forms"
        return {
            "generate": self.generate.material(),
            "parser": self.reading(self.generate),
            **given(rule=self.rule and self.rule.material(), second=self.second and self.second.material()),
        }

    def input_material(self, store: Store, inputs: Mapping[str, str]) -> dict[str, JsonValue]:
        """The content of explicit asks, those about answers that a rule will decide among them, and of references."""
        explicit = self._asks_of_all(store, inputs)
        material: dict[str, JsonValue] = {} if explicit is None else {"asks": identity_of(explicit)}
        if self.second is not None:
            material["second_asks"] = identity_of(self.second_asks(store, inputs))
        if self.rule is not None and (names := self.rule.overrides(store.artifact(inputs["samples"]))):
            material["unknown_metrics"] = names
        if any(judge.embeds is True for judge in self.judges):
            tables = store.artifact(inputs["samples"]).tables(columns=["references"])
            media = {url for table in tables for row in rows_of(table) for _, url in reference_media(row)}
            # They are sent as they are.
            if files := files_identity((("reference", url) for url in sorted(media)), self.judges[0].media):
                material["references"] = files
        return material

    def decisions(self, store: Store, inputs: Mapping[str, str]) -> RuleDecisions | None:
        """The answers that the rule decides; None without a rule."""
        return None if self.rule is None else RuleDecisions(self.rule, store, inputs)

    def explicit_asks(self, store: Store, inputs: Mapping[str, str]) -> AskTable | None:
        """The explicit asks; None where every answer is judged once, by the task's judge as it is.

        Args:
            store: where the inputs are.
            inputs: artifact ids of ``samples`` and ``prepared``, and of ``responses`` for a rule.
        """
        every, decisions = self._asks_of_all(store, inputs), self.decisions(store, inputs)
        return every if every is None or decisions is None else undecided(every, decisions)

    def asks_at_most(self, store: Store, inputs: Mapping[str, str]) -> list[Asks]:
        """The asks of each model if every answer is asked about, by the second judge too, and nothing a second time.

        Args:
            store: where the inputs are.
            inputs: artifact ids of ``samples`` and ``prepared``; those that a rule decides are left out where
                ``responses`` are there.
        """
        decisions = self.decisions(store, inputs) if "responses" in inputs else None
        first = self._asks_of_all(store, inputs)
        second = None if self.second is None else self.second_asks(store, inputs)
        if decisions is not None:
            first, second = [table and undecided(table, decisions) for table in (first, second)]
        return [*self.asks(first), *([] if second is None else [self.asks_second(second)])]

    def _asks_of_all(self, store: Store, inputs: Mapping[str, str]) -> AskTable | None:
        """The explicit asks as if a rule decided nothing."""
        if self.generate is None:
            return None
        samples = store.artifact(inputs["samples"])
        set_by_samples = any(self._override(text) for texts in eval_configs(samples) for text in texts)
        is_ordinary = not (self.panel or self.both_orders or self.rule) and self.draws == 1
        if is_ordinary and not set_by_samples:
            return None
        return JudgeAsks(store.artifact(inputs["prepared"]), samples, self._bound)

    def second_asks(self, store: Store, inputs: Mapping[str, str]) -> AskTable:
        """The asks of the second judge about all answers. Samples that name their judge have none.

        Args:
            store: where the inputs are.
            inputs: artifact ids of ``samples`` and ``prepared``.
        """
        return JudgeAsks(store.artifact(inputs["prepared"]), store.artifact(inputs["samples"]), self._bound_second)

    def _override(self, text: str | None) -> JudgeOverride | None:
        if text is None:
            return None
        known = [judge.adapter_id for judge in self.judges]
        prompts = {prompt_id for named in self.prompts.values() for prompt_id in named}
        return judge_override(decode(text), sorted(prompts), known)

    def _output(self, judge: GenerateSpec) -> str:
        return judge.output if judge is self.generate else of_other_judge(judge.adapter_id)

    def outputs_of(self, judge: GenerateSpec) -> list[str]:
        """The outputs that may hold a judge's responses, besides those to what it was asked again."""
        return [self._output(judge), *([of_second(judge.adapter_id)] if judge is self.second_spec else [])]

    def _bound(self, text: str | None) -> "Sequence[Seat] | str":
        """Who judges samples with this ``eval_config``, or the reason why its settings cannot be used."""
        override = self._override(text) or JudgeOverride()
        if override.refused is not None:
            return override.refused
        named = [self.generate.adapter_id] if self.generate is not None else []
        seats = self.panel or named
        if override.adapter_id is not None:
            seats = [override.adapter_id]
        why = None if override == JudgeOverride() else _SET_BY
        by_id = {judge.adapter_id: judge for judge in self.judges}
        return [
            Seat(self._seated(by_id[name], override, order), why, draw)
            for name in seats
            for draw in range(self.draws)
            for order in self._orders
        ]

    def _bound_second(self, text: str | None) -> "Sequence[Seat]":
        """The seats of the second judge for samples with this ``eval_config``."""
        override = self._override(text) or JudgeOverride()
        if self.second_spec is None or override.refused is not None or override.adapter_id is not None:
            return []
        return [Seat(self._seated(self.second_spec, override, order)) for order in self._orders]

    @property
    def _orders(self) -> list[Mapping[str, Any]]:
        """The prompt parameters of each order in which a judge sees the answers."""
        return [{"swapped": False}, {"swapped": True}] if self.both_orders else [{}]

    def _seated(self, judge: GenerateSpec, override: JudgeOverride, order: Mapping[str, Any]) -> Binding:
        """A judge with the settings of a sample, and the prompt parameter of an order."""
        prompt = judge.prompt
        if override.prompt_id is not None:
            prompt = self.prompts[judge.adapter_id][override.prompt_id]
        if prompt is not None and (override.prompt_params or order):
            prompt = replace(prompt, params={**prompt.params, **override.prompt_params, **order})
        params = {**judge.params, **override.params}
        return Binding(judge, prompt, params, self.reading(judge))

    @cached_property
    def _own(self) -> Binding:
        """The binding of samples that set nothing."""
        assert self.generate is not None
        return replace(self.generate.binding, parser=self.reading(self.generate))


@dataclass(frozen=True)
class Seat:
    """One of those who judge an answer: the binding, why it differs from the task's own settings, and the draw."""

    binding: Binding
    why: str | None = None
    draw: int = 0


class JudgeAsks:
    """The asks of a panel, or of a judge for which samples have settings: an `AskTable`, computed when read."""

    def __init__(
        self, prepared: Artifact, samples: Artifact, bound: Callable[[str | None], Sequence[Seat] | str]
    ) -> None:
        """Args:
        prepared: the rows whose responses are judged.
        samples: the samples with their ``eval_config``.
        bound: returns who judges samples with an ``eval_config``, or the reason why it cannot be used.
        """
        self._prepared = prepared
        self._samples = samples
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
        # A sample with wrong settings has one ask, which is not asked.
        seats: list[Sequence[Seat | None]] = [[None] if isinstance(entry, str) else entry for entry in bound]
        whys = [entry if isinstance(entry, str) else None for entry in bound]
        times = rows["replicates"].to_numpy()
        text = np.repeat(encoded.indices.to_numpy(), times)
        replicate = _counted(times)
        sizes = np.array([len(entry) for entry in seats])
        slot = _counted(sizes[text])
        which = pa.array(np.repeat((np.cumsum(sizes) - sizes)[text], sizes[text]) + slot)
        flat = [(seat, why) for entry, why in zip(seats, whys, strict=True) for seat in entry]
        by_seat = {
            "judge": [seat and seat.binding.spec.adapter_id for seat, _ in flat],
            "binding": [seat and seat.binding.digest for seat, _ in flat],
            "why": [why if seat is None else seat.why for seat, why in flat],
        }
        draws = pa.array([seat.draw if seat else 0 for seat, _ in flat], pa.int32())
        table = pa.table(
            {
                "row_index": np.repeat(np.repeat(rows["row_index"].to_numpy(), times), sizes[text]),
                "replicate": np.repeat(replicate, sizes[text]).astype(np.int32),
                "slot": slot.astype(np.int32),
                "draw": draws.take(which),
                **{name: pa.array(values, pa.string()).take(which) for name, values in by_seat.items()},
            }
        )
        by_digest = {seat.binding.digest: seat.binding for seat, _ in flat if seat is not None}
        return table.select(ASKS.arrow.names).cast(ASKS.arrow), by_digest


def _counted(times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """0 to n − 1 for each n, one after the other."""
    return np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
