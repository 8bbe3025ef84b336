"""What workers decide without a model: which tokens count, what is batched, where images go."""

import asyncio
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from support.pictures import write_image

from gage_eval.models.backends.worker.batching import Batcher
from gage_eval.models.backends.worker.chat import (
    complete,
    context_of,
    plain,
    render_seen,
    template_variables,
    with_images,
)
from gage_eval.models.backends.worker.likelihood import ForwardPass, encode_pair, entry, locate, split
from gage_eval.models.backends.worker.scoring import Scoring
from gage_eval.models.backends.worker.serve import Fatal, GivenUp, fitting

PREFIX = 999


def by_character(text: str) -> list[int]:
    return [ord(character) for character in text]


def test_white_space_that_ends_the_context_belongs_to_the_continuation() -> None:
    assert split("The answer is \n", "42") == ("The answer is", " \n42")


@given(st.text(), st.text())
def test_splitting_loses_nothing(context: str, continuation: str) -> None:
    bare, rest = split(context, continuation)
    assert bare + rest == context + continuation
    assert bare == bare.rstrip()


def test_the_continuation_is_what_follows_the_tokens_of_the_context() -> None:
    (scored,) = encode_pair(by_character, "ab ", "cd", PREFIX, 100)
    assert (scored.tokens, scored.start, scored.truncated) == (by_character("ab cd"), 2, False)


def test_an_empty_context_is_the_prefix_token_unless_the_continuation_begins_with_it() -> None:
    (first,) = locate([], [1, 2], PREFIX, 100)
    (second,) = locate([], [PREFIX, 2], PREFIX, 100)
    assert (first.tokens, first.start) == ([PREFIX, 1, 2], 1)
    assert (second.tokens, second.start) == ([PREFIX, 2], 1)


@pytest.mark.parametrize(("whole", "prefix"), [([1, 2], None), ([], PREFIX), ([PREFIX], PREFIX)])
def test_what_has_nothing_to_score_or_to_be_scored_after_is_said(whole: list[int], prefix: int | None) -> None:
    assert locate([], whole, prefix, 100) == []


@given(st.integers(1, 40), st.integers(1, 40), st.integers(3, 60))
def test_too_long_a_text_keeps_its_last_tokens_and_says_so(context: int, continuation: int, longest: int) -> None:
    whole = list(range(context + continuation))
    (scored,) = locate(whole[:context], whole, PREFIX, longest)
    assert len(scored.tokens) <= longest - 1
    assert scored.tokens == whole[-len(scored.tokens) :]
    assert scored.truncated == (len(whole) > longest - 1)
    assert 1 <= scored.start < len(scored.tokens)
    assert len(scored.tokens) - scored.start == min(continuation, longest - 2)


@given(st.integers(1, 200), st.integers(3, 60))
def test_each_token_of_a_text_without_a_context_is_scored_in_the_windows_of_the_harness(
    length: int, longest: int
) -> None:
    utils = pytest.importorskip("lm_eval.utils")
    text = list(range(length))
    windows = map(utils.make_disjoint_window, utils.get_rolling_token_windows(text, PREFIX, longest - 2, 1))
    passes = locate([], text, PREFIX, longest)
    # A pass has its last token too, which the harness's models do not read.
    assert [(each.tokens[: each.start], each.tokens[each.start :]) for each in passes] == list(windows)
    assert [token for each in passes for token in each.tokens[each.start :]] == text
    assert all(len(each.tokens) < longest and not each.truncated for each in passes)


async def test_a_text_that_takes_several_passes_is_one_candidate() -> None:
    passes, response = await scored({"prompt": "", "choices": ["x" * 150]})
    assert len(passes) == 2
    assert json.loads(response["logprobs"])["choices"] == [{
        "ll": 3.0, "is_greedy": True, "tokens": 150, "truncated": False
    }]  # fmt: skip


def test_an_impossible_continuation_is_written_as_json_can() -> None:
    told = {"ll": "-Infinity", "is_greedy": False, "tokens": 2, "truncated": False}
    assert entry([-math.inf, -1.0], is_greedy=False, truncated=False) == told


class Tokenizer:
    """A token for each character, and one in front where special tokens are asked for."""

    bos_token_id: int | None = None
    eos_token_id: int | None = 2
    chat_template = "{{ messages }}"

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [1] * add_special_tokens + by_character(text)

    def apply_chat_template(self, messages: list[dict[str, Any]], **_: object) -> str:
        return "".join(f"[{message['content']}]" for message in messages)


async def scored(request: dict[str, Any], **options: Any) -> tuple[list[ForwardPass], dict[str, Any]]:
    """The passes of a request, and its response when each pass scores its number."""
    passes: list[ForwardPass] = []

    async def score(forward_pass: ForwardPass) -> dict[str, Any]:
        passes.append(forward_pass)
        return {"ll": len(passes), "is_greedy": True, "tokens": len(forward_pass.tokens) - forward_pass.start}

    tokenizer = Tokenizer()
    tokenizer.bos_token_id = options.pop("bos", None)
    tokenizer.eos_token_id = options.pop("eos", 2)
    scoring = Scoring(tokenizer, tokenizer, {"prefix": None, "add_bos_token": False, **options}, 100)
    return passes, await scoring.answer(request, score)


@pytest.mark.parametrize("unconditioned", [None, "d"])
async def test_each_choice_is_scored_after_its_context_and_then_without_it(unconditioned: str | None) -> None:
    passes, response = await scored({"prompt": "abc", "choices": ["x", "yz"], "unconditioned": unconditioned})
    texts = ["abcx", "abcyz"] + ["dx", "dyz"] * (unconditioned is not None)
    assert ["".join(map(chr, forward_pass.tokens)) for forward_pass in passes] == texts
    told = json.loads(response.pop("logprobs"))
    assert [entry["ll"] for entries in told.values() for entry in entries] == list(range(1, len(texts) + 1))
    assert [*told] == ["choices", "unconditioned"][: 1 + (unconditioned is not None)]
    assert response == {"status": "ok", "attempts": 1, "prompt_tokens": sum(map(len, texts))}


async def test_special_tokens_begin_a_context_unless_a_chats_template_wrote_it() -> None:
    chat = {"messages": [{"role": "user", "content": "a"}]}
    for request, begun in (({"prompt": "a"}, [True, True]), (chat, [False, True])):
        passes, _ = await scored({**request, "choices": ["x"], "unconditioned": "d"}, add_bos_token=True)
        assert [forward_pass.tokens[0] == 1 for forward_pass in passes] == begun


@pytest.mark.parametrize(
    ("known", "first"), [({"prefix": 0, "bos": 7}, 0), ({"bos": 0}, 0), ({"bos": 7, "eos": 8}, 7), ({"eos": 8}, 8)]
)
async def test_an_empty_context_is_the_configured_token_or_else_bos_or_else_eos(
    known: dict[str, int], first: int
) -> None:
    (forward_pass,), _ = await scored({"prompt": "", "choices": ["x"]}, **known)
    assert forward_pass.tokens == [first, ord("x")]


async def test_a_choice_that_has_nothing_to_be_scored_is_a_row_without_an_answer() -> None:
    for request, tokens in (
        ({"prompt": "a", "choices": ["x", ""]}, {}),
        ({"prompt": "", "choices": ["x"]}, {"eos": None}),
    ):
        with pytest.raises(GivenUp) as given_up:
            await scored(request, **tokens)
        assert given_up.value.response["error_kind"] == "empty_context"


@pytest.mark.parametrize(("tokens", "kind"), [(0, "empty_prompt"), (9, None), (10, "context_too_long")])
def test_a_prompt_has_a_token_at_least_and_leaves_room_for_one(tokens: int, kind: str | None) -> None:
    if kind is None:
        assert fitting(range(tokens), 10) == [*range(tokens)]
        return
    with pytest.raises(GivenUp) as given_up:
        fitting(range(tokens), 10)
    assert given_up.value.response["error_kind"] == kind


# Images


def image() -> dict[str, object]:
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{pixel}"}}


def text(value: str) -> dict[str, object]:
    return {"type": "text", "text": value}


def places(*parts: dict[str, object]) -> str:
    messages, images = with_images([{"role": "user", "content": list(parts)}])
    content = messages[0]["content"]
    assert len(images) == sum(part["type"] == "image" for part in content)
    return "".join("I" if part["type"] == "image" else part["text"] for part in content)


def test_a_placeholder_is_the_place_of_the_next_image() -> None:
    assert places(text("a<image>b<image>c"), image(), image()) == "aIbIc"


def test_images_without_a_placeholder_come_before_the_text_and_superfluous_placeholders_go() -> None:
    assert places(text("a<image>b"), image(), image(), image()) == "IIaIb"
    assert places(text("a<image>b<image>c"), image()) == "aIbc"
    assert places(text("a<image>")) == "a"


def test_without_placeholders_an_image_stands_where_its_part_stood() -> None:
    assert places(text("a"), image(), text("b")) == "aIb"
    assert places(image()) == "I"


@given(st.text("ab"), st.integers(0, 5), st.integers(0, 5))
def test_a_prompt_gets_as_many_image_tokens_as_there_are_images(before: str, there: int, images: int) -> None:
    prompt = complete(before + "<i>" * there, images, "<i>")
    assert prompt.count("<i>") == images
    assert prompt.replace("<i>", "") == before


class Template:
    """A chat template that knows parts, or one of texts."""

    def __init__(self, how: str) -> None:
        self.chat_template = how

    def apply_chat_template(self, messages: list[dict[str, Any]], **_: object) -> str:
        if self.chat_template == "texts":
            return "".join(f"[{message['content']}]" for message in messages)
        contents = ["".join(part.get("text", "<i>") for part in message["content"]) for message in messages]
        return "".join(f"[{content}]" for content in contents)


@pytest.mark.parametrize(("how", "prompt"), [("images", "[a<i>b]"), ("texts", "[a<i>b]"), ("", "a<i>b")])
def test_a_prompt_holds_its_image_whatever_its_chat_template_knows(how: str, prompt: str) -> None:
    messages, images = with_images([{"role": "user", "content": [text("a"), image(), text("b")]}])
    assert render_seen(Template(how), messages, len(images), "<i>", None, {}) == prompt


def test_the_context_of_a_likelihood_in_a_chat_leaves_the_answer_open() -> None:
    class Tokenizer:
        chat_template = "{{ messages }}"

        def apply_chat_template(self, messages: Any, *, add_generation_prompt: bool, **rest: Any) -> str:
            assert rest == {
                "tools": None,
                "continue_final_message": not add_generation_prompt,
                "tokenize": False,
                "k": 1,
            }
            return (
                "".join(f"<{message['role']}>{message['content']}" for message in messages)
                + "<assistant>" * add_generation_prompt
            )

    request: dict[str, Any] = {"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"k": 1}}
    begun = {**request, "messages": [*request["messages"], {"role": "assistant", "content": "b"}]}
    assert context_of(Tokenizer(), request) == "<user>a<assistant>"
    assert context_of(Tokenizer(), begun) == "<user>a<assistant>b"
    assert context_of(None, {"prompt": "as it is"}) == "as it is"
    with pytest.raises(Fatal, match="no chat template"):
        context_of(object(), request)


def test_an_effort_is_told_to_the_template_and_its_own_variables_win() -> None:
    assert template_variables({"temperature": 1}) == {}
    assert template_variables({"reasoning_effort": "none"}) == {"reasoning_effort": "none", "enable_thinking": False}
    said = {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False, "k": 1}}
    assert template_variables(said) == {"reasoning_effort": "low", "enable_thinking": False, "k": 1}


def test_an_image_that_is_an_address_is_never_fetched() -> None:
    for url in ("http://127.0.0.1:9/a.png", "file:///etc/passwd", "/etc/passwd"):
        for beside in ({}, {"path": "/etc/passwd"}):
            with pytest.raises(Fatal, match="not part of the request"):
                with_images([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url, **beside}}]}])


def test_an_image_of_the_runs_own_store_is_read_from_its_file(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png")
    part = {"type": "image_url", "image_url": {"path": str(tmp_path / "a.png"), "detail": "low"}}
    (message,), (image,) = with_images([{"role": "user", "content": [text("a"), part]}])
    assert message["content"] == [text("a"), {"type": "image"}]
    assert (image.mode, image.size) == ("RGB", Image.open(tmp_path / "a.png").size)


def test_a_model_that_reads_text_only_refuses_images() -> None:
    assert plain([{"role": "user", "content": [text("a"), text("b")]}]) == [{"role": "user", "content": "ab"}]
    with pytest.raises(Fatal, match="reads text only"):
        plain([{"role": "user", "content": [image()]}])


# Batches


async def run_batches(lengths: Sequence[int], size: int, fits: int = 10**9) -> list[list[int]]:
    batches: list[list[int]] = []

    def compute(items: Sequence[int]) -> list[int]:
        if len(items) > fits:
            raise RuntimeError("CUDA out of memory")
        batches.append(list(items))
        return [item * 2 for item in items]

    batcher: Batcher[int, int] = Batcher(compute, size, lambda error: "out of memory" in str(error))
    results = await asyncio.gather(*(batcher.run(length, length % 2, length) for length in lengths))
    assert results == [length * 2 for length in lengths]
    return batches


async def test_items_are_batched_with_their_like_longest_first() -> None:
    assert await run_batches([1, 8, 3, 6, 5, 2], 2) == [[8, 6], [5, 3], [2], [1]]


async def test_a_short_item_does_not_wait_for_as_long_as_longer_ones_come() -> None:
    done: list[int] = []
    batcher: Batcher[int, int] = Batcher(list, 1, lambda _: False)

    async def run(length: int) -> None:
        done.append(await batcher.run(length, 0, length))
        if length > 10:
            await run(length - 1)

    await asyncio.gather(run(100), run(1))
    assert done.index(1) == 1


async def test_a_batch_that_is_too_large_is_halved_until_it_fits() -> None:
    batches = await run_batches([2] * 16, 16, fits=4)
    assert {len(batch) for batch in batches} == {4}


async def test_an_item_that_fails_fails_alone() -> None:
    def compute(items: Sequence[int]) -> list[int]:
        if 0 in items:
            raise ValueError("out of memory" if len(items) > 1 else "this one")
        return list(items)

    batcher: Batcher[int, int] = Batcher(compute, 4, lambda error: "out of memory" in str(error))
    results = await asyncio.gather(*(batcher.run(n, 0, n) for n in (0, 1, 2, 3)), return_exceptions=True)
    assert [isinstance(result, ValueError) for result in results] == [True, False, False, False]
