"""The rules of the Sample contract as one fast pass over plain dicts.

`normalise_sample` runs once per row, where a pydantic model per row would cost too much.
`gage_eval.data.sample.model.Sample` states the same rules as a typed model and JSON Schema; a property test checks that
the two agree.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, NoReturn

import orjson

from gage_eval.base import canonical
from gage_eval.data.sample.record import RecordRejected, kind_of

SCHEMA_VERSION = "v1"
ROLES = ("system", "developer", "user", "assistant", "tool", "function")
MEDIA_TYPES = ("image_url", "audio_url", "video_url", "file_url")
SEGMENT_TYPES = ("text", *MEDIA_TYPES)
CHOICES_ROLES = ("options", "reference")
# Prompt fields of earlier formats. Prompts are declared in the config, so a record's own prompt is dropped.
DROPPED_FIELDS = frozenset({"model_prompt_tmpl", "model_prompt_placeholder"})
FEW_SHOT_FORBIDDEN = ("few_shot_examples", "predict_result", "eval_result", "raw_assets", "sandbox")

# Types whose values become text, as canonical JSON: an answer 7 is "7", and true is "true".
TEXTUAL = frozenset({int, float, bool})
_ROLES = frozenset(ROLES)
_MEDIA = frozenset(MEDIA_TYPES)
_Rule = Callable[[Any, str], Any]

RESERVED_PARAMS = ("model", "messages", "prompt", "stream", "stream_options", "n")
"""Parameters of a request that would change what is asked of whom: only gage-eval itself sets them."""


def normalise_sample(record: Mapping[str, Any], *, default_id: str | None = None) -> dict[str, Any]:
    """The record in the canonical form of a Sample: plain JSON values, absent fields omitted.

    Strings as content, options or references become their long form. Unknown keys move to ``extra``. ``label`` is
    filled from the first reference, and the other way round. Applied to its own result, the function changes nothing.

    Args:
        record: a Sample-shaped record; it is not changed, and the result shares no mutable part with it.
        default_id: the id to use when the record has none.

    Raises:
        RecordRejected: a rule of the contract is broken; the reason names the field.
    """
    try:
        sample = _normalise(record, default_id)
        # One pass of the encoder finds what Arrow and JSON cannot hold (lone surrogates in strings).
        _check_text(sample)
    except ValueError as error:
        raise RecordRejected(f"the record has no JSON form: {error}.") from None
    except RecursionError:
        raise RecordRejected("the record is nested too deeply.") from None
    return sample


def content_text(parts: Iterable[Mapping[str, Any]]) -> str:
    """A message's content as one text: the texts of its parts, and a marker such as ``[image]`` for each medium."""
    return "\n".join(part["text"] if isinstance(part.get("text"), str) else _marker(part) for part in parts)


def _marker(part: Mapping[str, Any]) -> str:
    kind = str(part.get("type", "media"))
    return f"[{kind.removeprefix('input_').removesuffix('_url')}]"


def reference_text(reference: Mapping[str, Any]) -> str | None:
    """String form of a normalised reference: its text, or the address of its first medium; None if empty."""
    answer = reference["answer"]
    if len(answer) == 1 and answer[0]["type"] == "text":
        only: str = answer[0]["text"]
        return only
    for segment in answer:
        if segment["type"] != "text":
            url: str = segment[segment["type"]]["url"]
            return url
    return "".join([segment["text"] for segment in answer]) if answer else None


def label_fits(label: str, reference: Mapping[str, Any]) -> bool:
    """Whether a label is a string form of a reference.

    For text: equal, outer white space aside. For media: the path, its file name with or without suffix, or
    the id in the reference's ``meta``.
    """
    text = reference_text(reference)
    if text is None:
        return False
    if label == text or label.strip() == text.strip():
        return True
    if all(segment["type"] == "text" for segment in reference["answer"]):
        return False
    path = PurePosixPath(text)
    return label in (path.name, path.stem, (reference.get("meta") or {}).get("id"))


def option_letter(index: int) -> str:
    """A, B, …, Z, AA, AB, … for 0, 1, …"""
    letters = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, 26)
        letters = chr(65 + digit) + letters
    return letters


def inside(path: str) -> bool:
    """Whether a relative path stays inside the folder that it is joined to."""
    pure = PurePosixPath(path.replace("\\", "/"))
    return bool(path) and not pure.is_absolute() and ".." not in pure.parts and path[1:2] != ":"


def _normalise(record: Mapping[str, Any], default_id: str | None) -> dict[str, Any]:
    out: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
    unknown: dict[str, Any] = {}
    for key, value in record.items():
        rule = _FIELDS.get(key)
        if rule is not None:
            if value is not None:
                out[key] = rule(value, key)
        elif key not in DROPPED_FIELDS:
            unknown[key] = value
    if unknown:
        out["extra"] = _with_unknown(out.get("extra", {}), unknown)
    elif out.get("extra") == {}:
        del out["extra"]
    if "id" not in out:
        if default_id is None:
            raise RecordRejected("id: it is missing.")
        out["id"] = default_id
    _settle(out, "")
    return out


def _settle(out: dict[str, Any], where: str) -> None:
    """The rules between fields, which few-shot items share: messages, references and label."""
    if "messages" not in out:
        raise RecordRejected(f"{where}messages: they are missing.")
    label = out.get("label")
    references = out.get("references")
    if not references:
        if label is not None:
            out["references"] = [{"answer": [{"type": "text", "text": label}]}]
        elif references is None:
            raise RecordRejected(f"{where}references: they are missing; write [] when there are none.")
        return
    if label is None:
        label = reference_text(references[0])
        if label is not None:
            out["label"] = label
    elif not label_fits(label, references[0]):
        first = _show(reference_text(references[0]))
        raise RecordRejected(f"{where}label: {_show(label)} is not the first reference ({first}).")


def _with_unknown(extra: dict[str, Any], unknown: dict[str, Any]) -> dict[str, Any]:
    twice = extra.keys() & unknown.keys()
    if twice:
        raise RecordRejected(f"extra.{min(twice)}: it is given twice, inside and outside extra.")
    return {**extra, **canonical.normalise(unknown)}


def _check_text(sample: dict[str, Any]) -> None:
    try:
        orjson.dumps(sample)
    except TypeError:
        canonical.encode(sample)


def _messages(value: Any, where: str) -> list[dict[str, Any]]:
    if type(value) is not list:
        _wrong(where, "a list of messages", value)
    return [_message(item, where, index) for index, item in enumerate(value)]


def _message(value: Any, where: str, index: int) -> dict[str, Any]:
    if type(value) is not dict:
        _wrong(f"{where}[{index}]", "an object with role and content", value)
    role = value.get("role")
    # `type` first: a list as role is not hashable.
    if type(role) is not str or role not in _ROLES:
        raise RecordRejected(f"{where}[{index}].role: {_show(role)} is not a role ({', '.join(ROLES)}).")
    out: dict[str, Any] = {"role": role}
    content = value.get("content")
    if type(content) is str:
        out["content"] = [{"type": "text", "text": content}]
    elif content is not None:
        out["content"] = _content(content, f"{where}[{index}].content")
    elif role != "assistant" or not value.get("tool_calls"):
        raise RecordRejected(f"{where}[{index}].content: it is missing.")
    if len(value) > 2 or "content" not in value:
        for key, item in value.items():
            if key in ("role", "content"):
                continue
            if key in _MESSAGE_FIELDS:
                if item is not None:
                    out[key] = _MESSAGE_FIELDS[key](item, f"{where}[{index}].{key}")
            else:
                out[key] = canonical.normalise(item)
    return out


def _content(value: Any, where: str) -> list[dict[str, Any]]:
    if type(value) is str:
        return [{"type": "text", "text": value}]
    if type(value) is not list:
        _wrong(where, "a string or a list of segments", value)
    return [_segment(item, where, index) for index, item in enumerate(value)]


def _segment(value: Any, where: str, index: int) -> dict[str, Any]:
    if type(value) is not dict:
        _wrong(f"{where}[{index}]", "a segment with a type", value)
    kind = value.get("type")
    if kind == "text":
        text = value.get("text")
        if type(text) is not str:
            _wrong(f"{where}[{index}].text", "a string", text)
        out: dict[str, Any] = {"type": "text", "text": text}
    elif type(kind) is str and kind in _MEDIA:
        out = {"type": kind, kind: _medium(value.get(kind), f"{where}[{index}].{kind}")}
    else:
        known = ", ".join(SEGMENT_TYPES)
        raise RecordRejected(f"{where}[{index}].type: {_show(kind)} is not a segment type ({known}).")
    if len(value) > 2:
        for key, item in value.items():
            if key not in out:
                out[key] = canonical.normalise(item)
    return out


def _medium(value: Any, where: str) -> dict[str, Any]:
    if type(value) is str:
        value = {"url": value}
    elif type(value) is not dict:
        _wrong(where, "an object with a url", value)
    url = value.get("url")
    if type(url) is not str or not url:
        _wrong(f"{where}.url", "an address or a path", url)
    return value.copy() if len(value) == 1 else _object(value, where)


def _params(value: Any, where: str) -> dict[str, Any]:
    out = _object(value, where)
    for name in RESERVED_PARAMS:
        if name in out:
            raise RecordRejected(f"{where}.{name} is set by gage-eval itself.")
    return out


def _options(value: Any, where: str) -> list[dict[str, str]]:
    if type(value) is not list:
        _wrong(where, "a list of options", value)
    out: list[dict[str, str]] = []
    for index, item in enumerate(value):
        if type(item) is dict:
            for key in item:
                if key not in ("id", "content"):
                    raise RecordRejected(f"{where}[{index}].{key}: an option holds id and content only.")
            name = _text(item.get("id"), f"{where}[{index}].id")
            out.append({"id": name, "content": _text(item.get("content"), f"{where}[{index}].content")})
        else:
            out.append({"id": option_letter(index), "content": _text(item, f"{where}[{index}]")})
    if len({option["id"] for option in out}) < len(out):
        raise RecordRejected(f"{where}: two options have the same id.")
    return out


def _references(value: Any, where: str) -> list[dict[str, Any]]:
    if type(value) is not list:
        _wrong(where, "a list of references", value)
    out: list[dict[str, Any]] = []
    for index, item in enumerate(value):
        if type(item) is not dict:
            text = item if type(item) is str else _text(item, f"{where}[{index}]")
            out.append({"answer": [{"type": "text", "text": text}]})
            continue
        answer = item.get("answer")
        if type(answer) is not list:
            answer = _text(answer, f"{where}[{index}].answer")
        reference: dict[str, Any] = {"answer": _content(answer, f"{where}[{index}].answer")}
        for key, part in item.items():
            if key == "meta":
                if part is not None:
                    reference["meta"] = _object(part, f"{where}[{index}].meta")
            elif key != "answer":
                raise RecordRejected(f"{where}[{index}].{key}: a reference holds answer and meta only.")
        out.append(reference)
    return out


def _few_shot(value: Any, where: str) -> list[dict[str, Any]]:
    if type(value) is not list:
        _wrong(where, "a list of examples", value)
    return [_few_shot_item(item, f"{where}[{index}]") for index, item in enumerate(value)]


def _few_shot_item(value: Any, where: str) -> dict[str, Any]:
    if type(value) is not dict:
        _wrong(where, "an object with messages and references", value)
    out: dict[str, Any] = {}
    for key, item in value.items():
        if key in FEW_SHOT_FORBIDDEN:
            raise RecordRejected(f"{where}.{key}: a few-shot example cannot hold {key}.")
        if key in _FEW_SHOT_FIELDS:
            if item is not None:
                out[key] = _FEW_SHOT_FIELDS[key](item, f"{where}.{key}")
        else:
            out[key] = canonical.normalise(item)
    _settle(out, f"{where}.")
    return out


def _trajectories(value: Any, where: str) -> list[list[dict[str, Any]]]:
    if type(value) is not list:
        _wrong(where, "a list of trajectories", value)
    return [_messages(item, f"{where}[{index}]") for index, item in enumerate(value)]


def _sandbox(value: Any, where: str) -> dict[str, Any]:
    out = _object(value, where)
    for key in ("image", "setup"):
        if type(out.get(key, "")) is not str:
            _wrong(f"{where}.{key}", "a string", out[key])
    for key in ("files", "env"):
        inner = out.get(key, {})
        if type(inner) is not dict:
            _wrong(f"{where}.{key}", "an object", inner)
        for name, item in inner.items():
            if type(item) is not str:
                _wrong(f"{where}.{key}.{name}", "a string", item)
    for path in out.get("files", {}):
        if not inside(path):
            raise RecordRejected(f"{where}.files: {_show(path)} leads out of the working folder.")
    return out


def _object(value: Any, where: str) -> dict[str, Any]:
    if type(value) is not dict:
        _wrong(where, "an object", value)
    normal: dict[str, Any] = canonical.normalise(value)
    return normal


def _objects(value: Any, where: str) -> list[Any]:
    if type(value) is not list or any(type(item) is not dict for item in value):
        _wrong(where, "a list of objects", value)
    normal: list[Any] = canonical.normalise(value)
    return normal


def _array(value: Any, where: str) -> list[Any]:
    if type(value) is not list:
        _wrong(where, "a list", value)
    normal: list[Any] = canonical.normalise(value)
    return normal


def _text(value: Any, where: str) -> str:
    """A string; a number or a boolean becomes its canonical text."""
    if type(value) is str:
        return value
    if type(value) in TEXTUAL:
        return canonical.canonical_text(value)
    return _wrong(where, "a string", value)


def _plain_text(value: Any, where: str) -> str:
    if type(value) is not str:
        _wrong(where, "a string", value)
    return value


def _name(value: Any, where: str) -> str:
    if type(value) is not str or not value:
        _wrong(where, "a string that is not empty", value)
    return value


def _id(value: Any, where: str) -> str:
    return str(value) if type(value) is int else _name(value, where)


def _tool_choice(value: Any, where: str) -> Any:
    return value if type(value) is str else _object(value, where)


def _unconditioned(value: Any, where: str) -> Any:
    return value if type(value) is str else _array(value, where)


def _choices_role(value: Any, where: str) -> str:
    if type(value) is not str or value not in CHOICES_ROLES:
        _wrong(where, " or ".join(CHOICES_ROLES), value)
    return value


def _extra(value: Any, where: str) -> dict[str, Any]:
    out = _object(value, where)
    for key in out:
        if key in _FIELDS:
            raise RecordRejected(f"{where}.{key}: '{key}' is a field of the Sample and belongs outside extra.")
    return out


def _wrong(where: str, wanted: str, value: Any) -> NoReturn:
    if value is None:
        raise RecordRejected(f"{where}: it must be {wanted}, and is missing.")
    raise RecordRejected(f"{where}: it must be {wanted}, not {kind_of(value)} ({_show(value)}).")


def _show(value: Any) -> str:
    text = repr(value if not isinstance(value, str) else value[:80])
    return text if len(text) <= 60 else text[:57] + "…"


_MESSAGE_FIELDS: dict[str, _Rule] = {"tool_calls": _objects, "tool_call_id": _plain_text, "name": _plain_text}
_FEW_SHOT_FIELDS: dict[str, _Rule] = {
    "messages": _messages,
    "options": _options,
    "references": _references,
    "label": _text,
    "tools": _objects,
    "tool_choice": _tool_choice,
}
_FIELDS: dict[str, _Rule] = {
    **_FEW_SHOT_FIELDS,
    "schema_version": _name,
    "id": _id,
    "task_type": _name,
    "few_shot_examples": _few_shot,
    "golden_trajectories": _trajectories,
    "sandbox": _sandbox,
    "metadata": _object,
    "data_tag": _object,
    "raw_assets": _object,
    "sampling_params": _params,
    "generation_params": _params,
    "eval_config": _object,
    "unconditioned_input": _unconditioned,
    "predict_result": _array,
    "eval_result": _object,
    "choices_role": _choices_role,
    "extra": _extra,
}
