"""render(binding): prepared rows → requests, with the prompt and parameters of a binding.

One renderer serves support, the model under test and the judge. All that it puts into a request is part of the request
body, and so of the response key. No model is called here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from gage_eval.base.canonical import decode
from gage_eval.base.errors import GageError, InputError
from gage_eval.base.field_paths import reference_media, reference_texts, resolve
from gage_eval.base.made_media import made_medium
from gage_eval.data.prepare.media import file_content, shown
from gage_eval.data.prepare.remote import REMOTE
from gage_eval.data.prompts import PromptError, PromptRenderer
from gage_eval.data.sample.record import RecordRejected
from gage_eval.engine.episodes import kind_of_calls
from gage_eval.engine.tools.sets import episode_tools, merged
from gage_eval.extend.loading import without_folders
from gage_eval.models.client.types import RenderFailure, Request
from gage_eval.pipeline.boxes import episode_limits
from gage_eval.pipeline.generate_spec import Binding, PromptBinding
from gage_eval.pipeline.pairs import NO_PARTNER, Replicates
from gage_eval.pipeline.users import join_user
from gage_eval.store.media import MEDIA_SCHEME

_NOT_IN_PROMPTS = frozenset({"raw_assets"})
# Likelihood requests, after a text and after a chat.
_LIKELIHOODS = frozenset({"likelihood", "chat_likelihood"})


class NoPartner(InputError):
    """A pair lacks its other answer."""


class PreparedRow(NamedTuple):
    """The columns of `tables.PREPARED` that requests are made from."""

    row_index: int
    sample_id: str
    kind: str
    prompt: str | None
    choices: list[str] | None
    unconditioned_input: str | None
    tools: str | None
    tool_choice: str | None
    params: str
    media_meta: str | None
    messages: list[dict[str, Any]]


@dataclass(slots=True)
class RowContext:
    """The fields of a row that prompts and hooks may read, in addition to its messages.

    Attributes:
        sample: the whole sample; empty if the binding does not read it.
        responses: the answers to judge, by replicate; None outside of judge stages.
        support: the support model's answers, by replicate.
        others: the answers of the run that pairs are made with, by replicate.
    """

    sample: Mapping[str, Any] = field(default_factory=dict)
    responses: dict[int, dict[str, Any]] | None = None
    support: dict[int, dict[str, Any]] = field(default_factory=dict)
    others: Replicates = field(default_factory=dict)

    def payload(self, replicate: int) -> dict[str, Any]:
        """The sample and its answers so far, in the form that templates and hooks get."""
        return {
            "sample": {name: value for name, value in self.sample.items() if name not in _NOT_IN_PROMPTS},
            "model_output": (self.responses or {}).get(replicate) or {},
            "support_output": self.support.get(replicate) or {},
        }


class RequestRenderer:
    """Makes the requests of one binding."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._spec = binding.spec
        self._template = _template(binding.prompt) if binding.prompt else None
        self._lookup = self._spec.model.lookup_field
        self._tested = self._spec.role == "dut_model"
        self._sees = "images" in self._spec.model.capabilities
        self._takes_tools = "tools" in self._spec.model.capabilities
        # Most rows of a task have the same parameters and kind of request.
        self._params: dict[str, dict[str, Any]] = {}
        # The turns of a scripted user are in the sample.
        user = self._spec.user
        self._user = None if user is None or user.prompt is None else RequestRenderer(user.binding)
        self._answerable: set[tuple[str, bool]] = set()

    def render(self, row: PreparedRow, context: RowContext, asks: Sequence[tuple[int, int]]) -> list[Request]:
        """The requests of a row's asks, each a replicate and a draw; `unasked` where the template or a hook fails.

        Raises:
            InputError: the backend cannot answer the row's kind.
        """
        kind = self._kind(row.kind)
        self._check(kind, row)
        rewrites = kind != "chat" and row.prompt is not None and self._template is not None
        params, tools, tool_choice = self._asked(row)
        lookup = self._looked_up(context)
        tool_set = episode_tools(self._spec.tools, context.sample) if kind == "tools" else None
        if tool_set is not None:
            tools = merged(tools, tool_set.definitions)
        program = self._spec.agent if kind == "agent" else None
        agent = program.agent(context.sample, takes_tools=self._takes_tools) if program is not None else None
        limits = self._spec.limits if self._spec.boxes is None else episode_limits(self._spec.limits, context.sample)
        is_likelihood = kind in _LIKELIHOODS
        embed = row.media_meta is not None and decode(row.media_meta)["embed"]
        requests = []
        for replicate, draw in asks:
            # Naming the fields in the call takes twice as long.
            request = Request("likelihood" if is_likelihood else kind, None, row.prompt)
            request.params = _seeded(params, draw) if draw else params
            request.tools, request.tool_choice = tools, tool_choice
            request.sample_id, request.row_index = row.sample_id, row.row_index
            request.replicate, request.draw = replicate, draw
            request.lookup, request.embed = lookup, embed
            request.follow_up = self._spec.follow_up
            if tool_set is not None:
                request.tool_set, request.tool_rounds = tool_set, self._spec.tool_rounds
            request.agent, request.limits = agent, limits
            if (user := self._spec.user) is not None:
                rendered = None if self._user is None else self._user.render(row, context, [(replicate, draw)])[0]
                join_user(request, user, rendered, context.sample)
            if tool_set is not None:
                script = None if request.user is None else request.user.script
                if (fault := tool_set.fault(tools, script or ())) is not None:
                    request.unasked = RenderFailure("prompt_failed", f"sample '{row.sample_id}': {fault}")
            if row.choices is not None:
                request.choices, request.unconditioned = row.choices, row.unconditioned_input
            try:
                request.messages = messages = self._messages(row, context, replicate)
            except (PromptError, NoPartner, RecordRejected) as error:
                request.messages, request.prompt = [], None
                request.unasked = _failure(error)
                requests.append(request)
                continue
            if rewrites:
                request.prompt = "\n\n".join(message["content"] for message in messages)
            requests.append(self._hooked(request, context))
        return requests

    def _asked(self, row: PreparedRow) -> tuple[dict[str, Any], list[Any] | None, Any]:
        """Parameters, tools and tool choice of a row's requests."""
        if not self._tested:
            # Those of tasks and samples are meant for the model under test.
            return dict(self._binding.params), None, None
        return (
            self._merged(row.params),
            decode(row.tools) if row.tools else None,
            decode(row.tool_choice) if row.tool_choice else None,
        )

    def _hooked(self, request: Request, context: RowContext) -> Request:
        """The request after `prepare` of the adapter's own class, if it has one."""
        hooks = self._spec.hooks
        if hooks is None or not hooks.prepares:
            return request
        try:
            return hooks.prepare(request, context.payload(request.replicate))
        except GageError as error:
            return replace(request, unasked=RenderFailure("hook_failed", str(error)))

    def _kind(self, prepared: str) -> str:
        """The kind of a row's requests: the row's own for the model under test, chat for support and judge.

        Support and judge prompts are complete messages, whatever the kind of the sample's question is.
        """
        if self._spec.embeds:
            return "similarity"
        if self._spec.follow_up is not None:
            return "reasoned"
        kind = prepared if self._template is None or self._tested else "chat"
        if kind == "chat" and self._spec.agent is not None:
            return "agent"
        if self._spec.user is not None:
            return "tools"
        return "tools" if kind == "chat" and self._spec.tool_rounds else kind

    def _messages(self, row: PreparedRow, context: RowContext, replicate: int) -> list[dict[str, Any]]:
        if self._spec.embeds:
            return self._compared(row, context, replicate)
        if self._template is None:
            # A request without messages is skipped and not sent.
            return row.messages
        payload = context.payload(replicate)
        if context.responses is not None and payload["model_output"].get("answer") is None:
            # There is nothing to judge. A request without messages is skipped and not sent.
            return []
        media = _media_of(row.messages)
        in_question = len(media)
        pair = self._pair(row, context, replicate)
        if pair is not None:
            pair = {name: _shown(answer, media) for name, answer in pair.items()}
        else:
            payload["model_output"] = _shown(payload["model_output"], media)
        messages = self._template.render(
            sample=payload["sample"],
            payload=payload,
            history=row.messages,
            extras={"adapter_id": self._spec.adapter_id, "role_type": self._spec.role},
            model_answer=payload["model_output"].get("answer"),
            pair=pair,
        )
        if len(media) > in_question:
            if not self._sees:
                self._need("images", f"what the model made (sample '{row.sample_id}')")
            messages[-1]["content"] = [{"type": "text", "text": messages[-1]["content"]}, *media]
        return messages

    def _compared(self, row: PreparedRow, context: RowContext, replicate: int) -> list[dict[str, Any]]:
        """The answer, and the references or the question, as messages; none where one of them is missing.

        Raises:
            RecordRejected: the file of a reference cannot be read.
        """
        response = (context.responses or {}).get(replicate) or {}
        if (answer := response.get("answer")) is None:
            return []
        if self._spec.embeds == "question":
            others: list[Any] = [_question(row.messages)]
        else:
            media = reference_media(context.sample)
            addresses = {address for _, address in media}
            others = [text for text in reference_texts(context.sample) if text not in addresses]
            others += [[{"type": kind, kind: {"url": self._stored(address)}}] for kind, address in media]
        medium = made_medium(response)
        contents = [answer if medium is None else [medium.part], *others]
        if any(isinstance(content, list) for content in contents) and not self._sees:
            self._need("images", f"media (sample '{row.sample_id}')")
        return [{"role": "user", "content": content} for content in contents if others]

    def _stored(self, address: str) -> str:
        """The address in the store of a reference's medium."""
        if address.startswith(MEDIA_SCHEME):
            return address
        keep = self._spec.context.keep
        assert keep is not None, "a run that judges has a store"
        try:
            if address.startswith(REMOTE):
                raise RecordRejected("what is compared here must be here: download it, and name the file.")
            return keep(file_content(address, self._spec.media))
        except RecordRejected as error:
            raise RecordRejected(f"reference '{shown(address)}': {error.reason}") from None

    def _pair(self, row: PreparedRow, context: RowContext, replicate: int) -> dict[str, Mapping[str, Any]] | None:
        """The answers that a judge compares, in the order of this binding; None where it compares none."""
        pairs = self._spec.pairs
        if pairs is None:
            return None
        answers = context.support if pairs.reads_support else context.others
        other = pairs.other(context.sample, answers, replicate)
        if other is None:
            raise NoPartner(
                f"task '{self._spec.task_id}', sample '{row.sample_id}': there is no pair, because {pairs.lack}."
            )
        own = (context.responses or {})[replicate]
        swapped = self._binding.prompt is not None and self._binding.prompt.params.get("swapped")
        return {"a": other, "b": own} if swapped else {"a": own, "b": other}

    def _merged(self, params: str) -> dict[str, Any]:
        """The row's parameters over the binding's."""
        merged = self._params.get(params)
        if merged is None:
            merged = self._params[params] = {**self._binding.params, **decode(params)}
        return merged

    def _looked_up(self, context: RowContext) -> str | None:
        if self._lookup is None:
            return None
        value = resolve(self._lookup, sample=context.sample)
        return value if isinstance(value, str) else None

    def _check(self, kind: str, row: PreparedRow) -> None:
        """Refuse what the backend cannot answer, before anything is sent."""
        tools = (bool(row.tools) and self._tested) or bool(self._spec.tools)
        if (kind, tools) not in self._answerable:
            self._need(kind_of_calls(kind), f"{kind} requests")
            if tools:
                self._need("tools", f"tools (sample '{row.sample_id}')")
            self._answerable.add((kind, tools))
        if not self._sees and any(isinstance(message.get("content"), list) for message in row.messages):
            self._need("images", f"media (sample '{row.sample_id}')")

    def _need(self, capability: str, what: str) -> None:
        capabilities = self._spec.model.capabilities
        if capability not in capabilities:
            raise InputError(
                f"task '{self._spec.task_id}' sends {what}, which backend '{without_folders(self._spec.backend_type)}' "
                f"cannot answer. It can: {', '.join(sorted(capabilities))}."
            )


def _failure(error: PromptError | NoPartner | RecordRejected) -> RenderFailure:
    if isinstance(error, NoPartner):
        return RenderFailure(NO_PARTNER, str(error), "skipped")
    if isinstance(error, RecordRejected):
        return RenderFailure("no_reference", error.reason, "skipped")
    return RenderFailure("prompt_failed", str(error))


def _media_of(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The media of a question: a judge sees the picture before an edit, too."""
    lists = (message["content"] for message in messages if isinstance(message.get("content"), list))
    return [part for parts in lists for part in parts if part.get("type") != "text"]


def _shown(answer: Mapping[str, Any], media: list[dict[str, Any]]) -> dict[str, Any]:
    """An answer as a prompt shows it: a numbered marker in place of a medium, which is appended to ``media``."""
    medium = made_medium(answer)
    if medium is None:
        return dict(answer)
    media.append(medium.part)
    return {**answer, "answer": f"[{medium.kind} {len(media)}]"}


def _question(messages: Sequence[Mapping[str, Any]]) -> str:
    """The text of the last message."""
    content = messages[-1].get("content") if messages else ""
    if isinstance(content, list):
        return "\n\n".join(part["text"] for part in content if part.get("type") == "text")
    return content or ""


def _template(prompt: PromptBinding) -> PromptRenderer:
    return PromptRenderer(prompt.template, prompt.params, prompt.system_prompt, prompt_id=prompt.prompt_id)


def _seeded(params: dict[str, Any], draw: int) -> dict[str, Any]:
    """The parameters of a request, with a different seed for each draw."""
    seed = params.get("seed")
    return {**params, "seed": seed + draw} if isinstance(seed, int) else params
