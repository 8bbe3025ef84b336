"""An agent that is a program: it runs in a box, asks the model through the relay, and leaves an answer."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from gage_eval.base.statuses import ResponseStatus
from gage_eval.box.types import Box, BoxError, Ran
from gage_eval.engine.agents.relay import Generate, Relay
from gage_eval.engine.final_state import final_state
from gage_eval.models.client.agents import Agent
from gage_eval.models.client.http_server import HTTPServer
from gage_eval.models.client.tools import EpisodeState
from gage_eval.models.client.types import Request, Response

PROMPT_FILE = "prompt.txt"
_LONGEST_LINE = 500
_ENDED = {
    "cpu": "it used more than {limits.cpu_s:g} s of processor time",
    "idle": "it was still there after {limits.wall:g} s",
    "memory": "it used more than {limits.memory_mb} MB of memory",
    "files": "it wrote more than {limits.files} files",
    "output": "it wrote too much",
}


@dataclass(frozen=True)
class Ended:
    """How a program ended.

    Attributes:
        turns: the model's answers.
        sentence: what was amiss, if something was.
        artifacts: the final state of its box, if files are declared.
    """

    turns: Sequence[Response]
    status: ResponseStatus
    answer: str | None = None
    error_kind: str | None = None
    sentence: str = ""
    artifacts: str | None = None


async def run_program(
    generate: Generate,
    request: Request,
    state: EpisodeState,
    calls_of: Callable[[Response], list[dict[str, Any]]],
) -> Ended:
    """Run the agent of a request to its end.

    Args:
        generate: asks the model; the answer is logged.
        request: of the episode: the prompt and the agent.
        state: of the attempt.
        calls_of: the calls of tools in a response.
    """
    agent = request.agent
    assert agent is not None
    assert state.executor is not None
    try:
        prompt = _prompt(request.messages or [])
        executor = await asyncio.to_thread(state.executor)
        box = await executor.open(replace(agent.spec(), listens=True), agent.limits)
    except BoxError as error:
        return _failed((), "box_error", str(error))
    relay = Relay(generate, request, calls_of)
    try:
        ran = await _run(box, agent, relay, prompt)
        if isinstance(ran, Response):
            return _failed(await relay.turns(), ran.error_kind, _last(ran.errors))
        ended = await _ended(ran, box, agent, relay)
        if agent.artifacts and ended.status != "error":
            assert state.keep is not None
            ended = replace(ended, artifacts=await final_state(box, agent.artifacts, agent.limits, state.keep))
        return ended
    except BoxError as error:
        # Answers that are still to come are of no use.
        relay.close()
        return _failed(await relay.turns(), "box_error", str(error))
    finally:
        relay.close()
        await box.close()


async def _run(box: Box, agent: Agent, relay: Relay, prompt: str) -> Ran | Response:
    """What came of the program; or the failed response, after which it could not go on."""
    assert box.listener is not None
    await box.put(PROMPT_FILE, prompt.encode("utf-8", "replace"))
    variables = relay.environment(box.listener.getsockname()[1])
    prompt_file = str(PurePosixPath(box.root, PROMPT_FILE))
    command = [part.replace("{prompt_file}", prompt_file) for part in agent.command]
    server = HTTPServer(relay.answer)
    listening = await asyncio.start_server(server.converse, sock=box.listener)
    program = asyncio.ensure_future(
        box.run(["env", *(f"{name}={value}" for name, value in variables.items()), *command], limits=agent.limits)
    )
    try:
        waits: list[asyncio.Future[Any]] = [program, relay.failed]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        return relay.failed.result() if relay.failed.done() else program.result()
    finally:
        program.cancel()
        await asyncio.gather(program, return_exceptions=True)
        listening.close()
        server.close()


async def _ended(ran: Ran, box: Box, agent: Agent, relay: Relay) -> Ended:
    turns = await relay.turns()
    if relay.failed.done():
        failed = relay.failed.result()
        return _failed(turns, failed.error_kind, _last(failed.errors))
    if ran.reason == "starved":
        sentence = "the program waited for a processor until its time was over"
        return _failed(turns, "box_error", sentence)
    stderr = _last(relay.without_secret(ran.stderr).decode("utf-8", "replace").split("\n"))
    how = f"exit {ran.exit}" + (f": {stderr}" if stderr else "")
    reached = relay.limit
    if ran.reason:
        why = _ENDED.get(ran.reason, ran.reason).format(limits=agent.limits)
        reached = "time" if ran.reason == "idle" else ran.reason, f"the program was ended: {why}"
    elif not turns:
        said = "take the model's address from OPENAI_BASE_URL or ANTHROPIC_BASE_URL"
        return _failed(turns, "agent_error", f"the program never asked the model ({how}); {said}")
    elif ran.exit != 0 and reached is None:
        return _failed(turns, "agent_error", f"the program failed ({how})")
    missing, answer = "", ran.stdout
    if agent.answer_file is not None:
        try:
            answer = await box.take(agent.answer_file)
        except BoxError as error:
            missing, answer = f"the program left no answer: {error}", b""
    text = relay.without_secret(answer).decode("utf-8", "replace").rstrip("\n")
    if reached is not None:
        return Ended(turns, "limit", text, *reached)
    return Ended(turns, "ok", text, sentence=missing)


def _failed(turns: Sequence[Response], kind: str | None, sentence: str) -> Ended:
    """An end without an answer."""
    return Ended(turns, "error", error_kind=kind, sentence=sentence)


def _prompt(messages: Sequence[Mapping[str, Any]]) -> str:
    """The messages as one text."""
    texts = []
    for message in messages:
        content = message.get("content") or []
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if any(part.get("type") != "text" for part in parts):
            raise BoxError("the prompt holds media, which no program gets yet")
        texts += [part["text"] for part in parts]
    return "\n\n".join(texts)


def _last(lines: Sequence[str]) -> str:
    """The last line that is not blank."""
    return next((line.strip()[:_LONGEST_LINE] for line in reversed(lines) if line.strip()), "")
