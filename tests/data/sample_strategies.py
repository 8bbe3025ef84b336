"""Hypothesis strategies of Samples, valid and spoilt."""

import copy
from typing import Any

from hypothesis import strategies as st

from gage_eval.data.sample.rules import RESERVED_PARAMS

TEXTS = st.text(max_size=12)
NAMES = st.text(min_size=1, max_size=8)
NUMBERS = st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)
TEXT_VALUES = st.one_of(TEXTS, NUMBERS, st.booleans())
FIELDS = (
    "schema_version", "id", "task_type", "messages", "options", "references", "label", "few_shot_examples",
    "golden_trajectories", "sandbox", "metadata", "data_tag", "raw_assets", "tools", "tool_choice",
    "sampling_params", "generation_params", "eval_config", "unconditioned_input", "predict_result",
    "eval_result",
)  # fmt: skip


@st.composite
def segments(draw: st.DrawFn) -> dict[str, Any]:
    """A content segment of any kind, sometimes with further keys."""
    kind = draw(st.sampled_from(["text", "text", "image_url", "audio_url", "video_url", "file_url"]))
    rest = draw(st.dictionaries(st.sampled_from(["detail", "text", "cache_control", "extra", "url"]), JSON, max_size=2))
    if kind == "text":
        return {**rest, "type": kind, "text": draw(TEXTS)}
    url = draw(NAMES)
    medium = draw(st.one_of(st.just(url), st.just({"url": url}), st.just({**rest, "url": url})))
    return {**rest, "type": kind, kind: medium}


CONTENTS = st.one_of(TEXTS, st.lists(segments(), max_size=3))


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """A message; an assistant's may call tools and have no content."""
    role = draw(st.sampled_from(["system", "user", "user", "assistant", "tool"]))
    out: dict[str, Any] = {"role": role}
    if role == "assistant" and draw(st.booleans()):
        out["tool_calls"] = draw(st.lists(OBJECTS, min_size=1, max_size=2))
        if draw(st.booleans()):
            out["content"] = None
    else:
        out["content"] = draw(CONTENTS)
    if draw(st.booleans()):
        out |= draw(
            st.fixed_dictionaries({}, optional={"name": TEXTS, "tool_call_id": TEXTS, "extra": JSON, "x": JSON})
        )
    return out


CONVERSATIONS = st.lists(messages(), max_size=3)
REFERENCES = st.lists(
    st.one_of(
        TEXT_VALUES,
        st.fixed_dictionaries(
            {"answer": st.one_of(TEXT_VALUES, st.lists(segments(), max_size=2))}, optional={"meta": OBJECTS}
        ),
    ),
    max_size=3,
)
OPTIONS = st.one_of(
    st.lists(TEXT_VALUES, max_size=3),
    st.lists(
        st.fixed_dictionaries({"id": NAMES, "content": TEXT_VALUES}),
        max_size=3,
        unique_by=lambda item: item["id"],
    ),
)
TOOLS = st.lists(OBJECTS, max_size=2)
TOOL_CHOICES = st.one_of(TEXTS, OBJECTS)
FEW_SHOT = st.fixed_dictionaries(
    {"messages": CONVERSATIONS, "references": REFERENCES},
    optional={"options": OPTIONS, "tools": TOOLS, "tool_choice": TOOL_CHOICES, "hint": JSON},
)
SANDBOX = st.fixed_dictionaries(
    {},
    optional={
        "image": TEXTS,
        "setup": TEXTS,
        "files": st.dictionaries(st.sampled_from(["a.py", "d/b.txt"]), TEXTS, max_size=2),
        "env": st.dictionaries(TEXTS, TEXTS, max_size=2),
        "network": JSON,
    },
)
# Which request is sent, and how, is not for a record to say.
PARAMS = OBJECTS.filter(lambda params: not params.keys() & set(RESERVED_PARAMS))
SAMPLES = st.fixed_dictionaries(
    {"id": st.one_of(NAMES, st.integers()), "messages": CONVERSATIONS, "references": REFERENCES},
    optional={
        "schema_version": NAMES,
        "task_type": st.one_of(st.none(), NAMES),
        "options": OPTIONS,
        "few_shot_examples": st.lists(FEW_SHOT, max_size=2),
        "golden_trajectories": st.lists(CONVERSATIONS, max_size=2),
        "sandbox": SANDBOX,
        "metadata": OBJECTS,
        "data_tag": OBJECTS,
        "raw_assets": OBJECTS,
        "tools": TOOLS,
        "tool_choice": TOOL_CHOICES,
        "sampling_params": PARAMS,
        "generation_params": PARAMS,
        "eval_config": OBJECTS,
        "unconditioned_input": st.one_of(TEXTS, st.lists(JSON, max_size=2)),
        "predict_result": st.lists(JSON, max_size=2),
        "eval_result": OBJECTS,
        "choices_role": st.sampled_from(["options", "reference"]),
        "model_prompt_tmpl": JSON,
        "unknown_key": JSON,
        "choices": JSON,
    },
)


@st.composite
def spoilt(draw: st.DrawFn) -> dict[str, Any]:
    """A Sample in which one place, anywhere, is removed, replaced, or gets an unexpected key."""
    sample: dict[str, Any] = copy.deepcopy(draw(SAMPLES))
    place: Any = sample
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
            place = place[key]
            continue
        if draw(st.integers(0, 3)) == 0:
            del place[key]
        else:
            place[key] = draw(st.one_of(JSON, st.just("../x"), st.just({}), st.just([])))
        break
    if draw(st.integers(0, 3)) == 0:
        sample[draw(st.sampled_from([*FIELDS, "extra"]))] = draw(JSON)
    return sample
