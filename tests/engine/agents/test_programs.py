"""Programs in real boxes: each ends with a status and a sentence, whatever it does."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine.agents.relayed import agent, says
from support.boxes import NEEDS_BOX

from gage_eval.base.errors import EndpointFailed
from gage_eval.box.executors import ExecutorSettings, open_executor
from gage_eval.box.types import BoxError, BoxSpec, Limits
from gage_eval.engine.episodes import Outcome, program
from gage_eval.engine.journal import EpisodeCalls
from gage_eval.models.client.tools import EpisodeState
from gage_eval.models.client.types import Request, Response

BOXED = ExecutorSettings("bubblewrap", slots=4)
LIMITS = Limits(cpu_s=2.0, wall_s=240.0, memory_mb=256, output_kb=4)
ASK = """
import json, os, sys, urllib.request
def ask(text, path="/chat/completions"):
    body = json.dumps({"model": "any", "messages": [{"role": "user", "content": text}]}).encode()
    url = os.environ["OPENAI_BASE_URL"] + path
    with urllib.request.urlopen(urllib.request.Request(url, body)) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]
"""
DELETES = 'python3 -c "$0"; rm -rf ./* /box; true'
PROMPT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2 + 2?"}]


def ended(*programs: str | Mapping[str, Any], settings: ExecutorSettings = BOXED, answer: Any = says) -> list[Response]:
    """What comes of programs of Python, or of agents."""

    async def one(executor: Any, played: str | Mapping[str, Any]) -> Outcome:
        changes = {"command": ["python3", "-c", ASK + played]} if isinstance(played, str) else played
        request = Request("agent", PROMPT, agent=agent(**{"limits": LIMITS, **changes}))
        state = EpisodeState(executor=lambda: executor, keep=lambda content: content.decode())
        calls = EpisodeCalls(None, answer, "key", None, state, is_program=True)  # type: ignore[arg-type]
        return await program(calls, request)

    async def all_of() -> list[Response]:
        executor = await asyncio.to_thread(open_executor, settings)
        try:
            return [outcome.response for outcome in await asyncio.gather(*(one(executor, it) for it in programs))]
        finally:
            await executor.close()

    return asyncio.run(all_of())


def said(response: Response) -> tuple[str, str | None, str]:
    return response.status, response.error_kind, " ".join(response.errors)


@NEEDS_BOX
def test_the_answer_is_what_a_program_prints_or_leaves_in_a_file() -> None:
    files = BoxSpec(files={"lib/ask.py": ASK.encode()})
    command = ["python3", "-c", "import sys; sys.path.append('lib'); import ask; "]
    reads = "print(ask.ask(open(sys.argv[1]).read()))"
    writes = "open('out.txt', 'w').write(ask.ask('4?')); print('noise')"
    first, second, third = ended(
        {"command": [*command[:2], command[2] + reads, "{prompt_file}"], "spec": lambda: files},
        {"command": [*command[:2], command[2] + writes], "spec": lambda: files, "answer_file": "out.txt"},
        "print(os.environ['OPENAI_BASE_URL'], ask('a') and '')",
    )
    assert (first.status, first.answer) == ("ok", "0: Be brief.\n\nWhat is 2 + 2?")
    assert (first.prompt_tokens, first.completion_tokens) == (3, 4)
    assert (second.status, second.answer) == ("ok", "0: 4?")
    assert third.answer == "http://127.0.0.1:4281/SECRET/v1 "


@NEEDS_BOX
def test_each_kind_of_bad_program_ends_with_a_status_and_a_sentence() -> None:
    silent, elsewhere, crashes, loops, asks, deletes, floods, missing, links = ended(
        "print(4)",
        "urllib.request.urlopen('http://192.0.2.1/v1', timeout=5)",
        "ask('a'); raise ValueError('my own fault')",
        "ask('a')\nwhile True: pass",
        {"command": ["python3", "-c", ASK + "while True: ask('again')"], "max_turns": 3},
        {"command": ["sh", "-c", DELETES, ASK + "ask('a')"], "answer_file": "a.txt"},
        "ask('a')\nwhile True: print('x' * 100_000)",
        {"command": ["no-such-program"]},
        {"command": ["python3", "-c", ASK + "ask('a'); os.symlink('/etc/passwd', 'a')"], "answer_file": "a"},
    )
    assert said(silent)[:2] == ("error", "agent_error")
    assert "OPENAI_BASE_URL" in said(silent)[2]
    assert said(elsewhere)[:2] == ("error", "agent_error")
    assert "unreachable" in said(elsewhere)[2]
    assert said(crashes) == ("error", "agent_error", "the program failed (exit 1: ValueError: my own fault)")
    assert said(loops) == ("limit", "cpu", "the program was ended: it used more than 2 s of processor time")
    assert said(asks)[:2] == ("limit", "turns")
    assert deletes.answer == ""
    assert "left no answer" in said(deletes)[2]
    assert floods.status == "limit"
    assert "no-such-program" in said(missing)[2]
    assert links.answer == ""


@NEEDS_BOX
def test_what_is_not_the_programs_fault_is_an_error() -> None:
    def no_spec() -> BoxSpec:
        raise BoxError("the box needs an image")

    async def fails(request: Request) -> Response:
        return Response("error", error_kind="timeout", errors=["no answer in time"])

    async def gone(request: Request) -> Response:
        raise EndpointFailed("the endpoint is gone")

    assert said(ended({"spec": no_spec})[0]) == ("error", "box_error", "the box needs an image")
    (setup,) = ended({"spec": lambda: BoxSpec(setup="exit 3")})
    assert said(setup)[:2] == ("error", "box_error")
    (failed,) = ended("ask('a')\nwhile True: pass", answer=fails)
    assert said(failed) == ("error", "timeout", "no answer in time")
    with pytest.raises(EndpointFailed):
        ended("ask('a')", answer=gone)


# Each leaves something that is no plain file of a fair size below `out`.
HOSTILE = {
    "link": [
        "os.symlink('/etc/passwd', 'out/a')",
        "os.rmdir('out'); os.symlink('/etc', 'out')",
        "os.mkdir('out/b'); os.symlink('../../..', 'out/b/up')",
    ],
    "too_many": ["[open(f'out/{n}', 'w').close() for n in range(1500)]"],
    "too_large": [
        "open('out/a', 'w').truncate(200 << 20)",
        "[open(f'out/{n}', 'w').truncate(15 << 20) for n in range(5)]",
    ],
    "unreadable": ["open(b'out/\\xff', 'w')", "open('out/a', 'w'); os.chmod('out/a', 0)"],
}


@NEEDS_BOX
def test_a_final_state_holds_plain_files_only_and_anything_else_is_a_sentence() -> None:
    """Sockets, pipes and folders are no files; what a program leaves never fails the episode."""
    limits = replace(LIMITS, files_mb=256)
    begin = "import socket; ask('a'); os.mkdir('out'); "
    plain = begin + "open('out/a b', 'w').write('1'); os.mkfifo('out/pipe'); socket.socket(1).bind('out/sock')"
    attacks = [(problem, begin + attack) for problem, attacks in HOSTILE.items() for attack in attacks]
    deep = "; [(os.mkdir('d'), os.chdir('d')) for n in range(3000)]; open('end', 'w')"
    programs = [plain, begin + "os.rmdir('out')", begin + "os.chdir('out')" + deep, *(attack for _, attack in attacks)]
    settings = {"limits": limits, "artifacts": ["out", "left/behind"]}
    responses = ended(*({"command": ["python3", "-c", ASK + each], **settings} for each in programs))
    assert [said(response) for response in responses] == [("ok", None, "")] * len(programs)
    full, empty, nested, *hostile = [json.loads(response.artifacts or "") for response in responses]
    assert full == {"files": {"out/a b": {"url": "1", "bytes": 1}}, "problem": None, "text": ""}
    assert empty["files"] == {}
    assert nested["problem"] in (None, "unreadable")
    assert [state["problem"] for state in hostile] == [problem for problem, _ in attacks]
    assert all(state["text"] and not state["files"] for state in hostile)


REACT = Path(__file__).parent / "react.py"


def test_a_react_loop_with_the_package_of_openai_runs_unchanged() -> None:
    pytest.importorskip("openai")

    async def model(request: Request) -> Response:
        assert request.messages
        replies = [
            "Thought: I look.\nAction: list[.]",
            "Thought: I read.\nAction: read[prompt.txt]",
            "Answer: 2 + 2 = 4",
        ]
        turn = sum(message["role"] == "assistant" for message in request.messages)
        return Response("ok", replies[turn], prompt_tokens=5, completion_tokens=5)

    unsafe = ExecutorSettings(slots=1, allow_unsafe=True)
    spec = BoxSpec(files={"react.py": REACT.read_bytes()})
    limits = replace(LIMITS, cpu_s=120.0, memory_mb=2048)
    command: Sequence[str] = [sys.executable, "react.py", "--task", "{prompt_file}", "--stream"]
    (response,) = ended({"command": command, "spec": lambda: spec, "limits": limits}, settings=unsafe, answer=model)
    assert (response.status, response.answer, response.prompt_tokens) == ("ok", "2 + 2 = 4", 15), response.errors
