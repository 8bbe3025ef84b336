"""Messages as the text that a model was trained on, with their images."""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

from gage_eval.models.backends.worker.serve import Fatal

IMAGE = "<image>"
# Parameters that are the chat template's.
TEMPLATE = ("chat_template_kwargs", "reasoning_effort")
_DATA = "base64,"


def render(
    owner: Any, messages: Sequence[Mapping[str, Any]], tools: Any, options: Mapping[str, Any], *, begun: bool = False
) -> str:
    """The prompt of some messages by the chat template of a tokenizer or processor.

    Args:
        owner: has ``apply_chat_template``.
        messages: in OpenAI form; images are parts ``{"type": "image"}``.
        tools: definitions in OpenAI form, or None.
        options: further variables of the template (``enable_thinking``, …).
        begun: the last message is the beginning of the answer, not one that was given.

    Raises:
        Fatal: the model has no chat template.
    """
    if not getattr(owner, "chat_template", None):
        raise Fatal("the model has no chat template: ask it with the task's mode 'completion'")
    text: str = owner.apply_chat_template(
        list(messages),
        tools=tools or None,
        add_generation_prompt=not begun,
        continue_final_message=begun,
        tokenize=False,
        **options,
    )
    return text


def context_of(owner: Any, request: Mapping[str, Any]) -> str:
    """The text after which a likelihood request wants its choices: as it is given, or by the chat template.

    Args:
        owner: as in `render`.
        request: ``prompt``, or ``messages`` and what `template_variables` reads.

    Raises:
        Fatal: the model has no chat template.
    """
    if "messages" not in request:
        return str(request["prompt"])
    messages = plain(request["messages"])
    begun = messages[-1]["role"] == "assistant"
    if "image" in str(getattr(owner, "chat_template", None)):
        # A template that knows images asks each part whether it is one.
        messages = [{**message, "content": [{"type": "text", "text": message["content"]}]} for message in messages]
    return render(owner, messages, None, template_variables(request), begun=begun)


def template_variables(params: Mapping[str, Any]) -> dict[str, Any]:
    """Variables of the chat template among a request's parameters; the effort has the form that vLLM's server uses."""
    effort = params.get("reasoning_effort")
    own = {} if effort is None else {"reasoning_effort": effort, "enable_thinking": effort != "none"}
    return {**own, **(params.get("chat_template_kwargs") or {})}


def plain(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages whose text content is a string, as the templates of text models want it.

    Raises:
        Fatal: one holds more than text.
    """
    out = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            if any(part.get("type") != "text" for part in content):
                raise Fatal("a message holds more than text, and this model reads text only")
            content = "".join(part.get("text") or "" for part in content)
        out.append({**message, "content": content or ""})
    return out


def with_images(messages: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[Any]]:
    """Messages with a part ``{"type": "image"}`` for each image, and the images in that order.

    ``<image>`` in a text is the position of a message's next image. Images without a placeholder come before
    the message's text; placeholders that no image is left for are taken out.

    Raises:
        Fatal: a message holds something other than text and images.
    """
    out, images = [], []
    for message in messages:
        content = message.get("content")
        parts = [{"type": "text", "text": content or ""}] if not isinstance(content, list) else content
        own = [_image(part) for part in parts if part.get("type") != "text"]
        text = [part.get("text") or "" for part in parts if part.get("type") == "text"]
        if any(IMAGE in piece for piece in text):
            content = _at_placeholders(text, len(own))
        elif isinstance(content, list):
            # No placeholder: an image keeps the position of its part.
            content = [
                {"type": "text", "text": part["text"]} if part.get("type") == "text" else {"type": "image"}
                for part in content
                if part.get("type") != "text" or part.get("text")
            ]
        else:
            content = [{"type": "text", "text": text[0]}] if text[0] else []
        out.append({**message, "content": content})
        images += own
    return out, images


def render_seen(
    owner: Any, messages: Sequence[Mapping[str, Any]], images: int, token: str, tools: Any, options: Mapping[str, Any]
) -> str:
    """The prompt of messages with images, holding one image token for each.

    Args:
        owner: as in `render`. Without a chat template, the texts are used unchanged.
        messages: as `with_images` gives them.
        images: how many there are.
        token: the placeholder of an image in this model's prompts.
        tools, options: as in `render`.
    """
    flat = [{**message, "content": as_text(message["content"], token)} for message in messages]
    template = getattr(owner, "chat_template", None)
    if not template:
        return complete("".join(message["content"] for message in flat), images, token)
    # A template that knows images asks each part whether it is one; any other wants texts.
    return complete(render(owner, messages if "image" in str(template) else flat, tools, options), images, token)


def as_text(parts: Sequence[Mapping[str, str]], token: str) -> str:
    """Parts of a message as one text, a token in each image's place."""
    return "".join(token if part["type"] == "image" else part["text"] for part in parts)


def _at_placeholders(texts: Sequence[str], images: int) -> list[dict[str, str]]:
    pieces = "".join(texts).split(IMAGE)
    inline = min(len(pieces) - 1, images)
    content = [{"type": "image"} for _ in range(images - inline)]
    for number, piece in enumerate(pieces):
        if piece:
            content.append({"type": "text", "text": piece})
        if number < inline:
            content.append({"type": "image"})
    return content


def image_token(processor: Any) -> str:
    """The placeholder text of an image in a model's prompts."""
    return str(getattr(processor, "image_token", None) or IMAGE)


def complete(text: str, images: int, token: str) -> str:
    """A prompt with as many image tokens as there are images: missing ones in front, superfluous ones taken out."""
    tokens = text.count(token)
    if tokens < images:
        return token * (images - tokens) + text
    while tokens > images:
        before, _, after = text.rpartition(token)
        text, tokens = before + after, tokens - 1
    return text


def _image(part: Mapping[str, Any]) -> Any:
    from PIL import Image

    holder = part.get("image_url")
    if part.get("type") == "image_url" and isinstance(holder, Mapping) and "url" not in holder:
        # A file of the run's own store. What a dataset names has an address, whatever else it holds.
        with Image.open(holder["path"]) as image:
            return image.convert("RGB")
    url = holder.get("url") if isinstance(holder, Mapping) else holder
    if part.get("type") != "image_url" or not isinstance(url, str):
        raise Fatal(f"a message holds a part of type '{part.get('type')}', and this model reads text and images only")
    if not url.startswith("data:"):
        # The engine opens no files and no connections that a dataset names.
        raise Fatal("an image is not part of the request but an address, and nothing is fetched: name it by a path")
    return Image.open(io.BytesIO(base64.b64decode(url.partition(_DATA)[2]))).convert("RGB")
