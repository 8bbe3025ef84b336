# ruff: noqa: T201 - a program of its own, which prints
"""A ReAct loop that knows nothing of gage-eval: thoughts, actions on files, and an answer.

    python react.py --task task.txt [--model NAME] [--steps 10] [--stream]

The model's address and key come from OPENAI_BASE_URL and OPENAI_API_KEY.
"""

import argparse
import ast
import operator
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openai import APIStatusError, OpenAI

SYSTEM = """You solve a task step by step. In each step you write either

Thought: what you think
Action: tool[argument]

or, when you know the answer,

Answer: the answer

The tools are:
{tools}
"""
ACTION = re.compile(r"^Action:\s*(\w+)\[(.*)\]\s*$", re.MULTILINE | re.DOTALL)
ANSWER = re.compile(r"^Answer:\s*(.*)\Z", re.MULTILINE | re.DOTALL)
LONGEST_OBSERVATION = 2000

Tool = Callable[[str], str]


class Toolbox:
    """Tools by name, each with a line that says what it does."""

    def __init__(self) -> None:
        self._tools: dict[str, tuple[str, Tool]] = {}

    def add(self, name: str, does: str) -> Callable[[Tool], Tool]:
        """Decorator: add a tool."""

        def decorate(tool: Tool) -> Tool:
            self._tools[name] = (does, tool)
            return tool

        return decorate

    def described(self) -> str:
        """The lines of all tools."""
        return "\n".join(f"- {name}[argument]: {does}" for name, (does, _) in self._tools.items())

    def run(self, name: str, argument: str) -> str:
        """What a tool answers; a sentence where it cannot."""
        if name not in self._tools:
            return f"There is no tool {name}. There are: {', '.join(self._tools)}."
        try:
            output = self._tools[name][1](argument)
        except (OSError, ValueError, SyntaxError, ZeroDivisionError) as error:
            return f"{type(error).__name__}: {error}"
        if len(output) > LONGEST_OBSERVATION:
            output = f"{output[:LONGEST_OBSERVATION]}… ({len(output)} characters)"
        return output or "(nothing)"


TOOLS = Toolbox()


@TOOLS.add("list", "lists the files of a folder")
def list_files(argument: str) -> str:
    """Names in a folder, sorted."""
    return "\n".join(sorted(path.name for path in Path(argument or ".").iterdir()))


@TOOLS.add("read", "reads a text file")
def read(argument: str) -> str:
    """The content of a file."""
    return Path(argument).read_text(encoding="utf-8")


@TOOLS.add("write", "writes a file; the argument is its name, a line break, and its content")
def write(argument: str) -> str:
    """Write a file."""
    name, _, content = argument.partition("\n")
    Path(name).write_text(content, encoding="utf-8")
    return f"wrote {len(content)} characters"


_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}


@TOOLS.add("calculate", "calculates with + - * / and brackets")
def calculate(argument: str) -> str:
    """The value of an expression of numbers."""

    def value(node: ast.AST) -> Any:
        if isinstance(node, ast.Expression):
            return value(node.body)
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.operand))
        raise ValueError("only numbers and + - * / are known")

    return str(value(ast.parse(argument.strip(), mode="eval")))


@dataclass
class Model:
    """The model behind an API of OpenAI's kind."""

    client: OpenAI
    name: str
    streams: bool
    tokens: int = 0

    def ask(self, messages: list[Any]) -> str:
        """The next message of the model."""
        if not self.streams:
            reply = self.client.chat.completions.create(model=self.name, messages=messages, temperature=0)
            self.tokens += reply.usage.total_tokens if reply.usage else 0
            return reply.choices[0].message.content or ""
        pieces = []
        options: Any = {"include_usage": True}
        stream = self.client.chat.completions.create(
            model=self.name, messages=messages, temperature=0, stream=True, stream_options=options
        )
        for chunk in stream:
            if chunk.usage is not None:
                self.tokens += chunk.usage.total_tokens
            pieces += [choice.delta.content or "" for choice in chunk.choices]
        return "".join(pieces)


@dataclass
class Agent:
    """A loop of thoughts, actions and observations."""

    model: Model
    steps: int
    messages: list[Any] = field(default_factory=list)

    def solve(self, task: str) -> str | None:
        """The answer; None where the steps did not suffice."""
        system = SYSTEM.format(tools=TOOLS.described())
        self.messages = [{"role": "system", "content": system}, {"role": "user", "content": task}]
        for step in range(1, self.steps + 1):
            text = self.model.ask(self.messages)
            self.messages.append({"role": "assistant", "content": text})
            print(f"[step {step}] {text}", file=sys.stderr)
            if (answer := ANSWER.search(text)) is not None:
                return answer[1].strip()
            self.messages.append({"role": "user", "content": f"Observation: {self.act(text)}"})
        return None

    @staticmethod
    def act(text: str) -> str:
        """What the action of a message gives."""
        action = ACTION.search(text)
        if action is None:
            return "I found neither an action nor an answer in this."
        return TOOLS.run(action[1], action[2])


def main() -> int:
    """Solve the task of a file and print the answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", type=Path, required=True)
    parser.add_argument("--model", default="a-model")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--stream", action="store_true")
    options = parser.parse_args()
    agent = Agent(Model(OpenAI(), options.model, options.stream), options.steps)
    try:
        answer = agent.solve(options.task.read_text(encoding="utf-8"))
    except APIStatusError as error:
        print(f"the model refused: {error}", file=sys.stderr)
        return 1
    if answer is None:
        print("no answer", file=sys.stderr)
        return 2
    print(answer)
    print(f"{agent.model.tokens} tokens", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
