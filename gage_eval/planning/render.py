"""render(role): prepared rows → the requests of one role, with its prompt and parameters.

One renderer serves support, the model under test and the judge. What it puts into a request is part of the request
body and so of its response key; nothing here asks a model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.canonical import JsonValue, canonical_text, decode
from gage_eval.client.types import Request
from gage_eval.engine.episodes import EPISODES
from gage_eval.errors import InputError
from gage_eval.field_paths import resolve
from gage_eval.foreign import without_folders
from gage_eval.planning.generate_spec import GenerateSpec, PromptBinding
from gage_eval.planning.judge_overrides import COLUMN, JudgeOverride, judge_override
from gage_eval.planning.tool_outputs import tool_outputs
from gage_eval.prompts import PromptRenderer
from gage_eval.sample.table import messages_from_array, rows_of
from gage_eval.store import Artifact, Store

_NOT_IN_PROMPTS = frozenset({"raw_assets"})
# The same request of a backend, after a text and after a chat.
_LIKELIHOODS = frozenset({"likelihood", "chat_likelihood"})

# Inputs of a generate stage, and what `RoleSource` calls them.
_READ = {"prepared": "prepared", "samples": "samples", "responses": "responses", "support_responses": "support"}


class RoleSource:
    """The requests of one role, part by part (`gage_eval.engine.generate.Source`)."""

    def __init__(
        self,
        spec: GenerateSpec,
        prepared: Artifact,
        *,
        samples: Artifact | None = None,
        responses: Artifact | None = None,
        support: Artifact | None = None,
    ) -> None:
        """Args:
        spec: the role's model, prompt and parameters.
        prepared: what each row asks, free of any model.
        samples: whole samples, for prompts and replays that look into them.
        responses: answers to judge; then there is one request for each of them.
        support: the support model's answers, for prompts that use them.
        """
        self._spec = spec
        self._prepared = prepared
        self._samples = samples
        self._responses = responses
        self._support = support
        self._renderer = _renderer(spec.prompt) if spec.prompt else None
        self._renderers: dict[str, PromptRenderer] = {}
        self._lookup = spec.model.lookup_field
        self._params: dict[str, dict[str, Any]] = {}
        self._answerable: set[tuple[str, bool]] = set()
        self._sees = "images" in spec.model.capabilities
        self._context: dict[int, dict[str, Any]] = {}

    @classmethod
    def of(cls, spec: GenerateSpec, store: Store, inputs: Mapping[str, str]) -> "RoleSource":
        """The requests of a generate stage, from the artifact ids of its inputs."""
        given = {_READ[name]: store.artifact(id_) for name, id_ in inputs.items()}
        return cls(spec, given.pop("prepared"), **given)

    @cached_property
    def parts(self) -> Sequence[tuple[int, int]]:
        if self._asks_all:
            return [(part.index, part.rows) for part in self._prepared.parts]
        return [(part.index, self._rows(part.index, ["row_index"]).num_rows) for part in self._prepared.parts]

    @property
    def replicates(self) -> int:
        """Requests of a row: the same for all rows of a task."""
        for part in self._prepared.parts:
            if part.rows:
                return int(self._prepared.read(part.index, columns=["replicates"])["replicates"][0].as_py())
        return 1

    def read(self, part: int) -> pa.Table:
        """The rows of a part that are asked; what prompts need beside them is read along."""
        table = self._prepared.read(part) if self._asks_all else self._rows(part)
        self._context = {}
        if self._samples is not None:
            wanted = pc.is_in(self._samples.read(part, columns=["row_index"])["row_index"], table["row_index"])
            samples = self._samples.read(part).filter(wanted)
            for row, sample in zip(samples["row_index"].to_pylist(), rows_of(samples), strict=True):
                self._context[row] = {"sample": sample, "override": self._override(sample.get(COLUMN))}
        for name, artifact in (("responses", self._responses), ("support", self._support)):
            if artifact is not None:
                for answer in artifact.read(part).to_pylist():
                    row = self._context.setdefault(answer["row_index"], {})
                    row.setdefault(name, {})[answer["replicate"]] = answer
        return table

    def render(self, rows: pa.Table) -> list[Request]:
        """The requests of some prepared rows, replicates of a row side by side.

        Raises:
            InputError: a row has no messages and the role binds no prompt, or its kind is not the backend's.
            PromptError: the template needs what the sample does not have.
        """
        requests = []
        tested = self._spec.role == "dut_model"
        columns = (
            "row_index", "sample_id", "kind", "replicates", "prompt", "choices", "unconditioned_input", "tools",
            "tool_choice", "params", "media_meta",
        )  # fmt: skip
        flat = [rows[name].to_pylist() for name in columns]
        messages = messages_from_array(rows["messages"], collapse=True)
        for row, own in zip(zip(*flat, strict=True), messages, strict=True):
            (
                index, sample_id, prepared_kind, replicates, prompt, choices, unconditioned, tools, tool_choice, params,
                media,
            ) = row  # fmt: skip
            kind = self._kind(prepared_kind)
            self._check(kind, sample_id, tools if tested else None, own)
            shared = {
                "kind": kind,
                "prompt": prompt,
                "params": self._merged(params),
                "tools": decode(tools) if tools else None,
                "tool_choice": decode(tool_choice) if tool_choice else None,
                "sample_id": sample_id,
                "row_index": index,
                "lookup": self._looked_up(index),
                "embed": media is not None and decode(media)["embed"],
            }
            if not tested:
                # Parameters and tools of tasks and samples are those of the model under test.
                shared.update(params=self._own_params(index), tools=None, tool_choice=None)
            if kind == "tools":
                outputs = tool_outputs(self._context[index]["sample"])
                shared.update(tool_outputs=outputs, tool_rounds=self._spec.tool_rounds)
            if kind in _LIKELIHOODS:
                shared.update(kind="likelihood", choices=choices, unconditioned=unconditioned)
            for replicate in range(replicates):
                request_messages = self._messages(index, sample_id, own, replicate)
                if kind != "chat" and prompt is not None and self._renderer is not None:
                    shared["prompt"] = "\n\n".join(message["content"] for message in request_messages or ())
                request = Request(**self._seeded(shared, replicate), messages=request_messages, replicate=replicate)
                requests.append(self._hooked(request))
        return requests

    def _hooked(self, request: Request) -> Request:
        """The request after the adapter's own class had its hand in it."""
        hooks = self._spec.hooks
        if hooks is None or not hooks.prepares:
            return request
        return hooks.prepare(request, self._payload(request.row_index, request.replicate))

    def _kind(self, prepared: str) -> str:
        """The kind of a row's requests: that of the row for the model under test, chat for those with other questions.

        Support and judge prompts are messages of their own, whatever form the sample's question takes.
        """
        kind = prepared if self._renderer is None or self._spec.role == "dut_model" else "chat"
        return "tools" if kind == "chat" and self._spec.tool_rounds else kind

    def _messages(
        self, index: int, sample_id: str, own: list[dict[str, Any]], replicate: int
    ) -> list[dict[str, Any]] | None:
        renderer, refused = self._renderer, None
        if (override := self._context.get(index, {}).get("override")) is not None:
            renderer, refused = self._renderer_of(override), override.refused
        if renderer is None:
            if not own:
                raise InputError(
                    f"task '{self._spec.task_id}': sample '{sample_id}' has no messages and the {self._spec.role} "
                    "binds no prompt. Name one with prompt_id, or use a preprocessor that writes messages."
                )
            return own
        payload = self._payload(index, replicate)
        answer = payload["model_output"].get("answer")
        if refused is not None or (self._responses is not None and answer is None):
            # Nothing to judge, or by rules that cannot be used; a request without messages is skipped unsent.
            return []
        return renderer.render(
            sample=payload["sample"],
            payload=payload,
            history=own,
            extras={"adapter_id": self._spec.adapter_id, "role_type": self._spec.role},
            model_answer=answer,
        )

    def _payload(self, index: int, replicate: int) -> dict[str, Any]:
        """The sample of a row and what was answered to it so far."""
        context = self._context[index]
        return {
            "sample": {name: value for name, value in context["sample"].items() if name not in _NOT_IN_PROMPTS},
            "model_output": context.get("responses", {}).get(replicate) or {},
            "support_output": context.get("support", {}).get(replicate) or {},
        }

    @cached_property
    def _asks_all(self) -> bool:
        """Whether no sample can name another judge than this."""
        return len(self._spec.judges) < 2 or self._samples is None or not self._samples.counts.get(COLUMN)

    def _rows(self, part: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The prepared rows of a part whose samples are this judge's: they name it, or none and it is the task's."""
        assert self._samples is not None
        samples = self._samples.read(part, columns=["row_index", COLUMN])
        mine = [text for text in pc.unique(samples[COLUMN]).to_pylist() if self._is_own(text)]
        rows = samples.filter(pc.is_in(samples[COLUMN], pa.array(mine, pa.string())))["row_index"]
        table = self._prepared.read(part, columns=columns)
        return table.filter(pc.is_in(table["row_index"], rows))

    def _is_own(self, text: str | None) -> bool:
        override = None if text is None else self._override(decode(text))
        named = None if override is None else override.adapter_id
        return not self._spec.on_demand if named is None else named == self._spec.adapter_id

    def _merged(self, params: str) -> dict[str, Any]:
        """The row's parameters over the adapter's; rows of a task mostly share one text."""
        merged = self._params.get(params)
        if merged is None:
            merged = self._params[params] = {**self._spec.params, **decode(params)}
        return merged

    def _override(self, config: JsonValue) -> JudgeOverride | None:
        """What a sample sets for its judge."""
        if self._spec.role != "judge_model":
            return None
        return judge_override(config, self._spec.prompts, self._spec.judges)

    def _own_params(self, index: int) -> dict[str, Any]:
        """The adapter's sampling parameters; for a row's judge, under those that the sample sets."""
        override: JudgeOverride | None = self._context.get(index, {}).get("override")
        return {**self._spec.params, **(override.params if override is not None else {})}

    def _renderer_of(self, override: JudgeOverride) -> PromptRenderer | None:
        wanted = self._spec.prompt if override.prompt_id is None else self._spec.prompts[override.prompt_id]
        if wanted is None:
            return None
        params = {**wanted.params, **override.prompt_params}
        key = canonical_text([wanted.prompt_id, params])
        if key not in self._renderers:
            self._renderers[key] = _renderer(replace(wanted, params=params))
        return self._renderers[key]

    @staticmethod
    def _seeded(shared: dict[str, Any], replicate: int) -> dict[str, Any]:
        """Replicates of a seeded request have seeds of their own."""
        params = shared["params"]
        if replicate and isinstance(params.get("seed"), int):
            return {**shared, "params": {**params, "seed": params["seed"] + replicate}}
        return shared

    def _looked_up(self, index: int) -> str | None:
        if self._lookup is None:
            return None
        value = resolve(self._lookup, sample=self._context[index]["sample"])
        return value if isinstance(value, str) else None

    def _check(self, kind: str, sample_id: str, tools: str | None, messages: list[dict[str, Any]]) -> None:
        """Refuse what the backend cannot answer, before any of it is sent."""
        if (kind, bool(tools)) not in self._answerable:
            self._need("chat" if kind in EPISODES else kind, f"{kind} requests")
            if tools:
                self._need("tools", f"tools (sample '{sample_id}')")
            self._answerable.add((kind, bool(tools)))
        if not self._sees and any(isinstance(message.get("content"), list) for message in messages):
            self._need("images", f"media (sample '{sample_id}')")

    def _need(self, capability: str, what: str) -> None:
        capabilities = self._spec.model.capabilities
        if capability not in capabilities:
            raise InputError(
                f"task '{self._spec.task_id}' sends {what}, which backend '{without_folders(self._spec.backend_type)}' "
                f"cannot answer. It can: {', '.join(sorted(capabilities))}."
            )


def _renderer(prompt: PromptBinding) -> PromptRenderer:
    return PromptRenderer(prompt.template, prompt.params, prompt.system_prompt, prompt_id=prompt.prompt_id)
