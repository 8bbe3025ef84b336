"""Functions and classes as tools: what a model is shown, told and spared."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import InputError
from gage_eval.engine.tools.python import LONGEST_OUTPUT
from gage_eval.engine.tools.sets import tools_of
from gage_eval.models.client.tools import EpisodeState, Tool, ToolError, ToolFailed

SHOP = '''
import sys, time
from gage_eval.plugins import ToolError, tool

@tool("find", version=3)
def look_up(text: str, limit: int = 2, **{}) -> list[str]:
    """Goods whose name contains a text."""
    return [text] * limit

class Cart:
    def __init__(self, sample):
        self.goods = list(sample["goods"])
    def add(self, item: str, schema: dict | None = None) -> int:
        """Put something in."""
        self.goods.append(item)
        return len(self.goods)
    async def clear(self) -> str:
        self.goods.clear()
        return "empty"
    def normalise(text):
        return text.lower()
    def _hidden(self): ...

def raises(): raise KeyError("x")
def raises_argument(item: str): raise KeyError(item)
def tells(): raise ToolError("the shop is closed")
def leaves(): sys.exit(3)
def gives_bytes(): return b"abc"
def gives_megabytes(): return "ä" * 3_000_000
def gives_surrogate(): return "\\ud800"
@tool("sleeps", timeout_s=0.05)
def sleeps(): time.sleep(60)
def positional(a, /): ...
def several(*goods): ...
def odd(a: type(sys)): ...
class Nothing:
    pass
@tool("magic", effects="magic")
def magic(): ...
'''.replace(", **{}", "")


@pytest.fixture
def shop(tmp_path: Path) -> str:
    (tmp_path / "shop.py").write_text(SHOP)
    return str(tmp_path / "shop.py")


def run(tool: Tool, arguments: str, state: EpisodeState | None = None) -> str:
    return asyncio.run(tool.run(arguments, state or EpisodeState({"goods": ["soap"]})))


def described(tool: Any) -> Mapping[str, Any]:
    described: Mapping[str, Any] = tool.definition["function"]
    return described


def test_a_model_is_shown_name_docstring_and_arguments(shop: str) -> None:
    tools = tools_of([f"{shop}:look_up", f"{shop}:Cart"])
    assert list(tools) == ["find", "add", "clear"]
    assert described(tools["find"]) == {
        "name": "find",
        "description": "Goods whose name contains a text.",
        "parameters": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"text": {"type": "string"}, "limit": {"type": "integer", "default": 2}},
            "required": ["text"],
        },
    }
    assert set(described(tools["add"])["parameters"]["properties"]) == {"item", "schema"}
    assert run(tools["find"], '{"text": "tea"}') == '["tea","tea"]'


def test_an_episode_has_its_own_state_made_from_its_sample(shop: str) -> None:
    tools = tools_of([f"{shop}:Cart"])
    state = EpisodeState({"goods": ["soap"]})
    assert [run(tools["add"], '{"item": "tea"}', state) for _ in range(2)] == ["2", "3"]
    assert run(tools["clear"], "", state) == "empty"
    assert run(tools["add"], '{"item": "tea"}') == "2"
    assert tools["add"].effects == "state"
    assert tools["add"].normalised("ABC") == "abc"


@pytest.mark.parametrize(
    "arguments",
    ["{", "[]", "null", "{}", '{"text": 7}', '{"text": "a", "limit": "many"}', '{"text": "a", "colour": 1}'],
)
def test_arguments_that_do_not_fit_are_told_to_the_model(shop: str, arguments: str) -> None:
    with pytest.raises(ToolError):
        run(tools_of([f"{shop}:look_up"])["find"], arguments)


@pytest.mark.parametrize(
    ("name", "words"),
    [("raises", "KeyError"), ("leaves", "SystemExit"), ("gives_bytes", "bytes"), ("sleeps", "longer")],
)
def test_a_tool_that_fails_or_hangs_is_not_the_models_fault(shop: str, name: str, words: str) -> None:
    (tool,) = tools_of([f"{shop}:{name}"]).values()
    began = time.monotonic()
    with pytest.raises(ToolFailed, match=words):
        run(tool, "{}")
    assert time.monotonic() - began < 30, "nothing waits for a tool that never returns"


def test_the_failure_of_a_tool_is_short_however_long_the_argument_that_it_repeats(shop: str) -> None:
    with pytest.raises(ToolFailed, match="KeyError") as failed:
        run(tools_of([f"{shop}:raises_argument"])["raises_argument"], '{"item": "' + "x" * 3_000_000 + '"}')
    assert len(str(failed.value)) < 1_000


def test_a_tool_tells_the_model_what_it_wants_to(shop: str) -> None:
    with pytest.raises(ToolError, match="the shop is closed"):
        run(tools_of([f"{shop}:tells"])["tells"], "{}")


def test_outputs_are_cut_and_can_be_stored(shop: str) -> None:
    tools = tools_of([f"{shop}:gives_megabytes", f"{shop}:gives_surrogate"])
    assert len(run(tools["gives_megabytes"], "{}")) < LONGEST_OUTPUT + 50
    assert run(tools["gives_surrogate"], "{}") == "\ufffd"


@pytest.mark.parametrize(
    "names",
    [
        *(["positional"], ["several"], ["odd"], ["Nothing"], ["magic"], ["missing"]),
        *(["look_up", "look_up"], ["Cart", "Cart"]),
    ],
    ids=" ".join,
)
def test_what_no_model_could_call_is_refused_before_anything_is_asked(shop: str, names: list[str]) -> None:
    with pytest.raises(InputError):
        tools_of([f"{shop}:{name}" for name in names])
