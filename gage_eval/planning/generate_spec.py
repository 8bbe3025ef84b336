"""What support, infer and judge are asked to do: which model, with what prompt and parameters."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gage_eval import registry
from gage_eval.backends.base import Backend, BackendContext
from gage_eval.backends.build import build_backend
from gage_eval.backends.role_hooks import RoleHooks
from gage_eval.canonical import JsonValue, canonical_text, digest
from gage_eval.metrics.overrides import eval_configs
from gage_eval.metrics.verdicts import VerdictParser, read_parser
from gage_eval.planning.judge_overrides import NamedForJudges
from gage_eval.planning.keys import RENDER_VERSION
from gage_eval.store import Artifact, Store

_OUTPUTS = {"support": "support_responses", "dut_model": "responses", "judge_model": "judge_responses"}


@dataclass(frozen=True)
class PromptBinding:
    """A prompt template bound to a role, with its parameters merged."""

    prompt_id: str
    template: Any
    system_prompt: str | None
    params: Mapping[str, Any]

    @property
    def reads_extras(self) -> bool:
        """Whether it may show ``extras``: the adapter's id and role."""
        return "extras" in canonical_text([self.template, self.system_prompt])

    @property
    def reads_support(self) -> bool:
        """Whether it may show ``payload.support_output``."""
        return "support_output" in canonical_text([self.template, self.system_prompt])

    def material(self) -> JsonValue:
        return {"template": self.template, "system_prompt": self.system_prompt, "params": dict(self.params)}


@dataclass(frozen=True)
class GenerateSpec:
    """render(role) → generate: which model is asked, with what prompt and parameters."""

    task_id: str
    role: str
    adapter_id: str
    backend_type: str
    backend_config: Mapping[str, Any]
    context: BackendContext
    prompt: PromptBinding | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    max_error_share: float = 0.01
    hooks: RoleHooks | None = None
    tool_rounds: int = 0
    pool_size: int | None = None
    # Of a judge: the config's prompts and the ids of its judges, any of which a sample may name for itself.
    prompts: Mapping[str, PromptBinding] = field(default_factory=dict)
    judges: tuple[str, ...] = ()
    # Of a judge: it is asked only about samples that name it.
    on_demand: bool = False

    @cached_property
    def model(self) -> Backend:
        """The backend, built and not opened: it answers for its identity and capabilities."""
        return build_backend(self.backend_type, self.backend_config, self.context)

    @property
    def reads_samples(self) -> bool:
        """Whether rendering needs more of a sample than its prepared row."""
        hooked = self.hooks is not None and self.hooks.prepares
        return self.prompt is not None or hooked or self.tool_rounds > 0 or self.model.lookup_field is not None

    @property
    def reads_support(self) -> bool:
        """Whether a judge's prompt, or one that a sample may name, may show the support model's answer."""
        hooked = self.hooks is not None and self.hooks.prepares
        prompts = [*self.prompts.values(), *([self.prompt] if self.prompt else [])]
        return hooked or any(prompt.reads_support for prompt in prompts)

    @property
    def output(self) -> str:
        """Name of the output that holds the responses."""
        return f"judge_{self.adapter_id}_responses" if self.on_demand else _OUTPUTS[self.role]

    def work_key(self, key: str) -> str:
        """Key of the work in progress: that of the stage's; a judge on demand has one of its own."""
        return digest([key, self.adapter_id]) if self.on_demand else key

    @cached_property
    def model_material(self) -> JsonValue:
        """What determines the model's answers; the code of a plug-in counts, whatever its class inherits."""
        plugin = registry.backends.get(self.backend_type)
        own = self.model.identity()
        return own if plugin.origin == "builtin" else {"plugin": plugin.identity(), "model": own}

    @cached_property
    def model_identity(self) -> str:
        """Digest of the model's identity, the first component of every response key."""
        return digest(self.model_material)

    def material(self) -> JsonValue:
        material: dict[str, JsonValue] = {
            "render": RENDER_VERSION,
            "role": self.role,
            "model": self.model_material,
            "prompt": self.prompt.material() if self.prompt else None,
            "params": dict(self.params),
        }
        if self.prompt is not None and self.prompt.reads_extras:
            material["adapter_id"] = self.adapter_id
        if self.hooks is not None:
            material["hooks"] = self.hooks.identity()
        if self.tool_rounds:
            material["tool_rounds"] = self.tool_rounds
        return material


@dataclass(frozen=True)
class JudgeSpec:
    """The judge's render → generate, and the parser of its verdicts; no `generate` means no judge.

    Attributes:
        others: the config's other judges, each asked about the samples that name it in their ``eval_config``.
        parsers: what reads each judge's verdicts, by adapter id; the default parser for those not named.
    """

    task_id: str
    generate: GenerateSpec | None = None
    others: tuple[GenerateSpec, ...] = ()
    parsers: Mapping[str, VerdictParser] = field(default_factory=dict)

    def parser_of(self, judge: GenerateSpec) -> VerdictParser:
        """What reads a judge's verdicts."""
        return self.parsers.get(judge.adapter_id) or read_parser()

    @property
    def every(self) -> tuple[GenerateSpec, ...]:
        """The judge and the others; none without a judge."""
        return () if self.generate is None else (self.generate, *self.others)

    @property
    def reads_support(self) -> bool:
        """Whether a judge may see the support model's answer."""
        return any(judge.reads_support for judge in self.every)

    def asked(self, samples: Artifact) -> tuple[GenerateSpec, ...]:
        """The judge, and of the others those that samples name."""
        return self._asked(_named_for_judges(samples) if self.others else NamedForJudges())

    def _asked(self, named: NamedForJudges) -> tuple[GenerateSpec, ...]:
        return tuple(judge for judge in self.every if not judge.on_demand or judge.adapter_id in named.adapters)

    def material(self) -> JsonValue:
        if self.generate is None:
            return None
        return {"generate": self.generate.material(), "parser": self.parser_of(self.generate).identity()}

    def files(self, store: Store, inputs: Mapping[str, str]) -> JsonValue:
        """The judges and prompts that samples name; None where they name none."""
        if self.generate is None:
            return None
        named = _named_for_judges(store.artifact(inputs["samples"]))
        prompts = sorted(named.prompts)
        material: dict[str, JsonValue] = {}
        if prompts:
            material["prompts"] = _prompts(self.generate, prompts)
        others = {
            judge.adapter_id: {
                "generate": judge.material(),
                "prompts": _prompts(judge, prompts),
                "parser": self.parser_of(judge).identity(),
            }
            for judge in self._asked(named)
            if judge.on_demand
        }
        unknown = named.adapters - set(self.generate.judges)
        if others or unknown:
            material["judges"] = {**others, **dict.fromkeys(sorted(unknown))}
        return material or None


def _named_for_judges(samples: Artifact) -> NamedForJudges:
    return NamedForJudges.of(text for texts in eval_configs(samples) for text in texts)


def _prompts(judge: GenerateSpec, names: Iterable[str]) -> JsonValue:
    """What determines some prompts under a judge's parameters; None for one that is not there."""
    return {name: judge.prompts[name].material() if name in judge.prompts else None for name in names}
