"""Specs of support, infer and judge: which model is asked, with which prompt and parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gage_eval.base.canonical import JsonValue, canonical_text, digest, given
from gage_eval.base.files import local_path
from gage_eval.config.execution import SimulatorConfig
from gage_eval.data.prepare.media import MediaRules
from gage_eval.engine import simulator
from gage_eval.engine.tools.mcp import McpServer
from gage_eval.extend import registry
from gage_eval.extend.loading import without_folders
from gage_eval.models.backends.base import Backend, BackendContext
from gage_eval.models.backends.build import build_backend, parse_config
from gage_eval.models.backends.role_hooks import RoleHooks
from gage_eval.models.client.episode_limits import EpisodeLimits, Price
from gage_eval.models.client.tools import DefinedTool
from gage_eval.models.client.types import FollowUp
from gage_eval.pipeline.agents import AgentProgram
from gage_eval.pipeline.boxes import Boxes, sandbox_identity, sandboxes
from gage_eval.pipeline.keys import RENDER_VERSION
from gage_eval.pipeline.outputs import responses_of
from gage_eval.pipeline.pairs import Pairs
from gage_eval.report.model_run import ModelRun, model_name
from gage_eval.store import Store


@dataclass(frozen=True)
class PromptBinding:
    """A prompt template bound to a role, with its parameters merged."""

    prompt_id: str
    template: Any
    system_prompt: str | None
    params: Mapping[str, Any]

    @property
    def reads_extras(self) -> bool:
        """Whether the template may show ``extras``: the adapter's id and role."""
        return "extras" in canonical_text([self.template, self.system_prompt])

    @property
    def reads_support(self) -> bool:
        """Whether the template may show ``payload.support_output``."""
        return "support_output" in canonical_text([self.template, self.system_prompt])

    def material(self) -> JsonValue:
        return {"template": self.template, "system_prompt": self.system_prompt, "params": dict(self.params)}


@dataclass(frozen=True)
class GenerateSpec:
    """Which model is asked, with which prompt and parameters."""

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
    tools: Mapping[str, DefinedTool] = field(default_factory=dict)
    servers: Sequence[McpServer] = ()
    boxes: Boxes | None = None
    media: MediaRules = field(default_factory=MediaRules)
    tool_rounds: int = 0
    agent: AgentProgram | None = None
    limits: EpisodeLimits | None = None
    simulator: SimulatorConfig | None = None
    user: "GenerateSpec | None" = None
    embeds: bool | str = False
    follow_up: FollowUp | None = None
    pairs: Pairs | None = None
    pool_size: int | None = None

    @cached_property
    def model(self) -> Backend:
        """The backend, built but not opened. It knows its identity and capabilities."""
        return build_backend(self.backend_type, self.backend_config, self.context)

    @property
    def is_deterministic(self) -> bool:
        """Whether its engine is asked for the mode in which no answer depends on the others."""
        # Few configs have the key, and reading one takes longer than looking for it.
        config = self.backend_config
        return "deterministic" in config and parse_config(self.backend_type, config).deterministic

    @property
    def price(self) -> Price:
        """The prices of its model's tokens."""
        config = parse_config(self.backend_type, self.backend_config)
        return Price(config.input_price, config.output_price)

    @property
    def engine_key(self) -> str | None:
        """The key of the engine that the model starts; None if it starts none, or a plug-in does not say."""
        key: str | None = getattr(self.model, "engine_key", lambda: None)()
        return key

    @property
    def model_name(self) -> str:
        """The short name of the model, with its adapter; else the type of its backend."""
        config, folder = self.backend_config, self.context.base_dir
        for key in ("model", "model_path", "model_name_or_path", "path"):
            value = config.get(key)
            if isinstance(value, str) and value:
                name = model_name(value, is_place=key != "model" and local_path(value, folder).exists())
                adapter = config.get("lora_path")
                return f"{name} + {model_name(adapter, is_place=True)}" if isinstance(adapter, str) else name
        return without_folders(self.backend_type)

    @property
    def declared_model(self) -> str | None:
        """The model's name as the config declares it; None for a backend without one."""
        names = (self.backend_config.get(key) for key in ("model", "model_path", "model_name_or_path"))
        return next((name for name in names if isinstance(name, str) and name), None)

    def described(self, *, identified: bool = False) -> ModelRun:
        """The model as run.json and summary.json keep it.

        Args:
            identified: with its identity; its files are read for it, unless that was done before.
        """
        quantisation = self.backend_config.get("quantization")
        return ModelRun(
            role=self.role,
            name=self.model_name,
            quantisation=quantisation if isinstance(quantisation, str) else None,
            engine=without_folders(self.backend_type),
            identity=self.model_identity if identified else None,
        )

    @property
    def reads_samples(self) -> bool:
        """Whether rendering needs more of a sample than its prepared row."""
        hooked = self.hooks is not None and self.hooks.prepares
        prompted = self.prompt is not None or self.tool_rounds > 0 or self.agent is not None or bool(self.embeds)
        return prompted or hooked or self.user is not None or self.model.lookup_field is not None

    @property
    def reads_support(self) -> bool:
        """Whether the requests may show the support model's answer."""
        hooked = self.hooks is not None and self.hooks.prepares
        paired = self.pairs is not None and self.pairs.reads_support
        return hooked or paired or (self.prompt is not None and self.prompt.reads_support)

    @property
    def output(self) -> str:
        """Name of the output that holds the responses."""
        return responses_of(self.role)

    @cached_property
    def model_material(self) -> JsonValue:
        """What determines the model's answers. This includes a plug-in's code and the code that its class inherits."""
        plugin = registry.backends.get(self.backend_type)
        own = self.model.identity()
        return own if plugin.origin == "builtin" else {"plugin": plugin.identity(), "model": own}

    @cached_property
    def model_identity(self) -> str:
        """Digest of the model's identity, the first component of every response key."""
        return digest(self.model_material)

    @cached_property
    def binding(self) -> "Binding":
        """The adapter with its own prompt and parameters."""
        return Binding(self, self.prompt, self.params)

    def material(self) -> JsonValue:
        return {**self.binding.material(), "model": self.model_material}

    def input_material(self, store: Store, inputs: Mapping[str, str]) -> dict[str, JsonValue]:
        """The content of the files and images that samples put into the boxes of tools."""
        if self.boxes is None or "samples" not in inputs:
            return {}
        return given(files=sandbox_identity(sandboxes(store.artifact(inputs["samples"])), self.media, self.boxes))


@dataclass(frozen=True)
class Binding:
    """An adapter with a prompt and parameters: its own, or those that a sample sets.

    Attributes:
        spec: the adapter: its model, hooks and limits.
        prompt: the prompt; None where the samples' own messages are sent.
        params: sampling parameters; those of the rows override them.
        parser: for a judge, the identity of its verdict parser.
    """

    spec: GenerateSpec
    prompt: PromptBinding | None
    params: Mapping[str, Any]
    parser: JsonValue = None

    @cached_property
    def digest(self) -> str:
        """Digest of the model, prompt, parameters and parser, without their names."""
        return digest({**self.material(), "model": self.spec.model_identity, "parser": self.parser})

    def material(self) -> dict[str, JsonValue]:
        """What determines the requests, except the model."""
        spec = self.spec
        return {
            "render": RENDER_VERSION,
            "role": spec.role,
            "prompt": self.prompt.material() if self.prompt else None,
            "params": dict(self.params),
            **given(
                adapter_id=spec.adapter_id if self.prompt is not None and self.prompt.reads_extras else None,
                hooks=spec.hooks and spec.hooks.identity(),
                embeds=spec.embeds or None,
                follow_up=spec.follow_up and spec.follow_up.identity,
                pairs=spec.pairs and spec.pairs.material(),
                tool_rounds=spec.tool_rounds or None,
                agent=spec.agent and spec.agent.identity,
                limits=spec.limits and spec.limits.identity,
                simulator=spec.simulator and {"version": simulator.VERSION, **spec.simulator.model_dump()},
                user=spec.user and spec.user.material(),
                tools=[tool.identity for tool in spec.tools.values()] or None,
            ),
        }
