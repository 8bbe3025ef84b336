"""A stand-in for an endpoint that is checked, of which one property can be broken."""

import json
import math
import random
import re
import zlib
from typing import Any

CONTEXT = 4096
_CUT = 512


def reply_to(body: dict[str, Any], broken: str = "") -> tuple[int, dict[str, Any]]:
    """The status and the body of an OpenAI-compatible chat completion.

    Args:
        body: of the request.
        broken: the property that is not that of the model.
    """
    said = body["messages"][-1]["content"]
    rendered = "".join(f"<|{each['role']}|> {each['content']} " for each in body["messages"])
    words = (rendered + json.dumps(body.get("tools", ""))).split()
    if body.get("temperature") == 0.3 and broken != "parameters":
        return 400, {"error": {"message": "temperature is always 1"}}
    if len(words) + body["max_tokens"] > CONTEXT:
        return 400, {"error": {"message": "the prompt is too long"}}
    if broken == "context":
        words = words[-_CUT:]
    if broken == "chat_template":
        words = [word.replace("<|user|>", "<|human|>") for word in words]
    message, logprobs = _message(said, words, body, broken)
    return 200, {
        "choices": [{"message": {"role": "assistant", **message}, "finish_reason": "stop", "logprobs": logprobs}],
        "usage": {"prompt_tokens": len(words), "completion_tokens": 8},
        **({"prompt_token_ids": [zlib.crc32(word.encode()) for word in words]} if body.get("return_token_ids") else {}),
    }


def _message(
    said: str, words: list[str], body: dict[str, Any], broken: str
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    if "2 + 3" in said:
        inside = {"content": "[THINK]2 + 3 is 5[/THINK]5"}
        return inside if broken == "thinking" else {"content": "5", "reasoning_content": "2 + 3 is 5"}, None
    if "code" in said:
        code = re.search(r"The code is (\d+)", " ".join(words))
        return {"content": code[1] if code else "I do not know."}, None
    if "Count from one to ten in words" in said:
        text = "one, two, three, four, five, six, seven, eight, nine, ten"
        stops = [] if broken == "stop_strings" else body.get("stop") or []
        return {"content": text[: min([text.find(stop) for stop in stops], default=None)]}, None
    if body.get("tools") and said != "What is rain?":
        name, arguments = "get_weather", {"city": "Oslo", "days": 3, "unit": "celsius"}
        if "ook a table" in said or "eserve" in said or "Book" in said:
            name, arguments = "book_table", {"restaurant": "Sakura", "guests": [{"name": "Chen", "vegetarian": False}]}
        elif broken == "tool_calls":
            arguments["days"] = "three"
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}, None
    return _sampled(said, body.get("top_logprobs"), broken)


def _sampled(said: str, top: int | None, broken: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Eight tokens, the likeliest each; a model in fewer bits has a flatter distribution."""
    chance = random.Random(said)
    content = []
    for _ in range(8):
        scores = {f"w{number}": chance.gauss(0, 2) * (0.7 if broken == "logprobs" else 1) for number in range(40)}
        total = math.log(sum(math.exp(score) for score in scores.values()))
        known = sorted(((score - total, token) for token, score in scores.items()), reverse=True)
        likeliest = [{"token": token, "logprob": value} for value, token in known[: top or 0]]
        content.append({"token": known[0][1], "logprob": known[0][0], "top_logprobs": likeliest})
    text = " ".join(entry["token"] for entry in content)
    return {"content": text}, {"content": content} if top else None
