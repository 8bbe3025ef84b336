"""The columns of prepared rows (`tables.PREPARED`): those of the samples, and those made of their prompts."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import canonical_text, decode
from gage_eval.base.tables import PREPARED
from gage_eval.data.prepare.prompt import Prompt
from gage_eval.data.sample.table import messages_to_array

# The columns of samples that prepared rows are made of.
SAMPLE_COLUMNS = (
    "row_index", "id", "messages", "options", "few_shot_examples", "metadata", "tools", "tool_choice",
    "sampling_params", "generation_params", "unconditioned_input", "task_type",
)  # fmt: skip
# Who makes one text of the messages, by the kind of request. A chat's template is its backend's.
_RENDERED_BY: Mapping[str, tuple[str, str, str]] = {
    "chat": ("backend", "backend", "model"),
    "completion": ("none", "preprocess", "manual"),
    "likelihood": ("none", "preprocess", "manual"),
    "partial_likelihood": ("none", "preprocess", "manual"),
    "chat_likelihood": ("backend", "backend", "model"),
}


def prepared_table(
    samples: pa.Table, prompts: Sequence[Prompt] | None, *, kind: str, params: Mapping[str, Any], replicates: int
) -> pa.Table:
    """Prepared rows of samples.

    Args:
        samples: `SAMPLE_COLUMNS` of each.
        prompts: one for each sample; None for chats that are sent exactly as the samples give them.
        kind: the task's mode.
        params: the task's sampling parameters.
        replicates: number of requests for each sample.
    """
    count = samples.num_rows
    mode, by, source = _RENDERED_BY[kind]
    arrays = {
        **(_unchanged(samples) if prompts is None else _columns(prompts)),
        "row_index": samples["row_index"],
        "sample_id": samples["id"],
        "kind": _kinds(samples, kind),
        "replicates": pa.repeat(pa.scalar(replicates, pa.int32()), count),
        "tools": samples["tools"],
        "tool_choice": samples["tool_choice"],
        "params": _params(samples, params),
        "chat_template_mode": pa.repeat(pa.scalar(mode), count),
        "rendered_by": pa.repeat(pa.scalar(by), count),
        "template_source": pa.repeat(pa.scalar(source), count),
    }
    return pa.Table.from_pydict({name: arrays[name] for name in PREPARED.arrow.names}, schema=PREPARED.arrow)


def _columns(prompts: Sequence[Prompt]) -> dict[str, pa.Array]:
    media = [canonical_text(prompt.media) if prompt.media else None for prompt in prompts]
    return {
        "messages": messages_to_array([prompt.messages for prompt in prompts]),
        "prompt": pa.array([prompt.text for prompt in prompts], pa.string()),
        "choices": pa.array([prompt.choices for prompt in prompts], pa.list_(pa.string())),
        "unconditioned_input": pa.array([prompt.unconditioned for prompt in prompts], pa.string()),
        "media_meta": pa.array(media, pa.string()),
    }


def _unchanged(samples: pa.Table) -> dict[str, pa.Array | pa.ChunkedArray]:
    made = ("prompt", "choices", "unconditioned_input", "media_meta")
    nothing = {name: pa.nulls(samples.num_rows, PREPARED.arrow.field(name).type) for name in made}
    return {"messages": samples["messages"], **nothing}


def _kinds(samples: pa.Table, kind: str) -> pa.Array:
    """The kind of each row: that of the task, and ``turns`` for chats whose sample says ``metadata.turns: true``."""
    count = samples.num_rows
    # Canonical text: a sample that says so holds exactly this somewhere.
    said = pc.fill_null(pc.match_substring(samples["metadata"], '"turns":true'), False)  # noqa: FBT003
    if kind != "chat" or not pc.any(said).as_py():
        return pa.repeat(pa.scalar(kind), count)
    texts = samples["metadata"].to_pylist()
    return pa.array([
        "turns" if text is not None and decode(text).get("turns") is True else kind for text in texts
    ])  # fmt: skip


def _params(samples: pa.Table, task: Mapping[str, Any]) -> pa.Array:
    """Merged sampling parameters as canonical JSON: the sample's own win over the task's."""
    count = samples.num_rows
    own = [samples["sampling_params"], samples["generation_params"]]
    if all(column.null_count == count for column in own):
        return pa.repeat(pa.scalar(canonical_text(dict(task))), count)
    texts = []
    for sampling, generation in zip(*(column.to_pylist() for column in own), strict=True):
        merged = {
            **task,
            **(decode(generation) if generation else {}),
            **(decode(sampling) if sampling else {}),
        }
        texts.append(canonical_text(merged))
    return pa.array(texts, pa.string())
